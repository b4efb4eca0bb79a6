package egress

import (
	"errors"
	"fmt"
	"strings"

	"gobox/egress/hostname"
	"gobox/egress/httphead"
)

// Credential is a request header that the supervisor adds to http:// requests for one host, which it sends on over TLS.
// The secret is not part of it, so that plans, records and messages cannot hold it.
type Credential struct {
	Host   string // canonical name
	Port   uint16 // of the TLS connection
	Header string // field name as it is sent
	Env    string // variable of the caller that holds the value; Config.Secrets has the value
}

// ParseCredential reads HOST[:PORT]=header:NAME:env:VAR.
func ParseCredential(s string) (Credential, error) {
	authority, spec, ok := strings.Cut(s, "=")
	parts := strings.Split(spec, ":")
	if !ok || len(parts) != 4 || parts[0] != "header" || parts[2] != "env" {
		return Credential{}, errors.New("a credential is HOST=header:NAME:env:VARIABLE")
	}
	h, port, err := hostname.ParseAuthority(authority, DefaultPort)
	if err != nil {
		return Credential{}, err
	}
	if h.Name == "" {
		return Credential{}, errors.New("a credential is for a host name, since TLS has to prove it")
	}
	c := Credential{Host: h.Name, Port: port, Header: parts[1], Env: parts[3]}
	if !httphead.Token(c.Header) {
		return Credential{}, fmt.Errorf("%q is no header name", c.Header)
	}
	if reservedHeader(c.Header) {
		return Credential{}, fmt.Errorf("header %s belongs to the connection and cannot be a credential", c.Header)
	}
	if c.Env == "" || strings.ContainsAny(c.Env, "=\x00") {
		return Credential{}, fmt.Errorf("%q is no name of an environment variable", c.Env)
	}
	return c, nil
}

// String gives the flag's value, without the secret.
func (c Credential) String() string {
	return fmt.Sprintf("%s=header:%s:env:%s", hostname.Host{Name: c.Host}.HostPort(c.Port), c.Header, c.Env)
}

// CheckValue refuses a secret that is no field value (RFC 9110, 5.5). The error does not repeat it.
func CheckValue(v string) error {
	if v == "" {
		return errors.New("it is empty")
	}
	for i := range len(v) {
		if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
			return errors.New("it has a line break or control character, which no header can hold")
		}
	}
	if strings.Trim(v, " \t") != v {
		return errors.New("it begins or ends with a space")
	}
	return nil
}

// reservedHeader are fields that say how a message is framed, where it goes, or that end at the next hop.
func reservedHeader(name string) bool {
	switch strings.ToLower(name) {
	case "connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
		"te", "trailer", "transfer-encoding", "upgrade", "expect":
		return true
	}
	return false
}
