package toolchain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const uvPython = `x /home/u/.local/share/uv/python/cpython-3.12.8-linux/bin/python3.12
	l /home/u/.local/share/uv/python/cpython-3.12.8-linux/bin/python3 python3.12
	l /home/u/.local/share/uv/python/cpython-3.12-linux cpython-3.12.8-linux
	l /home/u/.local/bin/python3.12 ../share/uv/python/cpython-3.12-linux/bin/python3.12
	l /home/u/.local/bin/python3 python3.12
	d /home/u/.local/share/keyrings`

func TestPython(t *testing.T) {
	const uv = "/home/u/.local/share/uv/"
	runCases(t, []resolveCase{
		{name: "venv on the system's python", base: "x /usr/bin/python3.11\nl /usr/bin/python3 python3.11\nl /home/u/v/bin/python3 /usr/bin/python3\nl /home/u/v/bin/python python3\nf /home/u/v/pyvenv.cfg home = /usr/bin",
			cmd: "python", path: "/home/u/v/bin:/usr/bin", want: "/home/u/v/bin/python\n/home/u/v/bin\n/home/u/v/pyvenv.cfg*", in: "/home/u/v/bin:/usr/bin"},
		{name: "venv in the workspace on pyenv", base: pyenv, more: `l /home/u/p/.venv/bin/python /home/u/.pyenv/versions/3.11.7/bin/python3` + "\n" + `f /home/u/p/.venv/pyvenv.cfg home = /home/u/.pyenv/versions/3.11.7/bin\nversion = 3`,
			cmd: "../.venv/bin/python", path: "/usr/bin", want: "/home/u/p/.venv/bin/python\n/home/u/.pyenv/versions/3.11.7"},
		{name: "venv in the workspace on PATH only", base: pyenv, more: `l /home/u/p/.venv/bin/python /home/u/.pyenv/versions/3.11.7/bin/python3` + "\n" + `f /home/u/p/.venv/pyvenv.cfg home = /home/u/.pyenv/versions/3.11.7/bin`,
			cmd: "bash", path: "/home/u/p/.venv/bin:/usr/bin", want: "/usr/bin/bash\n/home/u/.pyenv/versions/3.11.7", in: "/home/u/p/.venv/bin:/usr/bin"},
		{name: "script of a venv", base: `x /usr/bin/python3` + "\nl /home/u/v/bin/python /usr/bin/python3\nx /home/u/v/bin/flask #!/home/u/v/bin/python\\n\nf /home/u/v/pyvenv.cfg home = /usr/bin",
			cmd: "/home/u/v/bin/flask", path: "/usr/bin", want: "/home/u/v/bin/flask\n/home/u/v/bin\n/home/u/v/pyvenv.cfg*"},
		{name: "venv in /opt on PATH", base: uvPython, more: "l /opt/v/bin/python /home/u/.local/share/uv/python/cpython-3.12-linux/bin/python3.12\nf /opt/v/pyvenv.cfg home = /home/u/.local/share/uv/python/cpython-3.12-linux/bin",
			cmd: "bash", path: "/opt/v/bin:/usr/bin", want: "/usr/bin/bash\n" + uv + "python/cpython-3.12.8-linux\n" + uv + "python/cpython-3.12-linux -> cpython-3.12.8-linux", in: "/opt/v/bin:/usr/bin"},
		{name: "venv of uv", base: uvPython, more: "l /home/u/v/bin/python /home/u/.local/share/uv/python/cpython-3.12-linux/bin/python3.12\nf /home/u/v/pyvenv.cfg home = /home/u/.local/share/uv/python/cpython-3.12-linux/bin",
			cmd: "/home/u/v/bin/python", path: "/usr/bin", want: "/home/u/v/bin/python\n" + uv + "python/cpython-3.12.8-linux\n/home/u/v/bin\n/home/u/v/pyvenv.cfg*\n" + uv + "python/cpython-3.12-linux -> cpython-3.12.8-linux"},
		{name: "venv of a venv", base: "x /data/py/bin/python3\nf /data/py/lib/python3.12/os.py\nl /home/u/a/bin/python /data/py/bin/python3\nf /home/u/a/pyvenv.cfg home=/data/py/bin\nl /home/u/b/bin/python /home/u/a/bin/python\nf /home/u/b/pyvenv.cfg home=/home/u/a/bin",
			cmd: "/home/u/b/bin/python", path: "/usr/bin", want: "/home/u/b/bin/python\n/data/py/bin\n/data/py/lib\n/home/u/a/bin\n/home/u/a/pyvenv.cfg*\n/home/u/b/bin\n/home/u/b/pyvenv.cfg*"},
		{name: "uv's link in ~/.local/bin", base: uvPython, cmd: "python3", path: "/home/u/.local/bin:/usr/bin",
			want: "/home/u/.local/bin/python3\n" + uv + "python/cpython-3.12.8-linux\n/home/u/.local/bin/python3 -> python3.12\n/home/u/.local/bin/python3.12 -> ../share/uv/python/cpython-3.12-linux/bin/python3.12\n" + uv + "python/cpython-3.12-linux -> cpython-3.12.8-linux",
			in:   uv + "python/cpython-3.12.8-linux/bin:/usr/bin"},
		{name: "pipx", base: "x /usr/bin/python3\nl /home/u/.local/bin/black /home/u/.local/share/pipx/venvs/black/bin/black\nx /home/u/.local/share/pipx/venvs/black/bin/black #!/home/u/.local/share/pipx/venvs/black/bin/python\\n\nl /home/u/.local/share/pipx/venvs/black/bin/python /usr/bin/python3\nf /home/u/.local/share/pipx/venvs/black/pyvenv.cfg home = /usr/bin",
			cmd: "black", path: "/home/u/.local/bin:/usr/bin", want: "/home/u/.local/bin/black\n/home/u/.local/share/pipx/venvs/black/bin\n/home/u/.local/share/pipx/venvs/black/pyvenv.cfg*\n/home/u/.local/bin/black -> /home/u/.local/share/pipx/venvs/black/bin/black", in: "/usr/bin"},
		{name: "uv tool", base: uvPython, more: "l /home/u/.local/bin/ruff /home/u/.local/share/uv/tools/ruff/bin/ruff\nx /home/u/.local/share/uv/tools/ruff/bin/ruff #!/home/u/.local/share/uv/tools/ruff/bin/python\\n\nl /home/u/.local/share/uv/tools/ruff/bin/python /home/u/.local/share/uv/python/cpython-3.12.8-linux/bin/python3.12\nf /home/u/.local/share/uv/tools/ruff/pyvenv.cfg home = /home/u/.local/share/uv/python/cpython-3.12.8-linux/bin",
			cmd: "ruff", path: "/home/u/.local/bin", want: "/home/u/.local/bin/ruff\n" + uv + "python/cpython-3.12.8-linux\n" + uv + "tools/ruff/bin\n" + uv + "tools/ruff/pyvenv.cfg*\n/home/u/.local/bin/ruff -> " + uv + "tools/ruff/bin/ruff"},
		{name: "long interpreter path", base: pyenv, more: `x /home/u/v/bin/tool #!/bin/sh\n'''exec' "/home/u/.pyenv/versions/3.9.18/bin/python" "$0" "$@"\n' '''` + "\nf /home/u/v/pyvenv.cfg home = /home/u/.pyenv/versions/3.9.18/bin", cmd: "/home/u/v/bin/tool", path: "/usr/bin", want: "/home/u/v/bin/tool\n/home/u/.pyenv/versions/3.9.18\n/home/u/v/bin\n/home/u/v/pyvenv.cfg*"},
		{name: "conda", base: "d /home/u/miniconda3/conda-meta\nx /home/u/miniconda3/envs/e/bin/python\nd /home/u/miniconda3/envs/e/conda-meta\nx /home/u/miniconda3/condabin/conda", cmd: "python", path: "/home/u/miniconda3/envs/e/bin:/usr/bin", want: "/home/u/miniconda3/envs/e/bin/python\n/home/u/miniconda3/envs/e"},
		{name: "own build", base: "x /home/u/py312/bin/python3.12\nf /home/u/py312/lib/python3.12/os.py", cmd: "/home/u/py312/bin/python3.12", want: "/home/u/py312/bin/python3.12\n/home/u/py312/bin\n/home/u/py312/lib", path: "/usr/bin"},
		{name: "user site is no installation", base: "x /home/u/.local/bin/black #!/usr/bin/python3\\n\nf /home/u/.local/lib/python3.12/os.py\nx /usr/bin/python3", cmd: "black", path: "/home/u/.local/bin:/usr/bin", want: "/home/u/.local/bin/black\n/home/u/.local/bin/black*", in: "/usr/bin"},
		{name: "home is no installation", base: "x /home/u/bin/python\nf /home/u/lib/python3.12/os.py", cmd: "python", path: "/home/u/bin:/usr/bin", want: "/home/u/bin/python\n/home/u/bin/python*"},
	})
}

