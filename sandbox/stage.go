package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// stage is a part of init's work that can fail; it travels as a number.
type stage int

const (
	stagePlan stage = iota + 1
	stageWalls
	stageIdentity
	stageHostname
	stageKeyring
	stageLoopback
	stageTree
	stageTerminal
	stageRuleset
	stageClone
	stageCgroup
	stageGroup
	stageStdio
	stageRlimit
	stageCapabilities
	stageIDs
	stageChdir
	stageNoNewPrivs
	stageLandlock
	stageSeccomp
	stageExec
	stageWatch
	stageNetwork
)

// failure is an error of init's as it travels: what failed, on which entry of the plan, and why.
type failure struct {
	stage stage
	index int
	errno unix.Errno
}

// failed makes a failure of err. An error without an errno is a fault of the plan: EINVAL.
func failed(s stage, index int, err error) *failure {
	errno := unix.EINVAL
	errors.As(err, &errno)
	return &failure{s, index, errno}
}

func (f *failure) message() message {
	return message{kind: msgFailed, a: int32(f.stage), b: int32(f.index), errno: int32(f.errno)}
}
