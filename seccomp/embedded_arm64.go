package seccomp

import _ "embed"

//go:embed default_arm64.bpf
var embedded []byte
