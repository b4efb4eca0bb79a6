package toolchain

import (
	"errors"
	"strings"
	"testing"
)

const (
	pyenvShim = `#!/usr/bin/env bash\nset -e\nexport PYENV_ROOT="/home/u/.pyenv"\nexec "/home/u/.pyenv/libexec/pyenv" exec "$program" "$@"\n`
	rbenvShim = `#!/usr/bin/env bash\nexec "/home/u/.rbenv/libexec/rbenv" exec "$program" "$@"\n`
	nodeShim  = `#!/usr/bin/env bash\nexec "/home/u/.nodenv/libexec/nodenv" exec "$program" "$@"\n`
	asdfShim  = `#!/usr/bin/env bash\n# asdf-plugin: nodejs 20.11.0\n# asdf-plugin: nodejs 18.19.0\nexec asdf exec "node" "$@"\n`

	pyenv = "x /home/u/.pyenv/shims/python " + pyenvShim + `
		x /home/u/.pyenv/shims/python3 ` + pyenvShim + `
		x /home/u/.pyenv/shims/black ` + pyenvShim + `
		f /home/u/.pyenv/version 3.11.7\n
		x /home/u/.pyenv/versions/3.9.18/bin/python
		x /home/u/.pyenv/versions/3.11.4/bin/python
		l /home/u/.pyenv/versions/3.11.7/bin/python python3.11
		l /home/u/.pyenv/versions/3.11.7/bin/python3 python3.11
		x /home/u/.pyenv/versions/3.11.7/bin/python3.11
		x /home/u/.pyenv/versions/3.12-dev/bin/python
		x /home/u/.pyenv/versions/3.12.0rc1/bin/python
		x /home/u/.pyenv/versions/3.13.0t/bin/python
		x /home/u/.pyenv/versions/3.11.7/envs/web/bin/black #!/home/u/.pyenv/versions/3.11.7/envs/web/bin/python
		l /home/u/.pyenv/versions/3.11.7/envs/web/bin/python /home/u/.pyenv/versions/3.11.7/bin/python
		f /home/u/.pyenv/versions/3.11.7/envs/web/pyvenv.cfg home = /home/u/.pyenv/versions/3.11.7/bin
		l /home/u/.pyenv/versions/web /home/u/.pyenv/versions/3.11.7/envs/web
		l /home/u/.pyenv/versions/brew ../../../../data/py
		x /data/py/bin/python
		x /usr/bin/python3
		d /home/u/.ssh`
	pyenvPath = "/home/u/.pyenv/shims:/usr/bin:/bin"

	asdf = "x /home/u/.asdf/shims/node " + asdfShim + `
		x /home/u/.asdf/installs/nodejs/20.11.0/bin/node
		x /home/u/.asdf/installs/nodejs/18.19.0/bin/node
		x /home/u/.asdf/installs/golang/1.22.0/go/bin/go
		x /usr/bin/node`
	asdfPath = "/home/u/.asdf/shims:/usr/bin"

	mise = `x /home/u/.local/bin/mise
		l /home/u/.local/share/mise/shims/node /home/u/.local/bin/mise
		l /home/u/.local/share/mise/shims/python /home/u/.local/bin/mise
		x /home/u/.local/share/mise/installs/node/20.9.0/bin/node
		x /home/u/.local/share/mise/installs/node/20.11.1/bin/node
		x /home/u/.local/share/mise/installs/node/22.1.0/bin/node
		l /home/u/.local/share/mise/installs/node/22 ./22.1.0
		x /home/u/.local/share/mise/installs/python/3.12.1/bin/python
		x /usr/bin/node`
	misePath = "/home/u/.local/share/mise/shims:/usr/bin"

	rustup = `x /home/u/.cargo/bin/rustup
		l /home/u/.cargo/bin/cargo rustup
		l /home/u/.cargo/bin/rustc rustup
		l /home/u/.cargo/bin/rust-analyzer rustup
		f /home/u/.cargo/credentials.toml token
		f /home/u/.rustup/settings.toml default_host_triple = "x86_64-unknown-linux-gnu"\ndefault_toolchain = "stable-x86_64-unknown-linux-gnu"\n[overrides]\n"/home/u/o" = "nightly-x86_64-unknown-linux-gnu"\n
		x /home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/bin/cargo
		x /home/u/.rustup/toolchains/stable-x86_64-unknown-linux-gnu/bin/rustc
		x /home/u/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/bin/cargo
		x /home/u/.rustup/toolchains/1.75.0-x86_64-unknown-linux-gnu/bin/cargo
		l /home/u/.rustup/toolchains/mine /data/rust/stage1
		x /data/rust/stage1/bin/cargo
		d /data/rust/stage1/lib/rustlib`
	rustPath   = "/home/u/.cargo/bin:/usr/bin"
	toolchains = "/home/u/.rustup/toolchains/"

	volta = `x /home/u/.volta/bin/volta-shim
		l /home/u/.volta/bin/node volta-shim
		l /home/u/.volta/bin/npm volta-shim
		l /home/u/.volta/bin/yarn volta-shim
		l /home/u/.volta/bin/tsc volta-shim
		x /home/u/.volta/tools/image/node/18.1.0/bin/node
		x /home/u/.volta/tools/image/node/20.2.0/bin/node
		x /home/u/.volta/tools/image/node/20.2.0/bin/npm
		x /home/u/.volta/tools/image/npm/9.9.0/bin/npm
		x /home/u/.volta/tools/image/packages/typescript/bin/tsc #!/usr/bin/env node
		f /home/u/.volta/tools/user/bins/tsc.json {"package":"typescript"}
		f /home/u/.volta/tools/user/platform.json {"node":{"runtime":"20.2.0","npm":null},"yarn":null}`
	voltaPath = "/home/u/.volta/bin:/usr/bin"
)

