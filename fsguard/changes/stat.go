package changes

import (
	"bufio"
	"context"
	"fmt"
	"io"
)

// WriteStat writes a line for each change with the lines that came and went, and a sum.
func (c *Contents) WriteStat(ctx context.Context, w io.Writer, entries []Entry) error {
	out := bufio.NewWriter(w)
	var added, removed, files int
	for _, ch := range changesOf(entries) {
		name := QuoteName(ch.entry.Path)
		if ch.from != ch.entry.Path {
			name = QuoteName(ch.from) + " => " + name
		}
		old, err := c.text(ctx, ch.old, ch.from, true)
		if err != nil {
			return err
		}
		now, err := c.text(ctx, ch.new, ch.entry.Path, false)
		if err != nil {
			return err
		}
		what := describeSides(ch)
		if known := !old.large && !now.large && !old.binary && !now.binary && !old.lost; known && ch.from == ch.entry.Path {
			plus, minus := 0, 0
			for _, e := range compareLines(old.lines, now.lines) {
				plus, minus = plus+e.newTo-e.newFrom, minus+e.oldTo-e.oldFrom
			}
			added, removed = added+plus, removed+minus
			if plus+minus > 0 {
				what += fmt.Sprintf(", +%d -%d", plus, minus)
			}
		} else if !known {
			what += fmt.Sprintf(", %d > %d bytes", sizeOf(ch.old), sizeOf(ch.new))
		}
		files++
		fmt.Fprintf(out, "%s | %s\n", name, what)
	}
	fmt.Fprintf(out, "%d changes, +%d -%d lines\n", files, added, removed)
	return out.Flush()
}

// describeSides says in words what happened.
func describeSides(ch change) string {
	switch {
	case ch.old == nil:
		return fmt.Sprintf("new %s", ch.new.Type)
	case ch.new == nil:
		return fmt.Sprintf("deleted %s", ch.old.Type)
	case ch.from != ch.entry.Path:
		return "renamed"
	case ch.old.Mode != ch.new.Mode && ch.new.Type != Symlink:
		return fmt.Sprintf("mode %04o > %04o", ch.old.Mode, ch.new.Mode)
	}
	return string(ch.new.Type)
}
