package record

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Cleanup says what gc does.
type Cleanup struct {
	OlderThan time.Duration // remove records of runs that started longer ago; 0 for none
	Key       string        // forget this idempotency key, whatever came of it; "" for none
	DryRun    bool
	Now       time.Time
	Destroy   func(Quarantined) error // nil for [Destroy]
	// Keep gives the reason why a record must stay, however old, by its directory, which is locked; nil for none.
	Keep func(dir string) error
	// SetAside looks through what the command of a killed gobox could write to. It gives what it renamed and what a person
	// has to look at; the error is for what is to be tried again. nil for nobody.
	SetAside func(Left) (renamed []Aside, doubts []error, err error)
}

// Cleaned is what gc did or, with DryRun, would do. Lists are of run ids where nothing else is said.
type Cleaned struct {
	Crashed     []string  `json:"crashed"`   // newly found runs of a killed gobox
	Removed     []string  `json:"removed"`   // records
	Destroyed   []string  `json:"destroyed"` // out of quarantine, nothing is left of them
	Quarantined []string  `json:"quarantined"`
	Keys        uint64    `json:"keys"`    // idempotency keys forgotten
	Cgroups     []string  `json:"cgroups"` // names of those whose gobox is gone, by the caller of [Store.Clean]
	SetAside    []Aside   `json:"set_aside"`
	Problems    []Problem `json:"problems"`
}

// Problem is something gc could not do.
type Problem struct {
	Object  string `json:"object"`
	Message string `json:"message"`
}

// crashName marks a run directory whose crash gc has dealt with.
const crashName = "crashed.json"

type collector struct {
	store  *Store
	do     Cleanup
	report Cleaned
}

// Clean removes old records, deals with the runs of a killed gobox and tries again to destroy what is in quarantine. What
// it cannot do is in the report; the error is that of a state directory that cannot be used.
func (s *Store) Clean(do Cleanup) (Cleaned, error) {
	if do.Destroy == nil {
		do.Destroy = Destroy
	}
	if do.Now.IsZero() {
		do.Now = time.Now()
	}
	c := &collector{store: s, do: do, report: Cleaned{
		Crashed: []string{}, Removed: []string{}, Destroyed: []string{}, Quarantined: []string{},
		Cgroups: []string{}, SetAside: []Aside{}, Problems: []Problem{}}}
	if s.root.fd < 0 {
		if do.Key != "" {
			c.problem("key", errors.New("no such key"))
		}
		return c.report, nil
	}
	if do.Key != "" {
		c.forgetKey(do.Key)
	}
	names, err := s.runs.names()
	if err != nil {
		return c.report, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, removing) && !do.DryRun {
			c.problem(name, s.runs.removeTree(name))
		}
	}
	if err := s.Walk(Query{}, func(e Entry) bool { c.visit(e); return true }); err != nil {
		return c.report, err
	}
	c.quarantine()
	if len(c.report.Removed) > 0 {
		c.forgetRemoved()
	}
	return c.report, nil
}

func (c *collector) problem(object string, err error) {
	if err != nil {
		c.report.Problems = append(c.report.Problems, Problem{object, err.Error()})
	}
}

func (c *collector) visit(e Entry) {
	switch e.State {
	case Running:
		if e.Request == nil {
			c.sweep(e.RunID)
		}
		return
	case Unreadable:
		// It may be anything, so that a person has to look at it.
		c.problem(e.RunID, errors.New(e.Problem))
		return
	case CrashedRun:
		if !c.crashed(e) {
			return
		}
	}
	if c.do.OlderThan > 0 && c.do.Now.Sub(e.Started) > c.do.OlderThan {
		c.remove(e.RunID)
	}
}

// sweep removes the directory of a run that never began, as its maker was killed between making and locking it, or
// is just there: that one then makes it again, see [Run.begin].
func (c *collector) sweep(id string) {
	d, err := c.store.run(id)
	if err != nil {
		return
	}
	defer d.close()
	var st unix.Stat_t
	if unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB) != nil ||
		unix.Fstatat(d.fd, requestName, &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT {
		return
	}
	if !c.do.DryRun && unix.Unlinkat(c.store.runs.fd, id, unix.AT_REMOVEDIR) != nil {
		return
	}
	c.report.Removed = append(c.report.Removed, id)
}

// crashed cleans up after a run once, and reports whether its record may be removed.
func (c *collector) crashed(e Entry) bool {
	d, err := c.store.run(e.RunID)
	if err != nil {
		c.problem(e.RunID, err)
		return false
	}
	defer d.close()
	if err := unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false // somebody has taken it up after all
	}
	var st unix.Stat_t
	if unix.Fstatat(d.fd, crashName, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return true
	}
	c.report.Crashed = append(c.report.Crashed, e.RunID)
	if c.do.DryRun {
		return false
	}
	_ = unix.Unlinkat(d.fd, resultTemp, 0)
	left, err := d.leftovers(e)
	if err == nil {
		err = c.do.Destroy(left)
	}
	if err == nil {
		err = c.held(e, d) // once no process is left that could use it
	}
	if err != nil {
		c.problem(e.RunID, err)
		return false
	}
	b, err := json.Marshal(map[string]string{"found_at": Timestamp(c.do.Now)})
	if err == nil {
		err = d.replace(crashName, append(b, '\n'), false)
	}
	c.problem(e.RunID, err)
	return err == nil
}

