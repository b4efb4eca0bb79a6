package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// WorkspaceFile is the policy file that a workspace may have at its top.
	WorkspaceFile = ".gobox.yaml"
	// CeilingFile is the host's, which no run exceeds.
	CeilingFile = "/etc/gobox/policy.yaml"
	// maxExtends is how long a chain of files that extend each other may be.
	maxExtends = 8

	whyBuiltin = "built-in "
)

// Document is one policy file as it was read: what it states, and nothing else.
type Document struct {
	File    string // as messages name it
	Name    string // of the policy; of the file when it states none
	Extends string // name of a built-in policy, or a file; empty for none

	policy Policy
	lines  map[string]int // where each key is stated
	real   string         // the file's real path, empty for what is built in
	dir    string         // for a relative Extends
}

// States tells whether the file says anything of the key, such as "limits.timeout".
func (d *Document) States(key string) bool { _, ok := d.lines[key]; return ok }

// refuse is an error at the line where key is stated.
func (d *Document) refuse(key, hint, format string, args ...any) *Error {
	object := d.File
	if line := d.lines[key]; line > 0 {
		object += ":" + strconv.Itoa(line)
	}
	return &Error{Step: "policy", Object: object, Err: fmt.Errorf(format, args...), Hint: hint}
}

// ParseDocument reads a policy file's text. file is its name, for messages. The error is an *Error with the line.
func ParseDocument(file string, text []byte) (*Document, error) {
	d := &Document{File: file, lines: map[string]int{}}
	root, err := readYAML(text)
	if err == nil {
		err = d.read(root)
	}
	var where *lineError
	if errors.As(err, &where) {
		hint := where.hint
		if hint == "" {
			hint = "gobox policy schema describes the keys, and gobox policy show default is an example"
		}
		return nil, &Error{Step: "policy", Object: file + ":" + strconv.Itoa(where.line), Err: where.err, Hint: hint}
	}
	if err != nil {
		return nil, &Error{Step: "policy", Object: file, Err: err}
	}
	return d, nil
}

func (d *Document) read(root *node) error {
	if root.kind != mapNode {
		return at(root.line, "is %s where the keys of a policy belong", root.kind)
	}
	table := fields()
	versioned := false
	for _, e := range root.keys {
		var err error
		switch e.name {
		case "version":
			versioned = true
			if e.value.kind != scalarNode || e.value.text != "1" {
				err = at(e.line, "version: the only one is 1")
			}
		case "name":
			d.Name, err = plainText(e)
			if err == nil && !validPolicyName(d.Name) {
				err = at(e.line, "name: %q is no name: letters, digits, dots, dashes and underscores, at most 64", d.Name)
			}
		case "extends":
			d.Extends, err = plainText(e)
		default:
			err = d.readKey(table, e)
		}
		if err != nil {
			return err
		}
		if d.lines[e.name] == 0 {
			d.lines[e.name] = e.line
		}
	}
	if !versioned {
		return &lineError{1, errors.New("states no version"), "begin the file with version: 1"}
	}
	return nil
}

func plainText(e entry) (string, error) {
	if e.value.kind != scalarNode || e.value.text == "" || strings.IndexByte(e.value.text, 0) >= 0 {
		return "", at(e.line, "%s: a single value belongs here", e.name)
	}
	return e.value.text, nil
}

