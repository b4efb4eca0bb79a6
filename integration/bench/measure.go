package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type identity struct {
	name     string
	uid, gid int
}

// section is one identity's comparison.
type section struct {
	Identity string
	Results  []result
	Absent   []string // "name: reason", for contenders that did not run
}

type result struct {
	Name        string
	Median, P90 time.Duration
}

// compare measures every contender that runs as id.
func compare(id identity, gobox string, rounds, warmup int) (section, error) {
	s := section{Identity: id.name}
	dir, err := os.MkdirTemp("/tmp", "gobox-bench-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	memory, err := os.MkdirTemp("/dev/shm", "gobox-bench-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(memory)
	b := bench{id: id, dir: dir, memory: memory, home: filepath.Join(dir, "home"), workspace: filepath.Join(dir, "workspace")}
	if err := b.prepare(gobox); err != nil {
		return s, err
	}
	var running []contender
	for _, c := range b.contenders() {
		if reason := b.probe(c); reason != "" {
			s.Absent = append(s.Absent, c.name+": "+reason)
			continue
		}
		running = append(running, c)
	}
	times := make([][]time.Duration, len(running))
	for round := range rounds + warmup {
		for _, i := range rand.Perm(len(running)) {
			d, err := b.start(running[i])
			if err != nil {
				return s, fmt.Errorf("%s: %w", running[i].name, err)
			}
			if round >= warmup {
				times[i] = append(times[i], d)
			}
		}
	}
	for i, c := range running {
		s.Results = append(s.Results, result{Name: c.name, Median: quantile(times[i], 0.5), P90: quantile(times[i], 0.9)})
	}
	return s, nil
}

type bench struct {
	id              identity
	dir             string
	home, workspace string
	memory          string // a folder on a tmpfs
	gobox           string
}

// prepare lays out what an ordinary user can reach: the checkout may be in a folder it cannot enter.
func (b *bench) prepare(gobox string) error {
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	for _, d := range []string{b.home, b.workspace, b.memory} {
		if err := os.Mkdir(d, 0o755); err != nil && d != b.memory {
			return err
		}
		if err := os.Chown(d, b.id.uid, b.id.gid); err != nil {
			return err
		}
	}
	b.gobox = filepath.Join(b.dir, "gobox")
	if err := copyFile(gobox, b.gobox, 0o755); err != nil {
		return err
	}
	for name, text := range etcFiles {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return b.makeBundle()
}

// probe runs c once and says why it cannot take part; empty when it can.
func (b *bench) probe(c contender) string {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return "not installed"
	}
	var stderr bytes.Buffer
	cmd := exec.Command(path, c.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = b.workspace, append(b.env(), c.env...), &stderr
	cmd.SysProcAttr = b.sysProcAttr()
	if err := cmd.Run(); err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return strings.ReplaceAll(fmt.Sprintf("does not run here (%v: %s)", err, said), b.dir, "DIR")
	}
	return ""
}

// start runs c and gives the time from before the fork until the process has been reaped.
func (b *bench) start(c contender) (time.Duration, error) {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := &os.ProcAttr{Dir: b.workspace, Env: append(b.env(), c.env...), Files: []*os.File{null, null, null}, Sys: b.sysProcAttr()}
	begin := time.Now()
	p, err := os.StartProcess(path, c.argv, attr)
	if err != nil {
		return 0, err
	}
	state, err := p.Wait()
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	if !state.Success() {
		return 0, fmt.Errorf("ended with %v", state)
	}
	return took, nil
}

func (b *bench) env() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + b.home, "LANG=C.UTF-8", "XDG_RUNTIME_DIR=" + b.home}
}

func (b *bench) sysProcAttr() *syscall.SysProcAttr {
	if b.id.uid == os.Geteuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.id.uid), Gid: uint32(b.id.gid)}}
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
