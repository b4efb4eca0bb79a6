package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
)

// TestBreakoutSharedMemory: shared memory counts as well, filled by one call.
func TestBreakoutSharedMemory(t *testing.T) {
	suite.Each(t, func(t *testing.T, b *harness.Box) {
		const size = 400 << 20 // more than twice what the command may have
		flags := unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_FIXED | unix.MAP_POPULATE
		try := "syscall " + itoa(unix.SYS_MMAP) + " " + itoa(0x500000000000) + " " + itoa(size) + " 3 " + itoa(flags) + " -1 0"
		res := b.Run(t, harness.Run{Flags: []string{"--memory", "180M"}, Argv: batch(b, try)})
		if res.Code == 0 && harness.Parse(t, res.Stdout).Of(t, try).Errno == "" {
			t.Errorf("%d bytes of shared memory under --memory 180M", size)
		}
	})
}