func validPolicyName(name string) bool {
	for _, c := range []byte(name) {
		if c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return name != "" && len(name) <= 64 && name[0] != '.' && name[0] != '-'
}

// readKey reads a key of the table, or a section of it.
func (d *Document) readKey(table []field, e entry) error {
	var inside []string
	for i := range table {
		f := &table[i]
		switch {
		case f.path == e.name:
			return d.readField(f, e)
		case f.section() == e.name:
			inside = append(inside, f.key())
		}
	}
	if inside == nil {
		return unknownKey(e, "", append([]string{"version", "name", "extends"}, tops(table)...))
	}
	if e.value.kind == nullNode {
		return nil // an empty section says no more than one that is not there
	}
	if e.value.kind != mapNode {
		return at(e.line, "%s: is %s where a mapping belongs", e.name, e.value.kind)
	}
	for _, inner := range e.value.keys {
		i := slices.IndexFunc(table, func(f field) bool { return f.path == e.name+"."+inner.name })
		if i < 0 {
			return unknownKey(inner, e.name+".", inside)
		}
		if err := d.readField(&table[i], inner); err != nil {
			return err
		}
	}
	return nil
}

func (d *Document) readField(f *field, e entry) error {
	d.lines[f.path] = e.line
	err := f.read(&d.policy, e.value)
	var where *lineError
	if errors.As(err, &where) {
		return &lineError{where.line, fmt.Errorf("%s: %w", f.path, where.err), where.hint}
	}
	return err
}

func tops(table []field) []string {
	var names []string
	for i := range table {
		name, _, _ := strings.Cut(table[i].path, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func unknownKey(e entry, section string, known []string) error {
	hint := "the keys here are " + strings.Join(known, ", ")
	for _, name := range known {
		if distance(e.name, name) <= 2 {
			hint = "did you mean " + section + name + "; " + hint
			break
		}
	}
	return &lineError{e.line, fmt.Errorf("%s%s: unknown key", section, e.name), hint}
}

// distance is the number of letters to change, add or leave out that makes a into b.
func distance(a, b string) int {
	if len(a) > 32 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, last+cost)
		}
	}
	return row[len(b)]
}

// ReadDocument reads a policy file. One that is no regular file is refused, as is a symbolic link with nofollow.
// The error of one that is not there wraps fs.ErrNotExist.
func ReadDocument(file string, nofollow bool) (*Document, error) {
	d, _, err := readDocument(file, nofollow)
	return d, err
}

func readDocument(file string, nofollow bool) (*Document, *syscall.Stat_t, error) {
	flags := os.O_RDONLY | unix.O_NONBLOCK // no FIFO holds the caller up
	if nofollow {
		flags |= unix.O_NOFOLLOW
	}
	fail := func(err error, hint string) (*Document, *syscall.Stat_t, error) {
		return nil, nil, &Error{Step: "policy", Object: file, Err: plainCause(err), Hint: hint}
	}
	f, err := os.OpenFile(file, flags, 0)
	if err != nil {
		hint := "--policy takes the name of a built-in policy, see gobox policy list, or a file"
		if nofollow && errors.Is(err, unix.ELOOP) {
			err, hint = errors.New("is a symbolic link"), "the file itself must be there"
		}
		return fail(err, hint)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(err, "")
	}
	if !info.Mode().IsRegular() {
		return fail(errors.New("is no regular file"), "--policy takes a YAML file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPolicyFile+1))
	if err != nil {
		return fail(err, "")
	}
	d, err := ParseDocument(file, text)
	if err != nil {
		return nil, nil, err
	}
	if d.real, err = filepath.EvalSymlinks(file); err == nil {
		d.real, err = filepath.Abs(d.real)
	}
	if err != nil {
		return fail(err, "")
	}
	d.dir = filepath.Dir(file)
	st, _ := info.Sys().(*syscall.Stat_t)
	return d, st, nil
}

// readNamed reads a policy file that a run can be named after.
func readNamed(file string) (*Document, error) {
	d, err := ReadDocument(file, false)
	if err != nil {
		return nil, err
	}
	if d.Name == "" {
		d.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if !validPolicyName(d.Name) {
			return nil, d.refuse("", "add a line such as name: analysis", "the policy has no name, and its file's is none for a policy")
		}
	}
	if isBuiltin(d.Name) {
		return nil, d.refuse("name", "records and the gate go by the name; choose another", "%s is the name of a built-in policy", d.Name)
	}
	return d, nil
}

// IsFile tells a policy's file from a built-in policy's name.
func IsFile(named string) bool {
	return strings.Contains(named, "/") || strings.HasSuffix(named, ".yaml") || strings.HasSuffix(named, ".yml") || strings.HasSuffix(named, ".json")
}

// LoadDocuments reads the policy called named, a built-in's name or a file, and all that it extends, which comes first.
func LoadDocuments(named string) ([]*Document, error) {
	var chain []*Document
	for dir := ""; ; {
		var d *Document
		var err error
		if IsFile(named) {
			if dir != "" && !filepath.IsAbs(named) {
				named = filepath.Join(dir, named)
			}
			d, err = readNamed(named)
		} else {
			d, err = builtinDocument(named)
		}
		if err != nil {
			if len(chain) > 0 {
				from := chain[len(chain)-1]
				var cause *Error
				if errors.As(err, &cause) && cause.Object == named {
					return nil, from.refuse("extends", "extends takes a file, or one of "+strings.Join(BuiltinNames(), ", "), "extends: %s: %w", named, cause.Err)
				}
			}
			return nil, err
		}
		for _, before := range chain {
			if before.File == d.File || before.real != "" && before.real == d.real {
				from := chain[len(chain)-1]
				return nil, from.refuse("extends", "a policy can extend only one that does not extend it", "extends: %s extends itself in the end", d.File)
			}
		}
		chain = append(chain, d)
		if len(chain) > maxExtends {
			return nil, d.refuse("extends", "", "more than %d policies extend each other", maxExtends)
		}
		if d.Extends == "" {
			slices.Reverse(chain)
			return chain, nil
		}
		named, dir = d.Extends, d.dir
	}
}

// DocumentFiles names the files of a policy and of what it extends, as far as they can be followed: the last may be one that cannot be read.
func DocumentFiles(named string) (files []string) {
	for dir := ""; IsFile(named) && len(files) <= maxExtends; {
		if dir != "" && !filepath.IsAbs(named) {
			named = filepath.Join(dir, named)
		}
		files = append(files, named)
		d, err := readNamed(named)
		if err != nil {
			break
		}
		named, dir = d.Extends, d.dir
	}
	return files
}

// LoadCeiling reads the host's ceiling; nil when there is none. Whoever else can write it would have no ceiling.
func LoadCeiling(file string) (*Document, error) {
	d, st, err := readDocument(file, true)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hint := "chown root:root " + file + " and chmod 644 it; the same for its folder, with 755"
	if st.Uid != 0 || st.Mode&0o022 != 0 {
		return nil, d.refuse("", hint, "is no ceiling: others than root can change it")
	}
	var folder unix.Stat_t
	if err := unix.Stat(filepath.Dir(file), &folder); err != nil || folder.Uid != 0 || folder.Mode&0o022 != 0 {
		return nil, d.refuse("", hint, "is no ceiling: others than root can change its folder")
	}
	if d.Extends != "" {
		return nil, d.refuse("extends", "state the figures in the file itself", "extends: a ceiling stands alone")
	}
	if p := d.policy.Workspace.Path; p != "" && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~/") {
		return nil, d.refuse("workspace.path", "write the whole path, or ~/ for HOME", "workspace.path: %s is another folder for every caller", p)
	}
	for _, f := range fields() {
		if f.notCeiling && d.States(f.path) {
			return nil, d.refuse(f.path, "leave it out", "%s: has no meaning in a ceiling", f.path)
		}
	}
	return d, nil
}
