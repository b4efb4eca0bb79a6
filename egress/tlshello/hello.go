// Package tlshello reads the server name out of a TLS ClientHello (RFC 8446, 4.1.2; RFC 6066, 3) without taking part in
// the handshake. It refuses whatever two readers could see differently, such as a second server name.
//
// With Encrypted Client Hello the name is that of the outer hello: what is inside is for the server alone to know.
package tlshello

import (
	"errors"
)

// MaxHello bounds what is read before the name must be known, in bytes with record headers. Hellos with post-quantum
// key shares have 2 KiB.
const MaxHello = 32 << 10

var (
	// ErrMore says that the hello is not complete yet.
	ErrMore = errors.New("the ClientHello is not complete")
	// ErrNotTLS is for bytes that begin no TLS connection.
	ErrNotTLS = errors.New("this is no TLS")
	// ErrNoName is for a hello without a server name (SNI).
	ErrNoName = errors.New("the ClientHello names no server (no SNI)")

	errMalformed = errors.New("the ClientHello is malformed")
	errTooLong   = errors.New("the ClientHello is too long")
)

const (
	recordHandshake = 22
	maxRecord       = 1 << 14
	typeClientHello = 1
	extServerName   = 0
	nameTypeHost    = 0
)

// ServerName gives the name that the hello at the beginning of b asks for, as it stands there. It is ErrMore while b can
// still become a hello.
func ServerName(b []byte) (string, error) { return new(Reader).ServerName(b) }

// Reader reads a hello that comes in pieces, each byte of it once: a sender of records of one byte could else have a process do
// the same work over and over whose time is in no limit.
type Reader struct {
	at   int    // bytes that have been read
	left int    // those of the current record that have not
	msg  []byte // fragments of the handshake message, put together
}

// ServerName is that of all that has come so far: what it was called with before, and more behind it.
func (r *Reader) ServerName(b []byte) (string, error) {
	msg, err := r.handshake(b)
	if err != nil {
		if err == ErrMore && len(b) >= MaxHello {
			return "", errTooLong
		}
		return "", err
	}
	return serverName(msg)
}

// handshake puts the fragments of the first handshake message together, and gives its body.
func (r *Reader) handshake(b []byte) ([]byte, error) {
	for {
		rest := b[r.at:]
		if r.left == 0 {
			// Each byte is judged as soon as it is there: a program that speaks another protocol waits for an answer.
			if len(rest) > 0 && rest[0] != recordHandshake || len(rest) > 1 && rest[1] != 3 {
				return nil, ErrNotTLS
			}
			if len(rest) < 5 {
				return nil, ErrMore
			}
			size := int(rest[3])<<8 | int(rest[4])
			if size == 0 || size > maxRecord {
				return nil, ErrNotTLS
			}
			r.at, r.left, rest = r.at+5, size, rest[5:]
		}
		frag := rest[:min(r.left, len(rest))]
		r.msg = append(r.msg, frag...)
		r.at, r.left = r.at+len(frag), r.left-len(frag)
		if len(r.msg) > 0 && r.msg[0] != typeClientHello {
			return nil, ErrNotTLS
		}
		if len(r.msg) >= 4 {
			n := int(r.msg[1])<<16 | int(r.msg[2])<<8 | int(r.msg[3])
			switch {
			case n > MaxHello:
				return nil, errTooLong
			case len(r.msg) >= 4+n:
				return r.msg[4 : 4+n], nil
			}
		}
		if r.left > 0 {
			return nil, ErrMore
		}
	}
}

// cursor takes fields off the front; after the first that is not there everything is missing.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

// vector takes a field behind its length, which has size bytes.
func (c *cursor) vector(size int) []byte {
	n := 0
	for _, v := range c.take(size) {
		n = n<<8 | int(v)
	}
	return c.take(n)
}

func serverName(body []byte) (string, error) {
	c := cursor{b: body}
	c.take(2 + 32)                              // legacy_version, random
	session := c.vector(1)                      // legacy_session_id
	suites, methods := c.vector(2), c.vector(1) // cipher_suites, legacy_compression_methods
	if c.bad || len(session) > 32 || len(suites) == 0 || len(suites)%2 != 0 || len(methods) == 0 {
		return "", errMalformed
	}
	if len(c.b) == 0 {
		return "", ErrNoName // no extensions at all, as before TLS 1.0 had them
	}
	exts := cursor{b: c.vector(2)}
	if c.bad || len(c.b) != 0 {
		return "", errMalformed
	}
	name, found := "", false
	for len(exts.b) > 0 {
		typ := exts.take(2)
		data := exts.vector(2)
		if exts.bad {
			return "", errMalformed
		}
		if int(typ[0])<<8|int(typ[1]) != extServerName {
			continue
		}
		if found {
			return "", errMalformed // a second one
		}
		found = true
		list := cursor{b: data}
		names := cursor{b: list.vector(2)}
		kind := names.take(1)
		host := names.vector(2)
		// One entry of the one type there is (RFC 6066: not more than one name of the same type).
		if list.bad || names.bad || len(list.b) != 0 || len(names.b) != 0 || kind[0] != nameTypeHost || len(host) == 0 {
			return "", errMalformed
		}
		name = string(host)
	}
	if !found {
		return "", ErrNoName
	}
	return name, nil
}
