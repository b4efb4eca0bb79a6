package integration

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// TestP10 ends gobox at a random moment, mostly while it starts, and looks for what is left.
func TestP10KilledAtAnyMoment(t *testing.T) {
	const kills, atOnce = 200, 3
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		bin, probe := b.Own(t, b.Gobox), b.Own(t, b.Probe)
		moments := make(chan time.Duration)
		var workers sync.WaitGroup
		for range atOnce {
			workers.Go(func() {
				for moment := range moments {
					cmd := b.Start(t, harness.Run{
						Bin: bin, Flags: []string{"--rox", filepath.Dir(probe)},
						Argv: []string{"/bin/sh", "-c", probe + " sleep 60s & " + probe + " sleep 60s; :", b.Marker},
					})
					time.Sleep(moment)
					if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
						t.Errorf("gobox ended by itself after at most %v: %v", moment, err)
					}
					_ = cmd.Wait()
				}
			})
		}
		for i := range kills {
			// Half of them while the sandbox is being built.
			limit := []int{200_000, 25_000}[i%2]
			moments <- time.Duration(rand.IntN(limit)) * time.Microsecond
		}
		close(moments)
		workers.Wait()
		b.NoSurvivors(t)
		if left := b.Mounts(); len(left) > 0 {
			t.Errorf("mounts left: %v", left)
		}
	})
}

// TestSignalAtAnyMoment sends what ends a command while the sandbox is being built: none is lost.
func TestSignalAtAnyMoment(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			for range 25 {
				moment := time.Duration(rand.IntN(25_000)) * time.Microsecond
				cmd := b.Start(t, harness.Run{Argv: []string{b.Probe, "sleep", "60s", b.Marker}})
				time.Sleep(moment)
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatalf("gobox ended by itself after at most %v: %v", moment, err)
				}
				late := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
				_ = cmd.Wait()
				if !late.Stop() {
					t.Errorf("%v after %v was lost", s, moment)
					break
				}
				// Until the Go runtime has started, a QUIT dumps goroutines and exits with 2.
				if code := harness.ExitCode(cmd.ProcessState); code != 128+int(s) && !(s == syscall.SIGQUIT && code == 2) {
					t.Errorf("%v after %v: exit %d", s, moment, code)
				}
			}
		}
		b.NoSurvivors(t)
	})
}
