package selftest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"gobox/landlock"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
	"gobox/seccomp"
	"gobox/selftest/attempt"
)

// Options say what is tested.
type Options struct {
	// Policy is what a run would get. Its command, workspace folder, time and output are the test's own.
	Policy policy.Policy
	Host   policy.Host
	// Program is the file of this program, which must make attempts when it is started with Again and an attempt, and, with
	// Again alone, those that it reads ([Inside]).
	Program string
	Again   []string
	// Rows are the ids to try; none for all.
	Rows []string
	// Change is called on each plan before it runs, after it is settled what must hold: a test takes walls away with it.
	Change func(*policy.Plan) error
}

// timeLimit bounds each of the sandboxes, which take a second or two.
const timeLimit = time.Minute

// Inside makes the attempts that in lists, each a line with a JSON array of words, and writes a line with an
// [attempt.Outcome] for each.
func Inside(in io.Reader, out io.Writer, again []string) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var list []string
		if err := json.Unmarshal(lines.Bytes(), &list); err != nil {
			return err
		}
		if err := One(list, out, again); err != nil {
			return err
		}
	}
	return lines.Err()
}

// One makes one attempt and writes its outcome.
func One(list []string, out io.Writer, again []string) error {
	if len(list) == 0 {
		return errors.New("no attempt")
	}
	try := attempt.Lookup(list[0], again...)
	if try == nil {
		return fmt.Errorf("no such attempt: %s", list[0])
	}
	ret, detail, err := try(list[1:])
	line, err := json.Marshal(attempt.Tell(strings.Join(list, " "), ret, detail, err))
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

// Run makes the attempts. The error is a *policy.Error: of gobox itself, or of a sandbox that this host refuses.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	s, err := newScene(o.Program)
	defer func() {
		if e := s.close(); e != nil && err == nil {
			err = failure("clean up", e)
		}
	}()
	if err != nil {
		e := failure("make a folder for the test", err)
		e.Hint = "TMPDIR=DIR names another, in which programs can be run"
		return nil, e
	}
	if err := s.prepare(o); err != nil {
		return nil, err
	}
	rows := slices.Concat(s.processRows(), s.fileRows(), s.kernelRows(), s.networkRows(), s.environmentRows())
	limits := limitRows(o.Policy)
	if len(o.Rows) > 0 {
		for _, id := range o.Rows {
			if len(selected(slices.Concat(rows, limits), []string{id})) == 0 {
				return nil, &policy.Error{Step: "usage", Object: "--row " + id, Err: errors.New("there is no such row here"), Hint: "gobox selftest --json lists them; docs/selftest.md names those that only make test has"}
			}
		}
		rows, limits = selected(rows, o.Rows), selected(limits, o.Rows)
	}
	rep := &Report{Policy: o.Policy.Name, Landlock: o.Host.LandlockABI}
	stop := s.knock()
	defer stop()
	if len(rows) > 0 {
		answers, controls, err := s.answers(ctx, o, s.plan, rows)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if s.noOverlay != "" && rows[i].id == overlayRow {
				rows[i].skip = s.noOverlay
			}
		}
		rep.judge(s, rows, answers, controls)
	}
	if len(limits) > 0 {
		plan, err := policy.Resolve(s.lowered(), s.host)
		if err != nil {
			return nil, err
		}
		plan.Tree.Root.Inodes = min(plan.Tree.Root.Inodes, limitInodes)
		answers, _, err := s.answers(ctx, o, plan, limits)
		if err != nil {
			return nil, err
		}
		rep.judge(s, limits, answers, nil)
	}
	rep.sort()
	return rep, nil
}

func failure(step string, err error) *policy.Error { return &policy.Error{Step: step, Err: err} }

// selected keeps the rows with one of the ids.
func selected(rows []row, ids []string) []row {
	return slices.DeleteFunc(rows, func(r row) bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return strings.EqualFold(id, r.id) })
	})
}

// prepare fills the scene for the policy, and decides the plan.
func (s *scene) prepare(o Options) error {
	if (o.Policy.Net != "" && o.Policy.Net != policy.NetNone) || len(o.Policy.AllowNet) > 0 {
		return &policy.Error{Step: "usage", Object: "network", Err: errors.New("the rows are for runs without a network, and this policy gives one"), Hint: "leave out --net and --allow-net, or a policy's network.allow; make test tries what a network is held to"}
	}
	s.host, s.policy = o.Host, o.Policy
	// The caller's environment has canaries among its variables.
	secrets, sessions, settings := strays()
	s.host.Environ = slices.DeleteFunc(slices.Clone(s.host.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(secrets, name) || slices.Contains(sessions, name) || slices.Contains(settings, name)
	})
	for _, name := range slices.Concat(secrets, sessions, settings) {
		s.host.Environ = append(s.host.Environ, name+"="+marker)
	}
	p := &s.policy
	p.Argv = append([]string{s.exe}, o.Again...)
	p.TTY, p.Timeout, p.Output = false, timeLimit, 0
	if p.Workspace = (policy.Workspace{Mode: p.Workspace.Mode, OrReadOnly: p.Workspace.OrReadOnly}); p.Workspace.Mode != policy.ModeNone {
		p.Workspace.Path, p.Workspace.Explicit = s.work, true
	}
	p.Grants = append(slices.Clone(p.Grants),
		policy.Grant{Flag: "--rox", Source: s.exe, Exec: true},
		policy.Grant{Flag: "--ro", Source: s.given},
		policy.Grant{Flag: "--rw", Source: s.closed, Dest: closedInside, Write: true})
	var err error
	if s.profile, err = policy.Profile(*p, s.host); err != nil {
		return err
	}
	s.usual = seccomp.Default()
	if s.plan, err = policy.Resolve(*p, s.host); err != nil {
		return err
	}
	s.missing = slices.Clone(s.plan.Missing)
	if id := s.plan.Identity; id.Root {
		if err := s.belong(int(id.HostUID), int(id.HostGID)); err != nil {
			return failure("make a folder for the test", err)
		}
		// The owners are part of the plan.
		if s.plan, err = policy.Resolve(*p, s.host); err != nil {
			return err
		}
	}
	// A kernel, or a sandbox around this one, may end it for asking.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	int80, _ := exec.CommandContext(ctx, s.exe, append(slices.Clone(o.Again), "int80")...).Output()
	s.has32bit = bytes.Contains(int80, []byte(`"errno":""`))
	for _, open := range []func() error{
		s.listen,
		func() error { return s.startVictim(o.Again) },
		s.leak,
		func() error {
			return s.watch(s.work+"/input.txt", s.given+"/data.txt", s.given+"/tool", s.closed+"/data.txt", s.secret, s.exe, o.Program)
		},
	} {
		if err := open(); err != nil {
			return failure("prepare the test", err)
		}
	}
	return nil
}

