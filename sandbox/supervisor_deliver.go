package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/policy"
	"gobox/record"

	"golang.org/x/sys/unix"
)

// deliverLimit is how long it may take to check and copy what the command put into its output folder.
const deliverLimit = 10 * time.Minute

// outputFolder is the folder of the host that what the command leaves in its own goes to.
type outputFolder struct {
	plan   policy.Output
	parent *fsguard.Root
	base   string
	made   bool // by us, and so to be removed when nothing comes
	owner  [2]int
	secret func(io.Reader) (bool, error)
	temp   string // while it is filled
}

// openOutputFolder makes sure, before anything runs, that the folder is there, empty, and can be replaced. It is nil when the
// plan has none.
func openOutputFolder(p *policy.Plan, id string, secret func(io.Reader) (bool, error)) (*outputFolder, error) {
	if p.Output.Path == "" {
		return nil, nil
	}
	refuse := func(err error) error {
		e := &policy.Error{Step: "output-dir", Object: p.Output.Path, Err: err, Hint: "name a new or empty folder in one that you may write to"}
		var detail *fs.PathError
		if errors.As(err, &detail) {
			e.Err = detail.Err
		}
		return e
	}
	dir, base := path.Split(p.Output.Path)
	f := &outputFolder{plan: p.Output, base: base, owner: [2]int{-1, -1}, secret: secret, temp: record.OutputPrefix + id + "-" + rand.Text()[:8]}
	var err error
	if f.parent, err = openReal(dir); err != nil {
		return nil, refuse(err)
	}
	if err := f.prepare(); err != nil {
		f.discard()
		return nil, refuse(err)
	}
	return f, nil
}

// openReal opens a folder of the plan's: the path had no symbolic link on the way then, and one that it has now was put there
// meanwhile.
func openReal(dir string) (*fsguard.Root, error) {
	root, err := fsguard.OpenRoot("/", fsguard.Options{CrossMounts: true})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot("." + dir)
}

func (f *outputFolder) prepare() error {
	info, err := f.parent.Lstat(f.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.parent.Mkdir(f.base, 0o777); err != nil {
			return err
		}
		f.made = true
		// What is new belongs to whom the folder around it belongs to.
		info, err = f.parent.Lstat(".")
	case err == nil && !info.Mode.IsDir():
		return errors.New("is no folder")
	case err == nil && info.MountPoint:
		return errors.New("is a mount point, which cannot be replaced")
	case err == nil:
		err = unix.Faccessat(f.parent.Fd(), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		f.owner = [2]int{int(info.UID), int(info.GID)}
		if f.made {
			if err := f.parent.Lchown(f.base, f.owner[0], f.owner[1]); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	err = f.parent.Walk(ctx, f.base, fsguard.WalkLimits{Entries: 1}, func(_ *fsguard.Entry, err error) error { return err })
	if errors.Is(err, fsguard.ErrLimit) {
		return errors.New("is not empty")
	}
	return err
}

// deliver brings out what is in the sandbox's folder, when the command has exited by itself, whatever its status.
func (f *outputFolder) deliver(from *os.File, outcome Outcome, survived bool) (*changes.Delivered, error) {
	if outcome != Exited {
		return nil, nil
	}
	if survived {
		return nil, errors.New("the kernel has not ended every process of the sandbox yet")
	}
	if from == nil {
		return nil, errors.New("init has not told of the folder")
	}
	root, err := fsguard.NewRoot(int(from.Fd()), fsguard.Options{})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(context.Background(), deliverLimit)
	defer cancel()
	got, err := changes.Deliver(ctx, root, f.parent, f.base, changes.DeliverOptions{
		Limits: changes.Limits{Size: f.plan.Size}, Allow: f.plan.Allow, Secret: f.secret, Path: f.plan.Path, Temp: f.temp, UID: f.owner[0], GID: f.owner[1],
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("checking and copying it was not done in time")
	}
	if err == nil {
		f.made = false
	}
	return got, err
}

// discard gives the folder up. One that was made for it goes again, if it is still empty.
func (f *outputFolder) discard() {
	if f == nil || f.parent == nil {
		return
	}
	if f.made {
		_ = unix.Unlinkat(f.parent.Fd(), f.base, unix.AT_REMOVEDIR)
	}
	f.parent.Close()
	f.parent = nil
}