func TestOtherInstallations(t *testing.T) {
	const brew = "/home/linuxbrew/.linuxbrew"
	goCached := "/home/u/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.26.9.linux-" + runtime.GOARCH
	goHost := "x /usr/local/go/bin/go\nf /usr/local/go/VERSION go1.26.1\\ntime x\nx " + goCached + "/bin/go\nd " + goCached + "/pkg/tool\nf " + goCached + "/VERSION go1.26.9"
	runCases(t, []resolveCase{
		{name: "sdkman", base: "x /home/u/.sdkman/candidates/java/17.0.9-tem/bin/java\nl /home/u/.sdkman/candidates/java/current 17.0.9-tem", cmd: "java", path: "/home/u/.sdkman/candidates/java/current/bin:/usr/bin",
			want: "/home/u/.sdkman/candidates/java/current/bin/java\n/home/u/.sdkman/candidates/java/17.0.9-tem\n/home/u/.sdkman/candidates/java/current -> 17.0.9-tem", in: "/home/u/.sdkman/candidates/java/current/bin:/usr/bin"},
		{name: "jdk", base: "x /data/jdk-21/bin/java\nf /data/jdk-21/lib/modules\nf /data/jdk-21/release", cmd: "/data/jdk-21/bin/java", path: "/usr/bin", want: "/data/jdk-21/bin/java\n/data/jdk-21/bin\n/data/jdk-21/lib\n/data/jdk-21/release*"},
		{name: "jdk 8", base: "l /data/jdk8/bin/java ../jre/bin/java\nx /data/jdk8/jre/bin/java\nf /data/jdk8/jre/lib/rt.jar\nf /data/jdk8/release", cmd: "/data/jdk8/bin/java", path: "/usr/bin", want: "/data/jdk8/bin/java\n/data/jdk8/bin\n/data/jdk8/jre\n/data/jdk8/release*"},
		{name: "go sdk", base: "x /home/u/sdk/go1.22.1/bin/go\nf /home/u/sdk/go1.22.1/VERSION\nd /home/u/sdk/go1.22.1/pkg/tool\nd /home/u/sdk/go1.22.1/src/runtime", cmd: "go", path: "/home/u/sdk/go1.22.1/bin", want: "/home/u/sdk/go1.22.1/bin/go\n/home/u/sdk/go1.22.1/VERSION*\n/home/u/sdk/go1.22.1/bin\n/home/u/sdk/go1.22.1/pkg\n/home/u/sdk/go1.22.1/src"},
		{name: "go of a module", base: goHost, more: `f /home/u/p/go.mod module x\n\ngo 1.21\n\ntoolchain go1.26.9\n`, cmd: "go", path: "/usr/local/go/bin", want: goCached + "/bin/go\n" + goCached, in: goCached + "/bin:/usr/local/go/bin"},
		{name: "go of an older module", base: goHost, more: `f /home/u/p/go.mod module x\n\ngo 1.26\n`, cmd: "go", path: "/usr/local/go/bin", want: "/usr/local/go/bin/go"},
		{name: "go of a newer module", base: goHost, more: `f /home/u/p/go.mod module x\n\ngo 1.27\n`, cmd: "go", path: "/usr/local/go/bin", want: "/usr/local/go/bin/go"},
		{name: "go of a workspace", base: goHost, more: "f /home/u/p/go.work go 1.22\nf /home/u/p/sub/go.mod toolchain go1.26.9", cmd: "go", path: "/usr/local/go/bin", want: "/usr/local/go/bin/go"},
		{name: "go, local", base: goHost, more: `f /home/u/p/go.mod toolchain go1.26.9`, env: map[string]string{"GOTOOLCHAIN": "local"}, cmd: "go", path: "/usr/local/go/bin", want: "/usr/local/go/bin/go"},
		{name: "go, hostile", base: goHost, more: `f /home/u/p/go.mod toolchain go9/../../x`, cmd: "go", path: "/usr/local/go/bin", want: "/usr/local/go/bin/go"},
		{name: "node behind /usr/local on PATH", base: "x /home/u/.nvm/versions/node/v1/bin/node\nl /usr/local/bin/node /home/u/.nvm/versions/node/v1/bin/node\nl /usr/local/bin/python /home/u/bin/deploy\nx /home/u/bin/deploy", cmd: "bash", path: "/usr/local/bin:/usr/bin", want: "/usr/bin/bash\n/home/u/.nvm/versions/node/v1", in: "/usr/local/bin:/usr/bin"},
		{name: "alternatives", base: "l /usr/bin/java /etc/alternatives/java\nl /etc/alternatives/java /usr/lib/jvm/17/bin/java\nx /usr/lib/jvm/17/bin/java", cmd: "java", path: "/usr/bin", want: "/usr/bin/java"},
		{name: "homebrew", base: "l " + brew + "/bin/python3 ../Cellar/python@3.12/3.12.1/bin/python3\nx " + brew + "/Cellar/python@3.12/3.12.1/bin/python3\nf " + brew + "/Cellar/python@3.12/3.12.1/lib/python3.12/os.py\nd " + brew + "/var/postgresql\nd " + brew + "/opt\nd " + brew + "/lib\nd " + brew + "/etc/openssl@3",
			cmd: "python3", path: brew + "/bin:/usr/bin", want: brew + "/bin/python3\n" + brew + "/Cellar\n" + brew + "/bin\n" + brew + "/etc/openssl@3\n" + brew + "/lib\n" + brew + "/opt", in: brew + "/bin:/usr/bin"},
		{name: "nix profile", base: "l /home/u/.nix-profile .local/state/nix/profiles/profile\nl /home/u/.local/state/nix/profiles/profile profile-1-link\nl /home/u/.local/state/nix/profiles/profile-1-link /nix/store/abc-env\nl /nix/store/abc-env/bin/jq /nix/store/def-jq/bin/jq\nx /nix/store/def-jq/bin/jq",
			cmd: "jq", path: "/home/u/.nix-profile/bin:/usr/bin", want: "/home/u/.nix-profile/bin/jq\n/nix/store\n/home/u/.local/state/nix/profiles/profile -> profile-1-link\n/home/u/.local/state/nix/profiles/profile-1-link -> /nix/store/abc-env\n/home/u/.nix-profile -> .local/state/nix/profiles/profile", in: "/home/u/.nix-profile/bin:/usr/bin"},
		{name: "nixos", base: "l /run/current-system /nix/store/sys\nl /nix/store/sys/sw/bin/jq /nix/store/def-jq/bin/jq\nx /nix/store/def-jq/bin/jq", cmd: "jq", path: "/run/current-system/sw/bin", want: "/nix/store/sys/sw/bin/jq\n/nix/store", in: "/nix/store/sys/sw/bin"},
		{name: "guix", base: "x /gnu/store/a/bin/hello", cmd: "/gnu/store/a/bin/hello", path: "/usr/bin", want: "/gnu/store/a/bin/hello\n/gnu/store"},
		{name: "granted by the caller", base: rustup + "\nx /home/u/p/.cargo/bin/rg\nx /home/u/p/.cargo/bin/rustup", cmd: "cargo", path: "/home/u/p/.cargo/bin:" + rustPath, want: toolchains + "stable-x86_64-unknown-linux-gnu/bin/cargo\n" + toolchains + "stable-x86_64-unknown-linux-gnu", in: toolchains + "stable-x86_64-unknown-linux-gnu/bin:/home/u/p/.cargo/bin:/usr/bin"},
		{name: "single binary", base: "x /home/u/.bun/bin/bun \x7fELF", cmd: "bun", path: "/home/u/.bun/bin", want: "/home/u/.bun/bin/bun\n/home/u/.bun/bin/bun*", in: ""},
		{name: "linked home", base: "l /home/u2 /home/u\nx /home/u/.nvm/versions/node/v1/bin/node", cmd: "node", path: "/home/u2/.nvm/versions/node/v1/bin", want: "/home/u2/.nvm/versions/node/v1/bin/node\n/home/u/.nvm/versions/node/v1\n/home/u2 -> /home/u", in: "/home/u2/.nvm/versions/node/v1/bin"},
		{name: "image-based /usr/local", base: "l /usr/local ../var/usrlocal\nx /var/usrlocal/bin/tool", cmd: "tool", path: "/usr/local/bin", want: "/usr/local/bin/tool\n/var/usrlocal", in: "/usr/local/bin"},
		{name: "link below /tmp", base: "l /tmp/py /data/py/bin/python3\nx /data/py/bin/python3\nf /data/py/lib/python3.12/os.py", cmd: "/tmp/py", path: "", want: "/data/py/bin/python3\n/data/py/bin\n/data/py/lib"},
	})
}

