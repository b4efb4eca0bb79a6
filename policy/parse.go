package policy

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

var (
	errEmpty    = errors.New("is empty")
	errSize     = errors.New("is no size: a number of bytes, or one with k, M, G, T or KiB, MiB, GiB, TiB; 0 for none")
	errTooLarge = errors.New("is too large")
	errDuration = errors.New("is no duration: such as 30s, 1m30s, 7d, or a number of seconds; 0 for none")
)

// ParseSize reads a size in bytes: "65536", "64k", "64KiB". All multiples are binary. The decimal names,
// such as MB, are refused, since half of their users mean the other thing.
func ParseSize(text string) (uint64, error) {
	if text == "" {
		return 0, errEmpty
	}
	digits := strings.TrimRight(text, "kKmMgGtTiIbB")
	shift := 0
	switch strings.ToLower(text[len(digits):]) {
	case "", "b":
	case "k", "kib":
		shift = 10
	case "m", "mib":
		shift = 20
	case "g", "gib":
		shift = 30
	case "t", "tib":
		shift = 40
	default:
		return 0, errSize
	}
	size, err := parseCount(digits)
	if err != nil {
		if errors.Is(err, errTooLarge) {
			return 0, err
		}
		return 0, errSize
	}
	// Half the range is kept free, so that no kernel interface takes a size for a negative number.
	if bits.Len64(size)+shift > 63 {
		return 0, errTooLarge
	}
	return size << shift, nil
}

// ParseCount reads a number of things; 0 means no limit.
func ParseCount(text string) (uint64, error) {
	if text == "" {
		return 0, errEmpty
	}
	return parseCount(text)
}

func parseCount(digits string) (uint64, error) {
	if strings.TrimLeft(digits, "0123456789") != "" || digits == "" {
		return 0, errors.New("is no number; 0 for none")
	}
	count, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, errTooLarge
	}
	return count, nil
}

// ParseCPUs reads how many seconds of CPU time a second may have: a decimal number, 0 for no limit.
func ParseCPUs(text string) (float64, error) {
	if text == "" {
		return 0, errEmpty
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.") != "" {
		return 0, errors.New("is no number such as 0.5 or 2; 0 for none")
	}
	if n > 0 && n < 0.01 || n > 1<<16 {
		return 0, errors.New("must be from 0.01 to 65536")
	}
	return n, nil
}

// MaxDuration is the longest time that is taken, a hundred years: two of them and any margin still fit a
// time.Duration.
const MaxDuration = 100 * 365 * 24 * time.Hour

// ParseDuration reads a time: as time.ParseDuration does, a bare number of seconds, or whole days such as 7d.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errEmpty
	}
	if strings.Trim(text, "0123456789.") == "" {
		text += "s"
	}
	if text[0] == '-' || text[0] == '+' {
		return 0, errDuration
	}
	if days, ok := strings.CutSuffix(text, "d"); ok && days != "" && strings.Trim(days, "0123456789") == "" {
		n, err := strconv.ParseUint(days, 10, 64)
		if err != nil || n > uint64(MaxDuration/(24*time.Hour)) {
			return 0, errTooLarge
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d >= 0 && d <= MaxDuration:
		return d, nil
	case err == nil, wellFormed(text):
		return 0, errTooLarge
	}
	return 0, errDuration
}

// wellFormed tells a time that only is too long for time.ParseDuration from what is none: it is one when
// each of its numbers has one digit.
func wellFormed(text string) bool {
	var short strings.Builder
	digit := false
	for _, c := range []byte(text) {
		is := c >= '0' && c <= '9'
		if !is || !digit {
			short.WriteByte(c)
		}
		digit = is
	}
	_, err := time.ParseDuration(short.String())
	return err == nil
}

// ParseGrant reads P or P:DEST. DEST is absolute, so the last ":/" separates; a colon elsewhere is part of
// the name. Directly before a colon, \: is a colon that does not separate and \\ a backslash; anywhere else a
// backslash is part of the name.
func ParseGrant(text string) (source, dest string, err error) {
	source = text
	for cut := len(text); cut > 0; {
		if cut = strings.LastIndex(text[:cut], ":/"); cut < 0 {
			break
		}
		if backslashes(text[:cut])%2 == 0 {
			source, dest = text[:cut], text[cut+1:]
			break
		}
	}
	if dest != "" {
		// Those before the separator.
		n := backslashes(source)
		source = source[:len(source)-n/2]
	}
	source, dest = unescapeColons(source), unescapeColons(dest)
	if source == "" {
		return "", "", errEmpty
	}
	return source, dest, nil
}

// backslashes counts those at the end of text.
func backslashes(text string) int { return len(text) - len(strings.TrimRight(text, `\`)) }

// unescapeColons halves the backslashes before each colon: \: is a colon and \\: a backslash and a colon.
func unescapeColons(text string) string {
	if !strings.Contains(text, `\:`) {
		return text
	}
	var out []byte
	for i := range len(text) {
		if text[i] == ':' {
			n := backslashes(string(out))
			out = out[:len(out)-(n+1)/2]
		}
		out = append(out, text[i])
	}
	return string(out)
}

// ParseTmpfs reads DEST or DEST:SIZE.
func ParseTmpfs(text string) (Tmpfs, error) {
	dest, size, sized := strings.Cut(text, ":")
	if dest == "" {
		return Tmpfs{}, errEmpty
	}
	t := Tmpfs{Dest: dest}
	if sized {
		n, err := ParseSize(size)
		if err != nil {
			return Tmpfs{}, err
		}
		t.Size = n
	}
	return t, nil
}
