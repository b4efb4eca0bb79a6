package sandbox

/*
#include "signals.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"

	"gobox/policy"

	"golang.org/x/sys/unix"
)

// Signals are those of this process that concern a run, kept for it.
type Signals struct {
	fd    int
	early []unix.Signal // taken before the run
}

// ours is the one pipe to which the signals of this process go from the first watch on. What no run took, the next one gets.
var ours struct {
	sync.Mutex
	r, w  int // 0 before the first watch
	taken bool
}

// watchOurs has the process's own signals written to the one pipe.
func watchOurs() (int, error) {
	ours.Lock()
	defer ours.Unlock()
	if ours.r == 0 {
		r, w, err := signalPipe()
		if err != nil {
			return -1, err
		}
		ours.r, ours.w = r, w
	}
	return ours.r, handleSignals(ours.w, forwarded[:]...)
}

// takeOurs makes one run the only one that reads the pipe, until it calls back.
func takeOurs() (giveBack func(), err error) {
	ours.Lock()
	defer ours.Unlock()
	if ours.taken {
		return nil, &policy.Error{
			Step: "signals", Err: errors.New("another run of this process has them"),
			Hint: "of the runs at one time one may have Signals or Watched; cancel the others by their context",
		}
	}
	ours.taken = true
	return func() {
		ours.Lock()
		ours.taken = false
		ours.Unlock()
	}, nil
}

// WatchSignals keeps what comes from now on for the run whose [Spec] has it as Watched, so that a run that is on record
// already ends as one that was cancelled. It stays so for the rest of the process's life, and there is one keeping for all runs.
func WatchSignals() (*Signals, error) {
	fd, err := watchOurs()
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
	r, w, err := signalPipe()
	if err != nil {
		return -1, err
	}
	if err := handleSignals(w, list...); err != nil {
		closeAll([]int{r, w})
		return -1, err
	}
	return r, nil
}

func signalPipe() (r, w int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	return p[0], p[1], nil
}

func handleSignals(w int, list ...unix.Signal) error {
	sigs := make([]C.int, len(list))
	for i, s := range list {
		sigs[i] = C.int(s)
	}
	var errno C.int
	if C.gobox_watch_signals(&sigs[0], C.int(len(sigs)), C.int(w), &errno) < 0 {
		return fmt.Errorf("sigaction: %w", unix.Errno(errno))
	}
	return nil
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
