package inspect

import (
	"context"
	"errors"
	"io"
	"math/bits"
)

// Finding is a place that looks like a secret. What stands there is nowhere in it.
type Finding struct {
	Kind   string // aws_access_key, private_key, base64...; "more" for the place from the first to the last of those left out
	Object string // as given to [Scan]
	Offset uint64 // bytes
	Length uint64 // bytes
}

// MaxFindings is how many places one [Scan] gives; the rest is one finding of kind "more".
const MaxFindings = 1000

// lookahead is how many bytes of a token are looked at before it is one; what follows may be of any length. maxBlock is
// how far the end of a private key is looked for.
const (
	lookahead = 4096
	maxBlock  = 64 << 10
)

// What is a run: SHA-512 in hexadecimal has 128 digits, in base64 88, and both are everyday output. A word of a path has
// at most 26 letters and the slash, a counter few digits.
const (
	leastHex      = 129
	leastBase64   = 120
	distinctHex   = 8
	distinct64    = 30
	leastMixed    = 16 // of a single line
	upperDigits   = 1<<26 - 1
	lowerDigits   = upperDigits << 26
	leastFullLine = 60 // base64(1) and xxd(1) fold at 76 and 60 columns, PEM at 64
)

// The kinds of runs.
const (
	kindHex    = "hex"
	kindBase64 = "base64"
)

// Scan reads r to its end and gives the places that look like secrets: private keys, tokens with a known prefix, and long
// runs of base64 or hexadecimal. It is made for finding what was printed by mistake; who wants to hide a secret from it can. It
// stops when ctx is over.
func Scan(ctx context.Context, r io.Reader, object string) ([]Finding, error) {
	s := newScanner(object)
	buf := make([]byte, 64<<10)
	for held := 0; ; {
		if err := ctx.Err(); err != nil {
			s.release(false)
			return s.found, err
		}
		n, err := r.Read(buf[held:])
		held += n
		end := err != nil
		done := s.scan(buf[:held], end)
		held = copy(buf, buf[done:held])
		if errors.Is(err, io.EOF) {
			return s.found, nil
		}
		if err != nil {
			return s.found, err
		}
	}
}

type scanner struct {
	object string
	rules  []rule
	first  [256][]*rule // by the prefix's first byte
	word   class        // a token does not begin behind one of these
	found  []Finding
	at     uint64 // of the next byte
	before byte   // the one before it

	token *rule  // whose end has not come
	begin uint64 // where it began

	key      int       // index in found of a private key whose end has not come, or -1
	keyBegin uint64    // where it began
	held     []Finding // those behind it, of which maxBlock has few: its end may come and they be a part of it

	run run
}

func newScanner(object string) *scanner {
	s := &scanner{object: object, rules: rules(), word: classOf("09AZaz"), key: -1}
	for i := range s.rules {
		b := s.rules[i].prefix[0]
		s.first[b] = append(s.first[b], &s.rules[i])
	}
	return s
}

// scan takes in text, which goes on where the last call's stopped, and gives how many bytes of it are done with: all, at
// the end, else all but those that something could still begin at.
func (s *scanner) scan(text []byte, end bool) int {
	i := 0
	for i < len(text) && (end || len(text)-i >= lookahead) {
		b := text[i]
		if s.token != nil {
			if s.token.of.has(b) {
				s.next(b)
				i++
				continue
			}
			s.endToken()
		}
		if list := s.first[b]; list != nil {
			if n := s.match(list, text[i:]); n > 0 {
				for _, b := range text[i : i+n] {
					s.next(b)
				}
				i += n
				continue
			}
		}
		if b == '-' && s.key >= 0 {
			s.endKey(text[i:])
		}
		s.run.take(s, b)
		s.next(b)
		i++
	}
	if end && i == len(text) {
		if s.token != nil {
			s.endToken()
		}
		s.run.end(s)
		s.release(false)
	}
	return i
}

func (s *scanner) next(b byte) {
	s.at++
	s.before = b
}

// match begins a token or key at text, and gives how much of it is certain, or 0.
func (s *scanner) match(list []*rule, text []byte) int {
	for _, r := range list {
		if len(text) < len(r.prefix) || string(text[:len(r.prefix)]) != r.prefix {
			continue
		}
		if s.word.has(s.before) && s.word.has(r.prefix[0]) {
			continue
		}
		n := s.judge(r, text[:min(len(text), lookahead)])
		if n == 0 {
			continue
		}
		if s.run.end(s); r.kind == "private_key" && r.more != nil {
			s.release(false)
			s.add(r.kind, s.at, uint64(n))
			if s.key = len(s.found) - 1; s.found[s.key].Kind == "more" {
				s.key = -1
			}
			s.keyBegin = s.at
			return n
		}
		s.token, s.begin = r, s.at
		return n
	}
	return 0
}

// judge gives how much of text is certain to be of the rule's kind, or 0.
func (s *scanner) judge(r *rule, text []byte) int {
	if r.more != nil {
		return r.more(text)
	}
	n := len(r.prefix)
	for n < len(text) && r.of.has(text[n]) {
		n++
		if r.most > 0 && n > len(r.prefix)+r.most {
			return 0
		}
	}
	if n-len(r.prefix) < r.least {
		return 0
	}
	return n
}

