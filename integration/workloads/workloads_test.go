// Package workloads runs ordinary programs inside the sandbox and outside, as root and as an ordinary
// user, and holds what they print, how they end and what they leave in the workspace against each other.
// They get no flag but the workspace's mode and, where a build needs it, more time or memory.
package workloads

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

var suite *harness.Suite

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, func(s *harness.Suite) { suite = s }))
}

// workload is a folder of testdata and the commands that are run in a copy of it.
type workload struct {
	name  string
	dir   string   // of testdata; default: name
	tools []string // that have to be there
	flags []string // beyond the workspace
	steps [][]string
	ends  int // exit status of the last step; that of the others is 0
	// leaves are what the steps must have made, so that two runs that did nothing are not equal.
	leaves []string
	// random are names that differ from run to run anyway.
	random *regexp.Regexp
}

// A build starts with empty caches, since HOME is empty inside, and shares two cores with other tests.
var patient = []string{"--timeout", "10m"}

var all = []workload{
	{name: "python", tools: []string{"python3"}, steps: [][]string{{"python3", "work.py"}}, leaves: []string{"work.db", "moved/two"}},
	{
		name: "venv", tools: []string{"python3"}, flags: patient,
		steps: [][]string{
			{"python3", "-m", "venv", ".venv"},
			{"python3", "make_wheel.py"},
			{".venv/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", "./demo-1.0-py3-none-any.whl"},
			{".venv/bin/demo"},
			{".venv/bin/python", "-c", "import demo, sys; demo.main(); print(sys.prefix, sys.prefix != sys.base_prefix)"},
			{"bash", "-c", ". .venv/bin/activate && command -v python"},
		},
		leaves: []string{".venv/bin/demo", ".venv/pyvenv.cfg"},
	},
	{name: "node", tools: []string{"node"}, steps: [][]string{{"node", "main.js"}}, leaves: []string{"a/b/two"}},
	{
		name: "npm", dir: "node", tools: []string{"node", "npm"}, flags: patient,
		steps: [][]string{
			{"npm", "pack", "--silent", "./dep"},
			{"npm", "install", "--silent", "--offline", "--no-audit", "--no-fund"},
			{"npm", "run", "--silent", "build"},
			{"npm", "test", "--silent"},
			{"npm", "ls"},
		},
		leaves: []string{"node_modules/dep/index.js", "package-lock.json"},
	},
	{
		name: "go", tools: []string{"go"}, flags: patient,
		steps:  [][]string{{"go", "build", "-o", "app", "."}, {"./app"}, {"go", "test", "-count=1", "./..."}},
		leaves: []string{"app"},
	},
	{
		name: "make", dir: "c", tools: []string{"make", "gcc"}, flags: patient,
		steps:  [][]string{{"make", "-j2"}, {"make", "--silent", "test"}, {"gcc", "-static", "-O1", "-o", "static", "main.c", "work.c", "-pthread"}, {"./static"}},
		leaves: []string{"app", "libwork.so", "static"},
	},
	{
		name: "cargo", dir: "rust", tools: []string{"cargo"}, flags: patient,
		steps: [][]string{
			{"cargo", "build", "--offline", "--quiet"},
			{"target/debug/workload"},
			{"cargo", "test", "--offline", "--quiet"},
		},
		leaves: []string{"target/debug/workload"},
		random: regexp.MustCompile(`^target/debug/incremental/|^target/debug/\.fingerprint/.*/invoked\.timestamp$`),
	},
	{
		name: "java", tools: []string{"javac", "java"}, flags: patient,
		steps:  [][]string{{"javac", "-d", "out", "Main.java"}, {"java", "-cp", "out", "Main"}},
		leaves: []string{"out/Main.class"},
	},
	{
		name: "git", tools: []string{"git", "bash"}, flags: []string{"--allow-path", "."}, steps: [][]string{{"bash", "work.sh"}},
		leaves: []string{"clone/renamed", "bare.git/HEAD", "shallow/.git/shallow"},
		random: regexp.MustCompile(`/objects/pack/(tmp_|multi-pack)|/index$`),
	},
	{name: "bash", tools: []string{"bash"}, steps: [][]string{{"bash", "work.sh"}}, ends: 9, leaves: []string{"upper", "difference"}},
	{name: "perl", tools: []string{"perl"}, steps: [][]string{{"perl", "work.pl"}}, ends: 4},
}

