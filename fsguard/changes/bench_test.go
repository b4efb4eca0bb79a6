package changes

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// BenchmarkCollect takes out 10,000 small new files.
func BenchmarkCollect(b *testing.B) {
	upper := b.TempDir()
	for d := range 100 {
		if err := os.Mkdir(fmt.Sprintf("%s/%d", upper, d), 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range 100 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d/%d", upper, d, f), fmt.Append(nil, d, f), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	t := &testing.T{}
	for b.Loop() {
		set, err := Collect(context.Background(), openRoot(t, upper), nil, openRoot(t, b.TempDir()), Options{})
		if err != nil || len(set.Entries) != 10_100 {
			b.Fatal(len(set.Entries), err)
		}
	}
}
