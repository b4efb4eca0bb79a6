package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// State says where a run stands.
type State string

const (
	Running     State = "running"
	Finished    State = "finished"
	CrashedRun  State = "crashed" // gobox was killed
	Unreadable  State = "unreadable"
	maxRecord         = 32 << 20 // of request.json and result.json; an argument list of 2 MiB can grow sixfold
	maxEventLog       = 64 << 20
	// settling is how long a run directory may be without a request: its maker has yet to lock it.
	settling = time.Minute
)

// Entry is one run as the state directory has it.
type Entry struct {
	RunID   string         `json:"run_id"`
	State   State          `json:"state"`
	Started time.Time      `json:"-"`
	Request *StoredRequest `json:"request,omitempty"`
	Result  *Result        `json:"result,omitempty"` // when Finished
	Problem string         `json:"problem,omitempty"`
}

// StoredRequest is request.json as it is read.
type StoredRequest struct {
	SchemaVersion  int               `json:"schema_version"`
	RunID          string            `json:"run_id"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Version        string            `json:"version"`
	Policy         Policy            `json:"policy"`
	Argv           []string          `json:"argv"`
	ArgvBase64     []string          `json:"argv_base64,omitempty"`
	Labels         map[string]string `json:"labels"`
	Workspace      string            `json:"workspace"`
	WorkspaceMode  string            `json:"workspace_mode"`
	StartedAt      string            `json:"started_at"`
	PID            int               `json:"pid"`
	PIDStart       uint64            `json:"pid_start,omitempty"`
	BootID         string            `json:"boot_id,omitempty"`
}

// Store reads the records of a state directory.
type Store struct {
	root dir
	runs dir
}

// OpenStore opens the state directory for reading; one that is not there is empty. The caller must call
// [Store.Close].
func OpenStore(path string) (*Store, error) {
	s := &Store{root: dir{fd: -1, path: path}, runs: dir{fd: -1, path: path + "/runs"}}
	root, err := openState(path, false)
	if isMissing(err) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.root = root
	if s.runs, err = root.sub("runs", false); err != nil && !isMissing(err) {
		s.Close()
		return nil, err
	} else if err != nil {
		s.runs = dir{fd: -1, path: path + "/runs"}
	}
	return s, nil
}

func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) }

// Close closes the state directory.
func (s *Store) Close() {
	s.runs.close()
	s.root.close()
	s.runs.fd, s.root.fd = -1, -1
}

// Path is the state directory's.
func (s *Store) Path() string { return s.root.path }

// Query selects runs. The zero value selects all.
type Query struct {
	Since time.Time // started at or after it
	Limit int       // the newest so many, 0 for all
}

// found is a run directory that was seen and not read.
type found struct {
	id      string
	started time.Time
}

// names lists the run directories, newest first. What is none is given as a problem.
func (s *Store) names(q Query) (runs []found, problems []Entry, err error) {
	names, err := s.runs.names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, removing) {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstatat(s.runs.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // it was removed just now
		}
		if !ValidID(name) || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			problems = append(problems, Entry{RunID: name, State: Unreadable, Problem: "not a run directory"})
			continue
		}
		started, ok := idStart(name)
		if !ok {
			started = time.Unix(st.Mtim.Unix())
		}
		if started.Before(q.Since) {
			continue
		}
		runs = append(runs, found{name, started})
	}
	slices.SortFunc(runs, func(a, b found) int {
		if c := b.started.Compare(a.started); c != 0 {
			return c
		}
		return strings.Compare(b.id, a.id)
	})
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[:q.Limit]
	}
	return runs, problems, nil
}

// names lists a directory; one that is not there is empty.
func (d dir) names() ([]string, error) {
	if d.fd < 0 {
		return nil, nil
	}
	fd, err := unix.Openat(d.fd, ".", dirFlags, 0)
	if err != nil {
		return nil, failure("list", d.path, err)
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, failure("list", d.path, err)
	}
	return names, nil
}

// Walk calls visit for each run, newest first, until it returns false; an entry that is no run comes last. One that
// cannot be read has State Unreadable and is no error.
func (s *Store) Walk(q Query, visit func(Entry) bool) error {
	runs, problems, err := s.names(q)
	if err != nil {
		return err
	}
	for _, f := range runs {
		e, err := s.load(f)
		if isMissing(err) {
			continue
		}
		if !visit(e) {
			return nil
		}
	}
	for _, e := range problems {
		if !visit(e) {
			return nil
		}
	}
	return nil
}

// Load reads one run. The error is that of a run that is not there.
func (s *Store) Load(id string) (Entry, error) {
	if !ValidID(id) {
		return Entry{}, invalid("read run", id, "no run id")
	}
	started, ok := idStart(id)
	if !ok {
		var st unix.Stat_t
		if err := unix.Fstatat(s.runs.fd, id, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			started = time.Unix(st.Mtim.Unix())
		}
	}
	return s.load(found{id, started})
}

func (s *Store) load(f found) (Entry, error) {
	e := Entry{RunID: f.id, Started: f.started}
	broken := func(err error) (Entry, error) {
		e.State, e.Problem = Unreadable, err.Error()
		return e, nil
	}
	d, err := s.runs.sub(f.id, false)
	if isMissing(err) {
		return e, err
	}
	if err != nil {
		return broken(err)
	}
	defer d.close()
	// The writer's order is lock, request, result, lock gone. Read the same way round, a request without lock and result
	// is that of a dead writer.
	problem := ""
	request, err := d.read(requestName, maxRecord)
	missing := isMissing(err)
	if err == nil {
		e.Request, err = decodeRequest(request)
	}
	if err != nil {
		problem = "no readable request: " + err.Error()
	}
	locked, err := d.locked()
	if err != nil {
		return broken(err)
	}
	result, err := d.read(resultName, maxRecord)
	switch {
	case err == nil:
		if e.Result, err = DecodeResult(result); err == nil && e.Result.RunID != f.id {
			err = invalid("read", d.path+"/"+resultName, "it is of another run")
		}
		if err != nil {
			return broken(wrap("read", d.path+"/"+resultName, err))
		}
		e.State = Finished
	case !isMissing(err):
		return broken(err)
	case locked, missing && d.young():
		e.State = Running
	default:
		e.State, e.Problem = CrashedRun, problem
	}
	if at := e.startedAt(); at != "" {
		if t, err := time.Parse(time.RFC3339, at); err == nil {
			e.Started = t
		}
	}
	return e, nil
}

func (e *Entry) startedAt() string {
	switch {
	case e.Request != nil:
		return e.Request.StartedAt
	case e.Result != nil:
		return e.Result.StartedAt
	}
	return ""
}

// young reports whether the directory is so new that its maker may have yet to lock it.
func (d dir) young() bool {
	var st unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	return err == nil && time.Since(time.Unix(st.Ctim.Unix())) < settling
}

// locked reports whether a process writes the run directory.
func (d dir) locked() (bool, error) {
	err := unix.Flock(d.fd, unix.LOCK_SH|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	if err != nil {
		return false, failure("lock", d.path, err)
	}
	_ = unix.Flock(d.fd, unix.LOCK_UN)
	return false, nil
}

// DecodeResult reads a result, of this version or of a later one with more fields.
func DecodeResult(b []byte) (*Result, error) {
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, &Error{Op: "decode result", Reason: Invalid, Err: err}
	}
	if r.SchemaVersion < 1 || r.Outcome == "" {
		return nil, invalid("decode result", "", "it has no schema version or no outcome")
	}
	r.fill()
	return &r, nil
}

// fill makes empty lists of those that are not there, as the writer does.
func (r *Result) fill() {
	for _, l := range []*[]string{&r.Argv, &r.Layers.Namespaces, &r.Layers.Cgroup.Controllers, &r.Layers.Missing, &r.Teardown.Survivors} {
		*l = append([]string{}, *l...)
	}
	r.Limits = append([]Limit{}, r.Limits...)
	r.Denials = append([]Denial{}, r.Denials...)
	r.Anomalies = append([]Anomaly{}, r.Anomalies...)
	r.Findings = append([]Finding{}, r.Findings...)
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
}

func decodeRequest(b []byte) (*StoredRequest, error) {
	var q StoredRequest
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, &Error{Op: "decode request", Reason: Invalid, Err: err}
	}
	return &q, nil
}

// DecodeEvents reads the lines of events.jsonl. Whole tells that the last line is complete; it is not when gobox was
// killed in the middle of it, and is then left out. A line that is no event is an error.
func DecodeEvents(b []byte) (events []Event, whole bool, err error) {
	for n := 1; len(b) > 0; n++ {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if !found {
			return events, false, nil
		}
		var ev Event
		if err := json.Unmarshal(line, &ev); err != nil {
			return events, true, &Error{Op: fmt.Sprintf("decode event line %d", n), Reason: Invalid, Err: err}
		}
		events = append(events, ev)
		b = rest
	}
	return events, true, nil
}

// Events reads the events of a run, see [DecodeEvents].
func (s *Store) Events(id string) ([]Event, bool, error) {
	d, err := s.run(id)
	if err != nil {
		return nil, false, err
	}
	defer d.close()
	b, err := d.read(eventsName, maxEventLog)
	if err != nil {
		return nil, false, err
	}
	return DecodeEvents(b)
}

func (s *Store) run(id string) (dir, error) {
	if !ValidID(id) {
		return dir{fd: -1}, invalid("read run", id, "no run id")
	}
	return s.runs.sub(id, false)
}

// Output copies what was captured of stdout or stderr, which name says, to w, and reports whether there is a
// capture.
func (s *Store) Output(id, name string, w io.Writer) (bool, error) {
	d, err := s.run(id)
	if err != nil {
		return false, err
	}
	defer d.close()
	return d.copyOut(name, w)
}

func (d dir) copyOut(name string, w io.Writer) (bool, error) {
	fd, size, err := d.open(name)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), d.path+"/"+name)
	defer f.Close()
	_, err = io.Copy(w, io.LimitReader(f, size))
	return true, err
}

// Find gives the run id that text stands for: an id, the beginning of exactly one, or last.
func (s *Store) Find(text string) (string, error) {
	const op = "find run"
	runs, _, err := s.names(Query{})
	if err != nil {
		return "", err
	}
	var match []string
	for _, f := range runs {
		if f.id == text {
			return text, nil
		}
		if text != "" && strings.HasPrefix(f.id, text) {
			match = append(match, f.id)
		}
	}
	switch {
	case text == "last" && len(runs) > 0:
		return runs[0].id, nil
	case len(match) == 1:
		return match[0], nil
	case len(match) > 1:
		return "", invalid(op, text, fmt.Sprintf("%d runs begin like this", len(match)))
	}
	return "", &Error{Op: op, Path: text, Reason: Removed, Err: errors.New("there is no such run")}
}
