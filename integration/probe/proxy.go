package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"gobox/selftest/attempt"
)

// proxyAttempt is what a program does that knows of the proxy, or means to deceive it.
func proxyAttempt(name string) attempt.Func {
	switch name {
	case "proxy":
		return proxy
	case "tls":
		return shake
	}
	return nil
}

// proxy TEXT: the beginning of what the proxy of the environment answers to this, %XX in it being a byte
func proxy(a []string) (int64, string, error) {
	text, err := url.PathUnescape(a[0])
	if err != nil {
		return -1, "", err
	}
	at, err := url.Parse(os.Getenv("http_proxy"))
	if err != nil {
		return -1, "", err
	}
	c, err := net.DialTimeout("tcp", at.Host, onlineTimeout)
	if err != nil {
		return -1, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(onlineTimeout))
	if _, err := io.WriteString(c, text); err != nil {
		return -1, "write", err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return -1, "shutdown", err
	}
	b, err := io.ReadAll(io.LimitReader(c, 1000))
	return int64(len(b)), string(b), err
}

// tls HOST:PORT NAME: the name in the certificate when TLS is spoken there with this server name; - is for none
func shake(a []string) (int64, string, error) {
	c, err := net.DialTimeout("tcp", a[0], onlineTimeout)
	if err != nil {
		return -1, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(onlineTimeout))
	t := tls.Client(c, &tls.Config{ServerName: strings.TrimPrefix(a[1], "-"), InsecureSkipVerify: true})
	if err := t.Handshake(); err != nil {
		return -1, "", err
	}
	return 0, strings.Join(t.ConnectionState().PeerCertificates[0].DNSNames, " "), nil
}
