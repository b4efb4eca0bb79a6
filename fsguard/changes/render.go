package changes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"gobox/fsguard"
)

// Style says how a diff looks.
type Style struct {
	Colour bool
	// Harmless escapes in the texts all that a terminal could obey. Names are always quoted where they need it, as git does.
	Harmless bool
}

// Contents finds the texts of both sides.
type Contents struct {
	Run       *fsguard.Root
	Workspace *fsguard.Root // for old contents that were not kept; nil when it is not there
}

// maxShown is the largest file whose lines are shown.
const maxShown = keepEach

// text is one side of a file as it can be shown.
type text struct {
	lines  [][]byte
	binary bool
	large  bool
	lost   bool // the old content was not kept, and the workspace has another by now
}

func (c *Contents) text(ctx context.Context, s *State, path string, old bool) (text, error) {
	switch {
	case s == nil || s.Type == Folder || s.Type == Special:
		return text{}, nil
	case s.Type == Symlink:
		return text{lines: [][]byte{[]byte(s.Target)}}, nil
	case s.Size > maxShown:
		return text{large: true}, nil
	case s.SHA256 == "":
		return text{lost: true}, nil
	}
	if err := ctx.Err(); err != nil {
		return text{}, err
	}
	b, err := readAll(c.Run, blobName(s.SHA256), maxShown)
	if err != nil && old {
		err = nil
		if c.Workspace != nil {
			b, err = readAll(c.Workspace, path, maxShown)
		}
		if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != s.SHA256 {
			return text{lost: true}, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoContent
	}
	if err != nil {
		return text{}, fmt.Errorf("read content of %q: %w", path, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != s.SHA256 {
		return text{}, fmt.Errorf("read content of %q: %w", path, ErrManifest)
	}
	// As git decides it.
	if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 {
		return text{binary: true}, nil
	}
	return text{lines: splitLines(b)}, nil
}

// change is an entry, with a rename's two sides put together.
type change struct {
	entry    *Entry
	from     string // the old path
	old, new *State
}

// changesOf joins renames of which both sides are there, and parts changes of type.
func changesOf(entries []Entry) []change {
	byPath := make(map[string]*Entry, len(entries))
	for i := range entries {
		byPath[entries[i].Path] = &entries[i]
	}
	var out []change
	for i := range entries {
		e := &entries[i]
		switch {
		case e.RenamedTo != "" && byPath[e.RenamedTo] != nil:
		case e.RenamedFrom != "" && byPath[e.RenamedFrom] != nil:
			out = append(out, change{e, e.RenamedFrom, byPath[e.RenamedFrom].Old, e.New})
		case e.Kind == TypeChanged:
			out = append(out, change{e, e.Path, e.Old, nil}, change{e, e.Path, nil, e.New})
		default:
			out = append(out, change{e, e.Path, e.Old, e.New})
		}
	}
	return out
}

// WriteDiff writes the changes in git's unified format, which git apply and patch take. Folders, which it does not know,
// are told of in lines that they pass over.
func (c *Contents) WriteDiff(ctx context.Context, w io.Writer, entries []Entry, style Style) error {
	p := &printer{w: bufio.NewWriter(w), style: style}
	for _, ch := range changesOf(entries) {
		if err := c.writeChange(ctx, p, ch); err != nil {
			return err
		}
		if p.err != nil {
			return p.err
		}
	}
	if err := p.w.Flush(); err != nil {
		return err
	}
	return p.err
}

func (c *Contents) writeChange(ctx context.Context, p *printer, ch change) error {
	path := ch.entry.Path
	if side := cmpOr(ch.new, ch.old); side.Type == Folder || side.Type == Special {
		p.folder(ch, side)
		return nil
	}
	p.line(bold, "diff --git "+QuoteName("a/"+ch.from)+" "+QuoteName("b/"+path))
	switch {
	case ch.old == nil:
		p.line(bold, "new file mode "+gitMode(ch.new))
	case ch.new == nil:
		p.line(bold, "deleted file mode "+gitMode(ch.old))
	case ch.old.Mode != ch.new.Mode:
		p.line(bold, "old mode "+gitMode(ch.old))
		p.line(bold, "new mode "+gitMode(ch.new))
	}
	if ch.from != path {
		p.line(bold, "similarity index 100%")
		p.line(bold, "rename from "+QuoteName(ch.from))
		p.line(bold, "rename to "+QuoteName(path))
		return nil
	}
	if ch.entry.Kind == ModeChanged {
		return nil
	}
	old, err := c.text(ctx, ch.old, ch.from, true)
	if err != nil {
		return err
	}
	now, err := c.text(ctx, ch.new, path, false)
	if err != nil {
		return err
	}
	a, b := sideName("a/", ch.from, ch.old), sideName("b/", path, ch.new)
	switch {
	case old.large || now.large:
		p.line("", fmt.Sprintf("Files %s and %s are too large to show: %d bytes and %d bytes", a, b, sizeOf(ch.old), sizeOf(ch.new)))
	case old.lost:
		p.line("", fmt.Sprintf("The content of %s before was not kept, and the workspace has another by now", a))
	case old.binary || now.binary:
		p.line("", fmt.Sprintf("Binary files %s and %s differ", a, b))
	default:
		p.hunks(a, b, old.lines, now.lines)
	}
	return nil
}

func cmpOr(a, b *State) *State {
	if a != nil {
		return a
	}
	return b
}

func sizeOf(s *State) int64 {
	if s == nil {
		return 0
	}
	return s.Size
}

func sideName(prefix, path string, s *State) string {
	if s == nil {
		return "/dev/null"
	}
	return QuoteName(prefix + path)
}

func gitMode(s *State) string {
	if s.Type == Symlink {
		return "120000"
	}
	return fmt.Sprintf("100%03o", s.Mode)
}

// QuoteName quotes a name as git does where it has what a reader of lines, or a terminal, would take for something else.
func QuoteName(name string) string {
	plain := utf8.ValidString(name)
	for _, r := range name {
		plain = plain && strconv.IsPrint(r) && r != '"' && r != '\\'
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Colours (ECMA-48, SGR).
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
)

type printer struct {
	w     *bufio.Writer
	style Style
	err   error
}

func (p *printer) line(colour, text string) { p.write(colour, text, "\n") }

func (p *printer) write(colour, text, end string) {
	if p.style.Colour && colour != "" {
		text = colour + text + plain
	}
	if _, err := p.w.WriteString(text + end); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) folder(ch change, side *State) {
	name := QuoteName(ch.entry.Path)
	switch {
	case side.Type == Special:
		p.line(bold, "deleted special file "+name)
	case ch.old == nil:
		p.line(bold, fmt.Sprintf("new folder %s mode %04o", name, side.Mode))
	case ch.new == nil:
		p.line(bold, "deleted folder "+name)
	default:
		p.line(bold, fmt.Sprintf("folder %s old mode %04o new mode %04o", name, ch.old.Mode, ch.new.Mode))
	}
}

// contextLines is how many unchanged lines are shown about a change.
const contextLines = 3

func (p *printer) hunks(a, b string, old, new [][]byte) {
	edits := compareLines(old, new)
	if len(edits) == 0 {
		return
	}
	p.line(bold, "--- "+tabbed(a))
	p.line(bold, "+++ "+tabbed(b))
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].oldFrom-edits[n-1].oldTo <= 2*contextLines {
			n++
		}
		p.hunk(edits[:n], old, new)
		edits = edits[n:]
	}
}

// tabbed ends a name that has a space by a tab, as git and patch want it.
func tabbed(name string) string {
	if strings.ContainsRune(name, ' ') && name[0] != '"' {
		return name + "\t"
	}
	return name
}

func (p *printer) hunk(edits []edit, old, new [][]byte) {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(contextLines, first.oldFrom)
	tail := min(contextLines, len(old)-last.oldTo)
	from, to := first.oldFrom-lead, last.oldTo+tail
	newFrom, newTo := first.newFrom-lead, last.newTo+tail
	p.line(cyan, fmt.Sprintf("@@ -%s +%s @@", span(from, to), span(newFrom, newTo)))
	for _, e := range edits {
		p.lines("", " ", old[from:e.oldFrom])
		p.lines(red, "-", old[e.oldFrom:e.oldTo])
		p.lines(green, "+", new[e.newFrom:e.newTo])
		from = e.oldTo
	}
	p.lines("", " ", old[from:to])
}

func span(from, to int) string {
	switch n := to - from; n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return strconv.Itoa(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, n)
	}
}

func (p *printer) lines(colour, mark string, lines [][]byte) {
	for _, l := range lines {
		s, whole := strings.CutSuffix(string(l), "\n")
		if p.style.Harmless {
			s = harmless(s)
		}
		p.line(colour, mark+s)
		if !whole {
			p.line("", `\ No newline at end of file`)
		}
	}
}

// harmless escapes what could move a terminal's cursor, or hide or reorder text. Tabs stay.
func harmless(s string) string {
	clean := true
	for _, r := range s {
		clean = clean && (r == '\t' || r != utf8.RuneError && strconv.IsPrint(r))
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == '\t' || r != utf8.RuneError && strconv.IsPrint(r) {
			b.WriteString(s[:n])
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
