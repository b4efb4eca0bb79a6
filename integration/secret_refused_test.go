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