func TestCommandSearch(t *testing.T) {
	const host = "x /usr/local/bin/tool\nf /home/u/b/true x\nd /usr/local/bin/bash\nx /home/u/p/run.sh #!/usr/bin/env bash\\n\nx /home/u/p/sub/here\nl /home/u/p/up ../p/sub\nl /home/u/loop loop\nl /home/u/p/dangling nowhere"
	runCases(t, []resolveCase{
		{name: "first executable", base: host, cmd: "true", path: "/home/u/b:/usr/bin", want: "/usr/bin/true", in: "/usr/bin"},
		{name: "directories do not count", base: host, cmd: "bash", path: "/usr/local/bin:/bin", want: "/bin/bash", in: "/usr/local/bin:/bin"},
		{name: "only not executable", base: host, cmd: "true", path: "/home/u/b", kind: NotExecutable, says: "permission denied"},
		{name: "nowhere", base: host, cmd: "nosuch", path: "/usr/bin", kind: NotFound, says: "PATH"},
		{name: "empty", base: host, cmd: "", path: "/usr/bin", kind: NotFound},
		{name: "relative", base: host, cmd: "./here", path: "/usr/bin", want: "/home/u/p/sub/here"},
		{name: "parent", base: host, cmd: "../run.sh", path: "/usr/bin", want: "/home/u/p/run.sh"},
		{name: "parent through a link", base: host, cmd: "../up/../run.sh", path: "/usr/bin", want: "/home/u/p/run.sh"},
		{name: "empty PATH entry", base: host, cmd: "here", path: ":/usr/bin", want: "/home/u/p/sub/here", in: ".:/usr/bin"},
		{name: "a directory", base: host, cmd: "/usr", path: "/usr/bin", kind: NotExecutable, says: "is a directory"},
		{name: "loop", base: host, cmd: "/home/u/loop", path: "/home/u/loop:/usr/bin", kind: NotExecutable, says: "too many levels"},
		{name: "dangling", base: host, cmd: "../dangling", path: "/usr/bin", kind: NotFound},
		{name: "below a file", base: host, cmd: "/home/u/b/true/x", path: "/usr/bin", kind: NotFound},
		{name: "no x bit", base: host, cmd: "/home/u/b/true", path: "/usr/bin", kind: NotExecutable, says: "chmod +x"},
		{name: "proc", base: host, more: "x /proc/1/exe", cmd: "/proc/1/exe", path: "/usr/bin", kind: Refused},
		{name: "control characters are quoted", base: host, cmd: "/no\x1b[31m", path: "/usr/bin", kind: NotFound, says: `"/no\x1b[31m"`},
		{name: "interpreter missing", base: host, more: `x /home/u/p/bad #!/no/such\n`, cmd: "../bad", path: "/usr/bin", kind: NotFound, says: "its interpreter /no/such"},
		{name: "env's interpreter missing", base: host, more: `x /home/u/p/bad #!/usr/bin/env -S nosuch -x\n`, cmd: "../bad", path: "/usr/bin", kind: NotFound, says: "its interpreter nosuch"},
		{name: "script of itself", base: host, more: `x /home/u/p/me #!/home/u/p/me\n`, cmd: "../me", path: "/usr/bin", kind: Refused},
		{name: "shim as interpreter", base: pyenv, more: `x /home/u/p/s.py #!/home/u/.pyenv/shims/python\n`, cmd: "../s.py", path: "/usr/bin", want: "/home/u/p/s.py\n/home/u/.pyenv/versions/3.11.7\n/home/u/.pyenv/shims/python -> /home/u/.pyenv/versions/3.11.7/bin/python"},
		{name: "env finds the shim", base: pyenv, more: `x /home/u/p/s.py #!/usr/bin/env python\n`, cmd: "../s.py", path: pyenvPath, want: "/home/u/p/s.py\n/home/u/.pyenv/versions/3.11.7"},
		{name: "env finds a binary", base: "x /home/u/.bun/bin/bun \x7fELF\nx /home/u/p/s.ts #!/usr/bin/env bun\\n", cmd: "../s.ts", path: "/home/u/.bun/bin:/usr/bin", want: "/home/u/p/s.ts\n/home/u/.bun/bin/bun*", in: "/home/u/.bun/bin:/usr/bin"},
	})
}

