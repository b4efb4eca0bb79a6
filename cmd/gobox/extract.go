package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gobox/fsguard/archive"
	"gobox/policy"
)

// extractFlags is what the command line of gobox extract says.
type extractFlags struct {
	limits  archive.Limits
	depth   int64
	timeout time.Duration
	options archive.Options
	json    bool
	quiet   bool
}

func extractCommand(status *int) *cobra.Command {
	flags := extractFlags{limits: archive.DefaultLimits(), timeout: 10 * time.Minute}
	flags.depth = int64(flags.limits.Depth)
	cmd := &cobra.Command{
		Use:   "extract [flags] ARCHIVE DIR",
		Short: "Unpack an archive you do not trust",
		Long: `Unpack an archive you do not trust into DIR, which must not be there or be empty: tar, tar.gz, tar.zst,
tar.xz, tar.bz2 or zip, told apart by content. All or nothing: an archive with a name or link that leads out of
DIR, with entries that contradict each other, or over a limit is refused whole, and DIR stays as it was.

Setuid, setgid and sticky bits, extended attributes, ACLs, devices, FIFOs and sockets are left out; the report on
stdout says of which entries. Files are yours, whatever owner the archive names. Archives within it stay what they are.

Sizes are bytes, or have a binary unit: 64k, 512MiB, 1G. Durations are such as 30s or 1m30s; a bare
number is seconds. 0 means no limit. The exit status is 0, or 125 when the archive was refused.`,
		Example: `  gobox extract package.tar.gz package
  gobox extract --max-size 20G --max-file 20G image.tar.zst image
  gobox extract --skip usr/share/doc data.tar.xz data`,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return &policy.Error{Step: "usage", Err: errors.New("extract takes an archive and a folder"), Hint: "gobox extract ARCHIVE DIR"}
			}
			return nil
		},
	}
	set := cmd.Flags()
	size, count := policy.ParseSize, policy.ParseCount
	set.Var(number(&flags.limits.Entries, count), "max-entries", "most entries, `N`")
	set.Var(number(&flags.limits.Size, size), "max-size", "most bytes in all, `SIZE`")
	set.Var(number(&flags.limits.File, size), "max-file", "most bytes of one file, `SIZE`")
	set.Var(number(&flags.limits.Ratio, count), "max-ratio", "most bytes unpacked for each of the archive, `N`")
	set.Var(number(&flags.depth, count), "max-depth", "most components of a name, `N`")
	set.Var((*seconds)(&flags.timeout), "timeout", "most time to spend, `D`")
	set.Var((*names)(&flags.options.Skip), "skip", "leave out the entry `NAME` and what is beneath; repeatable")
	set.BoolVar(&flags.options.AllowBackslash, "allow-backslash", false, "keep backslashes in names of a tar")
	set.BoolVar(&flags.options.AllowFold, "allow-case-fold", false, "take names that differ in case only")
	set.BoolVar(&flags.json, "json", false, "write the report as JSON")
	set.BoolVarP(&flags.quiet, "quiet", "q", false, "no report and no hints")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*status = flags.extract(cmd, args[0], args[1])
		return nil
	}
	return cmd
}

// amount is a flag for a number of things or bytes.
type amount struct {
	value *int64
	parse func(string) (uint64, error)
}

func number(value *int64, parse func(string) (uint64, error)) *amount { return &amount{value, parse} }

func (a *amount) Set(text string) error {
	n, err := a.parse(text)
	if err == nil && n > 1<<62 {
		err = errors.New("is too large")
	}
	if err == nil {
		*a.value = int64(n)
	}
	return err
}

func (a *amount) String() string {
	if a.value == nil {
		return ""
	}
	return strconv.FormatInt(*a.value, 10)
}

func (a *amount) Type() string { return "N" }

type seconds time.Duration

func (s *seconds) Set(text string) error {
	d, err := policy.ParseDuration(text)
	if err == nil {
		*s = seconds(d)
	}
	return err
}

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Type() string   { return "D" }

// names is a flag that may be given again; commas belong to names.
type names []string

func (n *names) Set(text string) error {
	if text == "" {
		return errors.New("the value is empty")
	}
	*n = append(*n, text)
	return nil
}

