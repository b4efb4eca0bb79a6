package seccomp

import _ "embed"

//go:embed default_amd64.bpf
var embedded []byte
