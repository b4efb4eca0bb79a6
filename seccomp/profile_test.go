package seccomp

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/seccomp/bpfsim"
)

// TestOverrides covers --allow-syscall and --deny-syscall.
func TestOverrides(t *testing.T) {
	p, err := Default().Allow("ptrace", "ioctl", "mseal")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = p.Deny("socket", "getrandom"); err != nil {
		t.Fatal(err)
	}
	if want := "default+allow ptrace,ioctl,mseal+deny socket,getrandom"; p.Name != want {
		t.Errorf("name %q, want %q", p.Name, want)
	}
	compiled, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	program, err := bpfsim.Decode(compiled.BPF)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args [6]uint64
		want Action
	}{
		{"ptrace", [6]uint64{}, Allow},
		{"ioctl", [6]uint64{0, unix.TIOCSTI}, Allow},
		{"mseal", [6]uint64{}, Allow}, // newer than libseccomp 2.5
		{"socket", [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, denyEPERM},
		{"getrandom", [6]uint64{}, denyEPERM},
		{"clone", [6]uint64{unix.CLONE_NEWUSER}, denyEPERM},
		{"read", [6]uint64{}, Allow},
	} {
		nr, err := Number(tt.name, runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		if got := Action(program.Run(&bpfsim.Data{NR: int32(nr), Arch: auditArch(runtime.GOARCH), Args: tt.args})); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}

	if _, err := Default().Allow("ptrce"); err == nil || err.Error() != `allow system call: "ptrce" is no system call known here; did you mean ptrace` {
		t.Errorf("misspelt name: %v", err)
	}
	if _, err := Default().Deny(""); err == nil {
		t.Error("empty name denied")
	}
	denied, err := Default().Deny("execve")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(denied); err == nil {
		t.Error("compiled a profile without execve")
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action Action
		rules  int
	}{{"read", Allow, 0}, {"mount", denyEPERM, 0}, {"clone3", denyENOSYS, 0}, {"socketpair", denyEPERM, 1}, {"setsockopt", Allow, 1}} {
		v, err := Default().Explain(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if v.Action != tt.action || len(v.Rules) != tt.rules || v.Why == "" && tt.rules == 0 {
			t.Errorf("%+v", v)
		}
	}
	var unknown *UnknownCallError
	if _, err := Default().Explain("mout"); !errors.As(err, &unknown) || unknown.Suggestion != "mount" {
		t.Errorf("misspelt name: %v", err)
	}
}
