package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"gobox/selftest/attempt"
)

func stdioAttempt(name string) attempt.Func {
	switch name {
	case "args":
		return func(a []string) (int64, string, error) {
			b, err := json.Marshal(toBytes(a))
			return int64(len(a)), string(b), err
		}
	case "device":
		return device
	}
	return nil
}

func toBytes(a []string) [][]byte {
	b := make([][]byte, len(a))
	for i := range a {
		b[i] = []byte(a[i])
	}
	return b
}

// device FD|PATH: which inode it is, to compare with one of the host's
func device(a []string) (int64, string, error) {
	var st unix.Stat_t
	fd, err := strconv.Atoi(a[0])
	if err == nil {
		err = unix.Fstat(fd, &st)
	} else {
		err = unix.Stat(a[0], &st)
	}
	return 0, fmt.Sprintf("dev %d ino %d", st.Dev, st.Ino), err
}

// raw makes the forms whose output is not JSON; it gives the exit status.
func raw(name string, a []string) int {
	switch name {
	case "exit":
		return int(number(a[0]))
	case "signal":
		unix.Kill(os.Getpid(), syscall.Signal(number(a[0])))
		select {}
	case "launch":
		return launch(a)
	case "flying":
		return flying(int(number(a[0])), a[1])
	case "reserve":
		return reserve(a)
	case "eat":
		return eat(a)
	case "eat-together":
		return eatTogether(a)
	case "spin":
		return spin(int(number(a[0])))
	case "relay":
		return relay()
	case "pour":
		return pour(a)
	case "pump":
		return pump(a)
	case "many":
		return many(a)
	case "bomb":
		return bomb()
	case "zombies":
		return zombies(int(number(a[0])))
	case "copy":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "both":
		fmt.Fprint(os.Stdout, a[0])
		fmt.Fprint(os.Stderr, a[1])
		return 0
	case "denial-flood":
		// Every call of these is refused, which may take the supervisor's attention.
		for range 16 {
			go func() {
				for {
					_, _ = call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
					_, _ = call(unix.SYS_IO_URING_SETUP, 0, badPointer)
				}
			}()
		}
		select {}
	case "flood":
		buf := make([]byte, 64<<10)
		for {
			if _, err := unix.Write(1, buf); err != nil {
				fmt.Fprintln(os.Stderr, errnoName(err))
				return 3
			}
		}
	}
	fmt.Fprintf(os.Stderr, "probe: unknown form %q\n", name)
	return 2
}
