package sysnum

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTable(t *testing.T) {
	for i := 1; i < len(table); i++ {
		if table[i-1].name >= table[i].name {
			t.Errorf("%s out of order", table[i].name)
		}
	}
}

// TestThere: name and number lead to each other, and the numbers are those of another list.
func TestThere(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		n := 0
		for name, nr := range All(arch) {
			n++
			if got, err := Number(name, arch); got != nr || err != nil || Name(nr, arch) != name {
				t.Errorf("%s: %s is %d (%v) and %d is %s", arch, name, got, err, nr, Name(nr, arch))
			}
		}
		if n < 300 {
			t.Errorf("%s has %d calls", arch, n)
		}
	}
	for name, want := range map[string]int{"read": unix.SYS_READ, "openat2": unix.SYS_OPENAT2, "landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF, "statmount": 457} {
		if nr, err := Number(name, runtime.GOARCH); nr != want || err != nil {
			t.Errorf("%s is %d, %v", name, nr, err)
		}
	}
	if name := Name(9999, "amd64"); name != "" {
		t.Errorf("9999 is %s", name)
	}
	for name, want := range map[string]string{
		"opn":     `"opn" is no system call known here; did you mean open`,
		"zzzzzzz": `"zzzzzzz" is no system call known here`,
	} {
		if _, err := Number(name, "amd64"); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Number("iopl", "arm64"); err == nil || err.Error() != `"iopl" is no system call of arm64` {
		t.Errorf("iopl: %v", err)
	}
}
