// Package tlsclient makes TLS connections to servers that prove their name with a certificate that the host trusts. It is
// for what the supervisor itself says to a server: requests with a credential, and the caller's proxy by https://.
package tlsclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// Client shakes hands over conn, which it owns from then on: it is closed when the error is not nil. The certificates that
// are trusted are the host's, or those that SSL_CERT_FILE and SSL_CERT_DIR of the caller name.
func Client(ctx context.Context, conn net.Conn, name string) (net.Conn, error) {
	c := tls.Client(conn, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, reason(err)
	}
	return c, nil
}

// reason says in words of its own what is the host's matter and not the server's.
func reason(err error) error {
	var unknown x509.UnknownAuthorityError
	var roots x509.SystemRootsError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("the host does not trust the server's certificate: %w", err)
	case errors.As(err, &roots):
		return fmt.Errorf("the host has no certificates to trust: %w", err)
	}
	return err
}
