// Package dns answers DNS queries (RFC 1035) from what a zone knows, and asks nobody.
//
// It reads one question and an EDNS(0) record, no other part of a message, and compresses nothing but the owner of its
// answers. Whatever a query is, the answer fits in 512 bytes.
package dns

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// Result of asking the zone for a name.
type Result int

const (
	NoName Result = iota // NXDOMAIN
	Found                // its addresses; either may be invalid, which is an empty answer
	Failed               // SERVFAIL: for the moment there is no address to give
)

// Zone is what can be asked for. Names come as they were asked, without the final dot and not yet canonical; a byte that
// no host name has is escaped as \DDD (RFC 4343, 2.1).
type Zone interface {
	Lookup(name string) (v4, v6 netip.Addr, r Result)
	Reverse(a netip.Addr) (name string, ok bool)
}

// Sizes of RFC 1035, and of RFC 6891 for the OPT record.
const (
	headerLen = 12
	MaxReply  = 512
	optLen    = 11
)

// Types and classes (RFC 1035, 3596, 6891).
const (
	typeA    = 1
	typePTR  = 12
	typeAAAA = 28
	typeOPT  = 41
	typeIXFR = 251
	typeAXFR = 252
	classIN  = 1
	classANY = 255
)

// Response codes (RFC 1035, 4.1.1; RFC 6891, 9).
const (
	rcodeFormat   = 1
	rcodeServer   = 2
	rcodeName     = 3
	rcodeNotImpl  = 4
	rcodeRefused  = 5
	rcodeVersion  = 16
	ttl           = 300 // seconds; a synthetic address means the same name for the whole run
	flagResponse  = 1 << 15
	flagTruncated = 1 << 9
	flagRecursion = 1 << 8
	flagAvailable = 1 << 7
	maskOpcode    = 0xf << 11
)

// Answer gives the reply to a query, or nil for what is no query at all, which is not answered.
func Answer(query []byte, z Zone) []byte {
	if len(query) < headerLen {
		return nil
	}
	flags := binary.BigEndian.Uint16(query[2:])
	if flags&flagResponse != 0 {
		return nil // an answer to an answer could go round for ever
	}
	r := reply{msg: make([]byte, headerLen, MaxReply)}
	copy(r.msg, query[:2])
	r.flags = flagResponse | flagAvailable | flags&(maskOpcode|flagRecursion)
	switch {
	case flags&maskOpcode != 0:
		return r.finish(rcodeNotImpl)
	case flags&flagTruncated != 0:
		return r.finish(rcodeFormat)
	}
	q, rest, ok := readQuestion(query)
	if !ok {
		return r.finish(rcodeFormat)
	}
	opt, version, ok := readEDNS(query, rest)
	if !ok {
		return r.finish(rcodeFormat)
	}
	r.edns = opt
	r.msg = append(r.msg, q.raw...)
	binary.BigEndian.PutUint16(r.msg[4:], 1)
	if version != 0 {
		return r.finish(rcodeVersion)
	}
	return r.finish(r.answer(q, z))
}

type question struct {
	raw         []byte // as it came, so that the case of letters comes back (dns0x20)
	name        string
	qtype, qcls uint16
}

// readQuestion reads the only question. Its name has no compression, there being nothing before it to point at.
func readQuestion(msg []byte) (q question, rest []byte, ok bool) {
	if binary.BigEndian.Uint16(msg[4:]) != 1 || binary.BigEndian.Uint16(msg[6:]) != 0 || binary.BigEndian.Uint16(msg[8:]) != 0 {
		return q, nil, false
	}
	b := msg[headerLen:]
	var name strings.Builder
	for n := 0; ; {
		if len(b) == 0 || n > 254 {
			return q, nil, false
		}
		size := int(b[0])
		if size > 63 || len(b) < 1+size {
			return q, nil, false
		}
		label := b[1 : 1+size]
		b = b[1+size:]
		if size == 0 {
			break
		}
		if n += 1 + size; n > 254 {
			return q, nil, false
		}
		if name.Len() > 0 {
			name.WriteByte('.')
		}
		for _, c := range label {
			writeEscaped(&name, c)
		}
	}
	if len(b) < 4 {
		return q, nil, false
	}
	q.name = name.String()
	q.qtype, q.qcls = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	q.raw = msg[headerLen : len(msg)-len(b)+4]
	return q, b[4:], true
}

