package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
)

// underWay is how much of pump's may not have come back yet. An echo whose two buffers are full can stand still for good: the kernel then drops
// acknowledgements together with the data that it has no room for.
const underWay = 4 << 20

// pump ADDR BYTES: sends as much over one connection to an echo, and sees that it comes back
func pump(a []string) int {
	size := int64(number(a[1]))
	c, err := net.Dial("tcp", a[0])
	if err != nil {
		return refusal(err)
	}
	defer c.Close()
	unit := make([]byte, 64<<10)
	for i := range unit {
		unit[i] = byte(i*7) | 0x80
	}
	failed := make(chan error, 1)
	back := make(chan struct{}, underWay/len(unit))
	go func() {
		for left := size; left > 0; {
			back <- struct{}{}
			n, err := c.Write(unit[:min(left, int64(len(unit)))])
			if err != nil {
				failed <- err
				return
			}
			left -= int64(n)
		}
		failed <- c.(*net.TCPConn).CloseWrite()
	}()
	buf := make([]byte, len(unit))
	got := int64(0)
	for got < size {
		n, err := io.ReadFull(c, buf[:min(size-got, int64(len(buf)))])
		if err != nil || !bytes.Equal(buf[:n], unit[:n]) {
			fmt.Println("other bytes, or none:", err)
			return 3
		}
		got += int64(n)
		<-back
	}
	if err := <-failed; err != nil {
		return refusal(err)
	}
	fmt.Println("back", got)
	return 0
}

// many ADDR N: so many connections to an echo at once, each of which is used when all are there
func many(a []string) int {
	n := int(number(a[1]))
	list := make([]net.Conn, n)
	for i := range list {
		c, err := net.Dial("tcp", a[0])
		if err != nil {
			fmt.Println("connection", i)
			return refusal(err)
		}
		defer c.Close()
		list[i] = c
	}
	for i, c := range list {
		text := []byte(fmt.Sprintf("connection %d\n", i))
		buf := make([]byte, len(text))
		_, err := c.Write(text)
		if _, err2 := io.ReadFull(c, buf); err != nil || err2 != nil || !bytes.Equal(buf, text) {
			fmt.Println("connection", i, errors.Join(err, err2))
			return 3
		}
	}
	fmt.Println("answered", n)
	return 0
}
