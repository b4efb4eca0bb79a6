package hostname

import (
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
)

// judge is the upstream package's answer.
func judge(name string) bool {
	s, _ := publicsuffix.PublicSuffix(name)
	return s == name
}

// TestPublicSuffix walks the whole list, and asks the upstream package about each entry, the name above it and two below.
func TestPublicSuffix(t *testing.T) {
	n := 0
	check := func(name string) {
		n++
		if got, want := PublicSuffix(name), judge(name); got != want {
			t.Errorf("PublicSuffix(%q) = %v, want %v", name, got, want)
		}
	}
	var walk func(lo, hi int, above string)
	walk = func(lo, hi int, above string) {
		for i := lo; i < hi; i++ {
			node := suffixNode(i)
			off, size := node>>6&(1<<16-1), node&(1<<6-1)
			name := suffixText[off : off+size]
			if above != "" {
				name += "." + above
			}
			check(name)
			check("x." + name)
			check("y.x." + name)
			c := suffixChildren[node>>23&(1<<10-1)*4:][:4]
			v := uint32(c[0])<<24 | uint32(c[1])<<16 | uint32(c[2])<<8 | uint32(c[3])
			walk(int(v&(1<<14-1)), int(v>>14&(1<<14-1)), name)
		}
	}
	walk(0, topLevels, "")
	if n < 3*9000 {
		t.Errorf("only %d names were looked at", n)
	}
	for name, want := range map[string]bool{
		"com": true, "co.uk": true, "github.io": true, "example.com": false, "internal": true, "nosuchtld": true,
		"ck": true, "foo.ck": true, "www.ck": false, "city.kawasaki.jp": false, "amazonaws.com": false,
	} {
		if PublicSuffix(name) != want {
			t.Errorf("PublicSuffix(%q) = %v", name, !want)
		}
	}
}

func FuzzPublicSuffix(f *testing.F) {
	for _, s := range []string{"a.b.co.uk", "www.ck", "x.kobe.jp", "github.io", "a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Canonical(s)
		if err != nil {
			return
		}
		if got, want := PublicSuffix(name), judge(name); got != want {
			t.Errorf("PublicSuffix(%q) = %v, want %v", name, got, want)
		}
		if !strings.Contains(name, ".") && !PublicSuffix(name) {
			t.Errorf("%q has one label and is none", name)
		}
	})
}
