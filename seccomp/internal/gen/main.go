// Command gen compiles the built-in policy for every architecture and writes seccomp/default_ARCH.bpf. It is run by
// go generate in the folder seccomp.
package main

import (
	"fmt"
	"os"

	"gobox/seccomp"
)

func main() {
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := seccomp.CompileFor(seccomp.Default(), arch)
		if err == nil {
			err = os.WriteFile("default_"+arch+".bpf", program.BPF, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}
