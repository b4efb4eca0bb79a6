package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobox/integration/harness"
)

// outcome is what these tests read of result.json.
type outcome struct {
	Outcome   string `json:"outcome"`
	ExitCode  *int   `json:"exit_code"`
	Argv      []string
	Anomalies []struct{ Kind, Object, Detail string }
	Findings  []struct {
		Kind, Object   string
		Offset, Length int
	}
}

func readOutcome(t *testing.T, path string) (o outcome) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// holds gives the files below dir that contain one of the texts.
func holds(t *testing.T, dir string, texts ...string) (found []string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				found = append(found, filepath.Base(path)+" has "+text)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files below %s, %v", files, dir, err)
	}
	return found
}

// TestSecret: the command gets it, the caller sees what the command writes, and nothing that is kept has it.
func TestSecret(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		secret := "canary" + strings.ReplaceAll(b.Marker, "-", "X") + "Value"
		file := b.File(t, filepath.Join(b.Home, "token"), secret+"\n")
		audit := filepath.Join(b.Home, "audit")
		result := filepath.Join(b.Home, "result.json")
		status, err := os.Create(filepath.Join(b.Dir, "status"))
		if err != nil {
			t.Fatal(err)
		}
		defer status.Close()
		const script = `printf 'raw %s\n' "$TOKEN"
for part in $(printf %s "$TOKEN" | sed 's/./& /g'); do printf %s "$part"; done; echo
printf 'split %.5s' "$TOKEN"; sleep 0.2; printf '%s\n' "$TOKEN" | cut -c6-
printf %s "$TOKEN" | base64 -w0; echo
printf 'x%s' "$TOKEN" | base64 -w0; echo
printf %s "$TOKEN" | od -An -tx1 | tr -d ' \n'; echo
echo "error: $TOKEN" >&2`
		for name, source := range map[string]string{"file": "file:" + file, "env": "env:CALLER", "fd": "fd:4"} {
			again, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			res := b.Run(t, harness.Run{
				Flags: []string{"--secret", "TOKEN=" + source, "--capture", "--audit", audit, "--result", result, "--status-fd", "3", "--label", "note=" + secret},
				Argv:  []string{"/bin/sh", "-c", script, "arg with " + secret},
				Env:   []string{"CALLER=" + secret}, Files: []*os.File{status, again},
			})
			again.Close()
			forms := []string{
				secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)),
				base64.RawStdEncoding.EncodeToString([]byte("x" + secret))[2:20],
			}
			if res.Code != 0 || strings.Count(string(res.Stdout), secret) != 3 || !strings.Contains(string(res.Stderr), secret) {
				t.Fatalf("%s: the caller does not see what the command wrote: %v", name, res)
			}
			for _, form := range forms {
				if !strings.Contains(string(res.Stdout), form) {
					t.Errorf("%s: the control: no %s in %q", name, form, res.Stdout)
				}
			}
			for _, line := range holds(t, audit, forms...) {
				t.Errorf("%s: %s", name, line)
			}
			for _, path := range []string{result, status.Name()} {
				if text, err := os.ReadFile(path); err != nil || len(text) == 0 || bytes.Contains(text, []byte(secret)) {
					t.Errorf("%s: %s: %v, %s", name, path, err, text)
				}
			}
			if o := readOutcome(t, result); o.Argv[len(o.Argv)-1] != "arg with [secret TOKEN]" {
				t.Errorf("%s: argv is %q", name, o.Argv)
			}
			if captures := holds(t, audit, "[secret TOKEN]"); len(captures) < 3 {
				t.Errorf("%s: captures have %q", name, captures)
			}
		}
		// The next run has it no more, and no descriptor of it reached the command.
		rep := b.InsideRun(t, harness.Run{}, "environ")
		if strings.Contains(rep[0].Detail, secret) {
			t.Error("the secret outlives its run")
		}
		res := b.Run(t, harness.Run{Flags: []string{"--secret", "TOKEN=file:" + file}, Argv: []string{b.Probe, "raw", "exit", "3"}})
		if res.Code != 3 || len(res.Stderr) != 0 {
			t.Errorf("without a record: %v", res)
		}
		for what, res := range map[string]harness.Result{
			"command not found": b.Run(t, harness.Run{Flags: []string{"--secret", "TOKEN=file:" + file, "--audit", audit}, Argv: []string{"/nonexistent/command"}}),
			"dry run":           b.Run(t, harness.Run{Flags: []string{"--secret", "TOKEN=file:" + file, "--dry-run"}, Argv: []string{"/bin/true"}}),
			"plan as JSON":      b.Run(t, harness.Run{Flags: []string{"--secret", "TOKEN=file:" + file, "--dry-run", "--json"}, Argv: []string{"/bin/true"}}),
		} {
			if strings.Contains(string(res.Stdout)+string(res.Stderr), secret) {
				t.Errorf("%s: %v", what, res)
			}
		}
	})
}

// TestSecretAndIdempotency: another value is the same request, another source is another.
func TestSecretAndIdempotency(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		audit := filepath.Join(b.Home, "audit")
		one := b.File(t, filepath.Join(b.Home, "one"), "first value")
		two := b.File(t, filepath.Join(b.Home, "two"), "first value")
		run := func(file string) harness.Result {
			return b.Run(t, harness.Run{
				Flags: []string{"--secret", "TOKEN=file:" + file, "--audit", audit, "--idempotency-key", "k"},
				Argv:  []string{"/bin/sh", "-c", `echo "$TOKEN"; date +%N`},
			})
		}
		first := run(one)
		b.File(t, one, "second value")
		again := run(one)
		if first.Code != 0 || !strings.HasPrefix(string(first.Stdout), "first value\n") {
			t.Fatalf("%v", first)
		}
		if want := strings.Replace(string(first.Stdout), "first value", "[secret TOKEN]", 1); again.Code != 0 || string(again.Stdout) != want {
			t.Errorf("got %v, want %q", again, want)
		}
		if other := run(two); other.Code != 125 {
			t.Errorf("another source: %v", other)
		}
	})
}

