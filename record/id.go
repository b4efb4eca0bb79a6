package record

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const idTime = "20060102T150405Z"

// NewID makes a run id: the time to the microsecond (in hexadecimal after the dash), so that ids sort by it, and 32
// random bits.
func NewID(t time.Time) string {
	return fmt.Sprintf("%s-%05x%s", t.UTC().Format(idTime), t.Nanosecond()/1000, random(4))
}

// idStart gives the time in an id of NewID.
func idStart(id string) (time.Time, bool) {
	if len(id) != len(idTime)+14 || id[len(idTime)] != '-' {
		return time.Time{}, false
	}
	t, err := time.Parse(idTime, id[:len(idTime)])
	if err != nil {
		return time.Time{}, false
	}
	us, err := strconv.ParseUint(id[len(idTime)+1:len(idTime)+6], 16, 32)
	if err != nil || us > 999_999 {
		return time.Time{}, false
	}
	return t.Add(time.Duration(us) * time.Microsecond), true
}

// ValidID reports whether id may name a run: [A-Za-z0-9._-]{1,64}, and no leading dot or dash, which
// would make it a hidden file or a flag.
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > 64 || id[0] == '.' || id[0] == '-' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// random gives n random bytes in hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	for got := 0; got < n; {
		k, err := unix.Getrandom(b[got:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			// ENOSYS only; ids are unique by O_EXCL anyway.
			now := time.Now().UnixNano()
			for i := range b {
				b[i] = byte(now >> (8 * (i % 8)))
			}
			break
		}
		got += k
	}
	return hex.EncodeToString(b)
}
