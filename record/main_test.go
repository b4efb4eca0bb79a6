package record

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain plays the other processes of the tests: $RECORD_TEST says which.
func TestMain(m *testing.M) {
	play, state, _ := strings.Cut(os.Getenv("RECORD_TEST"), " ")
	switch play {
	case "":
		os.Exit(m.Run())
	case "crash":
		crashAt(state)
	case "keyed":
		keyed(state)
	case "limited":
		limited(state)
	}
}

func child(t *testing.T, play string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), "RECORD_TEST="+play)
	cmd.Stderr = os.Stderr
	return cmd
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// crashAt writes a record and is killed after so many steps.
func crashAt(args string) {
	var point int
	var state string
	_, err := fmt.Sscan(args, &point, &state)
	check(err)
	step := 0
	reached := func() {
		if step++; step > point {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	r, err := Open(state, Request{RunID: "crash", Capture: true, Durable: true, Argv: []string{"x"}})
	check(err)
	reached()
	check(r.Event(Event{Kind: Prepared}))
	reached()
	// As if the kernel had taken half of the line.
	check(writeAll(r.events, []byte(`{"ms":3,"ki`)))
	reached()
	check(unix.Ftruncate(r.events, r.written))
	_, err = r.Stdout().WriteString("some")
	check(err)
	reached()
	// As if it had been killed within Finish.
	check(writeAll(r.result, full().AppendJSON(nil)[:100]))
	reached()
	check(unix.Ftruncate(r.result, 0))
	_, err = unix.Seek(r.result, 0, 0)
	check(err)
	check(r.Finish(full()))
	reached()
}

const crashPoints = 6

// keyed runs for the key k; the run leaves a line in the file ran.
func keyed(args string) {
	var state, request string
	_, err := fmt.Sscan(args, &state, &request)
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	id := NewID(time.Now())
	claim, replay, err := ClaimKey(ctx, state, "k", request, id)
	check(err)
	if replay != nil {
		check(replay.WriteOutput(os.Stdout, os.Stdout))
		fmt.Printf(" %d", *replay.Result.ExitCode)
		return
	}
	r, err := Open(state, Request{RunID: id, Capture: true, Durable: true})
	check(err)
	f, err := os.OpenFile(state+"/ran", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(err)
	_, err = f.WriteString("ran\n")
	check(err)
	time.Sleep(100 * time.Millisecond)
	_, err = r.Stdout().WriteString("output of " + id)
	check(err)
	check(r.Finish(full()))
	claim.Release()
	fmt.Printf("output of %s %d", id, *full().ExitCode)
}

// limited writes a record without being allowed a file larger than 300 bytes.
func limited(state string) {
	signal.Ignore(unix.SIGXFSZ)
	_, err := Open(state, Request{RunID: "before"})
	check(err)
	r, err := Open(state, Request{RunID: "midway"})
	check(err)
	check(r.Event(Event{Kind: Started}))
	check(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 300, Max: 300}))
	_, err = Open(state, Request{RunID: "refused", Argv: []string{strings.Repeat("x", 1000)}})
	fmt.Println(ReasonOf(err))
	for err = nil; err == nil; {
		err = r.Event(Event{Kind: Ended, Detail: "a line that fills the file"})
	}
	fmt.Println(ReasonOf(err))
	fmt.Println(ReasonOf(r.Finish(full())))
}
