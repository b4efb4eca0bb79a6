// Package authority is a certificate authority that the test's internet has for itself.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"time"
)

// Authority signs a certificate for whatever name is asked for.
type Authority struct {
	Certificate []byte // PEM
	Key         []byte // PEM; also that of every certificate it signs

	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu    sync.Mutex
	known map[string]*tls.Certificate
}

// New makes one.
func New() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("testnet authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return Load(encode("CERTIFICATE", der), encode("EC PRIVATE KEY", secret))
}

// Load gives the one of this certificate and key.
func Load(certificate, key []byte) (*Authority, error) {
	c, k := decode(certificate), decode(key)
	cert, err := x509.ParseCertificate(c)
	secret, kerr := x509.ParseECPrivateKey(k)
	if err := errors.Join(err, kerr); err != nil {
		return nil, err
	}
	return &Authority{Certificate: certificate, Key: key, cert: cert, key: secret, known: map[string]*tls.Certificate{}}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func decode(text []byte) []byte {
	if block, _ := pem.Decode(text); block != nil {
		return block.Bytes
	}
	return nil
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// Config is a server's that is whoever it is asked for.
func (a *Authority) Config() *tls.Config {
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		name := hello.ServerName
		if c := a.known[name]; c != nil {
			return c, nil
		}
		t := template(name)
		t.DNSNames, t.ExtKeyUsage = []string{name}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &a.key.PublicKey, a.key)
		if err != nil {
			return nil, err
		}
		c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
		a.known[name] = c
		return c, nil
	}}
}
