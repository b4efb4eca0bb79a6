package main

import (
	"slices"
	"strings"
	"testing"

	"gobox/egress"
	"gobox/inspect"
	"gobox/policy"
)

// TestOneNameTwoValues: a credential's variable and a secret may be called the same, and neither value is forgotten for the other.
func TestOneNameTwoValues(t *testing.T) {
	t.Setenv("TOKEN", "value-of-the-credential")
	t.Setenv("OTHER", "value-of-the-secret")
	f, in := &inspectFlags{}, &inspection{}
	err := f.readSecrets(in, []policy.Secret{{Name: "TOKEN", Source: "env:OTHER"}}, []egress.Credential{{Host: "h.example", Port: 80, Header: "X-Key", Env: "TOKEN"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := in.text("value-of-the-credential value-of-the-secret"); got != "[secret TOKEN] [secret TOKEN (2)]" {
		t.Errorf("got %q", got)
	}
	if !slices.Equal(in.env, []string{"TOKEN=value-of-the-secret"}) || !slices.Equal(in.credentials, []string{"value-of-the-credential"}) {
		t.Errorf("%q, %q", in.env, in.credentials)
	}
}

// TestDescriptorOnce: a descriptor is read once, by whatever number it is called, and others know nothing of that.
func TestDescriptorOnce(t *testing.T) {
	all := []int{3, 4}
	f := &inspectFlags{given: all}
	if got := f.take("fd:03"); !slices.Equal(got, all) {
		t.Errorf("first: %v", got)
	}
	if got := f.take("fd:3"); slices.Contains(got, 3) {
		t.Errorf("again: %v", got)
	}
	if !slices.Equal(all, []int{3, 4}) {
		t.Errorf("the caller's: %v", all)
	}
}

func TestNameless(t *testing.T) {
	secrets, err := inspect.NewSecrets(map[string][]byte{"A": []byte("hunter2"), "B": []byte("default")})
	if err != nil {
		t.Fatal(err)
	}
	in := &inspection{secrets: secrets}
	for _, c := range []struct {
		flags  recordFlags
		policy string
		want   string
	}{
		{recordFlags{id: "job-1", key: "k"}, "default", ""},
		{recordFlags{id: "hunter2-1"}, "default", "--run-id"},
		{recordFlags{key: "68756e74657232"}, "default", "--idempotency-key"},
		{recordFlags{}, "of-hunter2", "--policy"},
	} {
		got := ""
		if err := c.flags.nameless(in, c.policy); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, "usage "+c.want) && c.want != "" || strings.Contains(got, "hunter2") {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if err := (&recordFlags{id: "hunter2"}).nameless(nil, "x"); err != nil {
		t.Error(err)
	}
	late := &inspection{late: true}
	if got := late.texts([]string{"a", ""}); !slices.Equal(got, []string{notShown, ""}) {
		t.Errorf("%q", got)
	}
}
