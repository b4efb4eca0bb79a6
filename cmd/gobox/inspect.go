package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gobox/fsguard"
	"gobox/fsguard/changes"
	"gobox/inspect"
	"gobox/policy"
	"gobox/record"
	"gobox/sandbox"
)

// inspectFlags say what is looked for in the output, and what must not be found in what is kept of it.
type inspectFlags struct {
	expect  string // anyJSON, or the schema's file; empty when no JSON is expected
	strict  bool
	scan    bool
	secrets []string
	given   []int // descriptors that the caller has opened, but for those that a secret was read from

	tried  []string          // secrets that were read, or could not be
	values map[string][]byte // of those that were
}

// anyJSON is --expect-json without a schema. No file can be meant by it, as values do not begin with a dash.
const anyJSON = "-"

// maxSchema bounds the schema's file, in bytes.
const maxSchema = 4 << 20

func (f *inspectFlags) define(set *pflag.FlagSet) {
	expect := once(&f.expect, "SCHEMA")
	expect.dash = true
	set.VarPF(expect, "expect-json", "", "stdout must be one JSON document, of the schema in a file with =SCHEMA").NoOptDefVal = anyJSON
	set.BoolVar(&f.strict, "strict-output", false, "with --expect-json: exit with 65 when stdout is not that")
	set.BoolVar(&f.scan, "scan-output", false, "report keys, tokens and long base64 or hex runs in the output")
}

// secret is the flag for one of them. What is wrong with its value is told by parse, without quoting it.
func (f *inspectFlags) secret() *value {
	v := words(&f.secrets, "NAME=SOURCE")
	v.dash = true
	return v
}

// parse puts the secrets' names into the policy, and refuses what contradicts itself.
func (f *inspectFlags) parse(p *policy.Policy, argv []string) error {
	refuse := func(flag, cause, hint string) error {
		return &policy.Error{Step: "usage", Object: flag, Err: errors.New(cause), Hint: hint}
	}
	switch {
	case f.strict && f.expect == "":
		return refuse("--strict-output", "goes with --expect-json only", "gobox run --expect-json --strict-output -- COMMAND")
	case f.expect == anyJSON && len(argv) > 1 && strings.HasSuffix(argv[0], ".json") && !isExecutable(argv[0]):
		return refuse("--expect-json", "the schema goes behind an equals sign", "--expect-json="+argv[0])
	case f.expect != "" && f.expect != anyJSON && f.expect[0] == '-':
		return refuse("--expect-json", "the value is no file: none begins with a dash", "a path that begins with a dash is written ./-NAME")
	}
	if f.expect != "" && f.expect != anyJSON {
		p.Keep = append(p.Keep, policy.Kept{Flag: "--expect-json", Path: f.expect})
	}
	for _, text := range f.secrets {
		s, err := policy.ParseSecret(text)
		if err != nil {
			return err
		}
		p.Secrets = append(p.Secrets, s)
	}
	return nil
}

func isExecutable(path string) bool { return unix.Access(path, unix.X_OK) == nil }

// inspection is what the flags ask for, ready before the command starts. A nil one asks for nothing.
type inspection struct {
	expect bool
	schema *inspect.Schema
	strict bool
	scan   bool
	id     string // of what is expected, for idempotency keys
	env    []string
	// credentials are the values of the plan's, for the gateway.
	credentials []string
	secrets     *inspect.Secrets
	// late says that a secret was not read in time, so that no text can be known to be without it.
	late bool
}

// capture is one stream on its way into the record.
type capture struct {
	name string
	path string
	took atomic.Uint64
	*inspect.Redactor
}

func (c *capture) Write(p []byte) (int, error) {
	n, err := c.Redactor.Write(p)
	c.took.Add(uint64(max(n, 0)))
	return n, err
}

