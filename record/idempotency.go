package record

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Call is what makes two requests with the same idempotency key the same request.
type Call struct {
	PolicySHA256  string // of the effective policy, flags included
	Argv          []string
	Env           []string // NAME=VALUE as the command gets it; the order does not matter
	Workspace     string   // path on the host
	WorkspaceMode string
	Stdin         string // of [DigestStdin]
	Output        string // what its output was to be and looked through for; empty for nothing
}

// SHA256 is over every field with its length, so that no two calls give the same text.
func (c Call) SHA256() string {
	h := sha256.New()
	list := func(l []string) {
		count(h, len(l))
		for _, s := range l {
			count(h, len(s))
			io.WriteString(h, s) //nolint:errcheck // a hash takes everything
		}
	}
	env := slices.Clone(c.Env)
	slices.Sort(env)
	list([]string{"gobox call 1", c.PolicySHA256, c.Workspace, c.WorkspaceMode, c.Stdin})
	list(c.Argv)
	list(env)
	if c.Output != "" {
		list([]string{c.Output})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func count(h hash.Hash, n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

// DigestStdin describes what a command would read from f: "none" for /dev/null, the SHA-256 of the rest of a regular
// file, whose offset stays. Of a pipe or terminal nobody knows; that is an *Error with Reason Invalid.
func DigestStdin(f *os.File) (string, error) {
	const op = "identify stdin"
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", failure(op, "", err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3):
		return "none", nil
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", invalid(op, "", "it is neither a file nor /dev/null, so that nobody knows what will come")
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", failure(op, "", err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, at, max(st.Size-at, 0))); err != nil {
		return "", failure(op, "", err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// claimed is the content of an entry below idempotency/.
type claimed struct {
	SchemaVersion int    `json:"schema_version"`
	Request       string `json:"request_sha256"`
	RunID         string `json:"run_id"`
	ClaimedAt     string `json:"claimed_at"`
}

// Claim is the right to run for a key, held by a lock on its entry. A process that dies loses it.
type Claim struct {
	dir  dir
	name string
	fd   int
}

// Replay is the answer of an earlier run.
type Replay struct {
	Result *Result
	JSON   []byte // result.json as it was written
	store  *Store
}

// WriteOutput copies the captured stdout and stderr, all of one before the other: their order is not on record.
func (p *Replay) WriteOutput(stdout, stderr io.Writer) error {
	for name, w := range map[string]io.Writer{stdoutName: stdout, stderrName: stderr} {
		if _, err := p.store.Output(p.Result.RunID, name, w); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the replay.
func (p *Replay) Close() { p.store.Close() }

// ClaimKey claims key for the request with the given SHA-256 (of [Call]), which would run as runID. It gives either a
// Claim, and the caller runs and then calls [Claim.Release], or the Replay of the run that was. While another process
// runs for the key, ClaimKey waits for it until ctx is over: Reason Busy. Other reasons: Conflict, the key is that of
// another request; Crashed, the run for it never had a result, and whether the command did anything is unknown.
func ClaimKey(ctx context.Context, path, key, request, runID string) (*Claim, *Replay, error) {
	const op = "use idempotency key"
	if key == "" || !ValidID(runID) {
		return nil, nil, invalid(op, key, "the key or the run id is no such")
	}
	root, err := openState(path, true)
	if err != nil {
		return nil, nil, err
	}
	defer root.close()
	keys, err := root.sub("idempotency", true)
	if err != nil {
		return nil, nil, err
	}
	c := &Claim{dir: keys, name: keyName(key), fd: -1}
	old, err := c.lock(ctx, request)
	if err != nil {
		c.Release()
		return nil, nil, c.explain(op, key, err)
	}
	if old == nil {
		if err := c.write(claimed{SchemaVersion, request, runID, Timestamp(time.Now())}); err != nil {
			c.Abandon()
			return nil, nil, err
		}
		return c, nil, nil
	}
	defer c.Release()
	replay, err := replayOf(path, old.RunID)
	if err != nil {
		return nil, nil, c.explain(op, key, err)
	}
	return nil, replay, nil
}

func keyName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (c *Claim) explain(op, key string, err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Reason == Busy || e.Reason == Conflict || e.Reason == Crashed) {
		e.Op, e.Path = op, key
		return e
	}
	return wrap(op, key, err)
}

// lock takes the entry's lock and gives what it says, nil when it is new.
func (c *Claim) lock(ctx context.Context, request string) (*claimed, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		again, err := c.try()
		if err != nil {
			return nil, err
		}
		old, torn, err := c.content()
		if err != nil {
			return nil, err
		}
		if old != nil && old.Request != request {
			return nil, &Error{Reason: Conflict, Err: errors.New("it was used for another request")}
		}
		if !again {
			if torn {
				return nil, crashed(errors.New("its entry was never completed"))
			}
			return old, nil
		}
		select {
		case <-ctx.Done():
			return nil, &Error{Reason: Busy, Err: errors.New("another gobox still runs for it")}
		case <-time.After(pause):
		}
	}
}

// try opens the entry and locks it. Again is true when another process holds the lock.
func (c *Claim) try() (again bool, err error) {
	for {
		if c.fd < 0 {
			c.fd, err = unix.Openat(c.dir.fd, c.name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
			if err != nil {
				return false, failure("open", c.dir.path+"/"+c.name, err)
			}
		}
		err = unix.Flock(c.fd, unix.LOCK_EX|unix.LOCK_NB)
		again = err == unix.EWOULDBLOCK
		if err != nil && !again {
			return false, failure("lock", c.dir.path+"/"+c.name, err)
		}
		// A file that was removed in the meantime says nothing any more.
		var ours, there unix.Stat_t
		if unix.Fstat(c.fd, &ours) == nil && unix.Fstatat(c.dir.fd, c.name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil &&
			ours.Ino == there.Ino && ours.Dev == there.Dev {
			return again, nil
		}
		unix.Close(c.fd)
		c.fd = -1
	}
}

// content reads the entry: nil when it is empty, torn when it is not whole.
func (c *Claim) content() (old *claimed, torn bool, err error) {
	b := make([]byte, 4096)
	n, err := unix.Pread(c.fd, b, 0)
	if err != nil {
		return nil, false, failure("read", c.dir.path+"/"+c.name, err)
	}
	if n == 0 {
		return nil, false, nil
	}
	old = &claimed{}
	if json.Unmarshal(b[:n], old) != nil || !ValidID(old.RunID) {
		return nil, true, nil
	}
	return old, false, nil
}

// write is synced: the point of a key is that nothing runs twice.
func (c *Claim) write(entry claimed) error {
	b, err := json.Marshal(entry)
	if err == nil {
		err = writeAll(c.fd, append(b, '\n'))
	}
	if err == nil {
		err = unix.Fsync(c.fd)
	}
	if err == nil {
		err = syncDir(c.dir.fd)
	}
	return failure("write", c.dir.path+"/"+c.name, err)
}

// Release gives up the lock; the run's result answers from now on.
func (c *Claim) Release() {
	if c == nil {
		return
	}
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
	c.dir.close()
	c.dir.fd = -1
}

// Abandon gives the key back: nothing ran.
func (c *Claim) Abandon() {
	if c == nil || c.fd < 0 {
		return
	}
	_ = unix.Unlinkat(c.dir.fd, c.name, 0)
	c.Release()
}

func crashed(err error) error { return &Error{Reason: Crashed, Err: err} }

func replayOf(path, runID string) (*Replay, error) {
	s, err := OpenStore(path)
	if err != nil {
		return nil, err
	}
	d, err := s.run(runID)
	if err == nil {
		var b []byte
		if b, err = d.read(resultName, maxRecord); err == nil {
			var r *Result
			if r, err = DecodeResult(b); err == nil && r.RunID == runID {
				d.close()
				if slices.ContainsFunc(r.Anomalies, func(a Anomaly) bool { return a.Kind == CaptureLost }) {
					s.Close()
					return nil, crashed(fmt.Errorf("the record of run %s for it lacks a part of the output", runID))
				}
				return &Replay{Result: r, JSON: b, store: s}, nil
			}
		}
		d.close()
	}
	s.Close()
	return nil, crashed(fmt.Errorf("the run %s for it has no result", runID))
}