// resolveCase is one row: what the host has, what is asked, and either the summary or the error.
type resolveCase struct {
	name string
	base string // lines of the tree
	more string
	cmd  string
	path string
	env  map[string]string
	want string // summary of the result
	in   string // PATH inside, when set
	kind Kind   // of the error
	says string // in the error or its hint
}

func (c resolveCase) run(t *testing.T) {
	tr := newTree(t, c.base, c.more)
	res, err := ask(tr, c.cmd, c.path, c.env)
	if c.kind != 0 {
		var e *Error
		if !errors.As(err, &e) || e.Kind != c.kind || !strings.Contains(e.Error()+"; "+e.Hint, c.says) {
			t.Fatalf("got %s, %#v, want kind %d saying %q", summary(res), err, c.kind, c.says)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(res); got != c.want {
		t.Errorf("got\n%s\nwant\n%s", got, c.want)
	}
	if c.in != "" && res.Path != c.in {
		t.Errorf("inner PATH %s, want %s", res.Path, c.in)
	}
	checkSafe(t, tr, res)
}

func runCases(t *testing.T, cases []resolveCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func TestPyenvFamily(t *testing.T) {
	const v = "/home/u/.pyenv/versions/"
	runCases(t, []resolveCase{
		{name: "global", base: pyenv, cmd: "python", path: pyenvPath, want: v + "3.11.7/bin/python\n" + v + "3.11.7", in: v + "3.11.7/bin:/usr/bin:/bin"},
		{name: "shim by path", base: pyenv, cmd: "/home/u/.pyenv/shims/python", path: "/usr/bin", want: v + "3.11.7/bin/python\n" + v + "3.11.7", in: v + "3.11.7/bin:/usr/bin"},
		{name: "link to a shim", base: pyenv, more: "l /home/u/bin/python ../.pyenv/shims/python", cmd: "python", path: "/home/u/bin:/usr/bin", want: v + "3.11.7/bin/python\n" + v + "3.11.7"},
		{name: "project", base: pyenv, more: `f /home/u/p/.python-version # c\n\n  3.9.18 x\n`, cmd: "python", path: pyenvPath, want: v + "3.9.18/bin/python\n" + v + "3.9.18"},
		{name: "nearer project", base: pyenv, more: "f /home/u/p/.python-version 3.9.18\nf /home/u/p/sub/.python-version 3.11.4", cmd: "python", path: pyenvPath, want: v + "3.11.4/bin/python\n" + v + "3.11.4"},
		{name: "environment", base: pyenv, more: "f /home/u/p/.python-version 3.9.18", env: map[string]string{"PYENV_VERSION": "3.11.4"}, cmd: "python", path: pyenvPath, want: v + "3.11.4/bin/python\n" + v + "3.11.4"},
		{name: "list", base: pyenv, env: map[string]string{"PYENV_VERSION": "3.9.18:3.11.7"}, cmd: "python3", path: pyenvPath, want: v + "3.11.7/bin/python3\n" + v + "3.11.7\n" + v + "3.9.18", in: v + "3.9.18/bin:" + v + "3.11.7/bin:/usr/bin:/bin"},
		{name: "prefix", base: pyenv, env: map[string]string{"PYENV_VERSION": "3.11"}, cmd: "python", path: pyenvPath, want: v + "3.11.7/bin/python\n" + v + "3.11.7"},
		{name: "python- prefix", base: pyenv, env: map[string]string{"PYENV_VERSION": "python-3.9"}, cmd: "python", path: pyenvPath, want: v + "3.9.18/bin/python\n" + v + "3.9.18"},
		{name: "no pre-release by prefix", base: pyenv, env: map[string]string{"PYENV_VERSION": "3.12"}, cmd: "python", path: pyenvPath, kind: NotInstalled, says: "pyenv install 3.12"},
		{name: "free-threaded", base: pyenv, env: map[string]string{"PYENV_VERSION": "3.13t"}, cmd: "python", path: pyenvPath, want: v + "3.13.0t/bin/python\n" + v + "3.13.0t"},
		{name: "missing", base: pyenv, more: "f /home/u/p/.python-version 3.12.9", cmd: "python", path: pyenvPath, kind: NotInstalled, says: "pyenv: version 3.12.9 (set by /home/u/p/.python-version) is not installed; pyenv install 3.12.9"},
		{name: "missing, unasked", base: pyenv, more: "f /home/u/p/.python-version 3.12.9", cmd: "true", path: pyenvPath, want: "/usr/bin/true", in: "/usr/bin:/bin"},
		{name: "system", base: pyenv, env: map[string]string{"PYENV_VERSION": "system"}, cmd: "python3", path: pyenvPath, want: "/usr/bin/python3", in: "/usr/bin:/bin"},
		{name: "system has none", base: pyenv, env: map[string]string{"PYENV_VERSION": "system"}, cmd: "python", path: pyenvPath, kind: NotFound},
		{name: "tool elsewhere", base: pyenv, cmd: "black", path: pyenvPath, kind: NotFound, says: "not in 3.11.7"},
		{name: "virtualenv", base: pyenv, env: map[string]string{"PYENV_VERSION": "web"}, cmd: "black", path: pyenvPath,
			want: v + "web/bin/black\n" + v + "3.11.7\n" + v + "web -> " + v + "3.11.7/envs/web"},
		{name: "virtualenv by place", base: pyenv, env: map[string]string{"PYENV_VERSION": "3.11.7/envs/web"}, cmd: "python", path: pyenvPath,
			want: v + "3.11.7/envs/web/bin/python\n" + v + "3.11.7"},
		{name: "linked installation", base: pyenv, env: map[string]string{"PYENV_VERSION": "brew"}, cmd: "python", path: pyenvPath,
			want: v + "brew/bin/python\n/data/py/bin\n" + v + "brew -> ../../../../data/py"},
		{name: "dots", base: pyenv, more: "f /home/u/p/.python-version ../../.ssh", cmd: "python", path: pyenvPath, kind: Refused, says: "no version"},
		{name: "parent", base: pyenv, more: "f /home/u/p/.python-version ..", cmd: "python", path: pyenvPath, kind: Refused},
		{name: "absolute", base: pyenv, more: "f /home/u/p/.python-version /home/u/.ssh", cmd: "python", path: pyenvPath, kind: Refused},
		{name: "dots in env", base: pyenv, more: "f /home/u/p/.python-version 3.11.7/envs/..", cmd: "python", path: pyenvPath, kind: Refused},
		{name: "nul", base: pyenv, more: "f /home/u/p/.python-version 3\x00/..", cmd: "python", path: pyenvPath, kind: Refused},
		{name: "huge file", base: pyenv, more: "f /home/u/p/.python-version " + strings.Repeat("9", 1<<17), cmd: "python", path: pyenvPath, want: v + "3.11.7/bin/python\n" + v + "3.11.7"},
		{name: "link as version file", base: pyenv, more: "l /home/u/p/.python-version .python-version", cmd: "python", path: pyenvPath, want: v + "3.11.7/bin/python\n" + v + "3.11.7"},
		{name: "rbenv", base: "x /home/u/.rbenv/shims/ruby " + rbenvShim + "\nx /home/u/.rbenv/versions/3.3.0/bin/ruby\nf /home/u/p/.ruby-version ruby-3.3.0", cmd: "ruby",
			path: "/home/u/.rbenv/shims", want: "/home/u/.rbenv/versions/3.3.0/bin/ruby\n/home/u/.rbenv/versions/3.3.0"},
		{name: "rbenv knows no prefix", base: "x /home/u/.rbenv/shims/ruby " + rbenvShim + "\nx /home/u/.rbenv/versions/3.3.0/bin/ruby\nf /home/u/p/.ruby-version 3.3", cmd: "ruby",
			path: "/home/u/.rbenv/shims", kind: NotInstalled, says: "rbenv install 3.3"},
		{name: "nodenv", base: "x /home/u/.nodenv/shims/node " + nodeShim + "\nx /home/u/.nodenv/versions/20.1.0/bin/node\nf /home/u/.nodenv/version v20.1.0", cmd: "node",
			path: "/home/u/.nodenv/shims", want: "/home/u/.nodenv/versions/20.1.0/bin/node\n/home/u/.nodenv/versions/20.1.0"},
	})
}

func TestAsdfAndMise(t *testing.T) {
	const a, m = "/home/u/.asdf/installs/", "/home/u/.local/share/mise/installs/"
	runCases(t, []resolveCase{
		{name: "asdf home", base: asdf, more: "f /home/u/.tool-versions nodejs 20.11.0", cmd: "node", path: asdfPath, want: a + "nodejs/20.11.0/bin/node\n" + a + "nodejs/20.11.0", in: a + "nodejs/20.11.0/bin:/usr/bin"},
		{name: "asdf project", base: asdf, more: `f /home/u/p/.tool-versions # tools\nnodejs 18.19.0 # old\ngolang 1.22.0`, cmd: "node", path: asdfPath,
			want: a + "nodejs/18.19.0/bin/node\n" + a + "golang/1.22.0\n" + a + "nodejs/18.19.0", in: a + "nodejs/18.19.0/bin:" + a + "golang/1.22.0/go/bin:/usr/bin"},
		{name: "asdf fallback", base: asdf, more: "f /home/u/p/.tool-versions nodejs 21.0.0 18.19.0", cmd: "node", path: asdfPath, want: a + "nodejs/18.19.0/bin/node\n" + a + "nodejs/18.19.0"},
		{name: "asdf environment", base: asdf, more: "f /home/u/p/.tool-versions nodejs 18.19.0", env: map[string]string{"ASDF_NODEJS_VERSION": "20.11.0"}, cmd: "node", path: asdfPath, want: a + "nodejs/20.11.0/bin/node\n" + a + "nodejs/20.11.0"},
		{name: "asdf system", base: asdf, more: "f /home/u/p/.tool-versions nodejs system", cmd: "node", path: asdfPath, want: "/usr/bin/node"},
		{name: "asdf missing", base: asdf, more: "f /home/u/p/.tool-versions nodejs 21.0.0", cmd: "node", path: asdfPath, kind: NotInstalled, says: "asdf install nodejs 21.0.0"},
		{name: "asdf unset", base: asdf, cmd: "node", path: asdfPath, kind: NotInstalled, says: "no version of nodejs"},
		{name: "asdf path", base: asdf, more: "f /home/u/p/.tool-versions nodejs path:/home/u/.ssh", cmd: "node", path: asdfPath, kind: Refused},
		{name: "asdf dots", base: asdf, more: "f /home/u/p/.tool-versions nodejs ../../../.ssh", cmd: "node", path: asdfPath, kind: Refused},
		{name: "mise global", base: mise, more: `f /home/u/.config/mise/config.toml [tools]\nnode = "22"`, cmd: "node", path: misePath, want: m + "node/22/bin/node\n" + m + "node/22.1.0\n" + m + "node/22 -> ./22.1.0"},
		{name: "mise prefix", base: mise, more: `f /home/u/p/mise.toml [env]\nA = """\n[tools]\nnode="22"\n"""\n[tools]\nnode = "20" # newest\n`, cmd: "node", path: misePath, want: m + "node/20.11.1/bin/node\n" + m + "node/20.11.1"},
		{name: "mise two files", base: mise, more: "f /home/u/p/.tool-versions nodejs 20.9.0\nf /home/u/.config/mise/config.toml [tools]\\nnode='22'\\npython=['3.12']", cmd: "node", path: misePath,
			want: m + "node/20.9.0/bin/node\n" + m + "node/20.9.0\n" + m + "python/3.12.1", in: m + "node/20.9.0/bin:" + m + "python/3.12.1/bin:/usr/bin"},
		{name: "mise environment", base: mise, more: `f /home/u/p/mise.toml [tools]\nnode = "22"`, env: map[string]string{"MISE_NODE_VERSION": "20.9.0"}, cmd: "node", path: misePath, want: m + "node/20.9.0/bin/node\n" + m + "node/20.9.0"},
		{name: "mise table", base: mise, more: `f /home/u/p/mise.toml [tools.node]\nversion = "20.9.0"`, cmd: "node", path: misePath, want: m + "node/20.9.0/bin/node\n" + m + "node/20.9.0"},
		{name: "mise inline table", base: mise, more: `f /home/u/p/mise.toml [tools]\nnode = { postinstall = "x", version = "20.9.0" }`, cmd: "node", path: misePath, want: m + "node/20.9.0/bin/node\n" + m + "node/20.9.0"},
		{name: "mise latest", base: mise, more: `f /home/u/p/mise.toml [tools]\nnode = "latest"`, cmd: "node", path: misePath, want: m + "node/22.1.0/bin/node\n" + m + "node/22.1.0"},
		{name: "mise missing", base: mise, more: `f /home/u/p/mise.toml [tools]\nnode = "21"`, cmd: "node", path: misePath, kind: NotInstalled, says: "mise install node@21"},
		{name: "mise not understood", base: mise, more: `f /home/u/p/mise.toml [tools]\nnode = 20`, cmd: "node", path: misePath, kind: Refused, says: "not understood"},
		{name: "mise path", base: mise, more: `f /home/u/p/mise.toml [tools]\nnode = "path:/home/u/.ssh"`, cmd: "node", path: misePath, kind: Refused},
		{name: "mise dots", base: mise, more: `f /home/u/p/mise.toml [tools]\n"../.." = ".."`, cmd: "node", path: misePath, kind: Refused},
		{name: "mise passes", base: mise, cmd: "node", path: misePath, want: "/usr/bin/node"},
	})
}

func TestRustup(t *testing.T) {
	stable := toolchains + "stable-x86_64-unknown-linux-gnu"
	nightly := toolchains + "nightly-x86_64-unknown-linux-gnu"
	runCases(t, []resolveCase{
		{name: "default", base: rustup, cmd: "cargo", path: rustPath, want: stable + "/bin/cargo\n" + stable, in: stable + "/bin:/usr/bin"},
		{name: "environment", base: rustup, env: map[string]string{"RUSTUP_TOOLCHAIN": "nightly"}, cmd: "cargo", path: rustPath, want: nightly + "/bin/cargo\n" + nightly},
		{name: "file", base: rustup, more: `f /home/u/p/rust-toolchain.toml [toolchain]\nchannel = "1.75.0"\ncomponents = [ "x" ]`, cmd: "cargo", path: rustPath, want: toolchains + "1.75.0-x86_64-unknown-linux-gnu/bin/cargo\n" + toolchains + "1.75.0-x86_64-unknown-linux-gnu"},
		{name: "plain file", base: rustup, more: `f /home/u/p/rust-toolchain nightly\n`, cmd: "cargo", path: rustPath, want: nightly + "/bin/cargo\n" + nightly},
		{name: "override", base: strings.ReplaceAll(rustup, "/home/u/o", "/home/u/p"), cmd: "cargo", path: rustPath, want: nightly + "/bin/cargo\n" + nightly},
		{name: "linked", base: rustup, env: map[string]string{"RUSTUP_TOOLCHAIN": "mine"}, cmd: "cargo", path: rustPath, want: toolchains + "mine/bin/cargo\n/data/rust/stage1/bin\n/data/rust/stage1/lib\n" + toolchains + "mine -> /data/rust/stage1"},
		{name: "path in environment", base: rustup, env: map[string]string{"RUSTUP_TOOLCHAIN": "/data/rust/stage1"}, cmd: "cargo", path: rustPath, want: "/data/rust/stage1/bin/cargo\n/data/rust/stage1/bin\n/data/rust/stage1/lib"},
		{name: "path in file", base: rustup, more: `f /home/u/p/rust-toolchain.toml [toolchain]\npath = "/home/u/.ssh"`, cmd: "cargo", path: rustPath, kind: Refused, says: "by path"},
		{name: "missing", base: rustup, more: `f /home/u/p/rust-toolchain 1.80.0`, cmd: "cargo", path: rustPath, kind: NotInstalled, says: "rustup toolchain install 1.80.0"},
		{name: "component missing", base: rustup, cmd: "rust-analyzer", path: rustPath, kind: NotFound, says: "rustup component add rust-analyzer"},
		{name: "dots", base: rustup, more: `f /home/u/p/rust-toolchain ../../.ssh`, cmd: "cargo", path: rustPath, kind: Refused},
		{name: "no default", base: strings.ReplaceAll(rustup, "default_toolchain", "other"), cmd: "cargo", path: rustPath, kind: NotInstalled, says: "rustup default stable"},
		{name: "distribution's rustup", base: rustup, more: "x /usr/bin/rustup\nl /usr/bin/cargo rustup", cmd: "cargo", path: "/usr/bin", want: stable + "/bin/cargo\n" + stable, in: stable + "/bin:/usr/bin"},
	})
}

func TestNode(t *testing.T) {
	const i = "/home/u/.volta/tools/image/"
	const nvm = `x /home/u/.nvm/versions/node/v20.1.0/bin/node
		l /home/u/.nvm/versions/node/v20.1.0/bin/npm ../lib/node_modules/npm/bin/npm-cli.js
		x /home/u/.nvm/versions/node/v20.1.0/lib/node_modules/npm/bin/npm-cli.js #!/usr/bin/env node\n`
	const fnm = `x /home/u/.local/share/fnm/node-versions/v20.1.0/installation/bin/node
		l /run/user/1000/fnm_multishells/12_34 /home/u/.local/share/fnm/node-versions/v20.1.0/installation`
	runCases(t, []resolveCase{
		{name: "volta default", base: volta, cmd: "node", path: voltaPath, want: i + "node/20.2.0/bin/node\n" + i + "node/20.2.0", in: i + "node/20.2.0/bin:/usr/bin"},
		{name: "volta project", base: volta, more: `f /home/u/p/package.json {"volta":{"node":"18.1.0","npm":"9.9.0"}}`, cmd: "npm", path: voltaPath, want: i + "npm/9.9.0/bin/npm\n" + i + "node/18.1.0\n" + i + "npm/9.9.0", in: i + "npm/9.9.0/bin:" + i + "node/18.1.0/bin:/usr/bin"},
		{name: "volta extends", base: volta, more: `f /home/u/p/package.json {"volta":{"extends":"./base/package.json"}}` + "\n" + `f /home/u/p/base/package.json {"volta":{"node":"18.1.0","extends":"../package.json"}}`, cmd: "node", path: voltaPath, want: i + "node/18.1.0/bin/node\n" + i + "node/18.1.0"},
		{name: "volta without pin", base: volta, more: `f /home/u/p/package.json {"name":"x"}`, cmd: "node", path: voltaPath, want: i + "node/20.2.0/bin/node\n" + i + "node/20.2.0"},
		{name: "volta missing", base: volta, more: `f /home/u/p/package.json {"volta":{"node":"19.0.0"}}`, cmd: "node", path: voltaPath, kind: NotInstalled, says: "volta fetch node@19.0.0"},
		{name: "volta dots", base: volta, more: `f /home/u/p/package.json {"volta":{"node":"../../../../.ssh"}}`, cmd: "node", path: voltaPath, kind: Refused},
		{name: "volta bad json", base: volta, more: `f /home/u/p/package.json {"volta":`, cmd: "node", path: voltaPath, want: i + "node/20.2.0/bin/node\n" + i + "node/20.2.0"},
		{name: "volta package", base: volta, cmd: "tsc", path: voltaPath, want: i + "packages/typescript/bin/tsc\n" + i + "node/20.2.0\n" + i + "packages/typescript"},
		{name: "volta no yarn", base: volta, cmd: "yarn", path: voltaPath, kind: NotInstalled, says: "volta install yarn"},
		{name: "nvm", base: nvm, cmd: "npm", path: "/home/u/.nvm/versions/node/v20.1.0/bin:/usr/bin", want: "/home/u/.nvm/versions/node/v20.1.0/bin/npm\n/home/u/.nvm/versions/node/v20.1.0"},
		{name: "nvm behind /usr/local", base: nvm, more: "l /usr/local/bin/node /home/u/.nvm/versions/node/v20.1.0/bin/node", cmd: "node", path: "/usr/local/bin", want: "/usr/local/bin/node\n/home/u/.nvm/versions/node/v20.1.0"},
		{name: "fnm", base: fnm, cmd: "node", path: "/run/user/1000/fnm_multishells/12_34/bin:/usr/bin", want: "/home/u/.local/share/fnm/node-versions/v20.1.0/installation/bin/node\n/home/u/.local/share/fnm/node-versions/v20.1.0",
			in: "/home/u/.local/share/fnm/node-versions/v20.1.0/installation/bin:/usr/bin"},
		{name: "npm prefix", base: `l /home/u/.npm-global/bin/eslint ../lib/node_modules/eslint/bin/eslint.js
			x /home/u/.npm-global/lib/node_modules/eslint/bin/eslint.js #!/usr/bin/env node
			x /usr/bin/node`, cmd: "eslint", path: "/home/u/.npm-global/bin:/usr/bin", want: "/home/u/.npm-global/bin/eslint\n/home/u/.npm-global/lib/node_modules\n/home/u/.npm-global/bin/eslint -> ../lib/node_modules/eslint/bin/eslint.js", in: "/usr/bin"},
	})
}
