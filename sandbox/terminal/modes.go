package terminal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal says whether fd is a terminal.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// Size is the window size of the terminal fd in characters, 0 by 0 when it was never set
// (ioctl_tty(2), TIOCGWINSZ).
func Size(fd int) (rows, cols int, err error) {
	ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, fmt.Errorf("read window size: %w", err)
	}
	return int(ws.Row), int(ws.Col), nil
}

// descriptor gives f's number without f.Fd, which would make a non-blocking description blocking for
// everyone who shares it.
func descriptor(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	err = conn.Control(func(n uintptr) { fd = int(n) })
	return fd, err
}

// reopen opens the terminal, pipe or FIFO fd once more, non-blocking. It gives fd itself when that is
// refused or fd is something else: a regular file never blocks and would lose its offset.
func reopen(fd, mode int) (n int, own bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO && !IsTerminal(fd) {
		return fd, false
	}
	n, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), mode|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fd, false
	}
	return n, true
}

// foreground says whether this process may use the terminal: it is in the foreground process group, or
// the terminal is not its controlling one and so knows no job control for it.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if errors.Is(err, unix.ENOTTY) {
		return true
	}
	return err == nil && group == unix.Getpgrp()
}

// rawFrom is what cfmakeraw(3) makes of t: every byte typed goes to the inner terminal as it is, which
// alone echoes, edits lines and turns ^C into a signal.
func rawFrom(t unix.Termios) unix.Termios {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.INPCK | unix.ISTRIP |
		unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN] = 1
	t.Cc[unix.VTIME] = 0
	return t
}

// endOfFile is what to type into the inner terminal to end its input, nothing if that has no meaning
// there now. After an unfinished line the first one only hands the line over.
func endOfFile(master int, lineOpen bool) []byte {
	t, err := unix.IoctlGetTermios(master, unix.TCGETS) // on a master: the slave's modes
	if err != nil || t.Lflag&unix.ICANON == 0 || t.Cc[unix.VEOF] == 0 {
		return nil
	}
	eof := []byte{t.Cc[unix.VEOF]}
	if lineOpen {
		eof = append(eof, eof[0])
	}
	return eof
}
