package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"gobox/selftest/attempt"
)

// onlineAttempt is what an ordinary program does on a network, by the means of package net.
func onlineAttempt(name string) attempt.Func {
	switch name {
	case "resolve":
		return resolve
	case "talk":
		return talk
	case "stay":
		return stay
	case "hold":
		return hold
	case "get":
		return func(a []string) (int64, string, error) { return get(a, http.ProxyFromEnvironment) }
	case "get-direct":
		return func(a []string) (int64, string, error) { return get(a, nil) }
	case "serve-self":
		return serveSelf
	case "serve":
		return serve
	}
	return nil
}

const onlineTimeout = 10 * time.Second

// resolve NAME: its addresses
func resolve(a []string) (int64, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), onlineTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, a[0])
	slices.Sort(addrs)
	return int64(len(addrs)), strings.Join(addrs, " "), err
}

// talk HOST:PORT TEXT: the line that comes back for this one
func talk(a []string) (int64, string, error) {
	c, err := net.DialTimeout("tcp", a[0], onlineTimeout)
	if err != nil {
		return -1, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(onlineTimeout))
	if _, err := fmt.Fprintln(c, a[1]); err != nil {
		return -1, "write", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return int64(len(line)), strings.TrimSpace(line), err
}

// stay HOST:PORT: says nothing, and waits for something to come
func stay(a []string) (int64, string, error) {
	c, err := net.DialTimeout("tcp", a[0], onlineTimeout)
	if err != nil {
		return -1, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(onlineTimeout))
	n, err := c.Read(make([]byte, 1))
	return int64(n), "read", err
}

// held are the connections of hold, which are there until the end.
var held []net.Conn

// hold HOST:PORT N TEXT SIZE: opens N connections, and begins each with this text, %XX in it being a byte, and letters up to SIZE bytes
func hold(a []string) (int64, string, error) {
	text, err := url.PathUnescape(a[2])
	if err != nil {
		return -1, "", err
	}
	text += strings.Repeat("a", max(int(attempt.Number(a[3]))-len(text), 0))
	for range attempt.Number(a[1]) {
		c, err := net.DialTimeout("tcp", a[0], onlineTimeout)
		if err != nil {
			return int64(len(held)), "dial", err
		}
		held = append(held, c)
		_ = c.SetDeadline(time.Now().Add(onlineTimeout))
		if _, err := io.WriteString(c, text); err != nil {
			return int64(len(held)), "write", err
		}
	}
	return int64(len(held)), "", nil
}

// get URL: the beginning of the answer's body; one with another status than 200 is an error
func get(a []string, proxy func(*http.Request) (*url.URL, error)) (int64, string, error) {
	c := http.Client{Timeout: 3 * onlineTimeout, Transport: &http.Transport{Proxy: proxy}}
	res, err := c.Get(a[0])
	if err != nil {
		return -1, "", err
	}
	defer res.Body.Close()
	var head strings.Builder
	n, err := io.Copy(&limited{&head, 400}, res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status + ": " + head.String())
	}
	return n, strings.TrimSpace(head.String()), err
}

// limited drops what is too much.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(l.left, len(p))
	l.left -= n
	_, err := l.w.Write(p[:n])
	return len(p), err
}

// serve-self ADDR DIALLED: listens at the one and talks to itself by the other
func serveSelf(a []string) (int64, string, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", a[0])
	if err != nil {
		return -1, "listen", err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprintln(c, "self")
			c.Close()
		}
	}()
	return talk([]string{a[1], "hello"})
}

// serve ADDR N WAIT: after WAIT it says "serving" and answers N connections, each with a line for the line it gets
func serve(a []string) (int64, string, error) {
	wait, err := time.ParseDuration(a[2])
	if err != nil {
		return -1, "", err
	}
	time.Sleep(wait)
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", a[0])
	if err != nil {
		return -1, "listen", err
	}
	defer l.Close()
	fmt.Fprintln(os.Stderr, "serving")
	var n int64
	for range attempt.Number(a[1]) {
		c, err := l.Accept()
		if err != nil {
			return n, "accept", err
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprintf(c, "inside %s\n", strings.TrimSpace(line))
		c.Close()
		n++
	}
	return n, "", nil
}