// open reads schema and secrets. Nothing of a plain run's comes here.
func (f *inspectFlags) open(plan *policy.Plan, tty bool) (*inspection, error) {
	if f.expect == "" && !f.scan && len(plan.Exec.Secrets) == 0 && len(plan.Network.Credentials) == 0 {
		return nil, nil
	}
	in := &inspection{expect: f.expect != "", strict: f.strict, scan: f.scan}
	for fd, name := range []string{1: "stdout", 2: "stderr"} {
		if fd > 0 && (in.scan || in.expect && fd == 1) && (tty || term.IsTerminal(fd)) {
			return nil, &policy.Error{
				Step: "inspect", Object: name, Err: errors.New("it is a terminal, whose output is not kept"),
				Hint: "redirect both, such as gobox run ... >OUT 2>ERR, and leave out --tty",
			}
		}
	}
	var schema []byte
	if f.expect != "" && f.expect != anyJSON {
		var err error
		if schema, err = readBounded(f.expect, maxSchema); err == nil {
			in.schema, err = inspect.Compile(schema)
		}
		if err != nil {
			return nil, &policy.Error{Step: "schema", Object: f.expect, Err: cause(err), Hint: "docs/output.md says what a schema may have; --expect-json alone takes any JSON document"}
		}
	}
	sum := sha256.Sum256(schema)
	in.id = fmt.Sprintf("expect %v %s scan %v", in.expect, hex.EncodeToString(sum[:]), in.scan)
	return in, f.readSecrets(in, plan.Exec.Secrets, plan.Network.Credentials)
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit)
}

func readAll(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("has more than %s", policy.Size(uint64(limit)))
	}
	return b, err
}

// cause leaves out the path, which the message has already.
func cause(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// captures says whether the output has to be kept. A finding needs something that it is a place in.
func (in *inspection) captures() bool { return in != nil && (in.expect || in.scan) }

// digest is for the record's idea of what was asked for.
func (in *inspection) digest() string {
	if in == nil {
		return ""
	}
	return in.id
}

// tokens are the values of the plan's credentials, in its order.
func (in *inspection) tokens() []string {
	if in == nil {
		return nil
	}
	return in.credentials
}

// variables are the secrets as the command gets them.
func (in *inspection) variables() []string {
	if in == nil {
		return nil
	}
	return in.env
}

// finder tells whether a secret is in something; nil without secrets.
func (in *inspection) finder() func(io.Reader) (bool, error) {
	if in == nil || len(in.env) == 0 {
		return nil
	}
	return in.secrets.In
}

// text is what may be kept of text.
func (in *inspection) text(text string) string {
	switch {
	case in == nil || text == "":
		return text
	case in.late:
		return notShown
	}
	return in.secrets.Text(text)
}

func (in *inspection) texts(list []string) []string {
	if in == nil || in.secrets == nil && !in.late {
		return list
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = in.text(s)
	}
	return out
}

// capture gives the way into file, nil without one.
func (r *recorded) capture(name string, file *os.File) io.Writer {
	if file == nil {
		return nil
	}
	var secrets *inspect.Secrets
	if r.inspect != nil {
		secrets = r.inspect.secrets
	}
	c := &capture{name: name, path: file.Name(), Redactor: secrets.Redactor(file)}
	r.captures = append(r.captures, c)
	return c
}

// closeCaptures completes the captures. What they took is compared with what there was: a copy that cannot be written never
// holds up the command.
func (r *recorded) closeCaptures(used sandbox.Usage, out *record.Result) error {
	var lost []error
	for _, c := range r.captures {
		err := c.Close()
		want := used.Stdout
		if c.name == "stderr" {
			want = used.Stderr
		}
		took := c.took.Load()
		if err == nil && took < want {
			err = fmt.Errorf("%d bytes of %d were kept", took, want)
		} else if err != nil {
			err = fmt.Errorf("%d bytes of %d were kept: %w", took, want, cause(err))
		}
		if err != nil {
			out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: record.CaptureLost, Object: c.name, Detail: r.inspect.text(err.Error())})
			lost = append(lost, &policy.Error{
				Step: "capture", Object: c.path, Err: err, Hint: "gobox runs gc --older-than 30d makes room, and --audit DIR uses another folder",
			})
		}
	}
	return errors.Join(lost...)
}

// scanTime bounds how long the output of one run is looked at; the limit of output bounds it long before that.
const scanTime = 60 * time.Second

