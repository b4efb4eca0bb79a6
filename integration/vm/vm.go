package vm

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config is one boot.
type Config struct {
	Kernel  *Kernel
	Files   map[string]string // guest path -> host path; static binaries only, since the guest has no libraries
	Modules []string          // kernel modules to load first, in this order, each with its parameters
	Script  string            // for the guest's sh, as root; see guest.sh for its functions
	Cmdline string            // more words for the kernel's command line
	Memory  int               // MiB; 0 is 512

	// Patience is for how long the guest may write nothing before it counts as stuck; 0 is five minutes. On a loaded
	// machine there is no other useful bound: how long a script takes says nothing about the guest.
	Patience time.Duration
}

const patience = 5 * time.Minute

// The guest's clock is made of the instructions that it has executed, 4 ns for each, and of the time to its next timer when it
// has nothing to execute. So it is always as fast by its own clock, however little of this machine it gets; by this
// machine's clock, everything in it that waits a bounded time fails under load, beginning with the kernel's check of its timer
// at boot. More than one processor does not go with that: qemu runs them by turns, and they wait for each other.
const virtualTime = "shift=2,sleep=off" // qemu(1), -icount: 2^2 ns

// ExitError is a script that ended with another status than 0.
type ExitError struct{ Status int }

func (e *ExitError) Error() string {
	return "script in the virtual machine: exit status " + strconv.Itoa(e.Status)
}

//go:embed init.sh
var initScript string

//go:embed guest.sh
var guestLibrary string

//go:embed dump.sh
var dumpScript string

// Programs of the guest's.
const (
	// in_cgroup NAME COMMAND...: with this cgroup as its own.
	inCgroup = `#!/bin/sh
echo 0 >"/sys/fs/cgroup/$1/cgroup.procs" && shift && exec "$@"
`
	// as_user COMMAND...: as uid 1000.
	asUser = `#!/bin/sh
exec su -s /bin/sh -c 'exec "$@"' -- user sh "$@"
`
)

// endMark precedes the script's exit status on the second serial line.
const endMark = "\nGOBOX-VM-STATUS "

// Run boots the kernel, runs the script and returns what it wrote to stdout and stderr. The error is an
// *ExitError for a script that failed, has [ErrUnavailable] in its chain when this machine cannot run virtual machines, and else tells
// the end of the kernel's console. The machine is killed when ctx ends.
func Run(ctx context.Context, c Config) (string, error) {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return "", fmt.Errorf("%w: no qemu-system-x86_64 (Debian package qemu-system-x86)", ErrUnavailable)
	}
	dir, err := os.MkdirTemp("", "gobox-vm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	initrd := filepath.Join(dir, "initrd")
	if err := c.pack(ctx, initrd); err != nil {
		return "", err
	}
	m := &machine{
		console: filepath.Join(dir, "console"), output: filepath.Join(dir, "output"),
		control: filepath.Join(dir, "control"), monitor: filepath.Join(dir, "monitor"),
	}
	accel := []string{"-accel", "tcg", "-icount", virtualTime}
	if other := os.Getenv("GOBOX_VM_ACCEL"); other != "" {
		accel = []string{"-accel", other}
	}
	outer := ctx
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, append(accel,
		"-cpu", "max", "-m", strconv.Itoa(or(c.Memory, 512)),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:"+m.console, "-serial", "file:"+m.output, "-serial", "unix:"+m.control+",server=on,wait=off",
		"-monitor", "unix:"+m.monitor+",server=on,wait=off",
		"-kernel", c.Kernel.Image, "-initrd", initrd,
		"-append", strings.TrimSpace("console=ttyS0 loglevel=4 panic=-1 oops=panic no_timer_check "+c.Cmdline))...)
	cmd.WaitDelay = 5 * time.Second
	// A test process that is killed must leave no machine behind; the signal comes when this thread ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var messages bytes.Buffer
	cmd.Stderr = &messages
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", qemu, err)
	}
	quiet := c.Patience
	if quiet == 0 {
		quiet = patience
	}
	watched := make(chan error, 1)
	go func() { watched <- m.watch(ctx, quiet, cancel) }()
	err = cmd.Wait()
	cancel()
	stuck := <-watched
	text, status, ended := m.status()
	if ended && status != 0 {
		return text, &ExitError{status}
	}
	if ended {
		return text, nil
	}
	switch {
	case stuck != nil:
		err = stuck
	case outer.Err() != nil:
		err = outer.Err()
	case err == nil:
		err = errors.New("it stopped before the script had ended")
	}
	log, _ := os.ReadFile(m.console)
	return text, fmt.Errorf("virtual machine %s: %w\n%s%s", c.Kernel.Release, err, messages.Bytes(), tail(log, consoleTail))
}

// consoleTail is how much of the kernel's console an error tells: enough for the stacks of a guest that is stuck.
const consoleTail = 64 << 10

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func busybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("%w: no busybox (Debian package busybox-static)", ErrUnavailable)
	}
	return path, nil
}

func (c Config) pack(ctx context.Context, to string) error {
	box, err := busybox()
	if err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, box, "--list").Output()
	if err != nil {
		return fmt.Errorf("list busybox's applets: %w", err)
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	a := &archive{w: f}
	for _, d := range []string{"proc", "sys", "dev", "root", "tmp", "usr", "newroot", "home/user", "etc"} {
		a.dir(d)
	}
	a.copy("bin/busybox", box)
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			a.link("bin/"+applet, "busybox")
		}
	}
	a.link("usr/bin", "../bin")
	a.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"))
	// With one more than a sandbox's own has, which is to be told from it.
	a.file("etc/group", 0o644, []byte("root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n"))
	a.file("init", 0o755, []byte(initScript))
	a.file("vm/guest.sh", 0o644, []byte(guestLibrary))
	a.file("bin/in_cgroup", 0o755, []byte(inCgroup))
	a.file("bin/as_user", 0o755, []byte(asUser))
	a.file("vm/dump.sh", 0o644, []byte(dumpScript))
	a.file("vm/script", 0o644, []byte(c.Script))
	for i, module := range c.Modules {
		name, parameters, _ := strings.Cut(module, " ")
		data, err := c.Kernel.module(ctx, name)
		if err != nil {
			return err
		}
		a.file(fmt.Sprintf("vm/modules/%02d-%s.ko", i, name), 0o644, data)
		a.file(fmt.Sprintf("vm/modules/%02d-%s.parameters", i, name), 0o644, []byte(parameters))
	}
	// Sorted, so that the same test makes the same initramfs.
	var guest []string
	for p := range c.Files {
		guest = append(guest, p)
	}
	slices.Sort(guest)
	for _, p := range guest {
		a.copy(p, c.Files[p])
	}
	if err := a.close(); err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	return f.Close()
}
