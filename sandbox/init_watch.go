package sandbox

import (
	"runtime"
	"slices"
	"time"

	"gobox/namespaces"
	"gobox/policy"
	"gobox/rlimit"
	"gobox/rlimit/cgroup"

	"golang.org/x/sys/unix"
)

// How often init looks at what its processes take, where no cgroup does that: as often as what a look costs allows, within these bounds.
const (
	watchEvery  = 100 * time.Millisecond
	watchOften  = 25 * time.Millisecond
	watchShare  = 50                    // all looks together take one part in so many of init's time
	watchSoon   = 10 * time.Millisecond // what grows so fast that it would be over the limit before the next look has that one earlier,
	hurryShare  = 10                    // and that may take more
	confirmRest = time.Second           // between two exact looks, which cost much more, at what seems to be within its limit
)

// watched is a limit of init's as it travels.
type watched int32

const (
	watchedMemory watched = iota + 1
	watchedCPU
)

// reached are limits that the command has come up against and may live with, as bits of a message.
type reached int32

const (
	reachedDisk   reached = 1 << iota // no room for data
	reachedInodes                     // none for another file
	reachedTmpfs                      // either, of a --tmpfs
	reachedPids
)

// watch looks at the sandbox from time to time: at its scratch, and at its processes where no cgroup does that. The latter
// bounds the damage, as the best that can be had, and the result says so.
type watch struct {
	next      time.Time // zero when there is nothing to watch
	maxMemory uint64    // bytes; 0, as for those below, where it is not init that watches it
	maxCPU    time.Duration
	maxPids   uint64 // the command's RLIMIT_NPROC where it bounds the number of processes
	maxRest   uint64 // bytes of what no cgroup counts, where one counts the rest
	scanner   cgroup.Scanner
	exact     thorough
	verdict   verdict
	scans     bool // the processes are looked at
	tallies   bool // nothing else counts what they take
	foreign   bool // /proc is not the sandbox's own
	mark      []byte
	seen      spent // until now
	blind     int   // looks in a row that failed
	looks     int
	growth    growth
	reached   reached
}

// besides takes from the plan what the cgroup does not limit, and has that watched. A resource limit in front of the
// cgroup's own would hide when that was reached.
func (w *watch) besides(c confinement, p *policy.Plan) {
	p.Rlimits = slices.DeleteFunc(slices.Clone(p.Rlimits), func(l rlimit.Limit) bool { return l.Resource == unix.RLIMIT_NPROC && c.pids })
	switch {
	case !c.memory:
		w.maxMemory = p.Limits.Memory
	case !p.Network.Namespace.Host:
		w.maxRest = p.Limits.Memory
	}
	if !c.group {
		w.maxCPU = p.Limits.CPUTime
	}
	w.tallies = !c.cpu
	for _, l := range p.Rlimits {
		if l.Resource == unix.RLIMIT_NPROC && l.Soft != rlimit.Unlimited {
			w.maxPids = l.Soft
		}
	}
	if wallTest && len(p.Tree.Steps) == 0 {
		// Its /proc is the host's, and all of the host would be counted as the command's.
		w.maxMemory, w.maxCPU, w.maxPids, w.maxRest = 0, 0, 0, 0
		w.tallies, w.foreign = false, true
	}
}

