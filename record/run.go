package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Request is what was asked for, the content of request.json together with who asked.
type Request struct {
	RunID          string // "" for one of NewID
	Version        string
	Policy         Policy
	Argv           []string
	Labels         map[string]string
	Workspace      string // its path on the host
	WorkspaceMode  string
	IdempotencyKey string

	// Durable records are on the disk already before the run starts, with space for what comes later. Every record is
	// on the disk when Finish returns.
	Durable bool
	// Capture makes the files stdout and stderr.
	Capture bool
	// Status gets the events too; it may be nil.
	Status *Status
}

// Run is the record of one run while it is being written. Its methods are not for concurrent use, but for
// those of the capture files. A nil *Run takes everything and records nothing.
type Run struct {
	id       string
	root     dir // the state directory
	runs     dir // its runs/
	dir      dir // the run's own, whose lock we hold
	request  int // request.json
	events   int
	written  int64 // bytes of events.jsonl
	count    int
	result   int        // what will be result.json
	early    chan error // see begun; nil when nothing is under way
	journal  bool       // of the file system, see journaled: asked once, so that begin and end go by the same
	stdout   *os.File
	stderr   *os.File
	clock    clock
	durable  bool
	status   *Status
	err      error // the first that broke the record
	finished bool
}

// names of the files in a run directory
const (
	requestName = "request.json"
	eventsName  = "events.jsonl"
	resultName  = "result.json"
	resultTemp  = ".result.json.new"
	stdoutName  = "stdout"
	stderrName  = "stderr"
)

const (
	// maxEvents bounds events.jsonl: a command can bring about denials without end. Events of the run itself
	// are always written.
	maxEvents = 10_000
	// reserved is set aside for result.json and as much for events.jsonl in a durable record, so that a disk which
	// the run fills does not cost its record. In bytes.
	reserved = 256 << 10
)

// Open makes and locks the directory of a run below the state directory path, and writes request.json. The error is an
// *Error; its [Reason] is Exists when the run id is taken. The caller must call [Run.Finish] or [Run.Close].
func Open(path string, q Request) (*Run, error) {
	now := time.Now()
	id := q.RunID
	if id == "" {
		id = NewID(now)
	} else if id == "last" {
		return nil, invalid("use run id", id, "it stands for the newest run, and would be taken for that")
	} else if !ValidID(id) {
		return nil, invalid("use run id", id, "a run id is 1 to 64 of A-Z a-z 0-9 . _ -, and starts with none of the last three but _")
	}
	r := &Run{id: id, root: dir{fd: -1}, runs: dir{fd: -1}, dir: dir{fd: -1}, request: -1, events: -1, result: -1,
		clock: clock{now}, durable: q.Durable, status: q.Status}
	if err := r.open(path, &q, now); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Unrecorded gives a Run that only writes to q.Status, for a caller that goes on without a record.
func Unrecorded(q Request) *Run {
	now := time.Now()
	id := q.RunID
	if id == "" {
		id = NewID(now)
	}
	return &Run{id: id, root: dir{fd: -1}, runs: dir{fd: -1}, dir: dir{fd: -1}, request: -1, events: -1, result: -1,
		clock: clock{now}, status: q.Status}
}

func (r *Run) open(path string, q *Request, now time.Time) (err error) {
	if r.root, err = openState(path, true); err != nil {
		return err
	}
	if r.runs, err = r.root.sub("runs", true); err != nil {
		return err
	}
	if err := r.begin(now.Add(2 * time.Second)); err != nil {
		return err
	}
	if err := r.fill(q, now); err != nil {
		// Nothing ran, so that nothing is worth keeping; what cannot be removed, gc will.
		for _, name := range []string{requestName, eventsName, resultTemp, stdoutName, stderrName} {
			_ = unix.Unlinkat(r.dir.fd, name, 0)
		}
		_ = unix.Unlinkat(r.runs.fd, r.id, unix.AT_REMOVEDIR)
		return err
	}
	return nil
}

// begin makes and locks the run's directory. What is not locked yet, gc takes for that of a maker who was killed, and may
// remove: then it is made again.
func (r *Run) begin(until time.Time) (err error) {
	for {
		if err := mkdir(r.runs.fd, r.id); err != nil {
			return failure("create run directory", r.runs.path+"/"+r.id, err)
		}
		if r.dir, err = r.runs.sub(r.id, false); err == nil {
			// Nobody but gc, and a reader, who only asks, can hold the lock of a directory this new.
			err = failure("lock", r.dir.path, flockWait(r.dir.fd, until))
			if err == nil {
				err = r.named()
			}
			if err == nil {
				return nil
			}
			r.dir.close()
			r.dir.fd = -1
		}
		if !isMissing(err) || time.Now().After(until) {
			_ = unix.Unlinkat(r.runs.fd, r.id, unix.AT_REMOVEDIR)
			return err
		}
	}
}

// named finds out whether the directory has its name still.
func (r *Run) named() error {
	var ours, there unix.Stat_t
	err := errors.Join(unix.Fstat(r.dir.fd, &ours), unix.Fstatat(r.runs.fd, r.id, &there, unix.AT_SYMLINK_NOFOLLOW))
	if err == nil && ours.Ino != there.Ino {
		err = unix.ENOENT
	}
	return failure("find", r.dir.path, err)
}

func (r *Run) fill(q *Request, now time.Time) (err error) {
	if r.request, err = r.dir.create(requestName, 0); err != nil {
		return err
	}
	if err := writeAll(r.request, q.appendJSON(nil, r.id, now)); err != nil {
		return failure("write", r.dir.path+"/"+requestName, err)
	}
	if r.events, err = r.dir.create(eventsName, unix.O_APPEND); err != nil {
		return err
	}
	if q.Capture {
		if r.stdout, err = r.capture(stdoutName); err != nil {
			return err
		}
		if r.stderr, err = r.capture(stderrName); err != nil {
			return err
		}
	}
	// The result's file is made now, while the sandbox starts, and not when everybody waits for the end.
	if r.result, err = r.dir.create(resultTemp, 0); err != nil {
		return err
	}
	r.journal = journaled(r.dir.fd)
	if r.durable {
		return r.reserve()
	}
	r.begun()
	return nil
}

func (r *Run) capture(name string) (*os.File, error) {
	fd, err := r.dir.create(name, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), r.dir.path+"/"+name), nil
}