// Holding makes the event by which a run notes something that outlives a killed gobox, and which gc then destroys: what is
// cgroup, and object its absolute path. For folders there is [Run.Hold].
func Holding(what, object string) Event { return Event{Kind: Prepared, What: what, Object: object} }

// HoldsCgroup is what a run can hold.
const HoldsCgroup = "cgroup"

// leftovers reads what a crashed run noted with [Holding].
func (d dir) leftovers(e Entry) (Quarantined, error) {
	q := Quarantined{RunID: e.RunID}
	if e.Request != nil {
		q.BootID = e.Request.BootID
	}
	b, err := d.read(eventsName, maxEventLog)
	if isMissing(err) {
		return q, nil
	}
	if err != nil {
		return q, err
	}
	events, _, err := DecodeEvents(b)
	for _, ev := range events {
		// A text that was cut ends in three dots and is no path.
		if ev.Kind != Prepared || len(ev.Object) > maxText {
			continue
		}
		if ev.What == HoldsCgroup {
			q.Cgroups = append(q.Cgroups, ev.Object)
		}
	}
	return q, err
}

// remove removes a record. Its lock is held, so that no gobox writes to it.
func (c *collector) remove(id string) {
	d, err := c.store.run(id)
	if isMissing(err) {
		return
	}
	if err != nil {
		c.problem(id, err)
		return
	}
	defer d.close()
	if unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if c.do.Keep != nil {
		if err := c.do.Keep(d.path); err != nil {
			c.problem(id, err)
			return
		}
	}
	if c.do.DryRun {
		c.report.Removed = append(c.report.Removed, id)
		return
	}
	if err := unix.Renameat(c.store.runs.fd, id, c.store.runs.fd, removing+id); err != nil {
		c.problem(id, failure("remove", d.path, err))
		return
	}
	c.report.Removed = append(c.report.Removed, id)
	c.problem(id, c.store.runs.removeTree(removing+id))
}

func (c *collector) quarantine() {
	all, err := c.store.Quarantined()
	if err != nil {
		c.problem("quarantine", err)
		return
	}
	for _, q := range all {
		if c.do.DryRun {
			c.report.Quarantined = append(c.report.Quarantined, q.RunID)
			continue
		}
		err := errors.New(q.Reason)
		if q.CreatedAt != "" {
			err = c.do.Destroy(q)
		}
		if err == nil {
			err = c.release(q.RunID)
		}
		if err != nil {
			c.report.Quarantined = append(c.report.Quarantined, q.RunID)
			c.problem(q.RunID, err)
			continue
		}
		c.report.Destroyed = append(c.report.Destroyed, q.RunID)
	}
}

func (c *collector) release(id string) error {
	d, err := c.store.root.sub("quarantine", false)
	if err != nil {
		return err
	}
	defer d.close()
	return failure("remove", d.path+"/"+id+".json", ignoreMissing(unix.Unlinkat(d.fd, id+".json", 0)))
}

// forgetKey removes the entry of a key unless a run for it is under way.
func (c *collector) forgetKey(key string) {
	keys, err := c.store.root.sub("idempotency", false)
	if isMissing(err) {
		c.problem("key", errors.New("no such key"))
		return
	}
	if err != nil {
		c.problem("key", err)
		return
	}
	defer keys.close()
	c.forget(keys, keyName(key), func(*claimed) bool { return true }, true)
}

// forgetRemoved removes the entries whose runs are gone.
func (c *collector) forgetRemoved() {
	keys, err := c.store.root.sub("idempotency", false)
	if isMissing(err) {
		return
	}
	var names []string
	if err == nil {
		defer keys.close()
		names, err = keys.names()
	}
	if err != nil {
		c.problem("idempotency", err)
		return
	}
	gone := map[string]bool{}
	for _, id := range c.report.Removed {
		gone[id] = true
	}
	for _, name := range names {
		c.forget(keys, name, func(e *claimed) bool { return e != nil && gone[e.RunID] }, false)
	}
}

// forget removes an entry that is due. Named entries are those that the caller asked for, and whose absence is a problem.
func (c *collector) forget(keys dir, name string, due func(*claimed) bool, named bool) {
	fd, err := unix.Openat(keys.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if err == unix.ENOENT && named {
			c.problem("key", errors.New("no such key"))
		} else if err != unix.ENOENT {
			c.problem(name, err)
		}
		return
	}
	claim := &Claim{dir: dir{fd: -1, path: keys.path}, name: name, fd: fd}
	defer claim.Release()
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if named {
			c.problem("key", errors.New("a run for it is under way"))
		}
		return
	}
	old, _, err := claim.content()
	if err != nil || !due(old) {
		c.problem(name, err)
		return
	}
	if !c.do.DryRun {
		err = unix.Unlinkat(keys.fd, name, 0)
	}
	c.problem(name, err)
	if err == nil {
		c.report.Keys++
	}
}