func (n *names) String() string { return strings.Join(*n, " ") }
func (n *names) Type() string   { return "NAME" }

func (f *extractFlags) extract(cmd *cobra.Command, path, dir string) int {
	say := messages{w: cmd.ErrOrStderr(), quiet: f.quiet}
	file, size, err := openArchive(path)
	if err != nil {
		return say.fail(&policy.Error{Step: "extract", Object: path, Err: err, Hint: "gobox extract ARCHIVE DIR reads a regular file that is there and that you can read"})
	}
	defer file.Close()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	f.options.Limits = f.limits
	f.options.Depth = int(f.depth)
	f.options.Umask = umask()
	report, err := archive.Extract(ctx, file, size, dir, f.options)
	if err != nil {
		return say.fail(f.refusal(path, dir, err))
	}
	if f.quiet && !f.json {
		return 0
	}
	if err := f.write(cmd.OutOrStdout(), report, path, dir); err != nil {
		return say.fail(&policy.Error{Step: "write report", Err: err})
	}
	return 0
}

// openArchive opens a regular file; a FIFO must not hang gobox.
func openArchive(path string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no regular file")
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// umask reads the process's umask; umask(2) can only be asked by setting it. Where it cannot be read, the
// usual one is taken.
func umask() fs.FileMode {
	text, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "Umask:"); ok {
				if mask, err := strconv.ParseUint(strings.TrimSpace(value), 8, 9); err == nil {
					return fs.FileMode(mask)
				}
			}
		}
	}
	return 0o022
}

// refusal puts an error into the form of all others, with the flag that helps.
func (f *extractFlags) refusal(path, dir string, err error) error {
	e := &policy.Error{Step: "extract", Object: path, Err: err}
	var entry *archive.RefusedError
	skip := ""
	if errors.As(err, &entry) {
		skip = "--skip " + shellWord(entry.Name) + " leaves the entry out"
	}
	var over *archive.LimitError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Err, e.Hint = fmt.Errorf("not done after %v", f.timeout), "--timeout D gives it more time, --timeout 0 no limit"
	case errors.Is(err, context.Canceled):
		e.Err = errors.New("interrupted; nothing was kept")
	case errors.Is(err, archive.ErrTarget):
		e.Object, e.Hint = dir, "name a folder that is not there yet"
	case errors.As(err, &over):
		if over.What != "names" {
			e.Hint = "--max-" + over.What + " N raises the limit, 0 lifts it; only for an archive you expect to be large"
		}
	case errors.Is(err, archive.ErrBackslash) && entry != nil && !strings.Contains(entry.Name, `..\`):
		e.Hint = "--allow-backslash keeps it in names of a tar; " + skip
	case errors.Is(err, archive.ErrFold):
		e.Hint = "--allow-case-fold takes both; " + skip
	case errors.Is(err, archive.ErrFormat):
		e.Hint = "file ARCHIVE tells what it is; a single compressed file is for gunzip, xz and such"
	default:
		e.Hint = skip
	}
	return e
}

// shellWord quotes a name for the reader's shell, in the form that can say any byte when it has to.
func shellWord(name string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@%=:,", r))
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 && name[0] != '-' {
		return name
	}
	quoted := strconv.QuoteToASCII(name)
	return "$'" + strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), "'", `\'`) + "'"
}

func (f *extractFlags) write(w io.Writer, r *archive.Report, path, dir string) error {
	for i := range r.Notes {
		r.Notes[i].Name = policy.Printable(r.Notes[i].Name)
	}
	if f.json {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		return out.Encode(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %d entries, %d bytes of files in %s\n", policy.Printable(path), r.Format, r.Entries, r.Bytes, policy.Printable(dir))
	fmt.Fprintf(&b, "%d files, %d folders, %d symbolic links, %d hard links\n", r.Files, r.Folders, r.Symlinks, r.Hardlinks)
	for _, n := range r.Notes {
		if n.Name == "" {
			fmt.Fprintf(&b, "note: %s\n", n.What)
			continue
		}
		fmt.Fprintf(&b, "note: %s: %s\n", n.Name, n.What)
	}
	if more := r.Changed - int64(len(r.Notes)); more > 0 {
		fmt.Fprintf(&b, "note: and %d more\n", more)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
