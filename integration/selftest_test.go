package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gobox/integration/harness"
	"gobox/selftest"
)

// selfReport is what `gobox selftest --json` prints.
type selfReport struct {
	SchemaVersion int                    `json:"schema_version"`
	Status        int                    `json:"status"`
	UID           int                    `json:"uid"`
	Layers        []selftest.LayerReport `json:"layers"`
	Rows          []selftest.Row         `json:"rows"`
}

func (r selfReport) layer(t *testing.T, name selftest.Layer) selftest.LayerReport {
	t.Helper()
	i := slices.IndexFunc(r.Layers, func(l selftest.LayerReport) bool { return l.Layer == name })
	if i < 0 {
		t.Fatalf("no layer %s in %+v", name, r.Layers)
	}
	return r.Layers[i]
}

// failed names the layers in which a boundary did not hold.
func (r selfReport) failed() (names []selftest.Layer) {
	for _, l := range r.Layers {
		if l.State == selftest.Failed {
			names = append(names, l.Layer)
		}
	}
	return names
}

// selfTest runs it with temporary files in the box, and sees that none is left.
func selfTest(t *testing.T, b *harness.Box, bin string, args ...string) (selfReport, harness.Result) {
	t.Helper()
	tmp := filepath.Join(b.Dir, "tmp")
	b.Mkdir(t, tmp)
	res := b.Run(t, harness.Run{Bin: bin, Args: append([]string{"selftest", "--json"}, args...), Env: []string{"TMPDIR=" + tmp, "MARK=" + b.Marker}, Timeout: 2 * time.Minute})
	var rep selfReport
	if err := json.Unmarshal(res.Stdout, &rep); err != nil {
		t.Fatalf("%v: %v", err, res)
	}
	if rep.Status != res.Code || rep.SchemaVersion != 1 || rep.UID != b.UID {
		t.Errorf("schema %d, status %d, uid %d: exit %d", rep.SchemaVersion, rep.Status, rep.UID, res.Code)
	}
	if left := names(t, tmp); left != "" {
		t.Errorf("left behind: %s", left)
	}
	b.NoSurvivors(t)
	return rep, res
}

func TestSelftestHolds(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, policy := range []string{"default", "agent"} {
			rep, res := selfTest(t, b, "", "--policy", policy)
			if res.Code != 0 || len(res.Stderr) > 0 {
				t.Errorf("%s: exit %d, failed %v\n%s", policy, res.Code, rep.failed(), res.Stdout)
			}
			for _, l := range selftest.Layers() {
				if got := rep.layer(t, l); got.State != selftest.Held || got.Held == 0 {
					t.Errorf("%s: %+v", policy, got)
				}
			}
		}
	})
}

// TestSelftestFails takes walls away: the test must say so, and name the layer.
func TestSelftestFails(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for wall, want := range map[string][]selftest.Layer{
			"landlock": {selftest.Landlock},
			// Without the filter what it alone refuses goes through, and the threads' status tells.
			"seccomp": {selftest.Seccomp, selftest.Privileges},
		} {
			rep, res := selfTest(t, b, b.Wall, "--without", wall)
			if res.Code != selftest.ExitBroken || !slices.Equal(rep.failed(), want) {
				t.Errorf("without %s: exit %d, failed %v, want %v\n%s", wall, res.Code, rep.failed(), want, res.Stdout)
			}
		}
		// The host's tree in place of the sandbox's, with the processes in its /proc, which init would count.
		t.Cleanup(func() {
			for _, name := range []string{"link", "name", "out", "small", "taken"} {
				_ = os.Remove("/tmp/gobox-selftest-" + name)
			}
		})
		rep, res := selfTest(t, b, b.Wall, "--without", "mounts", "--memory", "0")
		if res.Code != selftest.ExitBroken || !slices.Contains(rep.failed(), selftest.Mounts) {
			t.Errorf("without mounts: exit %d, failed %v\n%s", res.Code, rep.failed(), res.Stdout)
		}
	})
}

// TestSelftestCannotTest: what this host lacks and the caller gave up is neither held nor broken.
func TestSelftestCannotTest(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, layer := range []string{"landlock", "seccomp"} {
			rep, res := selfTest(t, b, b.Wall, "--without", "host-"+layer, "--allow-missing", layer)
			if got := rep.layer(t, selftest.Layer(layer)); res.Code != selftest.ExitUntested || got.State != selftest.Untested || got.Untested == 0 {
				t.Errorf("no %s: exit %d, %+v\n%s", layer, res.Code, got, res.Stdout)
			}
			res = b.Run(t, harness.Run{Bin: b.Wall, Args: []string{"selftest", "--without", "host-" + layer}})
			if res.Code != 125 || !strings.Contains(string(res.Stderr), "--allow-missing "+layer) {
				t.Errorf("no %s, and not allowed: %v", layer, res)
			}
		}
	})
}

// TestSelftestOpenByPolicy: what the caller asked for is no hole.
func TestSelftestOpenByPolicy(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		rep, res := selfTest(t, b, "", "--allow-syscall", "personality", "--env-pass", "SSH_AUTH_SOCK", "--row", "K14", "--row", "E02", "--row", "K01", "--row", "E01")
		if res.Code != 0 {
			t.Errorf("%v", res)
		}
		for _, row := range rep.Rows {
			want := selftest.Held
			if row.ID == "K14" || row.ID == "E02" {
				want = selftest.Open
			}
			if row.State != want {
				t.Errorf("%+v, want %s", row, want)
			}
		}
		// A layer of which nothing is left to test was not tested.
		if _, res := selfTest(t, b, "", "--allow-syscall", "personality", "--row", "K14"); res.Code != selftest.ExitUntested {
			t.Errorf("all open: %v", res)
		}
	})
}

// TestSelftestLeavesNothingWhenKilled: the folder is all that can be left.
func TestSelftestLeavesNothingWhenKilled(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tmp := filepath.Join(b.Dir, "tmp")
		b.Mkdir(t, tmp)
		bin := b.Own(t, b.Gobox)
		for _, moment := range []time.Duration{100, 300, 600, 1000} {
			cmd := b.Start(t, harness.Run{Bin: bin, Args: []string{"selftest"}, Env: []string{"TMPDIR=" + tmp, "MARK=" + b.Marker}})
			time.Sleep(moment * time.Millisecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		for _, pattern := range []string{b.Marker, tmp} {
			waitFor(t, "processes to end", func() bool { return len(harness.Processes(pattern)) == 0 })
		}
		if entries, err := os.ReadDir(tmp); err != nil || len(entries) > 4 {
			t.Errorf("%d folders, %v", len(entries), err)
		}
	})
}

// TestSelftestInAContainer: root in a container has a temporary folder without idmapped mounts, whose files are not the command's user's.
func TestSelftestInAContainer(t *testing.T) {
	tmp := mounted(t, "overlay")
	if err := os.Chmod(tmp, 0o1777); err != nil {
		t.Fatal(err)
	}
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		tmp := filepath.Join(tmp, itoa(b.UID))
		b.Mkdir(t, tmp)
		for _, args := range [][]string{{"selftest"}, {"doctor"}} {
			res := b.Run(t, harness.Run{Args: args, Env: []string{"TMPDIR=" + tmp, "MARK=" + b.Marker}, Timeout: 2 * time.Minute})
			// Something may be untested, which is 3.
			if res.Code != 0 && (res.Code != 3 || args[0] != "selftest") {
				t.Errorf("%v: status %d\n%s%s", args, res.Code, res.Stdout, res.Stderr)
			}
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
}
