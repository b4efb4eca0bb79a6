package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The network part compares what a connection costs through gobox with loopback and with user-mode network stacks. All of it is in a network
// namespace that this program makes for itself, with a server in it and an interface that leads nowhere; nothing leaves it.

const (
	networkWorld  = "-network-world"  // this program within that namespace
	networkClient = "-network-client" // and as what is measured

	networkAddr        = "10.9.9.9:7000"
	networkConnections = 50
	networkBytes       = 128 << 20

	networkBegin = "<!-- network figures: written by make bench -->"
	networkEnd   = "<!-- end of network figures -->"
)

// networkBaseline is what the ratios are taken against.
const networkBaseline = "loopback"

// networkMain is the part of this program that is not the comparison of start-up; it says whether it was asked for.
func networkMain(args []string) (status int, asked bool) {
	if len(args) == 0 {
		return 0, false
	}
	var err error
	switch args[0] {
	case networkClient:
		err = runNetworkClient(args[1:])
	case networkWorld:
		err = runNetworkWorld(args[1:])
	case "-network":
		err = runNetwork(args[1:])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: error: %v\n", err)
		return 1, true
	}
	return 0, true
}

// runNetwork starts this program again in new namespaces: -network ROUNDS FILE GOBOX, where FILE may be empty.
func runNetwork(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench -network ROUNDS FILE GOBOX")
	}
	gobox, err := filepath.Abs(args[2])
	if err != nil {
		return err
	}
	// An ordinary user must be able to execute both.
	dir, err := os.MkdirTemp("/tmp", "gobox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for from, to := range map[string]string{self: "bench", gobox: "gobox"} {
		if err := copyFile(from, filepath.Join(dir, to), 0o755); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("the network part makes interfaces and needs root; the contenders run as an ordinary user")
	}
	cmd := exec.Command(filepath.Join(dir, "bench"), networkWorld, args[0], dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure the network: %w", err)
	}
	fmt.Print(out.String())
	if args[1] == "" {
		return nil
	}
	return replaceBetween(args[1], networkBegin, networkEnd, out.String())
}

// runNetworkWorld measures, in the namespaces of its own: -network-world ROUNDS DIR.
func runNetworkWorld(args []string) error {
	rounds, err := strconv.Atoi(args[0])
	if err != nil || rounds < 1 {
		return fmt.Errorf("%q is no number of rounds", args[0])
	}
	host, _, _ := strings.Cut(networkAddr, ":")
	for _, words := range []string{
		"link set lo up", "addr add " + host + "/32 dev lo",
		// pasta takes its addresses from an interface with a default route. Nobody is at its other end.
		"link add gobox0 type veth peer name gobox1", "addr add 10.9.8.2/24 dev gobox0", "link set gobox0 up", "link set gobox1 up", "route add default via 10.9.8.1 dev gobox0",
	} {
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", words, err, bytes.TrimSpace(out))
		}
	}
	if err := openTun(); err != nil {
		return err
	}
	if err := serveNetwork(); err != nil {
		return err
	}
	b := bench{id: identity{"ordinary user", ordinaryUID, ordinaryUID}, dir: args[1], home: filepath.Join(args[1], "home"), workspace: filepath.Join(args[1], "workspace")}
	for _, d := range []string{b.home, b.workspace} {
		if err := errors.Join(os.Mkdir(d, 0o755), os.Chown(d, ordinaryUID, ordinaryUID)); err != nil {
			return err
		}
	}
	contenders := b.networkContenders()
	var running []networkContender
	var absent []string
	for _, c := range contenders {
		if _, err := exec.LookPath(c.needs); err != nil {
			absent = append(absent, c.name+": not installed")
		} else if _, err := c.run(); err != nil {
			absent = append(absent, fmt.Sprintf("%s: does not run here (%v)", c.name, err))
		} else {
			running = append(running, c)
		}
	}
	all := make([]networkFigures, len(running))
	for range rounds {
		for _, i := range rand.Perm(len(running)) {
			f, err := running[i].run()
			if err != nil {
				return fmt.Errorf("%s: %w", running[i].name, err)
			}
			all[i].connections = append(all[i].connections, f.connections...)
			all[i].transfers = append(all[i].transfers, f.transfers...)
		}
	}
	fmt.Print(networkTable(running, all, absent, rounds))
	return nil
}

// openTun puts a /dev/net/tun that everybody may open, as most distributions have it, in the place of one that only root may.
func openTun() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	st, err := os.Stat("/dev/net/tun")
	if err != nil || st.Mode().Perm() == 0o666 {
		return nil // none: the contenders that need it say so
	}
	if err := unix.Mount("tmpfs", "/dev/net", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount on /dev/net: %w", err)
	}
	if err := errors.Join(unix.Mknod("/dev/net/tun", unix.S_IFCHR, int(unix.Mkdev(10, 200))), unix.Chmod("/dev/net/tun", 0o666)); err != nil {
		return fmt.Errorf("make /dev/net/tun: %w", err)
	}
	return nil
}

func networkTable(running []networkContender, all []networkFigures, absent []string, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s. %d rounds of %d connections and a transfer of %d MiB each, as an ordinary user.\n\n", describeMachine(), rounds, networkConnections, networkBytes>>20)
	base := -1
	for i, c := range running {
		if c.name == networkBaseline {
			base = i
		}
	}
	if base < 0 {
		fmt.Fprintf(&b, "%s could not be measured, and so nothing: %s.\n", networkBaseline, strings.Join(absent, "; "))
		return b.String()
	}
	ref := all[base]
	fmt.Fprintf(&b, "%s = 1.00: a connection %.3f ms in the median, p90 %.3f ms; a transfer %.2f GB/s.\n\n", networkBaseline,
		millis(quantile(ref.connections, 0.5)), millis(quantile(ref.connections, 0.9)), networkBytes/quantile(ref.transfers, 0.5).Seconds()/1e9)
	b.WriteString("| | connection, median | connection, p90 | transfer time, median | transfer time, p90 |\n|---|---:|---:|---:|---:|\n")
	ratio := func(mine, theirs []time.Duration, q float64) float64 {
		return float64(quantile(mine, q)) / float64(quantile(theirs, q))
	}
	for i, c := range running {
		f := all[i]
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.2f | %.2f |\n", c.name, ratio(f.connections, ref.connections, 0.5), ratio(f.connections, ref.connections, 0.9),
			ratio(f.transfers, ref.transfers, 0.5), ratio(f.transfers, ref.transfers, 0.9))
	}
	if len(absent) > 0 {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", strings.Join(absent, "; "))
	}
	return b.String()
}
