package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// gitIn is git in another folder than the workspace.
func gitIn(t *testing.T, b *harness.Box, dir string, args ...string) harness.Result {
	t.Helper()
	res := git(t, b, append([]string{"-C", dir}, args...)...)
	if res.Code != 0 {
		t.Fatalf("git %v: %v", args, res)
	}
	return res
}

const inGit = "g() { git -c user.name=t -c user.email=t@example.org \"$@\"; }; "

// TestGitWorktree: the repository of a linked worktree lies outside of the workspace. Without a grant git does not find it, and the way
// to grant it is told; with one it works, and what git obeys there is protected.
func TestGitWorktree(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		main := filepath.Join(b.Dir, "main")
		repository := filepath.Join(main, ".git")
		b.Mkdir(t, main)
		gitIn(t, b, main, "init", "-q", "-b", "trunk")
		b.File(t, filepath.Join(main, "file"), "old\n")
		gitIn(t, b, main, "add", "-A")
		gitIn(t, b, main, "commit", "-q", "-m", "first")
		gitIn(t, b, main, "worktree", "add", "-q", "-b", "side", b.Work)

		before := tree(t, repository)
		res := b.Run(t, harness.Run{Argv: []string{"git", "status", "--short"}})
		if res.Code != 128 || !strings.Contains(string(res.Stderr), "not a git repository") || !strings.Contains(string(res.Stderr), "--ro "+repository) || !strings.Contains(string(res.Stderr), "--rw "+repository) {
			t.Errorf("without a grant: %v", res)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--ro", repository}, Argv: []string{"/bin/sh", "-c", inGit + "echo new >>file; g status --short && g log --format=%s; g commit -qam no; exit 0"}})
		if res.Code != 0 || string(res.Stdout) != " M file\nfirst\n" || !strings.Contains(string(res.Stderr), "Read-only file system") {
			t.Errorf("with --ro: %v", res)
		}
		if after := tree(t, repository); after != before {
			t.Errorf("the repository was\n%sand is\n%s", before, after)
		}

		dir, flags := records(t, b)
		res = b.Run(t, harness.Run{Flags: append(flags, "--rw", repository), Argv: []string{"/bin/sh", "-c", inGit + "echo new >>file; g commit -qam second && g status --short && g log --format=%s"}})
		if res.Code != 0 || string(res.Stdout) != "second\nfirst\n" {
			t.Errorf("with --rw: %v", res)
		}
		// The commit is in the repository, the file is not in the worktree until it is applied.
		if got := gitIn(t, b, main, "log", "--format=%s", "side"); string(got.Stdout) != "second\nfirst\n" {
			t.Errorf("%v", got)
		}
		if got := git(t, b, "status", "--short"); string(got.Stdout) != " M file\n" {
			t.Errorf("before the apply: %v", got)
		}
		hash := between(string(changed(t, b, dir, "diff", "--json").Stdout), `"hash": "`, `"`)
		if res := changed(t, b, dir, "apply", "--hash", hash); res.Code != 0 {
			t.Errorf("%v", res)
		}
		if got := git(t, b, "status", "--short"); len(got.Stdout) != 0 {
			t.Errorf("after the apply: %v", got)
		}

		// What git would run or follow, in the repository that was granted.
		marker := filepath.Join(b.Dir, "marker")
		b.File(t, filepath.Join(repository, "hooks/post-checkout"), "#!/bin/sh\nexit 0\n")
		gitIn(t, b, main, "config", "core.hooksPath", ".git/mine")
		b.Mkdir(t, filepath.Join(repository, "mine"))
		canaries := []*harness.Canary{harness.Watch(t, filepath.Join(repository, "config")), harness.Watch(t, filepath.Join(repository, "hooks/post-checkout"))}
		evil := "printf '#!/bin/sh\\necho ran >>" + marker + "\\n'"
		var lines []string
		own := "worktrees/" + filepath.Base(b.Work)
		come := []string{own + "/config.worktree", "info/attributes", "modules/s/config", own + "/modules/s/hooks/post-checkout", "objects/info/alternates", "commondir"}
		for _, name := range append(come, "hooks/post-checkout", "hooks/pre-commit", "mine/pre-commit", own+"/commondir", own+"/gitdir", "config") {
			at := filepath.Join(repository, name)
			lines = append(lines, "mkdir -p "+filepath.Dir(at)+"; "+evil+" >>"+at+" && chmod 755 "+at)
		}
		lines = append(lines, "mv "+repository+"/hooks "+repository+"/moved", "rm "+b.Work+"/.git; echo 'gitdir: /nowhere' >"+b.Work+"/.git")
		res = b.Run(t, harness.Run{Flags: append(flags, "--rw", repository), Argv: []string{"/bin/sh", "-c", "(" + strings.Join(lines, ") 2>/dev/null; (") + ") 2>/dev/null; exit 0"}})
		if res.Code != 74 {
			t.Errorf("what came to protected places is not told: %v", res)
		}
		for _, c := range canaries {
			c.Unchanged(t)
		}
		for _, name := range append(come, "hooks/pre-commit", "mine/pre-commit") {
			if _, err := os.Lstat(filepath.Join(repository, name)); err == nil {
				t.Errorf("%s is where the command put it", name)
			}
		}
		hash = between(string(changed(t, b, dir, "diff", "--json").Stdout), `"hash": "`, `"`)
		if res := changed(t, b, dir, "apply", "--hash", hash); res.Code != 125 || !strings.Contains(string(res.Stderr), "--allow-path .git") {
			t.Errorf("another gitdir: %v", res)
		}
		for _, args := range [][]string{{"status"}, {"commit", "-q", "--allow-empty", "-m", "third"}, {"checkout", "-q", "-b", "more"}} {
			if got := git(t, b, args...); got.Code != 0 {
				t.Errorf("git %v: %v", args, got)
			}
		}
		if data, err := os.ReadFile(marker); err == nil {
			t.Errorf("git ran it: %q", data)
		}
	})
}

