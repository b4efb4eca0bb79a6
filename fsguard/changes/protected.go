package changes

// Pattern names files that the host, or a program its user starts for another reason, would later execute or take
// orders from. Path is matched from any folder of the workspace on, without regard to case, and covers all beneath. In a component
// * stands for any characters; ** is any number of components.
type Pattern struct {
	Path string
	Leaf bool   // only what is no folder
	Why  string // what happens with it: "runs ..."
}

// Protected is the table of protected paths: a change of one of them, also its removal, needs the user's word. What
// is executed only when its user says so by name (Makefile, package.json, conftest.py, a script) is the
// workspace's content and not here; nor is what only runs elsewhere (.github/workflows).
func Protected() []Pattern {
	const (
		git     = "git runs or follows it"
		shell   = "a shell runs it when it starts"
		editor  = "an editor or debugger obeys it when it opens the folder"
		agent   = "a coding agent obeys it, and starts the servers it names"
		tool    = "a package or build tool obeys it"
		desktop = "it runs at login"
		account = "it decides who may log in, and with which keys"
	)
	return []Pattern{
		// A repository. Objects, refs, the index and logs are data and stay free.
		{".git", true, git}, // gitdir: another place
		{".git/hooks", false, git},
		{".git/config", false, git},
		{".git/config.worktree", false, git},
		{".git/commondir", false, git},
		{".git/gitdir", false, git},
		{".git/info/attributes", false, git}, // filters and diff drivers
		{".git/objects/info/alternates", false, git},
		{".git/remotes", false, git},      // where to push
		{".git/branches", false, git},     // the same
		{".git/rebase-merge", false, git}, // lines to execute
		// Submodules and worktrees, and the submodules of worktrees.
		{".git/modules/**/config", false, git},
		{".git/modules/**/config.worktree", false, git},
		{".git/modules/**/hooks", false, git},
		{".git/modules/**/commondir", false, git},
		{".git/modules/**/gitdir", false, git},
		{".git/modules/**/info/attributes", false, git},
		{".git/modules/**/objects/info/alternates", false, git},
		{".git/modules/**/rebase-merge", false, git},
		{".git/worktrees/**/config", false, git},
		{".git/worktrees/**/config.worktree", false, git},
		{".git/worktrees/**/hooks", false, git},
		{".git/worktrees/**/commondir", false, git},
		{".git/worktrees/**/gitdir", false, git},
		{".git/worktrees/**/info/attributes", false, git},
		{".git/worktrees/**/objects/info/alternates", false, git},
		{".git/worktrees/**/rebase-merge", false, git},
		{".gitmodules", false, git},
		{".gitconfig", false, git},
		{".config/git", false, git},
		{".hg/hgrc", false, "mercurial runs its hooks"},
		{".hgrc", false, "mercurial runs its hooks"},
		// Hooks that are committed, and run by what .git/hooks has already.
		{".husky", false, git},
		{".pre-commit-config.yaml", false, git},
		{"lefthook.yml", false, git},
		{".lefthook.yml", false, git},

		// Shells, and what they run on entering a folder.
		{".bashrc", false, shell},
		{".bash_profile", false, shell},
		{".bash_login", false, shell},
		{".bash_logout", false, shell},
		{".bash_aliases", false, shell},
		{".profile", false, shell},
		{".zshrc", false, shell},
		{".zshenv", false, shell},
		{".zprofile", false, shell},
		{".zlogin", false, shell},
		{".zlogout", false, shell},
		{".kshrc", false, shell},
		{".mkshrc", false, shell},
		{".cshrc", false, shell},
		{".tcshrc", false, shell},
		{".login", false, shell},
		{".logout", false, shell},
		{".inputrc", false, shell},
		{".config/fish", false, shell},
		{".config/nushell", false, shell},
		{".envrc", false, shell},
		{".autoenv.zsh", false, shell},
		{".mise.toml", false, shell},
		{"mise.toml", false, shell},
		{".tmux.conf", false, shell},
		{".screenrc", false, shell},

		// Editors, debuggers and interpreters.
		{".vscode", false, editor},
		{"*.code-workspace", false, editor},
		{".idea", false, editor},
		{".fleet", false, editor},
		{".zed", false, editor},
		{".devcontainer", false, editor},
		{".devcontainer.json", false, editor},
		{".vim", false, editor},
		{".vimrc", false, editor},
		{".gvimrc", false, editor},
		{".exrc", false, editor},
		{".nvimrc", false, editor},
		{".nvim.lua", false, editor},
		{".config/nvim", false, editor},
		{".emacs", false, editor},
		{".emacs.d", false, editor},
		{".dir-locals.el", false, editor},
		{".dir-locals-2.el", false, editor},
		{".gdbinit", false, editor},
		{".lldbinit", false, editor},
		{".Rprofile", false, editor},
		{".irbrc", false, editor},
		{".pryrc", false, editor},

		// Agents.
		{".mcp.json", false, agent},
		{"mcp.json", false, agent},
		{".claude", false, agent},
		{".codex", false, agent},
		{".cursor", false, agent},
		{".gemini", false, agent},

		// Registries to fetch from, wrappers and flags of the compiler.
		{".npmrc", false, tool},
		{".yarnrc", false, tool},
		{".yarnrc.yml", false, tool},
		{".pnpmfile.cjs", false, tool},
		{".pypirc", false, tool},
		{".config/pip", false, tool},
		{".pip", false, tool},
		{".cargo/config", false, tool},
		{".cargo/config.toml", false, tool},
		{".bazelrc", false, tool},
		{".condarc", false, tool},
		{".gemrc", false, tool},
		{".bundle/config", false, tool},
		{".docker/config.json", false, tool},
		{".local/bin", false, "it is run by its name"},

		{".gobox.yaml", false, "gobox holds the next run in the folder to it"},

		// A home folder.
		{".local/state/gobox", false, "gobox keeps its records there"},
		{".ssh", false, account},
		{".gnupg", false, account},
		{".netrc", false, account},
		{".pam_environment", false, desktop},
		{".config/autostart", false, desktop},
		{".config/systemd", false, desktop},
		{".config/environment.d", false, desktop},
		{".local/share/applications", false, desktop},
		{".local/share/systemd", false, desktop},
		{".xinitrc", false, desktop},
		{".xprofile", false, desktop},
		{".xsession", false, desktop},
		{".xsessionrc", false, desktop},
	}
}
