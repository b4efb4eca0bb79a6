package sandbox

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(p[:]) })
	return p[0], p[1]
}

func openFDs(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

func TestMessages(t *testing.T) {
	a, b := pair(t)
	want := message{kind: msgFailed, a: -1, b: 7, errno: int32(unix.EPERM)}
	if err := send(a, want, 0, 1); err != nil {
		t.Fatal(err)
	}
	got, files, err := receive(b, make([]byte, unix.CmsgSpace(8)))
	if err != nil || got != want || len(files) != 2 {
		t.Fatalf("got %+v, %v, %v", got, files, err)
	}
	for _, fd := range files {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d survives an exec: %v", fd, err)
		}
	}
	closeAll(files)
}

// What does not belong is refused, and no descriptor that came with it stays open.
func TestMessagesRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes []byte
		files []int
		space int
	}{
		{"short", make([]byte, messageSize-1), []int{0}, 4},
		{"long", make([]byte, messageSize+1), []int{0}, 4},
		{"more files than expected", make([]byte, messageSize), []int{0, 1, 2}, 4},
		{"files where none belong", make([]byte, messageSize), []int{0}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := pair(t)
			before := openFDs(t)
			if err := unix.Sendmsg(a, tt.bytes, unix.UnixRights(tt.files...), nil, 0); err != nil {
				t.Fatal(err)
			}
			var oob []byte
			if tt.space > 0 {
				oob = make([]byte, unix.CmsgSpace(tt.space))
			}
			if m, files, err := receive(b, oob); err == nil {
				t.Errorf("got %+v with %v, want an error", m, files)
			}
			if after := openFDs(t); after != before {
				t.Errorf("%d descriptors are open, were %d", after, before)
			}
		})
	}
	a, b := pair(t)
	if err := unix.Shutdown(a, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	if _, _, err := receive(b, nil); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v, want %v", err, errClosed)
	}
}

// TestLastWord: what the other side said before it went is heard, also when it left something unread.
func TestLastWord(t *testing.T) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	if err := send(p[0], message{kind: msgGroup}); err != nil {
		t.Fatal(err)
	}
	if err := send(p[1], message{kind: msgFailed, a: 7}); err != nil {
		t.Fatal(err)
	}
	unix.Close(p[1])
	if m, _, err := receive(p[0], nil); err != nil || m.kind != msgFailed || m.a != 7 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, _, err := receive(p[0], nil); !errors.Is(err, errClosed) {
		t.Errorf("then %+v, %v", m, err)
	}
}

// FuzzReceive sends any packet with any number of descriptors, as the other side could once it is in wrong hands: the
// packet is one whole message or an error, and nothing that came with it stays open.
func FuzzReceive(f *testing.F) {
	f.Add(message{kind: msgStarted, a: 1}.encode(), uint8(1), uint8(1))
	f.Add(message{kind: msgExited, a: 256, errno: -1}.encode(), uint8(0), uint8(0))
	f.Add([]byte{}, uint8(3), uint8(1))
	f.Add(make([]byte, messageSize+1), uint8(0), uint8(2))
	f.Add(make([]byte, messageSize-1), uint8(253), uint8(253))
	f.Fuzz(func(t *testing.T, packet []byte, sent, room uint8) {
		if len(packet) > 64<<10 || sent > maxFiles {
			t.Skip("the socket takes no such packet")
		}
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(p[:])
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(ends[0])
		var oob []byte
		if sent > 0 {
			oob = unix.UnixRights(slices.Repeat([]int{ends[1]}, int(sent))...)
		}
		err = unix.Sendmsg(p[0], packet, oob, nil, unix.MSG_DONTWAIT)
		unix.Close(ends[1])
		if err != nil {
			t.Skipf("send: %v", err)
		}
		var space []byte
		if room > 0 {
			space = make([]byte, unix.CmsgSpace(4*int(room)))
		}
		m, files, err := receive(p[1], space)
		if err == nil && (len(packet) != messageSize || len(files) != int(sent) || string(m.encode()) != string(packet)) {
			t.Fatalf("%d bytes with %d files became %+v with %d files", len(packet), sent, m, len(files))
		}
		if err != nil && files != nil {
			t.Fatalf("%v, and %d files", err, len(files))
		}
		closeAll(files)
		// The pipe ends when nobody holds its other end any more.
		var b [1]byte
		unix.SetNonblock(ends[0], true)
		if n, err := unix.Read(ends[0], b[:]); n != 0 || err != nil {
			t.Fatalf("a descriptor that came with the packet is still open: %v", err)
		}
	})
}
