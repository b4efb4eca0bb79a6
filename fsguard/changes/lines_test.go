package changes

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// patched applies edits.
func patched(old, new [][]byte, edits []edit) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, bytes.Join(old[at:e.oldFrom], nil)...)
		out = append(out, bytes.Join(new[e.newFrom:e.newTo], nil)...)
		at = e.oldTo
	}
	return append(out, bytes.Join(old[at:], nil)...)
}

func cost(edits []edit) (n int) {
	for _, e := range edits {
		n += e.oldTo - e.oldFrom + e.newTo - e.newFrom
	}
	return n
}

func TestCompareLinesIsRightAndShort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		text := func() []byte {
			var b strings.Builder
			for range r.IntN(30) {
				b.WriteByte("abcdefgh"[r.IntN(8)])
				b.WriteByte('\n')
			}
			return []byte(b.String())
		}
		a, b := text(), text()
		old, new := splitLines(a), splitLines(b)
		edits := compareLines(old, new)
		if got := patched(old, new, edits); !bytes.Equal(got, b) {
			t.Fatalf("%q to %q: %v gives %q", a, b, edits, got)
		}
		c := &comparison{}
		full := func(l [][]byte) (out []int) {
			for _, x := range l {
				out = append(out, int(x[0]))
			}
			return out
		}
		c.old, c.new = full(old), full(new)
		c.shortest(0, len(old), 0, len(new))
		if got, want := cost(c.edits), len(old)+len(new)-2*lcs(c.old, c.new); got != want {
			t.Fatalf("%q to %q: script of %d, shortest %d", a, b, got, want)
		}
	}
}

// lcs is the length of the longest common subsequence, the slow way.
func lcs(a, b []int) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestCompareLinesGivesUpOnWhatNobodyReads(t *testing.T) {
	// No unique line, and nothing in common in order.
	old := splitLines(bytes.Repeat([]byte("a\nb\na\n"), 20_000))
	new := splitLines(bytes.Repeat([]byte("c\nb\nb\nc\n"), 20_000))
	edits := compareLines(old, new)
	if got := patched(old, new, edits); !bytes.Equal(got, bytes.Join(new, nil)) {
		t.Error("the edits are wrong")
	}
}

func FuzzCompareLines(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("b\nc"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		old, new := splitLines(a), splitLines(b)
		if got := patched(old, new, compareLines(old, new)); !bytes.Equal(got, b) {
			t.Errorf("got %q", got)
		}
	})
}

// TestDiffIsAPatch has git and patch apply what we print.
func TestDiffIsAPatch(t *testing.T) {
	const before = `seq 1 100 >numbers; printf 'no newline' >n; echo a >mode; echo gone >gone; echo content of it >old; mkdir d; echo x >"d/a b"; printf '\000bin' >bin; : >e`
	const after = `sed -i 's/^50$/fifty/; s/^52$/52\n52a/; 1d; $d' numbers; printf 'no newline\nnow' >n; chmod 755 mode; rm gone; mv old new; printf y >"d/a b"; printf 'q"\t\n' >'q"t'; printf z >"$(printf 'n\nl')"; : >empty; echo e >e; ln -s d/x link`
	f := changed(t, before, after)
	var out bytes.Buffer
	c := Contents{Run: openRoot(t, f.run), Workspace: openRoot(t, f.workspace)}
	if err := c.WriteDiff(t.Context(), &out, f.set.Entries, Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "rename from old\nrename to new\n") || !strings.Contains(out.String(), "old mode 100644\nnew mode 100755\n") {
		t.Errorf("diff\n%s", out.String())
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git here")
	}
	want := tempDir(t)
	shell(t, want, before+"\n"+after)
	patch := t.TempDir() + "/p"
	if err := os.WriteFile(patch, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(git, "apply", "-v", patch)
	cmd.Dir = f.workspace
	cmd.Env = append(os.Environ(), "GIT_DIR=/nonexistent")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %s", out)
	}
	if got, want := tree(t, f.workspace), tree(t, want); got != want {
		t.Errorf("git made\n%swant\n%s", got, want)
	}
}
