package hostname

import (
	_ "embed"
	"encoding/binary"
	"strings"
)

// The Public Suffix List (publicsuffix.org, MPL 2.0) in the packed form of golang.org/x/net/publicsuffix, whose package
// would bring net/http along. A test compares every entry with it.
//
//	nodes:    5 bytes each, big endian: 7 unused, 10 index into children, 1 ICANN, 16 offset and 6 length in text
//	children: 4 bytes each, big endian: 1 unused, 1 wildcard, 2 type, 14 end and 14 start of the children in nodes
var (
	//go:embed suffix/text
	suffixText string
	//go:embed suffix/nodes
	suffixNodes string
	//go:embed suffix/children
	suffixChildren string
)

// topLevels is how many of the nodes are top level domains; they come first.
const topLevels = 1450

// PublicSuffix says whether anybody can register names directly below this one: com, co.uk, github.io, and every name of
// one label. The name is canonical.
func PublicSuffix(name string) bool {
	lo, hi := 0, topLevels
	rest, suffix, wildcard := name, strings.LastIndexByte(name, '.')+1, false
	for {
		dot := strings.LastIndexByte(rest, '.')
		if wildcard {
			suffix = dot + 1
		}
		n, ok := findSuffix(rest[dot+1:], lo, hi)
		if !ok {
			break
		}
		c := binary.BigEndian.Uint32([]byte(suffixChildren[n>>23&(1<<10-1)*4:][:4]))
		lo, hi = int(c&(1<<14-1)), int(c>>14&(1<<14-1))
		wildcard = c>>30&1 != 0
		switch c >> 28 & 3 {
		case 0:
			suffix = dot + 1
		case 1: // an exception to the wildcard above it
			return false
		}
		if dot < 0 {
			break
		}
		rest = rest[:dot]
	}
	return suffix == 0
}

func suffixNode(i int) uint64 {
	s := suffixNodes[i*5:]
	return uint64(s[0])<<32 | uint64(s[1])<<24 | uint64(s[2])<<16 | uint64(s[3])<<8 | uint64(s[4])
}

// findSuffix gives the node of a label among nodes lo to hi, which are sorted.
func findSuffix(label string, lo, hi int) (uint64, bool) {
	for lo < hi {
		mid := (lo + hi) / 2
		n := suffixNode(mid)
		off, size := n>>6&(1<<16-1), n&(1<<6-1)
		switch s := suffixText[off : off+size]; {
		case s == label:
			return n, true
		case s < label:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return 0, false
}