// lowered is the policy with limits that can be reached without harm.
func (s *scene) lowered() policy.Policy {
	p := s.policy
	least := func(v *uint64, most uint64) {
		if *v > most {
			*v = most
		}
	}
	least(&p.Nofile, limitFiles)
	least(&p.Pids, limitProcesses)
	least(&p.Disk, limitDisk)
	return p
}

// knock asks again and again for the port on which the command listens, until stop is called.
func (s *scene) knock() (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			_, _, _ = attempt.Lookup("dial")([]string{"tcp", s.port})
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// answers makes the attempts of all rows in one sandbox, and those with a control outside as well. Both have an answer for
// each attempt by its words.
func (s *scene) answers(ctx context.Context, o Options, plan *policy.Plan, rows []row) (inside, outside map[string]attempt.Outcome, err error) {
	var list, controls [][]string
	for _, r := range rows {
		if r.skip != "" {
			continue
		}
		for _, t := range r.tries {
			list = append(list, t.do)
			if t.control {
				controls = append(controls, t.do)
			}
		}
	}
	if outside, err = s.outside(ctx, o.Again, controls); err != nil {
		return nil, nil, err
	}
	if plan.Landlock.ABI > 0 {
		rules := slices.DeleteFunc(slices.Clone(plan.Landlock.Rules), func(r landlock.Rule) bool { return r.Path == closedInside })
		changed := *plan
		changed.Landlock.Rules = rules
		plan = &changed
	}
	if o.Change != nil {
		if err := o.Change(plan); err != nil {
			return nil, nil, err
		}
	}
	inside, err = s.inside(ctx, plan, list)
	return inside, outside, err
}

func encode(list [][]string) ([]byte, error) {
	var b bytes.Buffer
	for _, l := range list {
		line, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes(), nil
}

func decode(list [][]string, text []byte) (map[string]attempt.Outcome, error) {
	lines := slices.Collect(bytes.Lines(text))
	answers := map[string]attempt.Outcome{}
	for i, words := range list {
		name := strings.Join(words, " ")
		var o attempt.Outcome
		if i >= len(lines) || json.Unmarshal(lines[i], &o) != nil || o.Attempt != name {
			return nil, fmt.Errorf("no answer to %q", name)
		}
		answers[name] = o
	}
	return answers, nil
}

// inside runs one sandbox.
func (s *scene) inside(ctx context.Context, plan *policy.Plan, list [][]string) (map[string]attempt.Outcome, error) {
	text, err := encode(list)
	if err != nil {
		return nil, failure("attempts", err)
	}
	s.input = s.dir + "/outside/attempts"
	if err := os.WriteFile(s.input, text, 0o644); err != nil {
		return nil, failure("attempts", err)
	}
	s.canaries = slices.DeleteFunc(s.canaries, func(c canary) bool { return c.path == s.input })
	if err := s.watch(s.input); err != nil {
		return nil, failure("attempts", err)
	}
	in, err := os.Open(s.input)
	if err != nil {
		return nil, failure("attempts", err)
	}
	defer in.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, failure("pipe", err)
	}
	defer read.Close()
	said := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(read, 16<<20))
		said <- text
	}()
	res, err := sandbox.Launch().Run(ctx, sandbox.Spec{
		ID: record.NewID(time.Now()), Plan: plan, Stdio: sandbox.Stdio{In: in, Out: write, Err: write},
	})
	write.Close()
	out := <-said
	if err != nil {
		return nil, err
	}
	s.noOverlay = res.NoOverlay
	answers, err := decode(list, out)
	if res.Outcome != sandbox.Exited || res.ExitCode != 0 {
		last := lastLine(out)
		return nil, failure("attempts", fmt.Errorf("the program that makes them ended early: %s %d: %s", res.Outcome, res.Status(), last))
	}
	if err != nil {
		return nil, failure("attempts", err)
	}
	return answers, nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 200)]
}

// outside makes attempts as root of fresh namespaces, with every capability there and no filter: what is refused here is
// refused by this host anyway.
func (s *scene) outside(ctx context.Context, again []string, list [][]string) (map[string]attempt.Outcome, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := encode(list)
	if err != nil {
		return nil, failure("attempts", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.exe, again...)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = []string{}, bytes.NewReader(text), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, failure("attempts outside", fmt.Errorf("%w: %s", err, lastLine(out)))
	}
	answers, err := decode(list, out)
	if err != nil {
		return nil, failure("attempts outside", err)
	}
	return answers, nil
}
