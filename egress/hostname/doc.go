// Package hostname makes the one canonical form of a host that policy, DNS and dialling are given, and refuses whatever
// could mean one host to a check and another to a resolver.
//
// Names follow RFC 1035 (253 bytes, labels of 63), RFC 5891 and UTS 46 (IDNA), with the underscore that service names
// have. Addresses follow RFC 4291 and the dotted decimal form only: what inet_aton(3) reads besides (octal, hexadecimal,
// fewer than four parts) is refused, since half of the programs there are take it for a name.
package hostname
