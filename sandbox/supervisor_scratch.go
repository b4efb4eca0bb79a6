package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"gobox/fsguard"
	"gobox/namespaces"
	"gobox/policy"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// scratch is a run's private folder on disk, with the upper layer of its overlay. A disk has no limit for one
// folder that an ordinary user could set, so it is watched; what can be written between two looks is limited by
// the size of one file alone.
type scratch struct {
	parent, dir int // descriptors of --scratch and of the folder in it
	name, path  string
	step        int // of the plan, that mounts it

	size, files uint64 // limits; 0 for none
	free, nodes uint64 // of the file system, when the run began

	memory     atomic.Int32  // descriptor of the scratch in memory, which counts as well; 0 until init has handed it over
	found      atomic.Uint32 // a ScratchLimit
	stop, done chan struct{}
}

// ScratchLimit is what of a layer on disk was too much.
type ScratchLimit uint32

const (
	ScratchSize  ScratchLimit = iota + 1 // what is in its files and those of the scratch in memory
	ScratchFiles                         // their number
	ScratchRoom                          // the file system it is on has hardly any room left
)

const (
	scratchEvery = 100 * time.Millisecond
	// scratchLook is how often the folder is gone through even if the file system has not filled by as much as the limit.
	scratchLook = 5 * time.Second
	// scratchFree is which part of the file system's free room a run leaves, at least: what is written to a file that was
	// deleted while open is in no folder.
	scratchFree = 10
	// scratchRemove bounds the removal.
	scratchRemove = 2 * time.Minute
)

// planScratch finds the folder a name, if the plan has one. Until it is made there are no descriptors.
func planScratch(p *policy.Plan, id string) *scratch {
	step := slices.IndexFunc(p.Tree.Steps, func(s namespaces.Step) bool { return s.Target == namespaces.Staging })
	if step < 0 {
		return nil
	}
	s := &scratch{parent: -1, dir: -1, name: record.ScratchPrefix + id + "-" + rand.Text()[:8], step: step}
	s.path = beneath(p.Tree.Steps[step].Source, s.name)
	s.size, s.files = p.Tree.Root.Size, p.Tree.Root.Inodes
	return s
}

// make makes the folder.
func (s *scratch) make(p *policy.Plan) error {
	if s == nil {
		return nil
	}
	within := p.Tree.Steps[s.step].Source
	fail := func(err error) error {
		return &policy.Error{Step: "make scratch in", Object: within, Err: err, Hint: "--scratch DIR takes a folder that you can write to"}
	}
	parent, err := unix.Openat2(unix.AT_FDCWD, within, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return fail(err)
	}
	s.parent = parent
	if err := unix.Mkdirat(parent, s.name, 0o700); err != nil {
		s.name = ""
		return fail(errors.Join(err, s.remove()))
	}
	s.dir, err = unix.Openat(parent, s.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	var fs unix.Statfs_t
	if err == nil {
		err = unix.Fstatfs(s.dir, &fs)
	}
	if err != nil {
		return fail(errors.Join(err, s.remove()))
	}
	s.free, s.nodes = fs.Bavail*uint64(fs.Bsize), fs.Ffree
	return nil
}

// place puts the folder into h, whose plan is shared.
func (s *scratch) place(h *handover) {
	if s != nil {
		h.Plan.Tree.Steps = slices.Clone(h.Plan.Tree.Steps)
		h.Plan.Tree.Steps[s.step].Source = s.path
	}
}

// watch looks at the folder until end is called, and calls kill once when there is too much in it.
func (s *scratch) watch(kill func()) {
	if s == nil {
		return
	}
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.done)
		tick := time.NewTicker(scratchEvery)
		defer tick.Stop()
		next := time.Now().Add(scratchLook)
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
			}
			filled, low := s.filled()
			begin := time.Now()
			if !low && !filled && begin.Before(next) {
				continue
			}
			what := s.over()
			if what == 0 && low {
				what = ScratchRoom
			}
			if what != 0 {
				s.found.Store(uint32(what))
				kill()
				return
			}
			// What is large takes no more than a tenth of the time.
			took := time.Since(begin)
			next = begin.Add(max(scratchLook, 10*took))
			select {
			case <-s.stop:
				return
			case <-time.After(10 * took):
			}
		}
	}()
}

