package integration

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// TestSecretOfARefusedRun: what is on record of a run that was refused is without its secrets too, as far as they could be read,
// however early that was.
func TestSecretOfARefusedRun(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := "canary" + strings.ReplaceAll(b.Marker, "-", "X") + "Value"
		file := b.File(t, filepath.Join(b.Home, "token"), secret+"\n")
		for name, c := range map[string]struct {
			flags []string
			argv  []string
		}{
			"not found":        {nil, []string{"nosuch", secret}},
			"the name":         {nil, []string{"/nonexistent/" + secret}},
			"grant":            {[]string{"--ro", "/nonexistent/" + secret}, []string{"/bin/true", secret}},
			"policy":           {[]string{"--policy", "/nonexistent/" + secret + ".yaml"}, []string{"/bin/true", secret}},
			"net":              {[]string{"--net", secret}, []string{"/bin/true", secret}},
			"no command":       {[]string{"--label", secret + "=x"}, nil},
			"label":            {[]string{"--label", secret}, []string{"/bin/true"}},
			"workspace":        {[]string{"--workspace", "/nonexistent/" + secret}, []string{"/bin/true"}},
			"another secret":   {[]string{"--secret", "B=file:/nonexistent/" + secret}, []string{"/bin/true", secret}},
			"a missing one":    {[]string{"--secret", "B=env:NOSUCH"}, []string{"/bin/true", secret}},
			"the same name":    {[]string{"--secret", "TOKEN=env:OTHER"}, []string{"/bin/true", secret, "another secret value"}},
			"schema":           {[]string{"--expect-json=/nonexistent/" + secret}, []string{"/bin/true", secret}},
			"run id":           {[]string{"--run-id", "run-" + secret}, []string{"/bin/true"}},
			"idempotency key":  {[]string{"--idempotency-key", "key-" + secret}, []string{"/bin/true"}},
			"id and not found": {[]string{"--run-id", secret, "--idempotency-key", secret}, []string{"nosuch"}},
		} {
			for kind, source := range map[string]string{"file": "file:" + file, "env": "env:CALLER", "fd": "fd:4", "pipe": "file:/dev/fd/4"} {
				audit := filepath.Join(b.Home, "audit "+name+kind)
				result := resultFile(t, b)
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				sr, sw, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(sw, secret+"\n"); err != nil {
					t.Fatal(err)
				}
				// By its name in /dev/fd it is opened anew, and the tests may be another user's.
				if err := sr.Chmod(0o644); err != nil {
					t.Fatal(err)
				}
				sw.Close()
				res := b.Run(t, harness.Run{
					Flags: append([]string{"--secret", "TOKEN=" + source, "--audit", audit, "--result", result, "--status-fd", "3", "--label", "note=" + secret}, c.flags...),
					Argv:  c.argv, Env: []string{"CALLER=" + secret, "OTHER=another secret value"}, Files: []*os.File{w, sr},
				})
				w.Close()
				sr.Close()
				status, _ := io.ReadAll(r)
				r.Close()
				text, err := os.ReadFile(result)
				if res.Code != 125 && res.Code != 127 || err != nil || len(status) == 0 {
					t.Fatalf("%s, %s: %v, %v, status %s", name, kind, res, err, status)
				}
				for _, value := range []string{secret, "another secret value"} {
					if bytes.Contains(text, []byte(value)) || bytes.Contains(status, []byte(value)) {
						t.Errorf("%s, %s: %s\n%s", name, kind, text, status)
					}
					for _, line := range holds(t, audit, value) {
						t.Errorf("%s, %s: %s", name, kind, line)
					}
				}
				if runs, _ := filepath.Glob(filepath.Join(audit, "*", "*"+secret+"*")); len(runs) > 0 {
					t.Errorf("%s, %s: %s", name, kind, runs)
				}
			}
		}
	})
}

// TestSecretInNames: the names of labels and of the workspace are on record without a secret; those of a run and of a request could not
// be, and are refused.
func TestSecretInNames(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const secret = "hunter2-hunter2"
		file := b.File(t, filepath.Join(b.Home, "token"), secret+"\n")
		folder := filepath.Join(b.Home, "of-"+secret)
		b.Mkdir(t, folder)
		audit := filepath.Join(b.Home, "audit")
		flags := []string{"--secret", "TOKEN=file:" + file, "--audit", audit, "--label", secret + "=x", "--workspace", folder}
		res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/sh", "-c", "echo new >new"}})
		if res.Code != 0 {
			t.Fatal(res)
		}
		for _, name := range []string{"request.json", "result.json", "events.jsonl"} {
			text, err := os.ReadFile(filepath.Join(only(t, audit), name))
			if err != nil || bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s: %v, %s", name, err, text)
			}
		}
		// The workspace is still known to whoever writes to it.
		apply := b.Run(t, harness.Run{Args: []string{"diff", "last", "--audit", audit}})
		if apply.Code > 1 || !strings.Contains(string(apply.Stdout), "new") {
			t.Errorf("diff: %v", apply)
		}
		for _, flag := range []string{"--run-id", "--idempotency-key"} {
			res := b.Run(t, harness.Run{Flags: append([]string{flag, "x-" + secret}, flags...), Argv: []string{"/bin/echo", "ran"}})
			if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "usage "+flag+": contains the value of a secret") || bytes.Contains(res.Stderr, []byte(secret)) {
				t.Errorf("%s: %v", flag, res)
			}
		}
	})
}

