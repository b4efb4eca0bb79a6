package policy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "64k": 64 << 10, "64K": 64 << 10, "64KiB": 64 << 10, "64kib": 64 << 10, "512MiB": 512 << 20,
		"1G": 1 << 30, "2T": 2 << 40, "7B": 7, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-1", "+1", "1.5G", "1MB", "1kB", "1 k", " 1", "1e3", "0x10", "1_000", "1kk", "1iB",
		"9223372036854775808", "8388608T", "18446744073709551616", "99999999999999999999", "1P", "MiB", "1\n"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "876000h": MaxDuration, "00000000000000000001s": time.Second, "250ms": 250 * time.Millisecond, "0s": 0, "2h": 2 * time.Hour, "7d": 7 * 24 * time.Hour, "0d": 0, "36500d": MaxDuration,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-0", "+1s", "s", "d", "1.5d", "1d2h", "-1d", "soon", "1 s", "1e9", ".", "NaN", "Inf", "99999999999x", "9s9", "99999999h soon"} {
		if got, err := ParseDuration(text); !errors.Is(err, errDuration) && !errors.Is(err, errEmpty) {
			t.Errorf("ParseDuration(%q) = %v, %v, want no duration", text, got, err)
		}
	}
	for _, text := range []string{"876001h", "36501d", "99999999999999999999d", "2500000h", "2562047h", "9223372036", "10000000h", "99999999h", "99999999999999999999", "99999999999.5", "1h99999999999999999999ns"} {
		if got, err := ParseDuration(text); !errors.Is(err, errTooLarge) {
			t.Errorf("ParseDuration(%q) = %v, %v, want too large", text, got, err)
		}
	}
}

func TestParseGrant(t *testing.T) {
	for _, tt := range []struct{ text, source, dest string }{
		{"/a", "/a", ""}, {"a", "a", ""}, {"/a:/b", "/a", "/b"}, {"a:b", "a:b", ""}, {"a:", "a:", ""}, {"/x:y:/z", "/x:y", "/z"}, {"/a:/b:/c", "/a:/b", "/c"}, {"/a:/", "/a", "/"},
		{`/a\:/b`, "/a:/b", ""}, {`/a\:/b:/c`, "/a:/b", "/c"}, {`/a\\:/b`, `/a\`, "/b"}, {`/a\\\:/b`, `/a\:/b`, ""}, {`a\:b`, "a:b", ""},
		{`a\b\\`, `a\b\\`, ""}, {`/a:/b\:/c`, "/a", "/b:/c"}, {`\:/b`, ":/b", ""},
	} {
		source, dest, err := ParseGrant(tt.text)
		if err != nil || source != tt.source || dest != tt.dest {
			t.Errorf("ParseGrant(%q) = %q, %q, %v", tt.text, source, dest, err)
		}
	}
	for _, text := range []string{"", ":/b"} {
		if _, _, err := ParseGrant(text); err == nil {
			t.Errorf("ParseGrant(%q) is accepted", text)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"0", "64k", "512MiB", "1G", "9223372036854775807", "8388607T", "1MB", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			return
		}
		if size > math.MaxInt64 {
			t.Errorf("%q is %d, beyond off_t", text, size)
		}
		digits := strings.TrimRight(text, "kKmMgGtTiIbB")
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || size < n || n > 0 && size%n != 0 {
			t.Errorf("%q is %d", text, size)
		}
		if again, err := ParseSize(strconv.FormatUint(size, 10)); err != nil || again != size {
			t.Errorf("%d is read back as %d, %v", size, again, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"0", "30", "1.5", "1m30s", "-1s", "9223372036.9", "1h1h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil && d < 0 {
			t.Errorf("%q is %v", text, d)
		}
	})
}

func FuzzParseGrant(f *testing.F) {
	for _, seed := range []string{"/a:/b", "a:b", ":/", "/a:/b:/c", "::/", `/a\:/b`, `a\\:/b`, `\\\:\:/`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		source, dest, err := ParseGrant(text)
		if err != nil {
			return
		}
		if source == "" || dest != "" && dest[0] != '/' {
			t.Errorf("%q is %q and %q", text, source, dest)
		}
		if !strings.Contains(text, `\`) {
			whole := source
			if dest != "" {
				whole += ":" + dest
			}
			if whole != text {
				t.Errorf("%q is %q and %q", text, source, dest)
			}
		}
		// Any name and place can be said.
		again := escapeColons(source)
		if dest != "" {
			again += strings.Repeat(`\`, backslashes(source)) + ":" + escapeColons(dest)
		}
		if s, d, err := ParseGrant(again); err != nil || s != source || d != dest {
			t.Errorf("%q and %q, written %q, are read as %q and %q, %v", source, dest, again, s, d, err)
		}
	})
}

// escapeColons writes a name so that no colon of it separates.
func escapeColons(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if name[i] == ':' {
			out.WriteString(strings.Repeat(`\`, backslashes(name[:i])+1))
		}
		out.WriteByte(name[i])
	}
	return out.String()
}

// A grant of any source and place on a host either is refused or leaves the host's secrets out of sight.
func FuzzGrant(f *testing.F) {
	for _, seed := range [][2]string{{"/srv", "/x"}, {"../data", ""}, {"/etc/shadow", "/home/ann/work/app.py"}, {"/", "/"}, {"/proc/self/root", "/r"}, {"/usr/..", ""}, {"/bin/../../etc", ""}, {"/srv", "/bin/x"}, {"/srv", "/../dev"}} {
		f.Add(seed[0], seed[1])
	}
	host := fakeHost(debian().link("/srv/up", "../.."), 1000, "/home/ann", "/home/ann/work")
	f.Fuzz(func(t *testing.T, source, dest string) {
		p := Default()
		p.Argv = []string{"python3"}
		p.Grants = []Grant{{Flag: "--rw", Source: source, Dest: dest, Write: true}}
		plan, err := Resolve(p, host)
		if err != nil {
			return
		}
		for _, step := range plan.Tree.Steps {
			if step.Why == "--rw" && step.Source != "" {
				if reserved(step.Source) || reserved(step.Target) {
					t.Errorf("%q:%q is mounted from %s on %s", source, dest, step.Source, step.Target)
				}
			}
		}
	})
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"plain", "\x1b[31m", "a\u202eb", "\xff", "é\n", "\ufffd", "\u2028", "\x7f", "日本"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Printable(text)
		if !utf8.ValidString(got) {
			t.Errorf("%q becomes invalid UTF-8", text)
		}
		for _, r := range got {
			if r != utf8.RuneError && !strconv.IsPrint(r) {
				t.Errorf("%q keeps %U", text, r)
			}
		}
	})
}
