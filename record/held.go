package record

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// heldName is the file by which a run says what gc has to see to if its gobox is killed. It is there before anything that
// it names.
const heldName = "held.json"

// maxHeld bounds it, in bytes.
const maxHeld = 256 << 20

// Held is what outlives a killed gobox.
type Held struct {
	// Paths are folders of gobox's own that may come to be, absolute, to be removed with their content.
	Paths []string
	// Guards is the caller's word on what to look through afterwards, for [Cleanup.SetAside]. It may be nil.
	Guards json.RawMessage
}

// heldFile is Held as it is written. Names may be any bytes, which JSON's texts are not.
type heldFile struct {
	Paths  [][]byte        `json:"paths_base64,omitempty"`
	Guards json.RawMessage `json:"guards,omitempty"`
}

// Hold is the note of a run on what it holds, while it lives.
type Hold struct {
	dir dir
	fd  int
}

// Hold notes h. It gives nil when the run has no record. The caller calls Beat now and then, and Release in the end; the run's
// Close may come before that.
func (r *Run) Hold(h Held) (*Hold, error) {
	if r == nil || r.dir.fd < 0 {
		return nil, nil
	}
	file := heldFile{Guards: h.Guards}
	for _, p := range h.Paths {
		file.Paths = append(file.Paths, []byte(p))
	}
	b, err := json.Marshal(file)
	if err != nil {
		return nil, invalid("write", r.dir.path+"/"+heldName, err.Error())
	}
	if err := r.dir.replace(heldName, b, r.durable); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(r.dir.fd, ".", dirFlags, 0)
	if err != nil {
		return nil, failure("open", r.dir.path, err)
	}
	out := &Hold{dir: dir{fd: fd, path: r.dir.path}}
	if out.fd, err = unix.Openat(fd, heldName, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		out.dir.close()
		return nil, failure("open", r.dir.path+"/"+heldName, err)
	}
	return out, nil
}

// Beat notes that gobox lives, by the time of the note's last change.
func (h *Hold) Beat() {
	if h != nil {
		now := unix.NsecToTimeval(time.Now().UnixNano())
		_ = unix.Futimes(h.fd, []unix.Timeval{now, now})
	}
}

// Release takes the note back: nothing is held any more.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	_ = unix.Unlinkat(h.dir.fd, heldName, 0)
	unix.Close(h.fd)
	h.dir.close()
}

// Left is what a killed gobox left to look through.
type Left struct {
	RunID  string
	Guards json.RawMessage
	// The run was under way between these two for certain; it may have lived a few seconds longer.
	Started, Alive time.Time
}

// Aside is a file or folder that gc has renamed, so that nothing of the host obeys it.
type Aside struct {
	RunID string `json:"run_id"`
	Path  string `json:"path"`
	To    string `json:"to"`
}

// held reads what a run noted, nil for nothing.
func (d dir) held() (*Held, time.Time, error) {
	b, err := d.read(heldName, maxHeld)
	if isMissing(err) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, heldName, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, time.Time{}, failure("stat", d.path+"/"+heldName, err)
	}
	var file heldFile
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, time.Time{}, invalid("read", d.path+"/"+heldName, err.Error())
	}
	h := &Held{Guards: file.Guards}
	for _, p := range file.Paths {
		h.Paths = append(h.Paths, string(p))
	}
	return h, time.Unix(st.Mtim.Sec, st.Mtim.Nsec), nil
}

// Names by which gobox's own folders on disk begin; what else a note names is nobody's to remove.
const (
	ScratchPrefix = "gobox-scratch-"
	OutputPrefix  = ".gobox-output-"
)

// ownName tells whether the last component of path is that of a folder of the run's: the prefix, its id, and something without a
// '-', or the run a could name what is a-b's.
func ownName(path, id string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, prefix := range [...]string{ScratchPrefix, OutputPrefix} {
		if random, ok := strings.CutPrefix(base, prefix+id+"-"); ok && random != "" && !strings.Contains(random, "-") {
			return true
		}
	}
	return false
}

// held deals with what a crashed run noted with [Run.Hold].
func (c *collector) held(e Entry, d dir) error {
	h, alive, err := d.held()
	if h == nil || err != nil {
		return err
	}
	for _, path := range h.Paths {
		if !ownName(path, e.RunID) {
			err = errors.Join(err, errors.New(path+" is no folder of this run"))
			continue
		}
		err = errors.Join(err, removePath(path))
	}
	if len(h.Guards) > 0 && c.do.SetAside != nil {
		list, doubts, failed := c.do.SetAside(Left{RunID: e.RunID, Guards: h.Guards, Started: e.Started, Alive: alive})
		c.report.SetAside = append(c.report.SetAside, list...)
		for _, doubt := range doubts {
			c.problem(e.RunID, doubt)
		}
		err = errors.Join(err, failed)
	}
	if err == nil {
		_ = unix.Unlinkat(d.fd, heldName, 0)
	}
	return err
}
