package inspect

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// LeastSecret is the shortest secret that can be told from other output, in bytes.
const LeastSecret = 6

// MaxSecret is the longest secret, in bytes. One string of an environment may have 128 KiB (MAX_ARG_STRLEN of
// <linux/binfmts.h>).
const MaxSecret = 64 << 10

// Secrets are values that must not be seen, in all forms in which they are looked for (see forms). The zero value and nil
// know none. It does not change, and may be used at the same time.
type Secrets struct {
	forms   map[uint64][]form // by the first LeastSecret bytes, longest first
	filter  [1 << 10]uint64   // bit per hash of such a beginning
	longest int
}

// form is one spelling of a secret.
type form struct {
	text []byte
	by   []byte // what stands for it
}

// NewSecrets takes name to value. A value shorter than LeastSecret or longer than MaxSecret bytes is an error, which does not
// quote it.
func NewSecrets(values map[string][]byte) (*Secrets, error) {
	s := &Secrets{forms: map[uint64][]form{}}
	for _, name := range sortedKeys(values) {
		switch v := values[name]; {
		case len(v) < LeastSecret:
			return nil, errShort
		case len(v) > MaxSecret:
			return nil, errLong
		default:
			for _, text := range spellings(v) {
				s.add(form{text, []byte("[secret " + name + "]")})
			}
		}
	}
	for _, list := range s.forms {
		slices.SortStableFunc(list, func(a, b form) int { return len(b.text) - len(a.text) })
	}
	return s, nil
}

var (
	errShort = errors.New("has fewer than 6 bytes, which cannot be told from other output")
	errLong  = errors.New("has more than 64 KiB")
)

func (s *Secrets) add(f form) {
	if len(f.text) < LeastSecret {
		return
	}
	key := beginning(f.text)
	for _, have := range s.forms[key] {
		if bytes.Equal(have.text, f.text) {
			return
		}
	}
	s.forms[key] = append(s.forms[key], f)
	h := hashOf(key)
	s.filter[h>>6] |= 1 << (h & 63)
	s.longest = max(s.longest, len(f.text))
}

// beginning is the first LeastSecret bytes as a number.
func beginning(b []byte) uint64 {
	return uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(b[2])<<24 | uint64(b[3])<<16 | uint64(b[4])<<8 | uint64(b[5])
}

func hashOf(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 >> 48 }

// at gives the longest form that text begins with, or nil.
func (s *Secrets) at(text []byte, key uint64) *form {
	if h := hashOf(key); s.filter[h>>6]>>(h&63)&1 == 0 {
		return nil
	}
	list := s.forms[key]
	for i := range list {
		if bytes.HasPrefix(text, list[i].text) {
			return &list[i]
		}
	}
	return nil
}

// replace appends text to out with the secrets replaced, as far as it is certain: but for the end, a secret could begin in
// the last bytes. It gives how much of text that was.
func (s *Secrets) replace(out, text []byte, end bool) (_ []byte, done int) {
	from, i := 0, 0
	limit := len(text) - s.longest // the last place that a whole secret can be seen at
	if end {
		limit = len(text) - LeastSecret
	}
	for i <= limit {
		f := s.at(text[i:], beginning(text[i:]))
		if f == nil {
			i++
			continue
		}
		out = append(out, text[from:i]...)
		out = append(out, f.by...)
		i += len(f.text)
		from = i
	}
	if end {
		i = len(text)
	}
	return append(out, text[from:i]...), i
}

// Text is text with every secret in it replaced by [secret NAME].
func (s *Secrets) Text(text string) string {
	if s == nil || s.longest == 0 {
		return text
	}
	out, _ := s.replace(nil, []byte(text), true)
	return string(out)
}

// In tells whether a secret is in what r gives.
func (s *Secrets) In(r io.Reader) (bool, error) {
	if s == nil || s.longest == 0 {
		return false, nil
	}
	buf := make([]byte, 64<<10+s.longest)
	for n := 0; ; {
		k, err := r.Read(buf[n:])
		n += k
		limit := n - s.longest // the last place that a whole secret can be seen at
		if err == io.EOF {
			limit = n - LeastSecret
		}
		i := 0
		for ; i <= limit; i++ {
			if s.at(buf[i:n], beginning(buf[i:])) != nil {
				return true, nil
			}
		}
		n = copy(buf, buf[i:n])
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// Redactor writes what it is given with every secret replaced by [secret NAME]: at each place, from the beginning on, the
// longest form that stands there. It holds back as many bytes as the longest form has, until Close. Its methods
// may be called at the same time.
type Redactor struct {
	mu      sync.Mutex
	w       io.Writer
	secrets *Secrets
	held    []byte
	out     []byte
	err     error
	closed  bool
}

// Redactor gives one that writes to w, which stays the caller's.
func (s *Secrets) Redactor(w io.Writer) *Redactor { return &Redactor{w: w, secrets: s} }

// Write takes all of p or gives an error, which every later call gives again.
func (r *Redactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, io.ErrClosedPipe
	}
	if r.err != nil {
		return 0, r.err
	}
	if r.secrets == nil || r.secrets.longest == 0 {
		n, err := r.w.Write(p)
		r.err = err
		return n, err
	}
	for rest := p; len(rest) > 0; {
		// In parts, so that a large Write does not need as much memory again.
		n := min(len(rest), 64<<10)
		r.held = append(r.held, rest[:n]...)
		rest = rest[n:]
		if err := r.flush(false); err != nil {
			return len(p) - len(rest), err
		}
	}
	return len(p), nil
}

func (r *Redactor) flush(end bool) error {
	var done int
	r.out, done = r.secrets.replace(r.out[:0], r.held, end)
	r.held = r.held[:copy(r.held, r.held[done:])]
	if len(r.out) > 0 {
		_, r.err = r.w.Write(r.out)
	}
	return r.err
}

// Close writes what was held back and gives the first error of all writing. It may be called again.
func (r *Redactor) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.err == nil && len(r.held) > 0 {
		_ = r.flush(true)
	}
	r.closed = true
	return r.err
}