func (s *scanner) endToken() {
	s.add(s.token.kind, s.begin, s.at-s.begin)
	s.token = nil
}

// endKey looks for the last line of a private key.
func (s *scanner) endKey(text []byte) {
	const mark, dashes = "-----END ", "-----"
	if s.at-s.keyBegin > maxBlock {
		s.release(false)
		return
	}
	if len(text) < len(mark) || string(text[:len(mark)]) != mark {
		return
	}
	rest := text[len(mark):min(len(text), 80)]
	for i := 0; i+len(dashes) <= len(rest); i++ {
		if string(rest[i:i+len(dashes)]) == dashes {
			s.run.end(s)
			f := &s.found[s.key]
			f.Length = s.at + uint64(len(mark)+i+len(dashes)) - f.Offset
			s.release(true)
			return
		}
	}
}

// release gives what was held behind the first line of a private key. Where its end has come, runs in between were its body;
// else they are something else, or the body of one that is cut off.
func (s *scanner) release(whole bool) {
	s.key = -1
	for _, f := range s.held {
		if !whole || f.Kind != kindBase64 && f.Kind != kindHex {
			s.put(f)
		}
	}
	s.held = s.held[:0]
}

func (s *scanner) add(kind string, at, length uint64) {
	f := Finding{kind, s.object, at, length}
	if s.key >= 0 {
		if s.at-s.keyBegin <= maxBlock {
			s.held = append(s.held, f)
			return
		}
		s.release(false)
	}
	s.put(f)
}

func (s *scanner) put(f Finding) {
	if len(s.found) <= MaxFindings {
		if len(s.found) == MaxFindings {
			f.Kind = "more"
		}
		s.found = append(s.found, f)
		return
	}
	more := &s.found[MaxFindings]
	more.Length = max(more.Length, f.Offset+f.Length-more.Offset)
}

// run is a stretch of base64 or hexadecimal, over the ends of full lines too.
type run struct {
	length uint64 // with the line ends
	chars  uint64
	line   uint64 // characters of this line
	tail   uint64 // bytes at the end that are a line end
	hex    bool
	padded bool
	seen   uint64 // which of the 64 digits

	lines lines  // the full ones
	fresh uint64 // which of the 64 digits are in this line
}

// lines are those of a run that are whole.
type lines struct {
	length uint64 // without the last's end
	chars  uint64
	seen   uint64
}

func (r *run) take(s *scanner, b byte) {
	digit, hex := digit64(b)
	switch {
	case digit >= 0:
		if r.padded {
			// Padding is at the end of a run; this was the = of an assignment.
			r.end(s)
		}
		if r.hex && !hex && isHex(r.lines.chars, r.lines.seen) {
			// A word in the line below, which is none of it.
			s.add(kindHex, s.at-r.length, r.lines.length)
			*r = run{length: r.line, chars: r.line, line: r.line, hex: true, seen: r.fresh, fresh: r.fresh}
		}
		if r.length == 0 {
			r.hex = true
		}
		r.length++
		r.chars++
		r.line++
		r.tail = 0
		r.hex = r.hex && hex
		r.seen |= 1 << digit
		r.fresh |= 1 << digit
	case b == '=' && r.length > 0 && r.tail == 0:
		r.length++
		r.padded = true
	case b == '\r' && r.line >= leastFullLine && r.tail == 0:
		r.length++
		r.tail = 1
	case b == '\n' && r.line >= leastFullLine && r.tail < 2:
		if !r.hex && !mixed(r.seen, leastMixed) {
			// A ruler, a path: what is below begins by itself.
			r.end(s)
			return
		}
		r.lines = lines{r.length - r.tail, r.chars, r.seen}
		r.length++
		r.tail++
		r.line, r.fresh = 0, 0
	case r.length > 0:
		r.end(s)
	}
}

// end looks at the run that ends before the next byte.
func (r *run) end(s *scanner) {
	was := *r
	*r = run{}
	length := was.length - was.tail
	begin := s.at - was.length
	switch {
	case was.hex && isHex(was.chars, was.seen):
		s.add(kindHex, begin, length)
	case !was.hex && was.chars >= leastBase64 && mixed(was.seen, distinct64):
		s.add(kindBase64, begin, length)
	}
}

func isHex(chars, seen uint64) bool {
	return chars >= leastHex && bits.OnesCount64(seen) >= distinctHex
}

// mixed says whether there are so many different digits, with letters of both cases.
func mixed(seen uint64, least int) bool {
	return bits.OnesCount64(seen) >= least && seen&upperDigits != 0 && seen&lowerDigits != 0
}

// digit64 is the value of a base64 digit, of either alphabet (RFC 4648), or -1, and whether it is hexadecimal as well.
func digit64(b byte) (digit int, hex bool) {
	switch {
	case b >= 'A' && b <= 'Z':
		return int(b - 'A'), b <= 'F'
	case b >= 'a' && b <= 'z':
		return int(b-'a') + 26, b <= 'f'
	case b >= '0' && b <= '9':
		return int(b-'0') + 52, true
	case b == '+' || b == '-':
		return 62, false
	case b == '/' || b == '_':
		return 63, false
	}
	return -1, false
}