// TestGitSubmodule: a commit in a submodule can be applied; its .git file, and its config and hooks in the repository around it, only
// with leave.
func TestGitSubmodule(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		library := filepath.Join(b.Dir, "library")
		b.Mkdir(t, library)
		gitIn(t, b, library, "init", "-q")
		b.File(t, filepath.Join(library, "file"), "old\n")
		gitIn(t, b, library, "add", "-A")
		gitIn(t, b, library, "commit", "-q", "-m", "first")
		gitIn(t, b, b.Work, "init", "-q")
		gitIn(t, b, b.Work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", library, "sub")
		gitIn(t, b, b.Work, "commit", "-q", "-m", "with a submodule")

		dir := overlay(t, b, inGit+"cd sub && echo new >>file && g commit -qam second && cd .. && g add sub && g commit -qm updated && g submodule status")
		names := string(changed(t, b, dir, "diff", "--name-only").Stdout)
		for _, want := range []string{"sub/file", ".git/modules/sub/index", ".git/index"} {
			if !strings.Contains("\n"+names, "\n"+want+"\n") {
				t.Errorf("no %s in %s", want, names)
			}
		}
		hash := between(string(changed(t, b, dir, "diff", "--json").Stdout), `"hash": "`, `"`)
		if res := changed(t, b, dir, "apply", "--hash", hash); res.Code != 0 {
			t.Fatalf("%v", res)
		}
		if got := gitIn(t, b, filepath.Join(b.Work, "sub"), "log", "--format=%s"); string(got.Stdout) != "second\nfirst\n" {
			t.Errorf("%v", got)
		}
		if got := git(t, b, "status", "--short"); len(got.Stdout) != 0 {
			t.Errorf("%v", got)
		}

		dir = overlay(t, b, "echo 'gitdir: ../evil' >sub/.git; echo x >>.git/modules/sub/config; echo x >.git/modules/sub/hooks/post-checkout; echo x >>.gitmodules; echo fine >fine")
		hash = between(string(changed(t, b, dir, "diff", "--json").Stdout), `"hash": "`, `"`)
		res := changed(t, b, dir, "apply", "--hash", hash)
		for _, name := range []string{"sub/.git", ".git/modules/sub/config", ".git/modules/sub/hooks/post-checkout", ".gitmodules"} {
			if res.Code != 125 || !strings.Contains(string(res.Stderr), "--allow-path "+name) {
				t.Errorf("%s: %v", name, res)
			}
		}
		if _, err := os.Lstat(filepath.Join(b.Work, "fine")); err == nil {
			t.Error("a part of it was applied")
		}
	})
}