func TestWorkloads(t *testing.T) {
	for _, w := range all {
		t.Run(w.name, func(t *testing.T) {
			suite.Each(t, func(t *testing.T, b *harness.Box) { w.compare(t, b) })
		})
	}
}

func (w workload) compare(t *testing.T, b *harness.Box) {
	e := usual(t, b, w.tools)
	if w.dir == "" {
		w.dir = w.name
	}
	outside := w.run(t, b, e, false)
	for _, name := range w.leaves {
		if !slices.ContainsFunc(outside.files, func(f string) bool { return strings.HasPrefix(f, name+" ") }) {
			t.Fatalf("outside there is no %s after\n%v", name, outside.results)
		}
	}
	inside := w.run(t, b, e, true)
	for i, step := range w.steps {
		o, in := outside.results[i], inside.results[i]
		if clean(o.Stdout) != clean(in.Stdout) {
			t.Errorf("%q differs\noutside: %v\ninside: %v", step, o, in)
		}
	}
	for _, d := range difference(outside.files, inside.files) {
		t.Errorf("the workspace differs: %s", d)
	}
}

type outcome struct {
	results []harness.Result
	files   []string
}

// run lays out the workload in the workspace and runs its steps. Both runs use the same path, so that
// paths in messages and in what is built are the same.
func (w workload) run(t *testing.T, b *harness.Box, e environment, inside bool) outcome {
	t.Helper()
	if err := os.RemoveAll(b.Work); err != nil {
		t.Fatal(err)
	}
	b.Mkdir(t, b.Work)
	layOut(t, b, filepath.Join("testdata", w.dir))
	var o outcome
	for i, step := range w.steps {
		r := harness.Run{Env: e.both, Timeout: 15 * time.Minute}
		if inside {
			r.Flags = append([]string{"--workspace-mode", "rw"}, w.flags...)
			r.Argv, r.NoGrant = step, true
		} else {
			// env finds the command on the identity's PATH and not on the test's.
			r.Bin, r.Args = "/usr/bin/env", step
			r.Env = slices.Concat(e.both, e.outside)
		}
		res := b.Run(t, r)
		want := 0
		if i == len(w.steps)-1 {
			want = w.ends
		}
		if res.Code != want {
			t.Fatalf("%q, inside %v, should end with %d: %v", step, inside, want, res)
		}
		o.results = append(o.results, res)
	}
	o.files = listing(t, b.Work, w.random)
	return o
}

func layOut(t *testing.T, b *harness.Box, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(b.Work, rel)
		if d.IsDir() {
			b.Mkdir(t, to)
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b.File(t, to, string(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listing gives "path type permissions owner" of everything below dir, in order.
func listing(t *testing.T, dir string, random *regexp.Regexp) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || random != nil && random.MatchString(rel) {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		lines = append(lines, fmt.Sprintf("%s %v %d:%d", rel, info.Mode(), st.Uid, st.Gid))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// How long something took is the only thing that may differ.
var duration = regexp.MustCompile(`\b\d+\.\d+s\b`)

func clean(out []byte) string { return duration.ReplaceAllString(string(out), "Ns") }

// difference names the lines that only one side has, at most a few.
func difference(outside, inside []string) []string {
	var d []string
	for _, side := range []struct {
		name      string
		has, lack []string
	}{{"only outside", outside, inside}, {"only inside", inside, outside}} {
		lack := map[string]bool{}
		for _, l := range side.lack {
			lack[l] = true
		}
		for _, l := range side.has {
			if !lack[l] && len(d) < 20 {
				d = append(d, side.name+": "+l)
			}
		}
	}
	return d
}
