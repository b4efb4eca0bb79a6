package changes

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func diffOf(t *testing.T, f *fixture, style Style) string {
	t.Helper()
	var out bytes.Buffer
	c := Contents{Run: openRoot(t, f.run), Workspace: openRoot(t, f.workspace)}
	if err := c.WriteDiff(t.Context(), &out, f.set.Entries, style); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDiffOnATerminal(t *testing.T) {
	f := changed(t, `printf 'a\nb\n' >a`, `printf 'a\n\033[2Jb\tc\r\n\342\200\256x\377\n' >a; printf x >"$(printf 'n\033[2J\342\200\256')"`)
	got := diffOf(t, f, Style{Colour: true, Harmless: true})
	want := "\x1b[1mdiff --git a/a b/a\x1b[0m\n\x1b[1m--- a/a\x1b[0m\n\x1b[1m+++ b/a\x1b[0m\n\x1b[36m@@ -1,2 +1,3 @@\x1b[0m\n a\n" +
		"\x1b[31m-b\x1b[0m\n\x1b[32m+\\x1b[2Jb\tc\\r\x1b[0m\n\x1b[32m+\\u202ex\\xff\x1b[0m\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	plain := diffOf(t, f, Style{Harmless: true})
	if strings.ContainsAny(plain, "\x1b\r\u202e") || strings.Contains(plain, "\xff") {
		t.Errorf("not harmless: %q", plain)
	}
	if !strings.Contains(plain, `+++ "b/n\033[2J\342\200\256"`) {
		t.Errorf("name not quoted: %s", plain)
	}
}

func TestDiffOfWhatIsNotText(t *testing.T) {
	f := changed(t, `printf '\000a' >bin; truncate -s 2M big; mkdir d; ln -s a l; echo t >t; mkfifo p`, `printf '\000b' >bin; echo x >>big; rmdir d; mkdir -m 700 e; ln -sfn b l; rm t; ln -s x t; rm p`)
	const want = `Files a/big and b/big are too large to show: 2097152 bytes and 2097154 bytes
diff --git a/bin b/bin
Binary files a/bin and b/bin differ
deleted folder d
new folder e mode 0700
diff --git a/l b/l
--- a/l
+++ b/l
@@ -1 +1 @@
-a
\ No newline at end of file
+b
\ No newline at end of file
deleted special file p
diff --git a/t b/t
deleted file mode 100644
--- a/t
+++ /dev/null
@@ -1 +0,0 @@
-t
diff --git a/t b/t
new file mode 120000
--- /dev/null
+++ b/t
@@ -0,0 +1 @@
+x
\ No newline at end of file
`
	if got := strings.TrimPrefix(diffOf(t, f, Style{}), "diff --git a/big b/big\n"); got != want {
		t.Errorf("got\n%s", got)
	}
}

// TestDiffOutlivesTheWorkspace shows the old side when the workspace has moved on, and says so where it was not kept.
func TestDiffOutlivesTheWorkspace(t *testing.T) {
	f := changed(t, "echo a >a", "echo b >a")
	want := diffOf(t, f, Style{})
	blob := f.run + "/" + blobName(f.set.Entries[0].Old.SHA256)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if got := diffOf(t, f, Style{}); got != want {
		t.Errorf("from the workspace: %s", got)
	}
	shell(t, f.workspace, "echo c >a")
	if got := diffOf(t, f, Style{}); !strings.Contains(got, "was not kept") {
		t.Errorf("of a lost content: %s", got)
	}
	if err := os.WriteFile(blob, []byte("forged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := Contents{Run: openRoot(t, f.run)}
	if err := c.WriteDiff(t.Context(), &out, f.set.Entries, Style{}); err == nil {
		t.Errorf("a forged content is shown: %s", out.String())
	}
}
