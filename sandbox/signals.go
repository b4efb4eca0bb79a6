package sandbox

/*
#include "signals.h"
*/
import "C"

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Signals are those of this process that concern a run, kept for it.
type Signals struct {
	fd    int
	early []unix.Signal // taken before the run
}

// WatchSignals keeps what comes from now on for the run whose [Spec] has it as Watched, so that a run that is on record
// already ends as one that was cancelled. It stays so for the rest of the process's life.
func WatchSignals() (*Signals, error) {
	fd, err := watchSignals(forwarded[:]...)
	if err != nil {
		return nil, err
	}
	return &Signals{fd: fd}, nil
}

// Cancelled gives the signal that ends a run that has not begun, 0 when there was none yet.
func (s *Signals) Cancelled() unix.Signal {
	s.early = append(s.early, takeSignals(s.fd)...)
	for _, sig := range s.early {
		switch sig {
		case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
			return sig
		}
	}
	return 0
}

// watchSignals has each of the signals written to the returned pipe as one byte from now on, for the
// rest of the process's life: the dispositions are the process's. A signal that the caller ignores
// (nohup(1)) stays ignored. The descriptor does not block.
func watchSignals(list ...unix.Signal) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, fmt.Errorf("pipe: %w", err)
	}
	sigs := make([]C.int, len(list))
	for i, s := range list {
		sigs[i] = C.int(s)
	}
	var errno C.int
	if C.gobox_watch_signals(&sigs[0], C.int(len(sigs)), C.int(p[1]), &errno) < 0 {
		closeAll(p[:])
		return -1, fmt.Errorf("sigaction: %w", unix.Errno(errno))
	}
	return p[0], nil
}

// takeSignals reads what watchSignals' pipe holds.
func takeSignals(fd int) []unix.Signal {
	var buf [64]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return nil
	}
	list := make([]unix.Signal, n)
	for i, b := range buf[:n] {
		list[i] = unix.Signal(b)
	}
	return list
}

// ignoreSignals makes init survive every signal that can be sent from inside: the Go runtime has
// handlers for all of them, and a PID 1 gets those it has a handler for (pid_namespaces(7)).
func ignoreSignals() { C.gobox_ignore_signals() }
