package record

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStatus(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := OpenStatus(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	run := Unrecorded(Request{Status: s})
	run.Event(Event{Kind: Prepared})
	run.Event(Event{Kind: Ended, Outcome: Exited})
	if err := run.Finish(&Result{}); err != nil {
		t.Error(err)
	}
	w.Close()
	var kinds []Kind
	for sc := bufio.NewScanner(r); sc.Scan(); {
		var ev Event
		if err := json.Unmarshal(sc.Bytes(), &ev); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, ev.Kind)
	}
	if len(kinds) != 2 || kinds[1] != Ended {
		t.Errorf("kinds %v", kinds)
	}
}

// TestStatusReader has nobody read, and then nobody there.
func TestStatusReader(t *testing.T) {
	r, w, _ := os.Pipe()
	defer w.Close()
	s, err := OpenStatus(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(int(w.Fd()), false)
	done := make(chan bool)
	go func() {
		for range 2000 {
			s.write([]byte(strings.Repeat("x", 100) + "\n"))
		}
		r.Close()
		s.write([]byte("x\n"))
		s.write([]byte("x\n"))
		done <- s.lost
	}()
	select {
	case lost := <-done:
		if !lost {
			t.Error("a reader that is gone was not noticed")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a reader that does not read holds up the run")
	}
}

func TestOpenStatusRefuses(t *testing.T) {
	r, w, _ := os.Pipe()
	defer r.Close()
	defer w.Close()
	for _, fd := range []int{-1, 0, 1, 2, 1 << 20, int(r.Fd())} {
		if _, err := OpenStatus(fd); ReasonOf(err) != Invalid || err == nil {
			t.Errorf("%d: %v", fd, err)
		}
	}
}

func TestResultFile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/out.json"
	os.WriteFile(path, []byte("old"), 0o640)
	f, err := OpenResultFile(path, true)
	if err != nil {
		t.Fatal(err)
	}
	// A gobox that is killed now leaves neither the old result nor anything else.
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("there is %v", entries)
	}
	if err := f.Write(full()); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	if _, err := DecodeResult(b); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
	f, err = OpenResultFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	// Something may have come there meanwhile.
	os.WriteFile(path, []byte("other"), 0o600)
	if err := f.Write(full()); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) == "other" {
		t.Error("not replaced")
	}
	if f, err = OpenResultFile(path, false); err != nil {
		t.Fatal(err)
	}
	f.Discard()
	f.Discard()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	os.WriteFile(path, nil, 0o600)
	os.Mkdir(dir+"/d", 0o700)
	os.Symlink(path, dir+"/link")
	for _, bad := range []string{dir + "/none/x", "", dir + "/d", dir + "/link"} {
		if f, err := OpenResultFile(bad, false); err == nil {
			f.Discard()
			t.Errorf("%q was taken", bad)
		}
	}
	for _, odd := range []string{"/dev/null"} {
		f, err := OpenResultFile(odd, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Write(full()); err != nil {
			t.Error(err)
		}
	}
}

func TestResultToPipe(t *testing.T) {
	r, w, _ := os.Pipe()
	defer r.Close()
	f, err := OpenResultFile("/dev/fd/"+strconv.Itoa(int(w.Fd())), true)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := f.Write(full()); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeResult(line); err != nil {
		t.Error(err)
	}
}
