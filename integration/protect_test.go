package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// inShell is one line for the sandbox's shell. gobox is not to end the run for it.
func inShell(b *harness.Box, line string, flags ...string) harness.Run {
	return harness.Run{Flags: append([]string{"--workspace-mode", "rw"}, flags...), Argv: []string{"/bin/sh", "-c", line}}
}

// git runs the host's git as the identity. Files of its own configuration are not the workspace's matter.
func git(t *testing.T, b *harness.Box, args ...string) harness.Result {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no git here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Run(t, harness.Run{
		Bin: path, Args: append([]string{"-C", b.Work, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...),
		Env: []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"},
	})
}

// TestE05GitObeysNothingOfTheCommands tries all by which the host's git could be made to run something, and then uses the
// repository as its owner does. The marker is made by whatever of it runs.
func TestE05GitObeysNothingOfTheCommands(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		marker := filepath.Join(b.Dir, "run", "marker")
		b.Mkdir(t, filepath.Dir(marker))
		evil := "printf '#!/bin/sh\\necho ran >> " + marker + "\\n' > F && chmod 755 F"
		var lines []string
		for _, name := range []string{".git/hooks/pre-commit", ".git/hooks/post-checkout", ".git/hooks/post-index-change", ".githooks/pre-commit", "evil.sh"} {
			lines = append(lines, strings.ReplaceAll(evil, "F", name))
		}
		lines = append(lines,
			"git config core.fsmonitor "+b.Work+"/evil.sh",
			"git config core.hooksPath "+b.Work,
			"git config filter.x.clean "+b.Work+"/evil.sh",
			"printf '[core]\\n\\tfsmonitor = "+b.Work+"/evil.sh\\n' >> .git/config",
			"printf '[core]\\n\\tfsmonitor = "+b.Work+"/evil.sh\\n' > new && mv new .git/config",
			"cp -r .git copy && printf '[core]\\n\\tfsmonitor = "+b.Work+"/evil.sh\\n' >> copy/config && mv .git old && mv copy .git",
			"echo '* filter=x diff=x' > .gitattributes",
			"rm -rf .git/hooks && mkdir .git/hooks && cp evil.sh .git/hooks/pre-commit",
			"mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
			"mkdir -p .git/info && echo '* filter=x' > .git/info/attributes",
			"printf '[core]\\n\\tfsmonitor = "+b.Work+"/evil.sh\\n' > .git/config.worktree",
			"echo ../elsewhere > .git/commondir",
		)
		use := func() {
			for _, args := range [][]string{{"status"}, {"add", "-A"}, {"commit", "-q", "-m", "second"}, {"diff", "HEAD~1"}, {"checkout", "-q", "-b", "other"}, {"status"}} {
				if res := git(t, b, args...); res.Code != 0 {
					t.Errorf("git %v: %v", args, res)
				}
			}
		}
		lay := func() {
			if err := os.RemoveAll(b.Work); err != nil {
				t.Fatal(err)
			}
			b.Mkdir(t, b.Work)
			for _, args := range [][]string{{"init", "-q"}, {"config", "core.hooksPath", ".githooks"}, {"commit", "-q", "--allow-empty", "-m", "first"}} {
				if res := git(t, b, args...); res.Code != 0 {
					t.Fatalf("git %v: %v", args, res)
				}
			}
			b.Mkdir(t, filepath.Join(b.Work, ".githooks"))
		}
		// Each for itself, whether it works or not; the file in between is what the command was there for.
		script := "(" + strings.Join(lines, ") 2>/dev/null; (") + ") 2>/dev/null; echo work > result"

		lay()
		config := harness.Watch(t, filepath.Join(b.Work, ".git/config"))
		res := b.Run(t, inShell(b, script))
		if res.Code != 74 || !strings.Contains(string(res.Stderr), ".git/commondir") {
			t.Errorf("what came to protected places is not told: %v", res)
		}
		config.Unchanged(t)
		use()
		if data, err := os.ReadFile(marker); err == nil {
			t.Errorf("git ran it: %q", data)
		}
		if _, err := os.Stat(filepath.Join(b.Work, "result")); err != nil {
			t.Errorf("the command could not do its work: %v", err)
		}

		// The control: with leave, all of it works.
		lay()
		if res := b.Run(t, inShell(b, lines[1]+"; "+lines[3], "--allow-path", ".git", "--allow-path", ".githooks")); res.Code != 0 {
			t.Errorf("with --allow-path: %v", res)
		}
		use()
		if _, err := os.Stat(marker); err != nil {
			t.Errorf("control: nothing ran: %v", err)
		}
	})
}