func TestExpectJSON(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		result := filepath.Join(b.Home, "result.json")
		schema := b.File(t, filepath.Join(b.Home, "schema.json"), `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)
		for _, c := range []struct{ name, script, schema, want string }{
			{"one document", `echo '{"n":1}'`, "", ""},
			{"as the schema says", `echo '{"n":1}'`, schema, ""},
			{"something on stderr", `echo '{}'; echo note >&2`, "", ""},
			{"wrong type", `echo '{"n":"x"}'`, schema, "json_schema"},
			{"two documents", `echo '{"n":1}'; echo '{"n":2}'`, schema, "json_trailing_data"},
			{"trailing garbage", `echo '{"n":1} done'`, "", "json_trailing_data"},
			{"leading garbage", `echo 'ok {"n":1}'`, "", "json_syntax"},
			{"nothing", `:`, "", "json_no_document"},
			{"cut", `printf '{"n":'`, "", "json_syntax"},
			{"huge", `printf '"'; head -c 66000000 /dev/zero | tr '\0' x; printf '"'`, schema, "json_too_large"},
			{"deep", `head -c 1000000 /dev/zero | tr '\0' '['`, "", "json_too_deep"},
		} {
			expect := "--expect-json"
			if c.schema != "" {
				expect += "=" + c.schema
			}
			for _, strict := range []bool{false, true} {
				flags := []string{expect, "--result", result, "--output", "128M"}
				want := 0
				if strict {
					flags = append(flags, "--strict-output")
					if c.want != "" {
						want = 65
					}
				}
				res := b.Run(t, harness.Run{Flags: flags, Argv: []string{"/bin/sh", "-c", c.script}})
				res.Stdout = nil
				if res.Code != want {
					t.Errorf("%s, strict %v: want exit %d, got %v", c.name, strict, want, res)
				}
				o := readOutcome(t, result)
				got := ""
				if len(o.Anomalies) > 0 {
					got = o.Anomalies[0].Kind
				}
				if got != c.want || o.Outcome != "exited" || o.ExitCode == nil || *o.ExitCode != 0 {
					t.Errorf("%s: %+v, want %q", c.name, o, c.want)
				}
			}
		}
		// What ended the command says more than its output.
		res := b.Run(t, harness.Run{Flags: []string{"--expect-json", "--strict-output", "--timeout", "200ms"}, Argv: []string{"/bin/sleep", "30"}})
		if res.Code != 124 {
			t.Errorf("timeout: %v", res)
		}
	})
}

func TestScanOutput(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		result := filepath.Join(b.Home, "result.json")
		token := "gh" + "p_" + strings.Repeat("Ab3", 12)
		key := "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("QUJD", 16) + "\n-----END " + "PRIVATE KEY-----"
		res := b.Run(t, harness.Run{
			Flags: []string{"--scan-output", "--result", result, "--audit", filepath.Join(b.Home, "audit")},
			Argv:  []string{"/bin/sh", "-c", `printf 'token: %s\n' "$1"; printf '%s\n' "$2" >&2`, "sh", token, key},
		})
		o := readOutcome(t, result)
		if res.Code != 0 || len(o.Findings) != 2 || len(o.Anomalies) != 0 {
			t.Fatalf("%v\n%+v", res, o)
		}
		if f := o.Findings[0]; f.Kind != "github_token" || f.Object != "stdout" || f.Offset != 7 || f.Length != len(token) {
			t.Errorf("%+v", f)
		}
		if f := o.Findings[1]; f.Kind != "private_key" || f.Object != "stderr" || f.Offset != 0 || f.Length != len(key) {
			t.Errorf("%+v", f)
		}
		o = readOutcome(t, result)
		if text, _ := json.Marshal(o.Findings); bytes.Contains(text, []byte(token)) {
			t.Errorf("a finding has the value: %s", text)
		}
		// Files of an overlay are looked through as well, those that were there before only if they changed.
		b.File(t, filepath.Join(b.Work, "old"), token)
		b.File(t, filepath.Join(b.Work, "changed"), "nothing\n")
		res = b.Run(t, harness.Run{
			Flags: append([]string{"--scan-output", "--result", result}, overlayFlags(t, b)...),
			Argv:  []string{"/bin/sh", "-c", `mkdir new; printf 'a %s' "$1" > new/file; echo "$1" >> changed; chmod 600 old`, "sh", token},
		})
		o = readOutcome(t, result)
		objects := map[string]int{}
		for _, f := range o.Findings {
			objects[f.Object+" "+f.Kind] = f.Offset
		}
		if res.Code != 0 || len(o.Findings) != 2 || objects["new/file github_token"] != 2 || objects["changed github_token"] != 8 {
			t.Errorf("overlay: %v\n%+v", res, o)
		}
		res = b.Run(t, harness.Run{Flags: []string{"--scan-output", "--result", result, "--workspace-mode", "ro"}, Argv: []string{"/bin/sh", "-c", "echo nothing of note"}})
		if o = readOutcome(t, result); res.Code != 0 || len(o.Findings) != 0 || len(res.Stderr) != 0 {
			t.Errorf("%v\n%+v", res, o)
		}
	})
}
