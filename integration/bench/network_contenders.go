package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// networkContender is one way from the client to the server.
type networkContender struct {
	name  string
	needs string // program
	run   func() (networkFigures, error)
}

// networkFigures are what the client measured.
type networkFigures struct {
	connections []time.Duration // from before connect until one byte has come back
	transfers   []time.Duration // of networkBytes to the client
}

// networkLimit is for one contender's round.
const networkLimit = 30 * time.Second

func (b *bench) networkContenders() []networkContender {
	client := []string{filepath.Join(b.dir, "bench"), networkClient}
	gobox := filepath.Join(b.dir, "gobox")
	inGobox := []string{gobox, "run", "--workspace", b.workspace, "--workspace-mode", "ro", "--timeout", "2m", "--rox", b.dir, "--deny", b.home,
		"--allow-net", networkAddr, "--"}
	wrapped := func(argv ...string) func() (networkFigures, error) {
		return func() (networkFigures, error) { return b.networkRun(argv, nil) }
	}
	join := func(before []string, after ...string) []string {
		return append(append(append([]string{}, before...), client...), after...)
	}
	return []networkContender{
		{networkBaseline, "ip", wrapped(join(nil, "direct")...)},
		{"gobox, gateway", gobox, wrapped(join(inGobox, "direct")...)},
		{"gobox, proxy", gobox, wrapped(join(inGobox, "proxy")...)},
		{"slirp4netns", "slirp4netns", func() (networkFigures, error) {
			return b.networkRun(join([]string{"unshare", "--user", "--map-root-user", "--net", "--"}, "wait"), b.slirp)
		}},
		{"pasta", "pasta", wrapped(join([]string{"pasta", "--config-net", "--quiet", "--"}, "direct")...)},
	}
}

// networkRun runs argv, which ends in the client, and reads what that says. Attach, when set, gives the process its network, and what
// takes it away; the client waits for the end of its stdin then.
func (b *bench) networkRun(argv []string, attach func(ctx context.Context, pid int) (func(), error)) (networkFigures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), networkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = b.workspace, b.env(), b.sysProcAttr()
	// All that it starts goes with it.
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var in io.WriteCloser
	if attach != nil {
		var err error
		if in, err = cmd.StdinPipe(); err != nil {
			return networkFigures{}, err
		}
	}
	if err := cmd.Start(); err != nil {
		return networkFigures{}, err
	}
	var attached error
	if attach != nil {
		var detach func()
		if detach, attached = attach(ctx, cmd.Process.Pid); attached == nil {
			defer detach()
		} else {
			cancel()
		}
		in.Close()
	}
	if err := errors.Join(cmd.Wait(), attached); err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return networkFigures{}, fmt.Errorf("%w: %s", err, strings.ReplaceAll(said, b.dir, "DIR"))
	}
	return readFigures(stdout.String())
}

// slirp gives a process in namespaces of its own a network by slirp4netns(1), once it has them.
func (b *bench) slirp(ctx context.Context, pid int) (func(), error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	for {
		// The name of the program is the client's once unshare has done its work.
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && ns != own && filepath.Base(exe) == "bench" {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("unshare has made no namespaces")
		case <-time.After(time.Millisecond):
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, "slirp4netns", "--configure", "--mtu=65520", "--ready-fd=3", strconv.Itoa(pid), "tap0")
	cmd.Env, cmd.SysProcAttr, cmd.ExtraFiles = b.env(), b.sysProcAttr(), []*os.File{w}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	end := func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }
	if _, err := r.Read(make([]byte, 1)); err != nil {
		end()
		return nil, fmt.Errorf("slirp4netns: %s", bytes.TrimSpace(stderr.Bytes()))
	}
	return end, nil
}

// serveNetwork answers in the background: 'e' with the same, and 'd' with networkBytes bytes.
func serveNetwork() error {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp4", networkAddr)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var word [1]byte
				if _, err := io.ReadFull(c, word[:]); err != nil {
					return
				}
				if word[0] == 'e' {
					_, _ = c.Write(word[:])
					return
				}
				for sent := 0; sent < networkBytes; sent += len(block) {
					if _, err := c.Write(block); err != nil {
						return
					}
				}
			}()
		}
	}()
	return nil
}

// runNetworkClient measures: -network-client direct|proxy|wait.
func runNetworkClient(args []string) error {
	dial := func() (net.Conn, error) { return net.DialTimeout("tcp4", networkAddr, 10*time.Second) }
	switch args[0] {
	case "wait":
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "proxy":
		dial = dialProxy
	}
	for range networkConnections {
		begin := time.Now()
		c, err := dial()
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("e"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		took := time.Since(begin)
		c.Close()
		if err != nil {
			return err
		}
		fmt.Println("connection", took.Nanoseconds())
	}
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.Close()
	begin := time.Now()
	if _, err := c.Write([]byte("d")); err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	got := 0
	for got < networkBytes {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", got, err)
		}
		got += n
	}
	fmt.Println("transfer", time.Since(begin).Nanoseconds())
	return nil
}

// dialProxy asks the proxy of the environment.
func dialProxy() (net.Conn, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil || proxy.Host == "" {
		return nil, errors.New("the environment names no proxy")
	}
	c, err := net.DialTimeout("tcp", proxy.Host, 10*time.Second)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", networkAddr, networkAddr)
	// The server says nothing before it is asked, so that nothing of its own is read here.
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		c.Close()
		return nil, fmt.Errorf("the proxy answers %v, %v", res, err)
	}
	return c, nil
}

// readFigures reads what the client wrote.
func readFigures(text string) (f networkFigures, err error) {
	for line := range strings.Lines(text) {
		kind, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return f, fmt.Errorf("not a line of the client: %q", line)
		}
		switch kind {
		case "connection":
			f.connections = append(f.connections, time.Duration(n))
		case "transfer":
			f.transfers = append(f.transfers, time.Duration(n))
		}
	}
	if len(f.connections) != networkConnections || len(f.transfers) != 1 {
		return f, fmt.Errorf("the client measured %d connections and %d transfers", len(f.connections), len(f.transfers))
	}
	return f, nil
}