// What an untrusted workspace says must not make the user's own files visible.
func TestWorkspaceCannotReveal(t *testing.T) {
	const host = "x /home/u/bin/deploy #!/bin/bash\\nTOKEN=secret\\n\nx /home/u/q/node_modules/x/cli.js\nx /home/u/.ssh/run\nx /home/u/.ssh/bin/python3\nf /home/u/.ssh/lib/python3.1/os.py\nx /home/u/.config/gcloud/bin/x"
	const path = "/home/u/p/.venv/bin:/home/u/bin:/usr/bin"
	runCases(t, []resolveCase{
		{name: "link to a script", base: host, more: "l /home/u/p/tool /home/u/bin/deploy", cmd: "../tool", path: path, kind: Refused, says: "--rox /home/u/bin/deploy"},
		{name: "link by way of PATH", base: host, more: "l /home/u/p/.venv/bin/python /home/u/bin/deploy", cmd: "python", path: path, kind: Refused},
		{name: "link to other packages", base: host, more: "l /home/u/p/tool /home/u/q/node_modules/x/cli.js", cmd: "../tool", path: path, kind: Refused},
		{name: "interpreter by path", base: host, more: `x /home/u/p/s #!/home/u/bin/deploy\n`, cmd: "../s", path: path, kind: Refused},
		{name: "interpreter by name", base: host, more: `x /home/u/p/s #!/usr/bin/env deploy\n`, cmd: "../s", path: path, kind: Refused},
		{name: "credentials", base: host, more: "l /home/u/p/tool /home/u/.ssh/run", cmd: "../tool", path: path, kind: Refused},
		{name: "credentials, asked by the caller", base: host, cmd: "/home/u/.ssh/run", path: path, kind: Refused, says: "never made visible"},
		{name: "credentials dressed as python", base: host, cmd: "/home/u/.ssh/bin/python3", path: path, kind: Refused},
		{name: "cloud credentials", base: host, cmd: "/home/u/.config/gcloud/bin/x", path: path, kind: Refused},
		{name: "venv based on a secret", base: host, more: "l /home/u/p/.venv/bin/python /home/u/.ssh/bin/python3\nf /home/u/p/.venv/pyvenv.cfg home = /home/u/.ssh/bin", cmd: "bash", path: path, want: "/usr/bin/bash"},
		{name: "venv based on home", base: host, more: "f /home/u/lib/python3.1/os.py\nx /home/u/bin/python3\nf /home/u/p/.venv/pyvenv.cfg home = /home/u/bin\nx /home/u/p/.venv/bin/tool", cmd: "tool", path: path, want: "/home/u/p/.venv/bin/tool"},
		{name: "venv that is a project", base: host, more: "l /home/u/p/tool /home/u/q/bin/python3\nx /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg home = /usr/bin\nd /home/u/q/.git", cmd: "../tool", path: path, kind: Refused},
		{name: "another project's venv", base: host, more: "l /home/u/p/tool /home/u/q/bin/python3\nx /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg home = /usr/bin", cmd: "../tool", path: path, kind: Refused, says: "--rox /home/u/q/bin/python3"},
		{name: "another project's venv as interpreter", base: host, more: `x /home/u/p/s #!/home/u/q/bin/python3\n` + "\nx /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg home = /usr/bin", cmd: "../s", path: path, kind: Refused},
		{name: "another project's venv as base", base: host, more: "l /home/u/p/.venv/bin/python /home/u/q/bin/python3\nx /home/u/p/.venv/bin/tool\nf /home/u/p/.venv/pyvenv.cfg home = /home/u/q/bin\nx /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg home = /usr/bin", cmd: "tool", path: path, want: "/home/u/p/.venv/bin/tool"},
		{name: "a project that looks like go", base: host, more: "l /home/u/p/tool /home/u/q/bin/go\nx /home/u/q/bin/go\nf /home/u/q/VERSION 1\nd /home/u/q/pkg/tool\nd /home/u/q/src/runtime", cmd: "../tool", path: path, kind: Refused},
		{name: "own build of python as base", base: host, more: "l /home/u/p/tool /data/py/bin/python3\nx /data/py/bin/python3\nf /data/py/lib/python3.12/os.py", cmd: "../tool", path: path, kind: Refused, says: "--rox /data/py/bin --rox /data/py/lib"},
		{name: "own build of python, asked by the caller", base: host, more: "x /data/py/bin/python3\nf /data/py/lib/python3.12/os.py\nf /data/py/.env", cmd: "/data/py/bin/python3", path: path, want: "/data/py/bin/python3\n/data/py/bin\n/data/py/lib"},
		{name: "conda as base", base: host, more: "l /home/u/p/tool /home/u/mc/bin/python3\nx /home/u/mc/bin/python3\nd /home/u/mc/conda-meta", cmd: "../tool", path: path, want: "/home/u/p/tool\n/home/u/mc"},
		{name: "homebrew somewhere", base: host, more: "l /home/u/p/tool /home/u/q/Cellar/x/1/bin/x\nx /home/u/q/Cellar/x/1/bin/x\nd /home/u/q/lib", cmd: "../tool", path: path, kind: Refused},
		{name: "a version manager of its own", base: host, more: `x /home/u/p/shims/tool exec "/x/pyenv" exec "$program"\n` + "\nl /home/u/p/versions/1 ../../q\nf /home/u/p/.python-version 1\nx /home/u/q/bin/tool\nf /home/u/q/.env", cmd: "/home/u/p/shims/tool", path: path, kind: Refused},
		{name: "a chain back into the caller's", base: host, more: "l /home/u/bin/t /home/u/p/t\nl /home/u/p/t /home/u/q/bin/python3\nx /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg", cmd: "t", path: path, kind: Refused},
		{name: "a PATH entry of the workspace", base: host, more: "l /home/u/p/.venv/bin /home/u/q/bin\nx /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg", cmd: "true", path: path, want: "/usr/bin/true"},
		{name: "a venv that the caller named, in a project", base: host, more: "x /home/u/q/bin/python3\nf /home/u/q/pyvenv.cfg home = /usr/bin\nf /home/u/q/.env\nl /home/u/q/lib64 lib\nd /home/u/q/lib", cmd: "/home/u/q/bin/python3", path: path, want: "/home/u/q/bin/python3\n/home/u/q/bin\n/home/u/q/lib\n/home/u/q/pyvenv.cfg*\n/home/u/q/lib64 -> lib"},
		{name: "version file that is a secret", base: pyenv, more: "f /home/u/.ssh/id secret-key/" + strings.Repeat("k", 5000) + "\nl /home/u/p/.python-version /home/u/.ssh/id", cmd: "python", path: pyenvPath, kind: Refused, says: "kk..., which is no version"},
		{name: "the caller may run it", base: host, cmd: "deploy", path: path, want: "/home/u/bin/deploy\n/home/u/bin/deploy*"},
	})
}

