package changes

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gobox/fsguard"
)

// SweepOptions says what a [Sweep] leaves alone, in paths beneath the root. With all beneath them, these are not looked at.
type SweepOptions struct {
	Known   []string          // what was there before
	Allow   []string          // what the user wants to have
	Named   []string          // protected by the config of a repository
	Aliases map[string]string // folders, with the names that links give them, or that they are as good as
	Path    string            // of the root on the host, by which its names count; "" for unknown
	Suffix  string            // for the new names of what is set aside
	Entries int               // paths looked at; default 4,000,000
	// With Until set the command ended long ago. What came into being, or to its name, between Since and Until is renamed, what came
	// later is left to its owner, and of what could be either Aside.Doubt says so.
	Since, Until time.Time
}

// Aside is a protected path that was renamed, so that nothing of the host obeys it.
type Aside struct {
	Path string
	To   string // its name now; empty when Err says why it could not be renamed
	Why  string
	Err  error
	// Doubt says that it may as well be somebody else's, of later; it was not renamed.
	Doubt bool
}

// Sweep looks through a folder that a command could write to, once it has ended, for protected paths that are new, and
// renames each in its own folder. Folders that the command has locked are opened for it and locked again. The error says
// why not all could be looked at.
func Sweep(ctx context.Context, root *fsguard.Root, o SweepOptions) ([]Aside, error) {
	s := &sweep{ctx: ctx, root: root, names: NewNames(o.Path), o: o, rest: o.Entries, known: map[string]bool{}}
	if s.rest == 0 {
		s.rest = 4_000_000
	}
	for _, list := range [...][]string{o.Known, o.Allow} {
		for _, p := range list {
			s.known[p] = true
		}
	}
	for _, p := range o.Named {
		s.names.named[p] = true
	}
	err := s.walk(".", ".")
	// New ones have been met on the way, before anything of theirs was renamed.
	for i := 0; i < len(s.bare) && err == nil; i++ {
		err = s.walk(s.bare[i], join(s.bare[i], ".git"))
	}
	for _, alias := range slices.Sorted(maps.Keys(o.Aliases)) {
		if err != nil {
			break
		}
		err = s.walk(alias, o.Aliases[alias])
	}
	return s.aside, err
}

type sweep struct {
	ctx   context.Context
	root  *fsguard.Root
	names *Names
	o     SweepOptions
	known map[string]bool
	rest  int
	aside []Aside
	bare  []string // new repositories of another name than .git
}

// walk looks through the folder start, which goes by name.
func (s *sweep) walk(start, name string) error {
	if _, err := s.root.Lstat(start); errors.Is(err, fs.ErrNotExist) {
		return nil // an alias that is gone
	}
	type folder struct {
		path string
		mode fs.FileMode
	}
	var opened []folder
	defer func() {
		for _, f := range slices.Backward(opened) {
			// One that could not be locked again is only more open to its owner, who could open it in any case.
			_ = s.root.Chmod(f.path, f.mode)
		}
	}()
	// A limit of 0 would be the default.
	limits := fsguard.WalkLimits{Entries: max(s.rest, 1), Depth: -1}
	return s.root.Walk(s.ctx, start, limits, func(e *fsguard.Entry, err error) error {
		s.rest--
		if err == nil {
			err = s.visit(e, start, name)
		}
		if err != nil || !e.Mode.IsDir() || e.MountPoint || e.Mode&0o500 == 0o500 {
			return err
		}
		// Before it is gone into: one that can be read and not searched opens, and tells of nothing in it.
		mode := e.Mode & 0o777
		if s.root.Chmod(e.Path, mode|0o700) == nil {
			opened = append(opened, folder{e.Path, mode})
		}
		return nil // where that failed, going into it says so
	})
}