// open starts to watch. The first look at processes is soon, since memory can be taken fast.
func (w *watch) open(h *handover) error {
	w.next = time.Now().Add(watchEvery)
	if w.maxMemory > 0 || w.maxCPU > 0 || w.maxPids > 0 {
		if err := w.openProc(); err != nil {
			return err
		}
		if w.maxMemory > 0 {
			if err := w.exact.open(); err != nil {
				return err
			}
		}
		// The host's network has other sockets than the command's, and nobody tells which are whose.
		w.scanner.Sockets, w.scans = !h.Plan.Network.Namespace.Host, true
		w.exact.scanner.Sockets = w.scanner.Sockets
		w.next = time.Now().Add(watchSoon)
	} else if w.maxRest > 0 {
		if err := w.openProc(); err != nil {
			return err
		}
	}
	if err := w.addScratch("/"); err != nil {
		return err
	}
	for i := range h.Plan.Tree.Steps {
		if s := &h.Plan.Tree.Steps[i]; s.Op == namespaces.OpTmpfs {
			if err := w.addScratch(s.Target); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watch) openProc() error { return openProc(&w.scanner) }

func openProc(s *cgroup.Scanner) (err error) {
	if s.Proc == 0 {
		s.Proc, err = unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		s.Proc = max(s.Proc, 0)
	}
	return err
}

// tallyEvery is how many looks there are for each at what the processes take, where that limits nothing. Of the first so many
// all are one, as most commands have ended by then.
const tallyEvery = 10

// note leaves for the supervisor what has been taken so far.
func (w *watch) note(s cgroup.Sample) {
	w.seen = w.seen.most(waited().living(s))
	w.seen.leave(w.mark)
}

// tally looks at what is alive.
func (w *watch) tally() {
	if w.foreign || w.openProc() != nil {
		return
	}
	if s, err := w.scanner.Tally(); err == nil {
		w.note(s)
	}
}

// settle is what was taken in all, once the command has ended; left says whether others are still there.
func (w *watch) settle(left bool) spent {
	if left {
		w.tally()
	}
	return w.seen.most(waited())
}

func (w *watch) addScratch(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type != unix.TMPFS_MAGIC { // it is one wherever there is a tree of the plan's
		unix.Close(fd)
		return nil
	}
	w.scanner.Scratch = append(w.scanner.Scratch, fd)
	w.exact.scanner.Scratch = w.scanner.Scratch
	return nil
}

// lookAtScratch notes when there is no room for data or for files.
func (w *watch) lookAtScratch() {
	for i, fd := range w.scanner.Scratch {
		var fs unix.Statfs_t
		if unix.Fstatfs(fd, &fs) != nil {
			continue
		}
		full, crowded := fs.Blocks > 0 && fs.Bfree == 0, fs.Files > 0 && fs.Ffree == 0
		switch {
		case i > 0 && (full || crowded):
			w.reached |= reachedTmpfs
		case full:
			w.reached |= reachedDisk
		case crowded:
			w.reached |= reachedInodes
		}
	}
}

// lookAtCrowd notes when one more process or thread would be too many for RLIMIT_NPROC.
func (w *watch) lookAtCrowd(h *handover, s cgroup.Sample) {
	n := s.Threads
	if !h.Plan.Identity.Root {
		// Init is the same user.
		n += w.scanner.Own()
	}
	if w.maxPids > 0 && uint64(n) >= w.maxPids {
		w.reached |= reachedPids
	}
}

// last says what the command has come up against, once it has ended; failed, in that it went wrong; ended is how many have
// just been collected, it among them.
func (w *watch) last(h *handover, failed bool, ended int) reached {
	w.lookAtScratch()
	if failed && w.maxPids > 0 && w.reached&reachedPids == 0 {
		// Those that it leaves behind may still be as many, with those that RLIMIT_NPROC counted until they were collected: what
		// was refused a process, and failed for it, was one of them itself.
		if s, err := w.scanner.Scan(); err == nil {
			s.Threads += ended
			w.lookAtCrowd(h, s)
		}
	}
	return w.reached
}

// look says which limit is passed, 0 for none.
func (w *watch) look(h *handover) watched {
	began := time.Now()
	w.next = began.Add(watchEvery)
	w.lookAtScratch()
	if w.maxRest > 0 && w.scanner.Netlink() > w.maxRest {
		return watchedMemory
	}
	if !w.scans {
		if w.looks++; w.tallies && (w.looks <= tallyEvery || w.looks%tallyEvery == 0) {
			w.tally()
		}
		return 0
	}
	s, err := w.scanner.Scan()
	if err != nil {
		// A watch that cannot see for a second is none, and the run must not go on without.
		if w.blind++; w.blind < int(time.Second/watchEvery) {
			return 0
		}
		return watchedMemory
	}
	w.blind = 0
	w.note(s)
	// With what has ended: the children of a process that is gone are init's. At the limit, RLIMIT_CPU may have ended a part of
	// the command and not all.
	if w.maxCPU > 0 && w.seen.cpu >= w.maxCPU {
		return watchedCPU
	}
	w.lookAtCrowd(h, s)
	if w.maxMemory == 0 {
		w.next = began.Add(watchPace(time.Since(began)))
		return 0
	}
	if s.Truncated {
		return watchedMemory // of so many, nobody can say what they take
	}
	over, room := w.overMemory(began, s)
	if over {
		return watchedMemory
	}
	cost := time.Since(began)
	w.next = began.Add(min(watchPace(cost), w.growth.wait(began, cost, s.Bytes, room)))
	return 0
}

// overMemory judges by a sample, taken from began on, and where that is over the limit or much time has passed, by the exact figure. It says
// how much is left, as far as that is known.
func (w *watch) overMemory(began time.Time, s cgroup.Sample) (over bool, room uint64) {
	if s.Private > w.maxMemory && s.Private-w.maxMemory > lateBytes() {
		return true, 0
	}
	room = w.maxMemory - min(s.Bytes, w.maxMemory)
	host := w.exact.host.see(w.scanner.Host())
	if room > 0 && !w.exact.asking() && began.Sub(w.exact.judged) < confirmRest && w.exact.left < host.Available+room/2+hostNoise {
		return false, room
	}
	// Shared pages are counted more than once in the sample, and memfds that are not mapped not at all; only the exact
	// figure is a reason to kill.
	c, err, done := w.exact.ask()
	switch {
	case !done:
		// The command can make it last, for as long as it fills or changes its memory.
		return time.Since(w.exact.asked) > patience(s, room == 0), 0
	case err != nil:
		return false, room
	}
	w.exact.left = host.Available
	if w.verdict.over(c, s.Exiting, w.maxMemory, w.exact.host, began) {
		return true, 0
	}
	if w.verdict.times > 0 {
		return false, 1 // as soon as may be
	}
	return false, w.maxMemory - min(c.Bytes, w.maxMemory)
}

// hostNoise is by how much the host's memory may fall, besides a half of what is left to the command, before the next exact look comes early: what is written
// to a memfd is in nobody's figures, and much of it is a reason to look. Others on the host take memory as well, so it is no more than that.
const hostNoise = 32 << 20

// verdict is what several answers in a row say.
type verdict struct {
	times int       // that have been over the limit
	gone  int       // that would have been, with those that were gone
	since time.Time // the first of these
}

const (
	surelyOver = 3           // answers in a row: processes that share memory and begin or end make one too high
	goneOver   = 5           // answers in a row, over
	goneFor    = time.Second // this time
)

// over judges by an answer of the given time, by what processes that end have, and by what the host has given away since the beginning.
func (v *verdict) over(c cgroup.Confirmed, exiting, limit uint64, host given, at time.Time) bool {
	// What was only asked for takes nothing from the host.
	for _, unseen := range [...]uint64{min(c.Unseen, host.shared), min(c.Pending, host.all)} {
		if unseen > limit && unseen-limit > unseenAhead {
			return true
		}
	}
	if c.Certain > limit {
		return true
	}
	if c.Bytes+exiting > limit {
		v.times++
	} else {
		v.times = 0
	}
	// Who hands its memory on from one process to the next, faster than anybody looks, is gone each time.
	if c.Bytes+exiting+c.Gone <= limit {
		v.gone = 0
	} else if v.gone++; v.gone == 1 {
		v.since = at
	}
	return v.times >= surelyOver || v.gone >= goneOver && at.Sub(v.since) > goneFor
}

// unseenAhead is how much a command may have beyond its limit in places where nobody can tell how much there is, as far as the host has lost as much
// since the beginning. Others on the host take memory as well.
const unseenAhead = 512 << 20

// patience is how long the exact figure may take. It walks all page tables: a second for some gigabytes on a slow machine.
func patience(s cgroup.Sample, over bool) time.Duration {
	p := time.Second
	if !over {
		p = 5 * time.Second
	}
	return p + time.Duration(s.Bytes>>30)*time.Second/4 + time.Duration(s.Processes)*time.Millisecond
}

// lateBytes is by how much the kernel's own figure of a process's memory may be too high: since Linux 6.2 each processor adds to it only when
// it has so many pages (percpu_counter_batch of lib/percpu_counter.c).
func lateBytes() uint64 {
	n := runtime.NumCPU()
	return uint64(n * max(32, 2*n) * unix.Getpagesize())
}

// watchPace is how long after a look of that cost the next one is due.
func watchPace(cost time.Duration) time.Duration {
	return min(max(watchOften, watchShare*cost), watchEvery)
}

// growth is how much memory there was at the last look.
type growth struct {
	at    time.Time
	bytes uint64
}

// wait is how long after this look, which began at now, took cost and saw so many bytes, the next is due: half of the time in which
// as fast a growth as since the last one would take the room that is left; watchEvery at most.
func (g *growth) wait(now time.Time, cost time.Duration, bytes, room uint64) time.Duration {
	last := *g
	*g = growth{now, bytes}
	if last.at.IsZero() || bytes <= last.bytes || room == 0 {
		return watchEvery
	}
	full := float64(now.Sub(last.at)) * float64(room) / float64(bytes-last.bytes)
	return time.Duration(min(max(full/2, float64(watchSoon), float64(hurryShare*cost)), float64(watchEvery)))
}
