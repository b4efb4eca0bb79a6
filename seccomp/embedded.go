package seccomp

//go:generate go run ./internal/gen

// Embedded is the built-in policy, Default, compiled beforehand for this architecture. The bytes are shared: do not
// write to them.
func Embedded() Program { return Program{Name: "default", BPF: embedded} }