func writeEscaped(w *strings.Builder, c byte) {
	if c > ' ' && c < 0x7f && c != '.' && c != '\\' {
		w.WriteByte(c)
		return
	}
	w.Write([]byte{'\\', '0' + c/100, '0' + c/10%10, '0' + c%10})
}

// readEDNS finds an OPT record. Of other additional records (TSIG, SIG(0)) nothing is needed, and after one of them the
// rest is not looked at.
func readEDNS(msg, b []byte) (present bool, version byte, ok bool) {
	if binary.BigEndian.Uint16(msg[10:]) == 0 {
		return false, 0, true
	}
	if len(b) < optLen || b[0] != 0 || binary.BigEndian.Uint16(b[1:]) != typeOPT {
		return false, 0, true
	}
	if len(b) < optLen+int(binary.BigEndian.Uint16(b[9:])) {
		return false, 0, false
	}
	return true, b[6], true
}

type reply struct {
	msg   []byte
	flags uint16
	edns  bool
}

// answer appends the answers and gives the response code.
func (r *reply) answer(q question, z Zone) int {
	switch {
	case q.qcls != classIN && q.qcls != classANY, q.qtype == typeIXFR, q.qtype == typeAXFR:
		return rcodeRefused
	case q.qtype == typePTR:
		a, ok := reverse(q.name)
		if !ok {
			break
		}
		name, ok := z.Reverse(a)
		if !ok {
			return rcodeName
		}
		r.record(typePTR, wireName(name))
		return 0
	}
	v4, v6, res := z.Lookup(q.name)
	switch res {
	case NoName:
		return rcodeName
	case Failed:
		return rcodeServer
	}
	switch {
	case q.qtype == typeA && v4.Is4():
		r.record(typeA, v4.AsSlice())
	case q.qtype == typeAAAA && v6.Is6():
		r.record(typeAAAA, v6.AsSlice())
	}
	return 0
}

func (r *reply) record(typ uint16, data []byte) {
	b := binary.BigEndian.AppendUint16(r.msg, 0xc000|headerLen) // the owner is the question's name
	b = binary.BigEndian.AppendUint16(b, typ)
	b = binary.BigEndian.AppendUint16(b, classIN)
	b = binary.BigEndian.AppendUint32(b, ttl)
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	r.msg = append(b, data...)
	binary.BigEndian.PutUint16(r.msg[6:], 1)
}

func (r *reply) finish(rcode int) []byte {
	binary.BigEndian.PutUint16(r.msg[2:], r.flags|uint16(rcode&0xf))
	if r.edns {
		b := append(r.msg, 0)
		b = binary.BigEndian.AppendUint16(b, typeOPT)
		b = binary.BigEndian.AppendUint16(b, MaxReply)
		b = append(b, byte(rcode>>4), 0, 0, 0, 0, 0)
		r.msg = b
		binary.BigEndian.PutUint16(r.msg[10:], 1)
	}
	return r.msg
}

// wireName is for a canonical name, whose labels are known to fit.
func wireName(name string) []byte {
	var b []byte
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}

// reverse reads a name below in-addr.arpa (RFC 1035, 3.5) or ip6.arpa (RFC 3596, 2.5).
func reverse(name string) (netip.Addr, bool) {
	name = strings.ToLower(name)
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		p := strings.Split(rest, ".")
		if len(p) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(p[3] + "." + p[2] + "." + p[1] + "." + p[0])
		return a, err == nil
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(rest) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		c := rest[62-2*i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return netip.Addr{}, false
		}
		if i < 31 && rest[61-2*i] != '.' {
			return netip.Addr{}, false
		}
		b[i/2] |= c << (4 * (1 - i%2))
	}
	return netip.AddrFrom16(b), true
}
