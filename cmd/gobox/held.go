package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"

	"golang.org/x/sys/unix"
)

// heldBeat is how often a run notes that it lives.
const heldBeat = time.Second

// heldGuard is a policy.Guard in the record. Names may be any bytes.
type heldGuard struct {
	Path    []byte      `json:"path"`
	Known   [][]byte    `json:"known,omitempty"`
	Named   [][]byte    `json:"named,omitempty"`
	Aliases [][2][]byte `json:"aliases,omitempty"`
	Allow   [][]byte    `json:"allow,omitempty"`
}

// hold notes what outlives a killed gobox, for gc, which finds it by the record: that must be there first.
func (r *recorded) hold(paths []string, guards []policy.Guard) error {
	r.begin()
	h := record.Held{Paths: paths}
	if len(guards) > 0 {
		var list []heldGuard
		for _, g := range guards {
			held := heldGuard{Path: []byte(g.Path), Known: bytesOf(g.Known), Named: bytesOf(g.Named), Allow: bytesOf(g.Allow)}
			for _, a := range g.Aliases {
				held.Aliases = append(held.Aliases, [2][]byte{[]byte(a.Path), []byte(a.Name)})
			}
			list = append(list, held)
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		h.Guards = text
	}
	hold, err := r.run.Hold(h)
	if err != nil && r.insists() {
		return recordError(err)
	}
	if hold == nil || err != nil {
		return nil // as with the record itself, which nobody asked for
	}
	r.held, r.beaten = hold, make(chan struct{})
	r.stopBeat = make(chan struct{})
	go func() {
		defer close(r.beaten)
		tick := time.NewTicker(heldBeat)
		defer tick.Stop()
		for {
			select {
			case <-r.stopBeat:
				return
			case <-tick.C:
				hold.Beat()
			}
		}
	}()
	return nil
}

// release ends the note: all was seen to, or is told by the result.
func (r *recorded) release() {
	if r.held == nil {
		return
	}
	close(r.stopBeat)
	<-r.beaten
	r.held.Release()
	r.held = nil
}

// setAside is what gc does for a gobox that was killed.
func setAside(left record.Left) (renamed []record.Aside, doubts []error, err error) {
	var list []heldGuard
	if err := json.Unmarshal(left.Guards, &list); err != nil {
		return nil, nil, fmt.Errorf("read what the command could write to: %w", err)
	}
	var guards []policy.Guard
	for _, h := range list {
		g := policy.Guard{Path: string(h.Path), Known: textsOf(h.Known), Named: textsOf(h.Named), Allow: textsOf(h.Allow)}
		for _, a := range h.Aliases {
			g.Aliases = append(g.Aliases, policy.Alias{Path: string(a[0]), Name: string(a[1])})
		}
		var st unix.Stat_t
		if unix.Lstat(g.Path, &st) == unix.ENOENT {
			continue // the folder is gone, with all that was in it
		}
		guards = append(guards, g)
	}
	guards, doubts = elsewhere(guards)
	found, err := sandbox.SetAside(guards, left.RunID, left.Started, left.Alive)
	for _, a := range found {
		switch {
		case a.Doubt:
			doubts = append(doubts, fmt.Errorf("%s came during or after the run, which was killed: look at it yourself (%s)", a.Path, a.Why))
		case a.Err != nil && !errors.Is(a.Err, fs.ErrNotExist):
			err = errors.Join(err, fmt.Errorf("set %s aside: %w (%s)", a.Path, a.Err, a.Why))
		case a.Err == nil:
			renamed = append(renamed, record.Aside{RunID: left.RunID, Path: a.Path, To: a.To})
		}
	}
	return renamed, doubts, err
}

// elsewhere leaves out the folders whose path leads through a symbolic link by now: which folder was the run's cannot be known from
// that, and no later gc could know better.
func elsewhere(guards []policy.Guard) (here []policy.Guard, doubts []error) {
	for _, g := range guards {
		if real, err := filepath.EvalSymlinks(g.Path); err == nil && real != g.Path {
			doubts = append(doubts, fmt.Errorf("%s is not the folder of the run any more, which was killed, but leads to %s: look yourself for files that the host would run or obey, such as .git/hooks and .envrc", g.Path, real))
			continue
		}
		here = append(here, g)
	}
	return here, doubts
}

func bytesOf(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func textsOf(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