// A workspace or a venv below /tmp is no reason to lose the link that a venv is known by.
func TestVenvBelowTmp(t *testing.T) {
	tr := newTree(t, pyenv, "l /tmp/w/v/bin/python python3\nl /tmp/w/v/bin/python3 /home/u/.pyenv/versions/3.9.18/bin/python\nf /tmp/w/v/pyvenv.cfg home = /home/u/.pyenv/versions/3.9.18/bin")
	req := Request{Name: "v/bin/python", Dir: "/tmp/w", Home: "/home/u", Path: "/tmp/w/v/bin:/usr/bin", FS: tr, Visible: []string{"/tmp/w"}}
	for _, c := range []struct {
		visible []string
		want    string
	}{
		{[]string{"/tmp/w"}, "/tmp/w/v/bin/python\n/home/u/.pyenv/versions/3.9.18"},
		{nil, "/tmp/w/v/bin/python\n/home/u/.pyenv/versions/3.9.18\n/tmp/w/v/bin\n/tmp/w/v/pyvenv.cfg*"},
	} {
		req.Visible = c.visible
		res, err := Resolve(req)
		if err != nil || summary(res) != c.want || res.Path != "/tmp/w/v/bin:/usr/bin" {
			t.Errorf("visible %v: got %s, PATH %s, %v, want %s", c.visible, summary(res), res.Path, err, c.want)
		}
	}
}

