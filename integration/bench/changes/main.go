// Command changes measures what it costs to take out and to show what a command wrote to the overlay of its workspace, in a small tree
// and in one of 100,000 files. It reports and never judges. Both trees take turns in every round, in an order that is shuffled
// anew, and only the ratios within one run say something.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Between these two lines of docs/performance.md stand the figures.
const (
	beginMark = "<!-- figures of changes: written by make bench -->"
	endMark   = "<!-- end of figures of changes -->"
)

// ordinaryUID is nobody, an id that owns nothing.
const ordinaryUID = 65534

// folderFiles is how many files each folder of a tree has.
const folderFiles = 100

var (
	trees  = []int{100, 100_000} // files; the first is what the other is compared with
	writes = []int{1, 1000}      // new files
)

func main() {
	rounds := flag.Int("rounds", 20, "measured rounds for each identity")
	write := flag.String("write", "", "replace the figures in this file")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: changes [flags] GOBOX")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || *rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *rounds, *write); err != nil {
		fmt.Fprintf(os.Stderr, "changes: error: %v\n", err)
		os.Exit(1)
	}
}

func run(gobox string, rounds int, write string) error {
	var text strings.Builder
	uids := []int{os.Getuid()}
	if os.Getuid() == 0 {
		uids = []int{0, ordinaryUID}
	}
	for _, uid := range uids {
		b := bench{uid: uid, times: map[key][]time.Duration{}}
		if err := b.measure(gobox, rounds); err != nil {
			return fmt.Errorf("as user %d: %w", uid, err)
		}
		text.WriteString(b.table(rounds))
	}
	fmt.Print(text.String())
	if write == "" {
		return nil
	}
	return replaceFigures(write, text.String())
}

// key is one kind of measurement.
type key struct {
	tree, write int
	command     string // run or diff
}

type bench struct {
	uid   int
	dir   string
	gobox string
	times map[key][]time.Duration
}

func (b *bench) measure(gobox string, rounds int) (err error) {
	if b.dir, err = os.MkdirTemp("/tmp", "gobox-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.gobox = filepath.Join(b.dir, "gobox")
	program, err := os.ReadFile(gobox)
	if err == nil {
		err = os.WriteFile(b.gobox, program, 0o755)
	}
	for _, dir := range []string{b.dir, b.home()} {
		if err == nil {
			err = b.folder(dir)
		}
	}
	for _, n := range trees {
		if err == nil {
			err = b.plant(n)
		}
	}
	if err != nil {
		return err
	}
	var kinds []key
	for _, n := range trees {
		for _, w := range writes {
			kinds = append(kinds, key{tree: n, write: w})
		}
	}
	for round := range rounds + 1 { // the first fills caches
		for _, i := range rand.Perm(len(kinds)) {
			for _, command := range []string{"run", "diff"} {
				k := kinds[i]
				k.command = command
				took, err := b.take(k)
				if err != nil {
					return fmt.Errorf("%+v: %w", k, err)
				}
				if round > 0 {
					b.times[k] = append(b.times[k], took)
				}
			}
		}
	}
	return nil
}

func (b *bench) home() string          { return filepath.Join(b.dir, "home") }
func (b *bench) tree(files int) string { return filepath.Join(b.dir, strconv.Itoa(files)) }

func (b *bench) folder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, b.uid, b.uid)
}

// plant makes a tree of so many files.
func (b *bench) plant(files int) error {
	if err := b.folder(b.tree(files)); err != nil {
		return err
	}
	for i := range files {
		dir := filepath.Join(b.tree(files), strconv.Itoa(i/folderFiles))
		if i%folderFiles == 0 {
			if err := b.folder(dir); err != nil {
				return err
			}
		}
		name := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(name, []byte("a line\n"), 0o644); err != nil {
			return err
		}
		if err := os.Chown(name, b.uid, b.uid); err != nil {
			return err
		}
	}
	return nil
}

// take runs gobox once and gives the time it took.
func (b *bench) take(k key) (time.Duration, error) {
	argv := []string{"run", "--timeout", "0", "--", "/bin/sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo x >0/new$i; i=$((i+1)); done", k.write)}
	if k.command == "diff" {
		argv = []string{"diff", "last", "--stat"}
	}
	cmd := exec.Command(b.gobox, argv...)
	cmd.Dir = b.tree(k.tree)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + b.home(), "LANG=C.UTF-8"}
	if b.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.uid), Gid: uint32(b.uid)}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("%w: %.400s", err, out.String())
	}
	// What is not there costs nothing.
	want := fmt.Sprintf("%d added", k.write)
	if k.command == "diff" {
		want = fmt.Sprintf("\n%d changes", k.write)
	}
	if !strings.Contains(out.String(), want) {
		return 0, fmt.Errorf("no word of %q: %.400s", want, out.String())
	}
	return took, nil
}

func (b *bench) table(rounds int) string {
	who := "an ordinary user"
	if b.uid == 0 {
		who = "root"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "As %s, %d rounds; the tree of %d files is 1.0 of its column:\n\n| new files | command | %[3]d files, median | %d files, median | p90 |\n|---:|---|---:|---:|---:|\n", who, rounds, trees[0], trees[1])
	for _, w := range writes {
		for _, command := range []string{"run", "diff"} {
			small, large := b.times[key{trees[0], w, command}], b.times[key{trees[1], w, command}]
			fmt.Fprintf(&text, "| %d | %s | %.0f ms | %.2f | %.2f |\n", w, command, float64(quantile(small, 0.5).Microseconds())/1000,
				ratio(quantile(large, 0.5), quantile(small, 0.5)), ratio(quantile(large, 0.9), quantile(small, 0.9)))
		}
	}
	text.WriteString("\n")
	return text.String()
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

func replaceFigures(path, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !ok || !ended {
		return fmt.Errorf("%s lacks the lines %q and %q", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n"+text+endMark+after), 0o644)
}
