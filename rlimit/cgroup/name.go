package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix begins the name of every group; callerLeaf is the cgroup for processes that had to make room. It stays,
// since the processes stay in it, and the next gobox finds itself there.
const (
	prefix     = "gobox-"
	callerLeaf = "gobox-caller"
)

// owner is a gobox process in a way that outlives it: a pid comes again, but not with the same start, and means
// something only in its pid namespace.
type owner struct {
	pid   int
	start uint64 // field 22 of /proc/PID/stat (proc_pid_stat(5)): clock ticks after boot
	ns    uint64 // inode of its pid namespace
}

func self() (owner, error) {
	o := owner{pid: os.Getpid()}
	var err error
	if o.start, err = startTime("/proc/self/stat"); err != nil {
		return o, err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return o, fmt.Errorf("read pid namespace: %w", err)
	}
	o.ns = st.Ino
	return o, nil
}

func startTime(file string) (uint64, error) {
	var buf [1024]byte
	data, err := read(file, buf[:])
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	// The name may hold blanks and parentheses, and nothing after it does.
	f := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("read %s: %w", file, unix.EINVAL)
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}

// name is gobox-ID-PID-START-NAMESPACE.
func (o owner) name(id string) string {
	return fmt.Sprintf("%s%s-%d-%d-%d", prefix, id, o.pid, o.start, o.ns)
}

func parseName(name string) (id string, o owner, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return "", o, false
	}
	var n [3]uint64
	for i := len(n) - 1; i >= 0; i-- {
		dash := strings.LastIndexByte(rest, '-')
		if dash < 0 {
			return "", o, false
		}
		v, err := strconv.ParseUint(rest[dash+1:], 10, 64)
		if err != nil {
			return "", o, false
		}
		n[i], rest = v, rest[:dash]
	}
	if checkID(rest) != nil || n[0] == 0 || n[0] > 1<<31 {
		return "", o, false
	}
	return rest, owner{int(n[0]), n[1], n[2]}, true
}

// checkID keeps a run's id one file name: a cgroup's directory is made with the caller's rights.
func checkID(id string) error {
	if id == "" || len(id) > 128 {
		return fmt.Errorf("cgroup name %q: %w", id, unix.EINVAL)
	}
	for _, r := range []byte(id) {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' && r != '.' {
			return fmt.Errorf("cgroup name %q: %w", id, unix.EINVAL)
		}
	}
	return nil
}

// life says whether o still runs. Nothing is known of a process of another pid namespace, nor of one that cannot be read about:
// who takes that for an end kills a run that is under way.
func (o owner) life(me owner) (alive, known bool) {
	if o.ns != me.ns {
		return false, false
	}
	start, err := startTime(fmt.Sprintf("/proc/%d/stat", o.pid))
	if err != nil {
		return false, errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
	}
	return start == o.start, true
}
