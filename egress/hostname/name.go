package hostname

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of RFC 1035, 2.3.4, for a name without its final dot.
const (
	MaxName  = 253
	maxLabel = 63
	maxInput = 1024 // of a name before IDNA; UTF-8 is longer than Punycode
)

var (
	errEmpty   = errors.New("the name is empty")
	errNumeric = errors.New("it ends in a number, but is no address of four decimal parts; octal, hexadecimal and shortened addresses are refused")
)

// Canonical gives the canonical form of a host name: ASCII by IDNA, lower case, without one final dot. An address in
// whatever notation is an error.
func Canonical(s string) (string, error) {
	if s == "" {
		return "", errEmpty
	}
	if len(s) > maxInput {
		return "", fmt.Errorf("the name is longer than %d bytes", maxInput)
	}
	if err := checkInput(s); err != nil {
		return "", err
	}
	name, err := toASCII(s)
	if err != nil {
		return "", err
	}
	name = strings.TrimSuffix(name, ".")
	if err := checkName(name); err != nil {
		return "", err
	}
	return name, nil
}

// checkInput refuses, with a word of its own, what is a mistake or a trick and never part of a name.
func checkInput(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("the name is not UTF-8")
	}
	for _, r := range s {
		switch {
		case r == 0:
			return errors.New("a NUL byte in the name")
		case r == '\r' || r == '\n':
			return errors.New("a line break in the name")
		case r <= ' ' || r == 0x7f:
			return errors.New("a space or control character in the name")
		case r == '@':
			return errors.New("user information ('@') is no part of a name")
		case r == '[' || r == ']':
			return errors.New("brackets go round IPv6 addresses only")
		case r == '%':
			return errors.New("a zone id or escape ('%') is no part of a name")
		case r == ':':
			return errors.New("a colon is no part of a name")
		case r == '/' || r == '\\' || r == '?' || r == '#':
			return errors.New("a path or query is no part of a name")
		case r == '*':
			return errors.New("a wildcard is no name")
		}
	}
	return nil
}

// toASCII is UTS 46 for what is not plain ASCII already. An ASCII name with xn-- labels goes there as well, for they must
// decode, or one reader would see another name than the next.
func toASCII(s string) (string, error) {
	plain := true
	for i := range len(s) {
		if s[i] >= 0x80 {
			plain = false
		}
	}
	lower := s
	if plain {
		lower = strings.ToLower(s)
		if !strings.HasPrefix(lower, "xn--") && !strings.Contains(lower, ".xn--") {
			return lower, nil
		}
	}
	p := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckJoiners(true), idna.Transitional(false), idna.StrictDomainName(false))
	name, err := p.ToASCII(lower)
	if err != nil {
		return "", fmt.Errorf("not a valid internationalised name: %w", err)
	}
	// Once more with what came of it: the library looks for letters written from right to left before it maps, and
	// U+2137, a symbol, becomes the Hebrew letter U+05D2. A name that is not its own canonical form would be one name
	// when it is granted and another, or none, when it is asked for (RFC 5890, section 2.3.2.1: the two forms of a label
	// must be convertible into each other).
	if again, err := p.ToASCII(name); err != nil || again != name {
		return "", fmt.Errorf("not a valid internationalised name: it becomes %q, which is none", name)
	}
	return name, nil
}

func checkName(name string) error {
	if name == "" {
		return errEmpty
	}
	if len(name) > MaxName {
		return fmt.Errorf("the name is longer than %d bytes", MaxName)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("an empty label in the name")
		case len(label) > maxLabel:
			return fmt.Errorf("a label of the name is longer than %d bytes", maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("a label of the name begins or ends with a hyphen")
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return fmt.Errorf("character %q in the name", rune(c))
			}
		}
		last = label
	}
	if numeric(last) {
		return errNumeric
	}
	return nil
}

// numeric says whether a last label makes the name an address to inet_aton(3) or a browser (the URL standard's "ends in a
// number"). No top level domain looks like that.
func numeric(label string) bool {
	if h, ok := strings.CutPrefix(label, "0x"); ok {
		for i := range len(h) {
			if (h[i] < '0' || h[i] > '9') && (h[i] < 'a' || h[i] > 'f') {
				return false
			}
		}
		return true
	}
	for i := range len(label) {
		if label[i] < '0' || label[i] > '9' {
			return false
		}
	}
	return true
}

// Host is a canonical name or an address, and never both.
type Host struct {
	Name string
	Addr netip.Addr // valid if Name is empty; never IPv4-mapped and without a zone
}

// String is empty for the zero Host.
func (h Host) String() string {
	if h.Name != "" || !h.Addr.IsValid() {
		return h.Name
	}
	return h.Addr.String()
}

// HostPort is the host with a port, an IPv6 address in brackets.
func (h Host) HostPort(port uint16) string {
	if h.Name == "" {
		return netip.AddrPortFrom(h.Addr, port).String()
	}
	return h.Name + ":" + strconv.Itoa(int(port))
}

// Parse reads a name or an address; an IPv6 address is without brackets.
func Parse(s string) (Host, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		name, err := Canonical(s)
		return Host{Name: name}, err
	}
	if a.Zone() != "" {
		return Host{}, errors.New("an address with a zone id is refused")
	}
	return Host{Addr: a.Unmap()}, nil
}

// ParseAuthority reads HOST:PORT as it stands in a request line or Host header (RFC 3986, 3.2, without user information),
// an IPv6 address in brackets. Without a port it is def; if that is 0, a port is required.
func ParseAuthority(s string, def uint16) (Host, uint16, error) {
	if strings.Contains(s, "@") {
		return Host{}, 0, errors.New("user information ('@') is no part of a host")
	}
	host, port, err := Split(s)
	if err != nil {
		return Host{}, 0, err
	}
	p := def
	if port != "" {
		if p, err = ParsePort(port); err != nil {
			return Host{}, 0, err
		}
	}
	if p == 0 {
		return Host{}, 0, errors.New("the port is missing")
	}
	h, err := Parse(host)
	if err != nil {
		return Host{}, 0, err
	}
	return h, p, nil
}

// Split parts host and port, which is empty where there is none. A name in brackets and an IPv6 address without them are errors.
func Split(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, after, ok := strings.Cut(rest, "]")
		if !ok {
			return "", "", errors.New("a bracket is not closed")
		}
		if !strings.Contains(host, ":") {
			return "", "", errors.New("brackets go round IPv6 addresses only")
		}
		if after == "" {
			return host, "", nil
		}
		if after[0] != ':' || len(after) == 1 {
			return "", "", errors.New("there is no port behind the bracket")
		}
		return host, after[1:], nil
	}
	host, port, ok := strings.Cut(s, ":")
	if !ok {
		return s, "", nil
	}
	if strings.Contains(port, ":") {
		return "", "", errors.New("an IPv6 address with a port goes in brackets, as in [2001:db8::1]:443")
	}
	if port == "" {
		return "", "", errors.New("the port is missing after the colon")
	}
	return host, port, nil
}

// ParsePort reads 1 to 65535 in plain decimal digits.
func ParsePort(s string) (uint16, error) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("port %q is not a number", s)
		}
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || len(s) > 5 {
		return 0, fmt.Errorf("port %q is not within 1 to 65535", s)
	}
	return uint16(n), nil
}
