package main

import (
	"slices"
	"testing"

	"gobox/namespaces"
	"gobox/sandbox"
)

// What starts before the Go runtime is what sandbox.Launch would start.
func TestEarlyInit(t *testing.T) {
	flags, argv, env := earlyInit()
	if flags != namespaces.Flags {
		t.Errorf("flags %#x, want %#x", flags, namespaces.Flags)
	}
	if !slices.Equal(argv, []string{sandbox.InitName}) {
		t.Errorf("arguments %q, want %q", argv, sandbox.InitName)
	}
	if !slices.Equal(env, sandbox.InitEnv()) {
		t.Errorf("environment %q, want %q", env, sandbox.InitEnv())
	}
}
