package main

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWriteSoon: a pipe that nobody reads holds nothing up, also while signals come in, which end poll(2) early.
func TestWriteSoon(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	writeSoon(p[1], "first\n")
	buf := make([]byte, 1<<20)
	if n, err := unix.Read(p[0], buf); err != nil || string(buf[:n]) != "first\n" {
		t.Fatalf("%q, %v", buf[:max(n, 0)], err)
	}
	if err := unix.SetNonblock(p[1], true); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; {
		_, err = unix.Write(p[1], buf[:4096])
	}
	if err := unix.SetNonblock(p[1], false); err != nil {
		t.Fatal(err)
	}
	done := make(chan time.Duration)
	tid := make(chan int)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		begin := time.Now()
		writeSoon(p[1], "never\n")
		done <- time.Since(begin)
	}()
	thread := <-tid
	for end := time.After(10 * time.Second); ; {
		select {
		case took := <-done:
			if took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			unix.Close(p[1])
			return
		case <-end:
			t.Fatal("it waits for a reader")
		case <-time.After(5 * time.Millisecond):
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		}
	}
}
