package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Quarantined is what of a run could not be destroyed. It is never used again, and gc goes on trying.
type Quarantined struct {
	RunID     string    `json:"run_id"`
	CreatedAt string    `json:"created_at"`
	BootID    string    `json:"boot_id"`
	Reason    string    `json:"reason"`
	Cgroups   []string  `json:"cgroups"` // absolute paths
	Processes []Process `json:"processes"`
	// Paths are directories of gobox's own, to be removed with their content once no process is left. Names may be any bytes, which
	// JSON's texts are not.
	Paths      []string `json:"paths"`
	PathsExact [][]byte `json:"paths_base64,omitempty"`
}

// Process is a process on the host. Start tells it from a later one with the same id (proc_pid_stat(5), field 22).
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// ProcessOf describes a live process; Start is 0 when it is gone.
func ProcessOf(pid int) Process { return Process{pid, startTime(strconv.Itoa(pid))} }

// Quarantine notes what of this run could not be destroyed. It sets RunID, CreatedAt and BootID.
func (r *Run) Quarantine(q Quarantined) error {
	if r == nil || r.root.fd < 0 {
		return invalid("quarantine", "", "the run has no record")
	}
	q.RunID, q.CreatedAt, q.BootID = r.id, Timestamp(time.Now()), bootID()
	q.PathsExact = nil
	for _, path := range q.Paths {
		q.PathsExact = append(q.PathsExact, []byte(path))
	}
	d, err := r.root.sub("quarantine", true)
	if err != nil {
		return err
	}
	defer d.close()
	b, err := json.Marshal(q)
	if err != nil {
		return invalid("quarantine", r.id, err.Error())
	}
	return d.replace(r.id+".json", append(b, '\n'), r.durable)
}

const maxQuarantine = 1 << 20

// Quarantined lists what is in quarantine. What cannot be read is listed by its file name, with the problem as its
// reason: it counts as well.
func (s *Store) Quarantined() ([]Quarantined, error) {
	d, err := s.root.sub("quarantine", false)
	if isMissing(err) || s.root.fd < 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	var all []Quarantined
	for _, name := range names {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok || !ValidID(id) {
			continue
		}
		q := Quarantined{}
		b, err := d.read(name, maxQuarantine)
		if isMissing(err) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, &q)
		}
		if err != nil {
			q = Quarantined{Reason: "unreadable: " + err.Error()}
		}
		for i, path := range q.PathsExact {
			if i < len(q.Paths) {
				q.Paths[i] = string(path)
			}
		}
		q.RunID = id
		all = append(all, q)
	}
	return all, nil
}

// destroyLimit is how long killed processes may take to go.
const destroyLimit = 2 * time.Second

// Destroy kills what is left of q and removes it, as gc does by default. The error says what is still there.
func Destroy(q Quarantined) error {
	var left []error
	if now := bootID(); q.BootID == "" || now == "" || q.BootID == now { // else a restart has ended all processes
		for _, p := range q.Processes {
			left = append(left, killProcess(p))
		}
		for _, path := range q.Cgroups {
			left = append(left, removeCgroup(path))
		}
	}
	if err := errors.Join(left...); err != nil {
		return err // what a process may still use stays
	}
	for _, path := range q.Paths {
		if !ownName(path, q.RunID) {
			left = append(left, errors.New(path+" is no folder of this run"))
			continue
		}
		left = append(left, removePath(path))
	}
	return errors.Join(left...)
}

func killProcess(p Process) error {
	if p.PID <= 1 || p.Start == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	// With the descriptor open the id cannot pass on to another process unseen.
	switch startTime(strconv.Itoa(p.PID)) {
	case p.Start:
	case 0:
		// Not known, which is not the same as gone: unless it ends just now.
		if !ends(fd, 0) {
			return fmt.Errorf("read the start of process %d, to tell whether it is still the same", p.PID)
		}
		return nil
	default:
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	if !ends(fd, destroyLimit) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

// ends says whether the process of the pidfd has ended, or does within limit (pidfd_open(2)).
func ends(fd int, limit time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for until := time.Now().Add(limit); ; {
		n, err := unix.Poll(poll, max(0, int(time.Until(until).Milliseconds())))
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// removeCgroup kills the members of a cgroup and removes it.
func removeCgroup(path string) error {
	clean := filepath.Clean(path)
	if !strings.HasPrefix(clean, "/sys/fs/cgroup/") {
		return fmt.Errorf("%s is no cgroup", path)
	}
	until := time.Now().Add(destroyLimit)
	for {
		err := unix.Rmdir(clean)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EBUSY || time.Now().After(until) {
			return fmt.Errorf("remove cgroup %s: %w", clean, err)
		}
		if os.WriteFile(clean+"/cgroup.kill", []byte("1"), 0) != nil {
			killMembers(clean)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killMembers is for version 1, which has no cgroup.kill; by pidfd, and only while the process is a member. A frozen process
// would not die.
func killMembers(cgroup string) {
	_ = os.WriteFile(cgroup+"/freezer.state", []byte("THAWED"), 0)
	b, err := os.ReadFile(cgroup + "/cgroup.procs")
	if err != nil {
		return
	}
	for _, text := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if again, err := os.ReadFile(cgroup + "/cgroup.procs"); err == nil && containsField(string(again), text) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
}

func containsField(s, field string) bool {
	for _, f := range strings.Fields(s) {
		if f == field {
			return true
		}
	}
	return false
}

// removePath removes a directory that belongs to the caller, with its content.
func removePath(path string) error {
	parent, name := filepath.Split(filepath.Clean(path))
	if !filepath.IsAbs(path) || name == "" {
		return fmt.Errorf("%s is no directory of gobox", path)
	}
	fd, err := walk(parent, false)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return failure("open", parent, err)
	}
	d := dir{fd, filepath.Clean(parent)}
	defer d.close()
	return d.removeTree(name)
}