// look adds to the result what there is to say about the output.
func (r *recorded) look(out *record.Result) {
	in, run := r.inspect, r.run
	if !in.captures() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scanTime)
	defer cancel()
	anomaly := func(kind, object, detail string) {
		out.Anomalies = append(out.Anomalies, record.Anomaly{Kind: kind, Object: object, Detail: in.text(detail)})
	}
	each := func(name string, do func(io.Reader) error) {
		f, err := openCapture(run, name)
		if err == nil {
			defer f.Close()
			err = do(f)
		}
		if err != nil {
			anomaly(record.NotInspected, name, err.Error())
		}
	}
	if in.expect {
		each("stdout", func(f io.Reader) error {
			list, err := in.schema.JSON(f)
			for _, a := range list {
				anomaly(jsonAnomaly+a.Kind, "stdout", a.Detail)
			}
			return err
		})
	}
	if !in.scan {
		return
	}
	for _, name := range []string{"stdout", "stderr"} {
		each(name, func(f io.Reader) error {
			found, err := inspect.Scan(ctx, f, name)
			out.Findings = append(out.Findings, in.findings(found)...)
			return err
		})
	}
	found, err := r.scanChanges(ctx)
	out.Findings = append(out.Findings, in.findings(found)...)
	if err != nil {
		anomaly(record.NotInspected, "workspace", err.Error())
	}
}

const jsonAnomaly = "json_"

func (in *inspection) findings(list []inspect.Finding) []record.Finding {
	var out []record.Finding
	for _, f := range list {
		out = append(out, record.Finding{Kind: f.Kind, Object: in.text(f.Object), Offset: f.Offset, Length: f.Length})
	}
	return out
}

func openCapture(run *record.Run, name string) (*os.File, error) {
	if run.DirFD() < 0 {
		return nil, errors.New("there is no capture")
	}
	fd, err := unix.Openat(run.DirFD(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the capture: %w", err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(run.Dir(), name)), nil
}

// scanChanges scans the files that the command changed in an overlay. Where it wrote to the workspace itself there is no set of
// changes to look at.
func (r *recorded) scanChanges(ctx context.Context) (found []inspect.Finding, err error) {
	switch mode := r.plan.Workspace.Mode; {
	case mode == policy.ModeReadWrite:
		return nil, errors.New("files changed in a workspace of mode rw are not scanned; --workspace-mode overlay keeps them apart")
	case mode != policy.ModeOverlay:
		return nil, nil
	case r.set == nil || r.set.Refused != "":
		if r.set == nil && !r.unkept {
			return nil, nil // the overlay was not written to
		}
		return nil, errors.New("what the command changed was not kept")
	}
	dir, err := fsguard.NewRoot(r.run.DirFD(), fsguard.Options{})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for i := range r.set.Entries {
		e := &r.set.Entries[i]
		if e.New == nil || e.New.Type != changes.File || e.Kind == changes.ModeChanged {
			continue
		}
		f, err := changes.OpenNew(dir, e)
		if err != nil {
			return found, err
		}
		list, err := inspect.Scan(ctx, f, e.Path)
		f.Close()
		found = append(found, list...)
		if err != nil {
			return found, err
		}
		if len(found) > maxChangesFound {
			return found[:maxChangesFound], fmt.Errorf("the changed files have more than %d findings, the rest of which is left out", maxChangesFound)
		}
	}
	return found, nil
}

// maxChangesFound bounds what the changed files add to the result.
const maxChangesFound = 2 * inspect.MaxFindings

// explain tells what was found, and gives the exit status, which is status unless the caller is strict.
func (in *inspection) explain(say messages, out *record.Result, status int) int {
	if !in.captures() {
		return status
	}
	strict := in.strict && out.ExitCode != nil && status != policy.ExitOutput
	broken := 0
	for _, a := range out.Anomalies {
		if in.expect && a.Object == "stdout" && (strings.HasPrefix(a.Kind, jsonAnomaly) || a.Kind == record.NotInspected) {
			if broken++; broken == 1 {
				if strict {
					say.line("error", fmt.Sprintf("expect-json: stdout: %s: %s", strings.TrimPrefix(a.Kind, jsonAnomaly), a.Detail))
				} else {
					say.hint(fmt.Sprintf("stdout is not as --expect-json says: %s: %s", strings.TrimPrefix(a.Kind, jsonAnomaly), a.Detail))
				}
			}
		}
	}
	if n := len(out.Findings); n > 0 {
		say.hint(fmt.Sprintf("%d places of the output look like secrets: gobox runs show %s", n, out.RunID))
	} else if broken > 0 {
		say.hint("gobox runs show " + out.RunID + " tells all")
	}
	if broken > 0 && strict {
		return policy.ExitData
	}
	return status
}