// TestSecretSharesDescriptor: a descriptor that is closed once the secret was read is not used for anything else then.
func TestSecretSharesDescriptor(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, flag := range []string{"--status-fd", "--control-fd"} {
			for why, more := range map[string][]string{"shared": nil, "refused for something else": {"--net", "nosuch"}} {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				if flag == "--control-fd" {
					_, _ = io.WriteString(w, "hunter2-hunter2")
				}
				end := map[string]*os.File{"--status-fd": w, "--control-fd": r}[flag]
				res := b.Run(t, harness.Run{Flags: append([]string{flag, "3", "--secret", "A=fd:3"}, more...), Argv: []string{"/bin/echo", "ran"}, Files: []*os.File{end}})
				w.Close()
				status, _ := io.ReadAll(r)
				r.Close()
				said := "secret A: is to come from the descriptor of " + flag
				if more != nil {
					said = "no such network"
				}
				if res.Code != 125 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), said) || strings.Contains(string(res.Stderr), "use status") {
					t.Errorf("%s, %s: %v", flag, why, res)
				}
				if flag == "--status-fd" && kinds(events(t, status)) != "ended" {
					t.Errorf("%s: %s", why, status)
				}
			}
		}
	})
}

// TestResultOverInputs: the result replaces no file that the run is given.
func TestResultOverInputs(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const (
			document = "version: 1\nname: mine\n"
			profile  = `{"defaultAction":"SCMP_ACT_ALLOW"}`
		)
		at := func(name string) string { return filepath.Join(b.Home, name) }
		base := at("base.yaml")
		for name, c := range map[string]struct {
			file, content string
			flags         []string
			code          int
			said          string
		}{
			"policy":   {at("p.yaml"), document, []string{"--policy", at("p.yaml")}, 125, "--policy"},
			"extended": {base, document, []string{"--policy", at("child.yaml")}, 125, "--policy"},
			"broken":   {at("broken.yaml"), "nonsense: [", []string{"--policy", at("broken.yaml")}, 125, "--policy"},
			"broken 2": {base, "nonsense: [", []string{"--policy", at("child.yaml")}, 125, "--policy"},
			"schema":   {at("s.json"), `{"type":"object"}`, []string{"--expect-json=" + at("s.json")}, 125, "--expect-json"},
			"seccomp":  {at("c.json"), profile, []string{"--seccomp", at("c.json")}, 125, "--seccomp"},
			"secret":   {at("token"), "hunter2-hunter2", []string{"--secret", "A=file:" + at("token")}, 125, "--secret A"},
			"fd":       {at("token4"), "hunter2-hunter2", []string{"--secret", "A=fd:3"}, 125, "--secret A"},
			"ro":       {at("data"), "data", []string{"--ro", at("data") + ":/data"}, 125, "--ro"},
			"input":    {at("data"), "data", []string{"--input", at("data") + ":/data"}, 125, "--input"},
			"stdin":    {at("in"), "input", nil, 125, "stdin"},
			"refused":  {at("token"), "hunter2-hunter2", []string{"--secret", "A=file:" + at("token"), "--ro", "/nonexistent"}, 125, "--secret A"},
			"no input": {at("old.json"), "old", nil, 0, ""},
		} {
			b.File(t, at("child.yaml"), "version: 1\nname: child\nextends: "+base+"\n")
			b.File(t, c.file, c.content)
			run := harness.Run{Flags: append([]string{"--result", c.file}, c.flags...), Argv: []string{"/bin/echo", "{}"}}
			if name == "stdin" || name == "fd" {
				f, err := os.Open(c.file)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if name == "stdin" {
					run.Stdin = f
				} else {
					run.Files = []*os.File{f}
				}
			}
			res := b.Run(t, run)
			text, err := os.ReadFile(c.file)
			if c.code == 0 {
				if res.Code != 0 || err != nil || string(text) == c.content {
					t.Errorf("%s: %v, %s", name, res, text)
				}
				continue
			}
			if res.Code != c.code || len(res.Stdout) > 0 || err != nil || string(text) != c.content {
				t.Errorf("%s: %v, %v, %s", name, res, err, text)
			}
			if said := "is the same file as " + c.said; !strings.Contains(string(res.Stderr), said) {
				t.Errorf("%s: no %q: %v", name, said, res)
			}
		}
		// What the command writes would be lost with the file.
		out, err := os.Create(b.File(t, at("out"), ""))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		res := b.Run(t, harness.Run{Flags: []string{"--result", out.Name()}, Argv: []string{"/bin/echo", "ran"}, Stdout: out})
		if text, _ := os.ReadFile(out.Name()); res.Code != 125 || len(text) > 0 {
			t.Errorf("stdout: %v, %s", res, text)
		}
	})
}
