package rlimit

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Unlimited is RLIM_INFINITY of <sys/resource.h>.
const Unlimited = ^uint64(0)

// Limit is one resource limit. Soft and Hard are in the unit of setrlimit(2): bytes, seconds or a
// count. They are clamped to the hard limit the process already has, since raising that one takes a
// privilege the command never gets.
//
// A plan must always hold a limit on RLIMIT_NOFILE: the Go runtime raises the soft one of its own
// process, and only os/exec, which gobox's spawn does not use, lowers it again for a child.
type Limit struct {
	Resource int // RLIMIT_* of <asm-generic/resource.h>
	Soft     uint64
	Hard     uint64
}

// resource names RLIMIT_n of <asm-generic/resource.h> as prlimit(1) does, and the unit of its values.
func resource(n int) (name, unit string) {
	switch n {
	case unix.RLIMIT_CPU:
		return "cpu", "seconds"
	case unix.RLIMIT_FSIZE:
		return "fsize", "bytes"
	case unix.RLIMIT_DATA:
		return "data", "bytes"
	case unix.RLIMIT_STACK:
		return "stack", "bytes"
	case unix.RLIMIT_CORE:
		return "core", "bytes"
	case unix.RLIMIT_RSS:
		return "rss", "bytes"
	case unix.RLIMIT_NPROC:
		return "nproc", "processes"
	case unix.RLIMIT_NOFILE:
		return "nofile", "files"
	case unix.RLIMIT_MEMLOCK:
		return "memlock", "bytes"
	case unix.RLIMIT_AS:
		return "as", "bytes"
	case unix.RLIMIT_LOCKS:
		return "locks", "locks"
	case unix.RLIMIT_SIGPENDING:
		return "sigpending", "signals"
	case unix.RLIMIT_MSGQUEUE:
		return "msgqueue", "bytes"
	case unix.RLIMIT_NICE:
		return "nice", "20 - nice"
	case unix.RLIMIT_RTPRIO:
		return "rtprio", "priority"
	case unix.RLIMIT_RTTIME:
		return "rttime", "microseconds"
	}
	return "", ""
}

// Name is the resource's name as prlimit(1) writes it, in lower case: "nofile".
func (l Limit) Name() string {
	if name, _ := resource(l.Resource); name != "" {
		return name
	}
	return "rlimit " + strconv.Itoa(l.Resource)
}

// Unit is what Soft and Hard count: "bytes", "seconds", "processes"... and "" for an unknown resource.
func (l Limit) Unit() string {
	_, unit := resource(l.Resource)
	return unit
}

// Clamp lowers l so that a process whose hard limit is hard may set it: no value above hard, and the
// soft one not above the hard one.
func Clamp(l Limit, hard uint64) Limit {
	l.Hard = min(l.Hard, hard)
	l.Soft = min(l.Soft, l.Hard)
	return l
}

// Hard is the calling process's hard limit on resource (getrlimit(2)).
func Hard(resource int) (uint64, error) {
	var r unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &r); err != nil {
		return 0, fmt.Errorf("read limit %s: %w", Limit{Resource: resource}.Name(), err)
	}
	return r.Max, nil
}
