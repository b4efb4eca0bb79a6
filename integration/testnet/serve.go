package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"gobox/integration/testnet/authority"
	"gobox/integration/testnet/heard"

	"golang.org/x/sys/unix"
)

// Ports that every address but those of quiet has.
const (
	portEcho  = 7000 // gives back what it gets
	portSSH   = 22
	portHTTP  = 80
	portHTTPS = 443
	portDead  = 7001 // nothing ever comes back, as from a host that is gone
	portData  = 5432 // PostgreSQL at those of database; says who is there, and then echoes, at the others
)

// quiet are addresses at which nobody listens.
var quiet = []string{"93.184.216.41"}

// database are addresses at which -postgres is.
var database = []string{"93.184.216.60", "93.184.216.61"}

// services is what the servers have besides the network.
type services struct {
	ca       *authority.Authority
	log      *heard.Log
	site     string // folder with what is served, or ""
	postgres string // socket of a server, or ""
}

func (s *services) serve() error {
	if err := serveDNS(s.log); err != nil {
		return err
	}
	// Two servers: what one is first used for decides whether it speaks HTTP/2.
	handler := s.web()
	ports := map[int]func(net.Listener){
		portEcho: each(func(c net.Conn) { _, _ = io.Copy(c, bufio.NewReader(c)) }),
		portData: each(s.data),
		portHTTP: func(l net.Listener) { _ = (&http.Server{Handler: handler}).Serve(l) },
		portHTTPS: func(l net.Listener) {
			_ = (&http.Server{Handler: handler, TLSConfig: s.ca.Config()}).ServeTLS(l, "", "")
		},
	}
	if err := playDead(); err != nil {
		return fmt.Errorf("port %d: %w", portDead, err)
	}
	if s.site != "" {
		ssh, err := newSSH(s.site)
		if err != nil {
			return err
		}
		ports[portSSH] = each(ssh.serve)
	}
	for port, serve := range ports {
		lc := net.ListenConfig{Control: transparent}
		lc.SetMultipathTCP(false)
		l, err := lc.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go serve(&listener{Listener: l, log: s.log})
	}
	return nil
}

// playDead listens at portDead with a queue of one, in which there is one: the kernel then pays no attention to others (listen(2)).
func playDead() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: portDead}); err != nil {
		return err
	}
	if err := unix.Listen(fd, 0); err != nil {
		return err
	}
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Connect(own, &unix.SockaddrInet4{Port: portDead, Addr: [4]byte{127, 0, 0, 1}})
}

// data passes a connection on to the database, or stands for one.
func (s *services) data(c net.Conn) {
	if s.postgres == "" || !slices.Contains(database, localAddr(c).Addr().String()) {
		fmt.Fprintf(c, "here is %s\n", c.LocalAddr())
		_, _ = io.Copy(c, bufio.NewReader(c))
		return
	}
	// PostgreSQL's server has no TLS on its socket, so that it begins here: SSLRequest, "S", and then the handshake.
	first := make([]byte, 8)
	if _, err := io.ReadFull(c, first); err != nil {
		return
	}
	if string(first) == "\x00\x00\x00\x08\x04\xd2\x16\x2f" {
		if _, err := c.Write([]byte("S")); err != nil {
			return
		}
		c, first = tls.Server(c, s.ca.Config()), nil
	}
	up, err := net.Dial("unix", s.postgres)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, io.MultiReader(bytes.NewReader(first), c))
		_ = up.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(c, up)
}

// listener notes each connection, and resets those to addresses at which nobody is to listen.
type listener struct {
	net.Listener
	log *heard.Log
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		local := localAddr(c)
		if slices.Contains(quiet, local.Addr().String()) {
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
			continue
		}
		l.log.Write(heard.Entry{Kind: heard.Connection, Local: local.String()})
		return c, nil
	}
}

func localAddr(c net.Conn) netip.AddrPort {
	a := netip.MustParseAddrPort(c.LocalAddr().String())
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// each serves every connection in a goroutine of its own, and closes it then.
func each(serve func(net.Conn)) func(net.Listener) {
	return func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}
}