func (s *sweep) visit(e *fsguard.Entry, start, name string) error {
	over := func() error {
		if e.Mode.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if e.Path == start {
		return nil
	}
	if s.known[e.Path] {
		return over()
	}
	if err := s.repository(e); err != nil {
		return err
	}
	logical := e.Path
	switch {
	case start == name:
	case start == ".":
		logical = join(name, e.Path)
	default:
		logical = join(name, e.Path[len(start)+1:])
	}
	why, err := s.protects(e, logical)
	switch {
	case err != nil:
		return err
	case why == "" && e.Mode.IsDir() && s.names.Data(logical):
		return fs.SkipDir
	case why == "":
		return nil
	}
	aside := Aside{Path: e.Path, Why: why}
	switch s.came(&e.Info) {
	case during:
		aside.To, aside.Err = s.rename(e.Path)
	case perhaps:
		aside.Doubt = true
	case later:
		return over()
	}
	s.aside = append(s.aside, aside)
	return over()
}

const (
	during = iota
	perhaps
	later
)

// slack is what a file system's clock may be behind by.
const slack = 50 * time.Millisecond

// came says when the file came to its place. The time of its last change is also that of its last rename, link or change of
// mode, by whomever.
func (s *sweep) came(i *fsguard.Info) int {
	if s.o.Until.IsZero() {
		return during
	}
	in := func(t time.Time) bool { return !t.Before(s.o.Since.Add(-slack)) && !t.After(s.o.Until) }
	switch {
	case !i.Btime.IsZero() && i.Btime.After(s.o.Until):
		return later
	case !i.Btime.IsZero() && in(i.Btime), in(i.Ctime):
		return during
	}
	return perhaps
}

func (s *sweep) protects(e *fsguard.Entry, logical string) (string, error) {
	if why := s.names.Protects(logical, e.Mode.IsDir()); why != "" {
		return why, nil
	}
	if e.Mode&fs.ModeSymlink != 0 && s.names.Leads(logical) {
		return "it leads to what the host would obey", nil
	}
	base := path.Base(e.Path)
	for _, part := range BareParts() {
		if base != part {
			continue
		}
		bare, err := s.isBare(parentOf(e.Path))
		if bare {
			return "it makes a folder a repository, whose config git obeys", err
		}
		return "", err
	}
	return "", nil
}

// repository notes the folder of e where that is a bare repository: in it the same is obeyed as in a .git.
func (s *sweep) repository(e *fsguard.Entry) error {
	dir := parentOf(e.Path)
	if path.Base(e.Path) != "HEAD" || fold(path.Base(dir)) == ".git" || path.Base(s.o.Aliases[dir]) == ".git" || slices.Contains(s.bare, dir) {
		return nil
	}
	bare, err := s.isBare(dir)
	if bare {
		s.bare = append(s.bare, dir)
	}
	return err
}

func (s *sweep) isBare(dir string) (bool, error) {
	var failed error
	bare := IsBare(func(name string) bool {
		_, err := s.root.Lstat(join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
		return err == nil
	})
	return bare, failed
}

// rename gives what is protected a name that nothing obeys.
func (s *sweep) rename(p string) (string, error) {
	to := p + s.o.Suffix
	if len(path.Base(to)) > 255 {
		to = join(parentOf(p), "gobox"+s.o.Suffix)
	}
	err := s.move(p, to)
	if errors.Is(err, unix.EACCES) {
		// Its folder is locked, by the command for all we know.
		dir := parentOf(p)
		info, statErr := s.root.Lstat(dir)
		if statErr != nil {
			return "", err
		}
		if chmodErr := s.root.Chmod(dir, info.Mode&0o777|0o700); chmodErr != nil {
			return "", err
		}
		err = s.move(p, to)
		_ = s.root.Chmod(dir, info.Mode&0o777)
	}
	if err != nil {
		return "", err
	}
	return to, nil
}

func (s *sweep) move(p, to string) error {
	err := s.root.Rename(p, to, fsguard.NoReplace)
	if errors.Is(err, unix.EINVAL) {
		// A file system without the flag, such as NFS.
		if _, taken := s.root.Lstat(to); !errors.Is(taken, fs.ErrNotExist) {
			return unix.EEXIST
		}
		err = s.root.Rename(p, to, 0)
	}
	return err
}
