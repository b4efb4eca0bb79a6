package integration

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/integration/harness"
)

// TestRecordAfterPowerCut takes a copy of the disk at the moment gobox returns, as a machine that loses its power then would
// find it: all that was only in memory is not in it.
func TestRecordAfterPowerCut(t *testing.T) {
	for _, kind := range []string{"ext4", noJournal, "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			suite.Each(t, func(t *testing.T, b *harness.Box) {
				ro := []string{"--workspace-mode", "ro"}
				for name, flags := range map[string][]string{"plain": ro, "durable": append(ro, "--result", "record.json"), "captured": append(ro, "--capture")} {
					t.Run(name, func(t *testing.T) { powerCut(t, b, kind, "echo said; exit 7", flags) })
				}
				for name, script := range map[string]string{
					"changes": "mkdir sub; echo one > sub/one; seq 100000 > two; exit 7", "many changes": "for i in $(seq 50); do echo $i > f$i; done; exit 7",
				} {
					// Only a record that was asked for waits for the changes too.
					t.Run(name, func(t *testing.T) { powerCut(t, b, kind, script, []string{"--result", "record.json"}) })
				}
			})
		})
	}
}

func powerCut(t *testing.T, b *harness.Box, kind, script string, flags []string) {
	disk := mounted(t, kind)
	image := filepath.Join(filepath.Dir(disk), "image")
	state := filepath.Join(disk, "state")
	b.Mkdir(t, state)
	syncAll(t, disk)
	state = filepath.Join(state, "made by gobox")

	// The control: what nobody has synced is not there afterwards.
	control := filepath.Join(disk, "unsynced")
	if err := os.WriteFile(control, []byte("unsynced"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := b.Run(t, harness.Run{
		Flags: append([]string{"--run-id", "cut"}, flags...), Env: []string{"XDG_STATE_HOME=" + state},
		Argv: []string{"/bin/sh", "-c", script}, Dir: b.Work,
	})
	copied := image + ".cut"
	if err := copyHoles(copied, image); err != nil {
		t.Fatal(err)
	}
	if res.Code != 7 {
		t.Fatal(res)
	}
	dir := filepath.Join(state, "gobox/runs/cut")
	want := contents(t, dir)
	if strings.HasPrefix(script, "echo") == (len(want["changes/manifest.json"]) > 0) {
		t.Fatalf("changes: %q, %v", want["changes/manifest.json"], res)
	}
	if len(want["result.json"]) == 0 || len(want["events.jsonl"]) == 0 || len(want["request.json"]) == 0 {
		t.Fatalf("the record has %d files: %v", len(want), res)
	}
	if err := unmount(disk); err != nil {
		t.Fatal(err)
	}
	// In the mount namespaces of tests beside this one it may live on for a moment, and the copy would be taken for the same disk.
	waitFor(t, "the disk to be given up", func() bool {
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, f := range files {
			if name, _ := os.ReadFile(f); strings.TrimSpace(string(name)) == image {
				return false
			}
		}
		return true
	})
	if kind == noJournal {
		// As at the next start of the machine; 1 is for errors that are mended (e2fsck(8)).
		check := exec.Command("e2fsck", "-fy", copied)
		if out, err := check.CombinedOutput(); err != nil && (check.ProcessState == nil || check.ProcessState.ExitCode() != 1) {
			t.Fatalf("check what was left: %v %s", err, out)
		}
	}
	if out, err := exec.Command("mount", "-o", "loop", "-t", mountType(kind), copied, disk).CombinedOutput(); err != nil {
		t.Fatalf("mount what was left: %v %s", err, out)
	}
	// Many files are synced with the whole file system.
	if got, _ := os.ReadFile(control); len(got) != 0 && len(want) < 40 {
		t.Fatalf("the control was on the disk too: %q", got)
	}
	got := contents(t, dir)
	for name, content := range want {
		if !bytes.Equal(got[name], content) {
			t.Errorf("%s is %d bytes and was %d: %.300q", name, len(got[name]), len(content), got[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files and not %d", len(got), len(want))
	}
}

func syncAll(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}

// contents are those of the regular files below dir.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		all[strings.TrimPrefix(path, dir+"/")], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// copyHoles copies a file and keeps its holes.
func copyHoles(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	const seekData, seekHole = 3, 4 // lseek(2)
	for at := int64(0); ; {
		data, err := in.Seek(at, seekData)
		if err != nil {
			return nil //nolint:nilerr // ENXIO: nothing but a hole is left
		}
		hole, err := in.Seek(data, seekHole)
		if err != nil {
			return fmt.Errorf("find a hole: %w", err)
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, hole-data); err != nil {
			return err
		}
		at = hole
	}
}