// TestE05RepositoryStaysUsable: what is protected is not in the way of ordinary work.
func TestE05RepositoryStaysUsable(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		if res := git(t, b, "init", "-q"); res.Code != 0 {
			t.Fatal(res)
		}
		b.File(t, filepath.Join(b.Work, "file"), "1\n")
		line := "g() { git -c user.name=t -c user.email=t@example.org \"$@\" || exit 9; }; g add file && g commit -qm one && g branch side && g checkout -q side && echo 2 > file && g commit -qam two && " +
			"g checkout -q - && g merge -q side && g tag v1 && g stash list && g rebase -q HEAD && g gc -q && g log --oneline | wc -l"
		res := b.Run(t, inShell(b, line))
		if res.Code != 0 || strings.TrimSpace(string(res.Stdout)) != "2" {
			t.Errorf("%v", res)
		}
		if res := git(t, b, "fsck"); res.Code != 0 {
			t.Errorf("afterwards: %v", res)
		}
	})
}

var startUp = []string{".bashrc", ".profile", ".zshrc", ".gitconfig", ".npmrc", ".vscode/tasks.json", ".idea/workspace.xml", ".envrc", ".mcp.json", ".gitmodules", "deep/er/.envrc", "deep/er/.vscode/tasks.json"}

// TestE06ProtectedFiles are there when the command starts: nothing it does changes them.
func TestE06ProtectedFiles(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		extra := filepath.Join(b.Dir, "granted")
		var canaries []*harness.Canary
		var tries []string
		for _, top := range []string{b.Work, extra} {
			b.Mkdir(t, filepath.Join(top, "deep"))
			for _, name := range startUp {
				c := b.Canary(t, filepath.Join(top, name))
				canaries = append(canaries, c)
				b.File(t, filepath.Join(top, "fresh"), "x")
				tries = append(tries, "open w "+c.Path, "open trunc "+c.Path, "unlink "+c.Path, "chmod "+c.Path, "truncate "+c.Path, "utimes "+c.Path, "setxattr "+c.Path,
					"rename "+top+"/fresh "+c.Path, "rename "+c.Path+" "+top+"/gone", "exchange "+top+"/fresh "+c.Path, "rename "+filepath.Dir(c.Path)+" "+top+"/moved", "link "+c.Path+" "+top+"/other")
			}
		}
		// The folder that is granted itself cannot be renamed in any case; links to it across are refused as ever.
		tries = slices.Compact(tries)
		usual := []string{"write " + b.Work + "/deep/er/ordinary x", "write " + extra + "/ordinary x", "open r " + b.Work + "/.envrc"}
		flags := []string{"--workspace-mode", "rw", "--rw", extra}
		rep := b.Inside(t, flags, append(slices.Clone(tries), usual...)...)
		for _, try := range tries {
			if o := rep.Of(t, try); o.Errno == "" {
				t.Errorf("%s: allowed", try)
			}
		}
		rep.Allowed(t, usual...)
		for _, c := range canaries {
			c.Unchanged(t)
		}

		free := "write " + b.Work + "/.vscode/tasks.json x"
		b.Inside(t, append(flags, "--allow-path", ".vscode"), free).Allowed(t, free)
		held := "open w " + b.Work + "/.envrc"
		if o := b.Inside(t, append(flags, "--allow-path", ".vscode"), held).Of(t, held); o.Errno == "" {
			t.Error("--allow-path of one path lifted another")
		}
	})
}

