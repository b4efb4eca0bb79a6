package seccomp

import "testing"

// BenchmarkCompile is what --allow-syscall, --deny-syscall and --seccomp cost at start; the built-in policy costs nothing.
func BenchmarkCompile(b *testing.B) {
	p := Default()
	for b.Loop() {
		if _, err := Compile(p); err != nil {
			b.Fatal(err)
		}
	}
}