// appendJSON appends the content of request.json. That the writer lives is told by its lock; in a durable record PID, start
// time and boot id also say which process it was. They cost 40 microseconds to find out.
func (q *Request) appendJSON(out []byte, id string, now time.Time) []byte {
	e := &encoder{out: out}
	argv, exact := splitArgv(q.Argv)
	e.nest('{', '}', func() {
		e.signed("schema_version", SchemaVersion)
		e.text("run_id", id)
		e.textIf("idempotency_key", q.IdempotencyKey)
		e.text("version", q.Version)
		e.object("policy", func() { q.Policy.encode(e) })
		e.texts("argv", argv)
		if len(exact) > 0 {
			e.texts("argv_base64", exact)
		}
		e.labels("labels", q.Labels)
		e.text("workspace", q.Workspace)
		e.text("workspace_mode", q.WorkspaceMode)
		e.text("started_at", Timestamp(now))
		e.signed("pid", int64(os.Getpid()))
		if q.Durable {
			e.count("pid_start", startTime("self"))
			e.text("boot_id", bootID())
		}
	})
	return append(e.out, '\n')
}

// startTime is that of a process, in clock ticks after boot (proc_pid_stat(5), field 22), 0 when unknown.
func startTime(pid string) uint64 {
	stat := string(readProc("/proc/" + pid + "/stat"))
	// The name of the command may contain spaces and brackets.
	_, rest, _ := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return 0
	}
	n, _ := strconv.ParseUint(fields[19], 10, 64)
	return n
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func bootID() string { return strings.TrimSpace(string(readProc("/proc/sys/kernel/random/boot_id"))) }

// readProc reads a short file of /proc; it may be missing in a container.
func readProc(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, 1024)
	n, err := unix.Read(fd, b)
	if err != nil || n < 0 {
		return nil
	}
	return b[:n]
}

