package policy

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"gobox/rlimit"
)

// WriteJSON writes the plan for programs. Names of fields are stable; fields are only ever added. A name
// that is no UTF-8 has U+FFFD in place of its bad bytes. encoding/json would be initialised in every run,
// and twice, for the sake of --dry-run.
func (p *Plan) WriteJSON(w io.Writer) error {
	j := &jsonWriter{}
	j.object(func() {
		j.field("schema_version", func() { j.number(1) })
		j.field("command", func() {
			j.object(func() {
				j.text("path", p.Exec.Path)
				j.texts("argv", p.Exec.Argv)
				j.texts("env", p.Exec.shownEnv())
				j.text("dir", p.Exec.Dir)
			})
		})
		j.field("identity", func() {
			j.object(func() {
				j.count("uid", uint64(p.Identity.UID))
				j.count("gid", uint64(p.Identity.GID))
				j.count("host_uid", uint64(p.Identity.HostUID))
				j.count("host_gid", uint64(p.Identity.HostGID))
			})
		})
		j.text("hostname", p.Hostname)
		j.field("workspace", func() {
			j.object(func() {
				j.text("path", p.Workspace.Path)
				j.text("mode", string(p.Workspace.Mode))
			})
		})
		j.field("network", func() { p.Network.writeJSON(j) })
		if p.Output.Path != "" {
			j.text("output_dir", p.Output.Path)
		}
		j.count("timeout_ms", uint64(p.Limits.Timeout.Milliseconds()))
		j.count("grace_ms", uint64(p.Limits.Grace.Milliseconds()))
		j.count("output_bytes", p.Limits.Output)
		missing := []string{}
		for _, layer := range p.Missing {
			missing = append(missing, string(layer))
		}
		j.texts("missing", missing)
		j.field("root", func() {
			j.object(func() {
				j.count("size", p.Tree.Root.Size)
				j.count("inodes", p.Tree.Root.Inodes)
			})
		})
		j.field("steps", func() { p.writeSteps(j) })
		j.field("landlock", func() { p.writeLandlock(j) })
		j.field("rlimits", func() {
			j.list(len(p.Rlimits), func(i int) {
				l := p.Rlimits[i]
				j.object(func() {
					j.text("name", l.Name())
					j.field("soft", func() { j.limit(l.Soft) })
					j.field("hard", func() { j.limit(l.Hard) })
					j.text("unit", l.Unit())
				})
			})
		})
		j.field("seccomp", func() {
			j.object(func() {
				j.text("name", p.Filter.Name)
				j.count("instructions", uint64(len(p.Filter.BPF)/bpfInstruction))
				j.text("sha256", filterHash(p))
			})
		})
		j.texts("notes", p.Notes)
	})
	j.out.WriteByte('\n')
	_, err := io.WriteString(w, j.out.String())
	return err
}

func (p *Plan) writeSteps(j *jsonWriter) {
	j.list(len(p.Tree.Steps), func(i int) {
		s := p.Tree.Steps[i]
		j.object(func() {
			j.text("op", string(s.Op))
			if s.Source != "" {
				j.text("source", s.Source)
			}
			j.text("target", s.Target)
			if s.Attr != 0 {
				j.text("attributes", s.Attr.String())
			}
			if s.Mode != 0 {
				j.text("mode", fmt.Sprintf("%04o", s.Mode))
			}
			if s.Size != 0 {
				j.count("size", s.Size)
			}
			if s.Inodes != 0 {
				j.count("inodes", s.Inodes)
			}
			if s.Content != nil {
				j.text("content", string(s.Content))
			}
			if s.Owned {
				j.flag("owned", true)
			}
			if s.OnDisk {
				j.flag("on_disk", true)
			}
			if s.OrReadOnly {
				j.flag("or_read_only", true)
			}
			if s.Optional {
				j.flag("optional", true)
			}
			if s.Owner != nil {
				j.field("owner", func() {
					j.object(func() {
						j.count("uid", uint64(s.Owner.UID))
						j.count("gid", uint64(s.Owner.GID))
					})
				})
			}
			j.text("why", s.Why)
		})
	})
}

func (p *Plan) writeLandlock(j *jsonWriter) {
	j.object(func() {
		j.count("abi", uint64(p.Landlock.ABI))
		j.flag("scoped", p.Landlock.Scoped)
		j.field("rules", func() {
			j.list(len(p.Landlock.Rules), func(i int) {
				r := p.Landlock.Rules[i]
				j.object(func() {
					j.text("path", r.Path)
					j.texts("access", accessNames(r.Access))
				})
			})
		})
	})
}

// jsonWriter writes indented JSON (RFC 8259).
type jsonWriter struct {
	out   strings.Builder
	depth int
	more  bool // something precedes in this object or list
}

func (j *jsonWriter) nest(open, end byte, body func()) {
	j.out.WriteByte(open)
	j.depth++
	j.more = false
	body()
	j.depth--
	if j.more {
		j.newline()
	}
	j.out.WriteByte(end)
	j.more = true
}

func (j *jsonWriter) newline() {
	j.out.WriteByte('\n')
	for range j.depth {
		j.out.WriteString("  ")
	}
}

// next starts an element of the object or list.
func (j *jsonWriter) next() {
	if j.more {
		j.out.WriteByte(',')
	}
	j.newline()
}

func (j *jsonWriter) object(body func()) { j.nest('{', '}', body) }

func (j *jsonWriter) list(n int, element func(i int)) {
	j.nest('[', ']', func() {
		for i := range n {
			j.next()
			element(i)
			j.more = true
		}
	})
}

func (j *jsonWriter) field(name string, value func()) {
	j.next()
	j.quote(name)
	j.out.WriteString(": ")
	value()
	j.more = true
}

func (j *jsonWriter) text(name, value string)     { j.field(name, func() { j.quote(value) }) }
func (j *jsonWriter) count(name string, n uint64) { j.field(name, func() { j.number(n) }) }
func (j *jsonWriter) flag(name string, value bool) {
	j.field(name, func() { j.out.WriteString(strconv.FormatBool(value)) })
}
func (j *jsonWriter) number(n uint64) { j.out.WriteString(strconv.FormatUint(n, 10)) }
func (j *jsonWriter) texts(name string, l []string) {
	j.field(name, func() { j.list(len(l), func(i int) { j.quote(l[i]) }) })
}

// limit writes no number for no limit: RLIM_INFINITY is beyond what JSON readers keep exactly.
func (j *jsonWriter) limit(n uint64) {
	if n == rlimit.Unlimited {
		j.out.WriteString("null")
		return
	}
	j.number(n)
}

func (j *jsonWriter) quote(s string) {
	j.out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			j.out.WriteByte('\\')
			j.out.WriteRune(r)
		case r == '\n':
			j.out.WriteString(`\n`)
		case r == '\t':
			j.out.WriteString(`\t`)
		case r == utf8.RuneError || strconv.IsPrint(r):
			j.out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&j.out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&j.out, `\u%04x`, r)
		}
	}
	j.out.WriteByte('"')
}