func TestLongLinkChains(t *testing.T) {
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("l /home/u/p/l%d l%d", i, i+1))
	}
	tr := newTree(t, append(lines, "x /home/u/p/l5000")...)
	_, err := ask(tr, "../l0", "/usr/bin", nil)
	var e *Error
	if !errors.As(err, &e) || e.Kind != NotExecutable {
		t.Errorf("got %v, want too many links", err)
	}
	if _, err := ask(tr, "../l4970", "/usr/bin", nil); err != nil {
		t.Errorf("30 links: %v", err)
	}
}

// The real file system: hard-linked rustup proxies, a FIFO as version file, and permissions.
func TestHostFS(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(base, "home")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(".cargo/bin/rustup", "\x7fELF", 0o755)
	write(".rustup/settings.toml", `default_toolchain = "mine"`, 0o644)
	write(".rustup/toolchains/mine/bin/cargo", "\x7fELF", 0o755)
	write("p/plain", "x", 0o644)
	if err := os.Link(filepath.Join(home, ".cargo/bin/rustup"), filepath.Join(home, ".cargo/bin/cargo")); err != nil {
		t.Fatal(err)
	}
	res, err := Resolve(Request{Name: "cargo", Dir: filepath.Join(home, "p"), Home: home, Path: filepath.Join(home, ".cargo/bin") + ":/usr/bin"})
	want := filepath.Join(home, ".rustup/toolchains/mine")
	if err != nil || res.Exec != want+"/bin/cargo" || len(res.Grants) != 1 || res.Grants[0].Path != want {
		t.Errorf("cargo: got %+v, %v", res, err)
	}
	if !strings.HasPrefix(res.Path, want+"/bin:") {
		t.Errorf("cargo: inner PATH %s", res.Path)
	}
	_, err = Resolve(Request{Name: "./plain", Dir: filepath.Join(home, "p"), Home: home})
	var e *Error
	if !errors.As(err, &e) || e.Kind != NotExecutable {
		t.Errorf("plain file: got %v, want not executable", err)
	}
	host := HostFS()
	if data, err := host.ReadFile(filepath.Join(home, ".rustup/settings.toml"), 7); err != nil || string(data) != "default" {
		t.Errorf("ReadFile: %q, %v", data, err)
	}
	if _, err := host.ReadFile(home, 10); err == nil {
		t.Error("ReadFile of a directory succeeded")
	}
	if entries, err := host.ReadDir(filepath.Join(home, ".cargo/bin")); err != nil || len(entries) != 2 {
		t.Errorf("ReadDir: %v, %v", entries, err)
	}
}