// ID is the run id.
func (r *Run) ID() string {
	if r == nil {
		return ""
	}
	return r.id
}

// Dir is the path of the run directory, for messages, and empty when there is none.
func (r *Run) Dir() string {
	if r == nil {
		return ""
	}
	return r.dir.path
}

// DirFD is the run directory's descriptor, which stays the Run's, or -1.
func (r *Run) DirFD() int {
	if r == nil {
		return -1
	}
	return r.dir.fd
}

// StartedAt is when the record was opened.
func (r *Run) StartedAt() time.Time { return r.clock.start }

// Stdout is the capture of the command's stdout, or nil without [Request.Capture]. It stays the Run's.
func (r *Run) Stdout() *os.File {
	if r == nil {
		return nil
	}
	return r.stdout
}

// Stderr is the capture of the command's stderr, or nil without [Request.Capture]. It stays the Run's.
func (r *Run) Stderr() *os.File {
	if r == nil {
		return nil
	}
	return r.stderr
}

// Err is the first error that broke the record.
func (r *Run) Err() error {
	if r == nil {
		return nil
	}
	return r.err
}

// Event appends ev to events.jsonl and sends it to the status descriptor. It sets MS, Time and RunID. After an error the
// record is broken: Event gives the same error again and Finish gives it too. The status descriptor never makes an error.
func (r *Run) Event(ev Event) error {
	if r == nil {
		return nil
	}
	// Lines of several runs may be collected in one place: each names its run.
	ev.MS, ev.RunID = r.clock.ms(), r.id
	if r.count == 0 {
		ev.Time = Timestamp(r.clock.start)
	}
	r.count++
	if r.count > maxEvents && (ev.Kind == Denied || ev.Kind == Connected || ev.Kind == LimitHit || ev.Kind == Signalled) {
		return r.err
	}
	line := ev.appendLine(nil)
	r.status.write(line)
	if r.events < 0 || r.err != nil {
		return r.err
	}
	if err := writeAll(r.events, line); err != nil {
		// No half line stays behind.
		_ = unix.Ftruncate(r.events, r.written)
		r.err = failure("write", r.dir.path+"/"+eventsName, err)
		return r.err
	}
	r.written += int64(len(line))
	return nil
}

// Finish writes the result, which is there whole or not at all, waits until the record is on the disk, and closes it. It sets
// RunID. The error is that of the result or, with the result written, the first one that an event or the disk met.
func (r *Run) Finish(res *Result) error {
	if r == nil || r.finished {
		return nil
	}
	r.finished = true
	defer r.Close()
	res.SchemaVersion, res.RunID = SchemaVersion, r.id
	if r.dir.fd < 0 {
		return r.err
	}
	if err := r.commit(res.AppendJSON(nil)); err != nil {
		return err
	}
	if err := r.inPlace(); err != nil {
		return err
	}
	return r.err
}

func (r *Run) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// inPlace finds out whether the record is still where a reader would look for it.
func (r *Run) inPlace() error {
	var ours, there unix.Stat_t
	for _, err := range []error{
		unix.Fstat(r.dir.fd, &ours),
		unix.Stat(r.dir.path, &there),
	} {
		if err != nil {
			return failure("find", r.dir.path, err)
		}
	}
	if ours.Ino != there.Ino || ours.Dev != there.Dev {
		return &Error{Op: "find", Path: r.dir.path, Reason: Removed, Err: fmt.Errorf("another directory is in its place")}
	}
	var events unix.Stat_t
	if err := unix.Fstat(r.events, &events); err != nil || events.Nlink == 0 {
		return failure("find", r.dir.path+"/"+eventsName, unix.ENOENT)
	}
	return nil
}

// Close gives up the lock. Without a result the run then counts as crashed.
func (r *Run) Close() {
	if r == nil {
		return
	}
	_ = r.settled()
	for _, f := range []*os.File{r.stdout, r.stderr} {
		if f != nil {
			f.Close()
		}
	}
	for _, fd := range []*int{&r.request, &r.events, &r.result, &r.dir.fd, &r.runs.fd, &r.root.fd} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	r.stdout, r.stderr = nil, nil
	r.finished = true
}
