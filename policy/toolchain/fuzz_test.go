package toolchain

import (
	"io/fs"
	"strings"
	"testing"
)

// FuzzHostileFiles lets a workspace and a home have any contents in the files that are read, and checks
// that no result makes visible what must not be.
func FuzzHostileFiles(f *testing.F) {
	f.Add("3.11.7", "[tools]\nnode = \"20\"", "#!/usr/bin/env python\n", "home = /home/u/.ssh", "/home/u/.ssh")
	f.Add("../../.ssh\n/home/u\n..", "[toolchain]\nchannel='../..'", "#!/home/u/bin/deploy", "home=/home/u/bin", "../../.ssh/run")
	f.Add("3.11.7/envs/../../..", "[tools]\n'../..' = ['..', \"path:/home/u\"]", "#!/bin/sh\n'''exec' /home/u/.ssh/run", "home=/", "/")
	f.Add("nodejs ../../..\x00", `{"volta":{"node":"..","extends":"package.json"}}`, "#! /usr/bin/env -S\n", "home = /home/u/p", "/proc/self/exe")
	f.Fuzz(func(t *testing.T, version, conf, script, cfg, link string) {
		tr := newTree(t, pyenv, asdf, mise, rustup, volta, uvPython,
			"x /home/u/.ssh/run\nx /home/u/bin/deploy\nf /home/u/lib/python3.1/os.py\nd /home/u/p/.venv/bin\nd /home/other")
		for name, text := range map[string]string{".python-version": version, ".tool-versions": version, "rust-toolchain": version,
			"rust-toolchain.toml": conf, "mise.toml": conf, "package.json": conf, ".venv/pyvenv.cfg": cfg} {
			tr["/home/u/p/"+name] = node{name, 0o644, text}
		}
		tr["/home/u/p/run"] = node{"run", 0o755, script}
		if link != "" {
			tr["/home/u/p/.venv/bin/python3"] = node{"python3", fs.ModeSymlink | 0o777, link}
			tr["/home/u/p/link"] = node{"link", fs.ModeSymlink | 0o777, link}
		}
		search := "/home/u/p/.venv/bin:" + pyenvPath + ":" + asdfPath + ":" + misePath + ":" + rustPath + ":" + voltaPath + ":/home/u/bin"
		for _, cmd := range []string{"python", "python3", "node", "cargo", "../run", "../link", "bash"} {
			res, err := ask(tr, cmd, search, nil)
			if err != nil {
				if _, ok := err.(*Error); !ok {
					t.Fatalf("%s: %T %v", cmd, err, err)
				}
				if strings.ContainsAny(err.Error(), "\x00\x1b") {
					t.Errorf("%s: unprintable error %q", cmd, err)
				}
				continue
			}
			checkSafe(t, tr, res)
			for _, g := range res.Grants {
				if g.Path == "/home/u/bin/deploy" {
					t.Errorf("%s made the user's script visible", cmd)
				}
			}
		}
	})
}