func TestHidden(t *testing.T) {
	r := &resolver{homes: []string{"/home/u", "/data/homes/u"}}
	for _, dir := range []string{"/", "/home", "/home/u", "/home/v", "/root", "/data/homes", "/data/homes/u", "/data/homes/u/.local", "/home/u/.config",
		"/home/u/.local/share", "/home/u/.cargo", "/home/u/.ssh", "/home/u/.ssh/x", "/home/v/.aws/y", "/home/u/.config/gcloud/x", "/etc/x", "/run/x/y",
		"/proc/1", "/var", "/var/lib/x", "/tmp", "/sys/x", "/usr", "/home/u/Documents", "/home/u/.pyenv"} {
		if !r.hidden(dir, false) {
			t.Errorf("%s may be granted", dir)
		}
	}
	for _, dir := range []string{"/home/u/.pyenv/versions/3.11.7", "/nix/store", "/gnu/store", "/home/u/miniconda3", "/data/py", "/home/linuxbrew/.linuxbrew/Cellar",
		"/var/usrlocal", "/home/u/.local/share/uv/python/x", "/tmp/venv", "/home/user2/venv"} {
		if r.hidden(dir, false) {
			t.Errorf("%s may not be granted", dir)
		}
	}
}

func TestSettings(t *testing.T) {
	const doc = `top = "a"
[tools]
node = "20" # c
'npm:x' = ['1', "2",]
go = { os = "linux", version = '1.22' }
bad = 20
worse = "a\nb"
multi = [
  "1",
]
[[tools]]
node = "99"
[tasks]
run = '''
[tools]
node = "98"
'''
`
	var got []string
	for _, s := range settings(doc) {
		if s.section == "tools" || s.section == "" {
			got = append(got, s.key+"="+strings.Join(s.values, ","))
		}
	}
	want := []string{"top=a", "node=20", "npm:x=1,2", "go=1.22", "bad=", "worse=", "multi="}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompareVersions(t *testing.T) {
	sorted := []string{"2.7.18", "3.9.18", "3.11.4", "3.11.7", "3.11.10", "3.12.0"}
	for i, a := range sorted {
		for j, b := range sorted {
			if c := compareVersions(a, b); (c < 0) != (i < j) || (c == 0) != (i == j) {
				t.Errorf("compare %s with %s: %d", a, b, c)
			}
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, name := range []string{"true", "python"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Resolve(Request{Name: name, Dir: "/", Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Env: os.Getenv})
			}
		})
	}
}
