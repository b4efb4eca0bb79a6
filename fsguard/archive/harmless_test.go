package archive

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHarmless unpacks what can be made harmless, and looks at what is there and what is told.
func TestHarmless(t *testing.T) {
	capability := "\x01\x00\x00\x02\xff\xff\xff\xff"
	data := forgeTar(
		folderNamed("./"),
		member{name: "setuid", body: "text", mode: 0o4755},
		member{name: "setgid", body: "text", mode: 0o2755},
		member{name: "./both/", kind: '5', mode: 0o7777},
		member{name: "capable", body: "text", mode: 0o755, pax: map[string]string{"SCHILY.xattr.security.capability": capability}},
		member{name: "acl", body: "text", pax: map[string]string{"SCHILY.acl.access": "user::rwx"}},
		member{name: "char", kind: '3'}, member{name: "block", kind: '4'}, member{name: "fifo", kind: '6'},
		member{name: "world", body: "text", mode: 0o666},
		member{name: "locked/", kind: '5', raw: func(h []byte) { octal(h[100:108], 0) }},
		member{name: "read-only/", kind: '5', mode: 0o555},
		file("read-only/f"), file("locked/f"),
		member{name: "none", body: "text", mode: 0o1000},
		symlinkTo("loop", "loop"), symlinkTo("dangling", "none/at/all"), symlinkTo("a/b/up", "../../setuid"),
		symlinkTo("toFolder", "a/b/"), symlinkTo("here", "."), symlinkTo("chain", "here/here/a/b/up"),
		hardlinkTo("hard", "setuid"),
		folderNamed("a/"),
		member{name: "nested.tar", body: string(forgeTar(file("../x")))},
		member{name: "g", kind: 'g', body: records(map[string]string{"comment": "a commit"})},
		member{name: "contiguous", kind: '7', body: "text"},
		member{name: "v7", body: "text", raw: func(h []byte) { clear(h[257:]); h[156] = 0 }},
		file("a//b/./c"),
		member{name: "pax", body: "text", pax: map[string]string{"path": "new\nline\xff"}},
	)
	b := newBox(t)
	if err := os.Mkdir(b.target, 0o750); err != nil {
		t.Fatal(err)
	}
	report, err := b.extract(data, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	b.check(t, true)
	for name, want := range map[string]fs.FileMode{
		".": fs.ModeDir | 0o750, "setuid": 0o755, "setgid": 0o755, "both": fs.ModeDir | 0o755, "capable": 0o755, "acl": 0o644,
		"world": 0o644, "locked": fs.ModeDir, "read-only": fs.ModeDir | 0o555, "none": 0, "loop": fs.ModeSymlink | 0o777,
		"a/b/c": 0o644, "new\nline\xff": 0o644, "contiguous": 0o644, "v7": 0o644, "nested.tar": 0o644, "hard": 0o755,
	} {
		info, err := os.Lstat(filepath.Join(b.target, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v, want %v", name, info, err, want)
			continue
		}
		if name != "." && name != "a/b" && !info.ModTime().Equal(time.Unix(1_000_000_000, 0)) {
			t.Errorf("%q has the time %v", name, info.ModTime())
		}
		if got := info.Sys().(*unixStat); int(got.Uid) != os.Getuid() || int(got.Gid) != os.Getgid() {
			t.Errorf("%q belongs to %d:%d", name, got.Uid, got.Gid)
		}
	}
	for _, name := range []string{"char", "block", "fifo", "x", "g"} {
		if _, err := os.Lstat(filepath.Join(b.target, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	if _, err := unix.Getxattr(filepath.Join(b.target, "capable"), "security.capability", nil); err == nil {
		t.Error("the capability is there")
	}
	notes := map[string]string{}
	for _, n := range report.Notes {
		notes[n.Name] = n.What
	}
	for name, want := range map[string]string{
		"setuid": "without setuid", "setgid": "without setgid", "./both/": "without setuid, setgid, sticky",
		"capable": "without xattr security.capability", "acl": "without ACL",
		"char": "left out: a device", "block": "left out: a device", "fifo": "left out: a FIFO", "none": "without sticky",
	} {
		if notes[name] != want {
			t.Errorf("the report says %q of %s, want %q", notes[name], name, want)
		}
		delete(notes, name)
	}
	if len(notes) > 0 {
		t.Errorf("the report also says %v", notes)
	}
	if report.Files != 13 || report.Hardlinks != 1 || report.Symlinks != 6 || report.Format != "tar" || report.Changed != 9 {
		t.Errorf("the report counts %+v", report)
	}
	removeLocked(b.target)
}

func TestHarmlessZip(t *testing.T) {
	b := newBox(t)
	data := zipForge{comment: "a comment", members: []zipMember{
		{name: "dos", body: "text"}, {name: "d/"}, {name: "unix", body: "text", mode: unix.S_IFREG | 0o4755},
		{name: "char", mode: unix.S_IFCHR | 0o666}, {name: "fifo", mode: unix.S_IFIFO | 0o666}, {name: "socket", mode: unix.S_IFSOCK | 0o666},
		{name: "l", body: "d/../unix", mode: unix.S_IFLNK | 0o777},
		{name: "deflated", body: strings.Repeat("text", 1000), deflate: true},
		{name: "open", body: "text", flags: flagDescriptor, local: func(h []byte) { clear(h[14:26]) }, tail: "PK\x07\x08" +
			string(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte("text")))) + "\x04\x00\x00\x00\x04\x00\x00\x00"},
		{name: "inner.zip", body: string(forgeZip(zipMember{name: "../x", body: "text"}))},
	}}.bytes()
	report, err := b.extract(data, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	b.check(t, true)
	for name, want := range map[string]fs.FileMode{
		"dos": 0o644, "d": fs.ModeDir | 0o755, "unix": 0o755, "l": fs.ModeSymlink | 0o777, "deflated": 0o644, "open": 0o644, "inner.zip": 0o644,
	} {
		if info, err := os.Lstat(filepath.Join(b.target, name)); err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v, want %v", name, info, err, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.target, "deflated")); err != nil || string(text) != strings.Repeat("text", 1000) {
		t.Errorf("deflated reads %d bytes, %v", len(text), err)
	}
	if report.Changed != 4 || report.Files != 6-1 || report.Symlinks != 1 || report.Folders != 1 {
		t.Errorf("the report counts %+v", report)
	}
}

func TestOptionsLoosen(t *testing.T) {
	for _, c := range []struct {
		name   string
		data   []byte
		change func(*Options)
		want   []string
	}{
		{"backslash", forgeTar(file(`a\b`)), func(o *Options) { o.AllowBackslash = true }, []string{`a\b`}},
		{"case", forgeTar(file("f"), file("F")), func(o *Options) { o.AllowFold = true }, []string{"F", "f"}},
		{"skip", forgeTar(file("../x"), file("f"), file("./d/g")), func(o *Options) { o.Skip = []string{"../x", "d"} }, []string{"f"}},
		{"limits", gzipped(forgeTar(member{name: "z", body: strings.Repeat("\x00", 40<<20)})), func(o *Options) { o.Limits = Limits{} }, []string{"z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t)
			o := testOptions()
			if _, err := b.extract(c.data, o); err == nil {
				t.Fatal("it is not refused without the option")
			}
			c.change(&o)
			if _, err := b.extract(c.data, o); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(b.target)
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if err != nil || !slices.Equal(names, c.want) {
				t.Errorf("%q, %v, want %q", names, err, c.want)
			}
			b.check(t, true)
		})
	}
	// Backslashes that would lead out elsewhere stay refused.
	for _, name := range []string{`..\x`, `\x`, `C:\x`, `a\..\..\x`} {
		b := newBox(t)
		o := testOptions()
		o.AllowBackslash = true
		if _, err := b.extract(forgeTar(file(name)), o); !errors.Is(err, ErrName) {
			t.Errorf("%s: %v, want ErrName", name, err)
		}
		b.check(t, false)
	}
}
