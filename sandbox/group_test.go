package sandbox

import (
	"slices"
	"testing"
	"time"

	"gobox/namespaces"
	"gobox/policy"
	"gobox/rlimit"

	"golang.org/x/sys/unix"
)

func TestConfinementTravels(t *testing.T) {
	for bits := range 16 {
		want := confinement{group: bits&1 != 0, memory: bits&2 != 0, pids: bits&4 != 0, dir: bits&8 != 0, doors: bits}
		if got := confinementOf(want.message()); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// What the cgroup does not limit, init watches or a resource limit bounds; nothing is left to nobody.
func TestBesidesTheCgroup(t *testing.T) {
	for _, tt := range []struct {
		name          string
		c             confinement
		left          []int // resources that keep their limit
		memory, procs uint64
		cpu           time.Duration
	}{
		{"none", confinement{}, []int{unix.RLIMIT_NPROC, unix.RLIMIT_NOFILE}, 1 << 20, 7, time.Second},
		{"all", confinement{group: true, memory: true, pids: true}, []int{unix.RLIMIT_NOFILE}, 0, 0, 0},
		{"memory", confinement{group: true, memory: true}, []int{unix.RLIMIT_NPROC, unix.RLIMIT_NOFILE}, 0, 7, 0},
		{"pids", confinement{group: true, pids: true}, []int{unix.RLIMIT_NOFILE}, 1 << 20, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			given := []rlimit.Limit{
				{Resource: unix.RLIMIT_NPROC, Soft: 7}, {Resource: unix.RLIMIT_NOFILE, Soft: 9},
			}
			p := &policy.Plan{Rlimits: given, Tree: namespaces.Tree{Steps: []namespaces.Step{{Op: namespaces.OpPivot}}}}
			p.Limits.Memory, p.Limits.CPUTime = 1<<20, time.Second
			var w watch
			w.besides(tt.c, p)
			var left []int
			for _, l := range p.Rlimits {
				left = append(left, l.Resource)
			}
			if !slices.Equal(left, tt.left) || w.maxMemory != tt.memory || w.maxPids != tt.procs || w.maxCPU != tt.cpu || (w.maxRest == 0) != (tt.memory > 0) {
				t.Errorf("left %v, watched %d bytes, %d processes, %v", left, w.maxMemory, w.maxPids, w.maxCPU)
			}
		})
	}
}

// An init that failed before it could be told of the cgroup has said why, and that is what counts.
func TestGroupForAnInitThatIsGone(t *testing.T) {
	a, b := pair(t)
	if err := send(b, message{kind: msgFailed, a: 3}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(b, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	if err := (&groups{}).give(a); err != nil {
		t.Errorf("give: %v", err)
	}
	if m, _, err := receive(a, nil); err != nil || m.kind != msgFailed {
		t.Errorf("after it: %+v, %v", m, err)
	}
}
