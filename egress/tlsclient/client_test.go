package tlsclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClient runs itself with SSL_CERT_FILE set, since the host's certificates are read once per process.
func TestClient(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"good.example"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.WriteString(c, "hello")
			}()
		}
	}()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, certs, want string }{
		{"good.example", file, "hello"},
		{"evil.example", file, "not evil.example"},
		{"good.example", "/dev/null", "does not trust"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$", "-test.v")
		cmd.Env = []string{"SSL_CERT_FILE=" + c.certs, "SSL_CERT_DIR=/nonexistent", "TLSCLIENT_ADDR=" + l.Addr().String(), "TLSCLIENT_NAME=" + c.name}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s, trusting %s: %s, %v", c.name, filepath.Base(c.certs), out, err)
		}
	}
}

func TestHelper(t *testing.T) {
	addr := os.Getenv("TLSCLIENT_ADDR")
	if addr == "" {
		return // only TestClient has work for it
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := Client(ctx, conn, os.Getenv("TLSCLIENT_NAME"))
	if err != nil {
		t.Log(err)
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Error("the connection is still open")
		}
		return
	}
	b, err := io.ReadAll(c)
	t.Logf("%s, %v", b, err)
}
