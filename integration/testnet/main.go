// Command testnet plays the internet for one command: in a network namespace of its own, where public-looking addresses
// are its own, it answers DNS, serves TCP echo, HTTP, TLS with an authority of its own and WebSocket, and runs the command there. Nothing
// it does leaves that namespace, which has no interface but a loopback.
//
//	testnet [-site DIR] [-postgres SOCKET] LOG UID COMMAND ARG...
//
// With -site it serves also what is in DIR: files, repositories, packages, and SSH with the keys there. With -postgres two names lead to the
// PostgreSQL server at that socket.
//
// It must be started in new mount and network namespaces with CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_NET_BIND_SERVICE; the command runs as
// UID, without capabilities beyond what that user has. What the servers heard is in the file LOG afterwards, a JSON object a line (see package testnet/heard). The exit status is the
// command's.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"gobox/integration/testnet/authority"
	"gobox/integration/testnet/heard"

	"golang.org/x/sys/unix"
)

// networks are those whose addresses are all served here.
var networks = []string{
	"93.184.216.0/24", "2606:2800:220:1::/64", "10.9.9.0/24", "169.254.169.254/32", "64:ff9b::/96", "100.64.0.0/16",
}

func main() {
	var s services
	flag.StringVar(&s.site, "site", "", "folder with what to serve")
	flag.StringVar(&s.postgres, "postgres", "", "socket of a PostgreSQL server")
	flag.Parse()
	if flag.NArg() < 3 {
		fail(errors.New("usage: testnet [-site DIR] [-postgres SOCKET] LOG UID COMMAND [ARG]"))
	}
	uid, err := strconv.Atoi(flag.Arg(1))
	if err != nil {
		fail(err)
	}
	if s.log, err = heard.Create(flag.Arg(0)); err != nil {
		fail(err)
	}
	if s.ca, err = makeAuthority(s.site); err != nil {
		fail(err)
	}
	if err := arrange(string(s.ca.Certificate)); err != nil {
		fail(err)
	}
	if err := s.serve(); err != nil {
		fail(err)
	}
	status, err := run(uid, flag.Args()[2:])
	if err != nil {
		fail(err)
	}
	s.log.Close()
	os.Exit(status)
}

// makeAuthority makes one, or takes the site's.
func makeAuthority(site string) (*authority.Authority, error) {
	if site == "" {
		return authority.New()
	}
	certificate, err := os.ReadFile(filepath.Join(site, "ca/certificate.pem"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(site, "ca/key.pem"))
	if err != nil {
		return nil, err
	}
	return authority.Load(certificate, key)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testnet:", err)
	os.Exit(99)
}

// arrange makes the addresses this namespace's own, and puts files of its own over those of /etc; bundle takes the place of the authorities.
func arrange(bundle string) error {
	if list, err := net.Interfaces(); err != nil || slices.ContainsFunc(list, func(i net.Interface) bool { return i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 }) {
		return errors.New("this is no network namespace of its own")
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	if err := ruleHere(); err != nil {
		return fmt.Errorf("rule for routes: %w", err)
	}
	for _, text := range networks {
		if err := routeHere(netip.MustParsePrefix(text)); err != nil {
			return fmt.Errorf("route %s: %w", text, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	for file, text := range map[string]string{
		"/etc/resolv.conf":                   "nameserver " + resolver + "\nsearch example.org\n",
		"/etc/hosts":                         "127.0.0.1 localhost\n::1 localhost\n93.184.216.43 hosts.example.org\n",
		"/etc/nsswitch.conf":                 "passwd: files\ngroup: files\nhosts: files dns\n",
		"/etc/ssl/certs/ca-certificates.crt": bundle,
	} {
		if err := cover(file, text); err != nil {
			return err
		}
	}
	return nil
}

// cover binds a file of this content on another, following links to it.
func cover(file, text string) error {
	if _, err := os.Stat(file); err != nil {
		return nil // a program that wants it will say so
	}
	f, err := os.CreateTemp("", "testnet-")
	if err != nil {
		return err
	}
	defer f.Close()
	defer os.Remove(f.Name())
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := unix.Mount(f.Name(), file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", file, err)
	}
	return nil
}

// run runs the command without capabilities but what its user has, and passes on signals that are to end it.
func run(uid int, argv []string) (int, error) {
	runtime.LockOSThread() // ambient capabilities are the thread's
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("drop ambient capabilities: %w", err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
