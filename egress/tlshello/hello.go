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
func ServerName(b []byte) (string, error) {
	msg, err := handshake(b)
	if err != nil {
		if err == ErrMore && len(b) >= MaxHello {
			return "", errTooLong
		}
		return "", err
	}
	return serverName(msg)
}

// handshake puts the fragments of the first handshake message together, and gives its body.
func handshake(b []byte) ([]byte, error) {
	var msg []byte
	for {
		// Each byte is judged as soon as it is there: a program that speaks another protocol waits for an answer.
		if len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 {
			return nil, ErrNotTLS
		}
		if len(b) < 5 {
			return nil, ErrMore
		}
		size := int(b[3])<<8 | int(b[4])
		if size == 0 || size > maxRecord {
			return nil, ErrNotTLS
		}
		frag := b[5:]
		whole := len(frag) >= size
		if whole {
			frag, b = frag[:size], frag[size:]
		}
		msg = append(msg, frag...)
		if len(msg) > 0 && msg[0] != typeClientHello {
			return nil, ErrNotTLS
		}
		if len(msg) >= 4 {
			n := int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3])
			switch {
			case n > MaxHello:
				return nil, errTooLong
			case len(msg) >= 4+n:
				return msg[4 : 4+n], nil
			}
		}
		if !whole {
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
