package changes

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestSparse reads files with data and holes in any order, through buffers of any size, like read(2).
func TestSparse(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		size := rnd.Int64N(3 << 20)
		for range rnd.IntN(5) {
			at := rnd.Int64N(size + 1)
			if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i) + 1}, int(rnd.Int64N(100_000))), at); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := f.Stat(); err == nil && info.Size() < size {
			err = f.Truncate(size)
			if err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1+rnd.IntN(300_000))
		var got []byte
		for s := (&sparse{ctx: t.Context(), file: f}); ; {
			n, err := s.Read(buf)
			got = append(got, buf[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("read %d, %v", n, err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d: read %d bytes of %d, or others", i, len(got), len(want))
		}
	}
}