// end stops the watch, looks a last time, and says which limit was passed, 0 for none.
func (s *scratch) end() ScratchLimit {
	if s == nil {
		return 0
	}
	s.stopWatch()
	if found := ScratchLimit(s.found.Load()); found != 0 {
		return found
	}
	return s.over()
}

func (s *scratch) stopWatch() {
	if s != nil && s.stop != nil {
		close(s.stop)
		<-s.done
		s.stop = nil
	}
}

// filled tells whether the file system has filled by as much as the limit since the run began, by whomever, and low
// whether it has too little left.
func (s *scratch) filled() (filled, low bool) {
	used, nodes, low := s.drop()
	held, files := s.inMemory()
	return s.size > 0 && used+held >= s.size || s.files > 0 && nodes+files >= s.files, low
}

// inMemory gives what the scratch in memory takes.
func (s *scratch) inMemory() (used, files uint64) {
	var fs unix.Statfs_t
	fd := s.memory.Load()
	if fd == 0 || unix.Fstatfs(int(fd), &fs) != nil {
		return 0, 0
	}
	return (fs.Blocks - min(fs.Bfree, fs.Blocks)) * uint64(fs.Bsize), fs.Files - min(fs.Ffree, fs.Files)
}

// counts has what is in the scratch in memory counted, by a descriptor of it that is the folder's then.
func (s *scratch) counts(memory int) {
	if s == nil || !s.memory.CompareAndSwap(0, int32(memory)) {
		unix.Close(memory)
	}
}

func (s *scratch) drop() (used, nodes uint64, low bool) {
	var fs unix.Statfs_t
	if unix.Fstatfs(s.dir, &fs) != nil {
		return 0, 0, false
	}
	free := fs.Bavail * uint64(fs.Bsize)
	return s.free - min(free, s.free), s.nodes - min(fs.Ffree, s.nodes), free < s.free/scratchFree
}

// over goes through the upper layer. What cannot be looked into, as the command has locked it, counts as all that the
// file system has lost.
func (s *scratch) over() ScratchLimit {
	root, err := fsguard.NewRoot(s.dir, fsguard.Options{})
	if err != nil {
		return 0
	}
	defer root.Close()
	used, files := s.inMemory()
	hidden := false
	limits := fsguard.WalkLimits{Depth: 10_000}
	err = root.Walk(context.Background(), "upper", limits, func(e *fsguard.Entry, err error) error {
		if err != nil {
			hidden = true // or gone meanwhile
			return nil
		}
		used += uint64(e.Real)
		files++
		if s.exceeds(used, files) != 0 {
			return fsguard.ErrLimit
		}
		return nil
	})
	what := s.exceeds(used, files)
	if what == 0 && (hidden || err != nil) {
		lost, nodes, _ := s.drop()
		held, more := s.inMemory()
		what = s.exceeds(lost+held, nodes+more)
	}
	return what
}

func (s *scratch) exceeds(used, files uint64) ScratchLimit {
	switch {
	case s.size > 0 && used > s.size:
		return ScratchSize
	case s.files > 0 && files > s.files:
		return ScratchFiles
	}
	return 0
}

// remove removes the folder with all in it, once nothing uses it. What is at its place by now is left alone when it is
// another.
func (s *scratch) remove() error {
	if s == nil || s.parent < 0 {
		return nil
	}
	var err error
	if s.dir >= 0 {
		err = s.empty()
	}
	if s.name != "" && err == nil {
		if err = unix.Unlinkat(s.parent, s.name, unix.AT_REMOVEDIR); err == unix.ENOENT {
			err = nil
		}
	}
	s.close()
	if err != nil {
		return fmt.Errorf("remove %s: %w", s.path, err)
	}
	return nil
}

func (s *scratch) empty() error {
	ctx, cancel := context.WithTimeout(context.Background(), scratchRemove)
	defer cancel()
	root, err := fsguard.NewRoot(s.dir, fsguard.Options{})
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(ctx, ".")
}

// close gives the descriptors back; the folder stays if it is still there.
func (s *scratch) close() {
	if s == nil || s.parent < 0 {
		return
	}
	unix.Close(s.parent)
	if s.dir >= 0 {
		unix.Close(s.dir)
	}
	if fd := s.memory.Swap(0); fd != 0 {
		unix.Close(int(fd))
	}
	s.parent, s.dir = -1, -1
}