// TestE07ProtectedFilesThatComeLater are set aside when the command has ended, wherever they are.
func TestE07ProtectedFilesThatComeLater(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		out := b.Canary(t, filepath.Join(b.Dir, "out/.envrc"))
		known := b.Canary(t, filepath.Join(b.Work, "mine/.envrc"))
		var lines []string
		for _, name := range append(slices.Clone(startUp), ".git/hooks/pre-commit", ".git/config", "sub/.git/config", "hidden/in/.envrc", "closed/.profile") {
			lines = append(lines, "mkdir -p "+filepath.Dir(name)+" && echo evil > "+name)
		}
		lines = append(lines, "ln -s "+filepath.Dir(out.Path)+" .cargo", "ln -s mine .claude", "chmod 0 hidden/in hidden", "chmod 555 closed", "echo fine > ordinary")
		result := filepath.Join(b.Dir, "results", "result.json")
		b.Mkdir(t, filepath.Dir(result))
		res := b.Run(t, inShell(b, strings.Join(lines, " && "), "--result", result))
		if res.Code != 74 {
			t.Errorf("want 74: %v", res)
		}
		data, err := os.ReadFile(result)
		if err != nil || strings.Count(string(data), `"kind":"set_aside"`) < len(startUp) || !strings.Contains(string(data), `"exit_code":0`) {
			t.Errorf("result: %v %s", err, data)
		}
		if err := os.Chmod(filepath.Join(b.Work, "hidden"), 0o755); err != nil {
			t.Error(err)
		}
		if err := os.Chmod(filepath.Join(b.Work, "hidden/in"), 0o755); err != nil {
			t.Error(err)
		}
		for _, name := range append(slices.Clone(startUp), ".git/hooks", ".git/config", "sub/.git/config", "hidden/in/.envrc", "closed/.profile", ".cargo", ".claude") {
			if _, err := os.Lstat(filepath.Join(b.Work, name)); err == nil {
				t.Errorf("%s is where the command put it", name)
			}
		}
		for _, dir := range []string{".", "hidden/in", "closed", "deep/er"} {
			if found, _ := filepath.Glob(filepath.Join(b.Work, dir, ".*.gobox-aside-*")); len(found) == 0 {
				t.Errorf("in %s nothing is kept", dir)
			}
		}
		if data, err := os.ReadFile(filepath.Join(b.Work, "ordinary")); err != nil || string(data) != "fine\n" {
			t.Errorf("ordinary: %q %v", data, err)
		}
		out.Unchanged(t)
		known.Unchanged(t)

		// A second run finds nothing new, and a failing command keeps its status.
		if res := b.Run(t, inShell(b, "exit 0")); res.Code != 0 || strings.Contains(string(res.Stderr), "protected") {
			t.Errorf("again: %v", res)
		}
		if res := b.Run(t, inShell(b, "touch .zshenv; exit 3")); res.Code != 3 || !strings.Contains(string(res.Stderr), ".zshenv") {
			t.Errorf("a command that fails: %v", res)
		}
		if res := b.Run(t, inShell(b, "touch .zlogin; sleep 30", "--timeout", "1s")); res.Code != 124 || !strings.Contains(string(res.Stderr), ".zlogin") {
			t.Errorf("a command whose time is over: %v", res)
		}
		if res := b.Run(t, inShell(b, "touch .zprofile", "--allow-path", ".zprofile")); res.Code != 0 {
			t.Errorf("with leave: %v", res)
		}
		if _, err := os.Lstat(filepath.Join(b.Work, ".zprofile")); err != nil {
			t.Errorf("with leave: %v", err)
		}
	})
}
