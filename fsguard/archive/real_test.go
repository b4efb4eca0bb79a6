package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cache keeps what the tests download, for this user, until the temporary directory is emptied.
func cache(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("gobox-test-archives-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Fatalf("%s is not ours: %v", dir, err)
	}
	return dir
}

// unreachable skips where a registry cannot be reached; where everything must run, that is a failure.
func unreachable(t *testing.T, what string, err error, out []byte) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s: %v\n%s", what, err, out)
	}
	t.Skipf("%s: %v\n%s", what, err, out)
}

// download gives the file of the cache that begins with prefix, made by the command where it is not there.
func download(t *testing.T, prefix string, argv ...string) string {
	t.Helper()
	dir := cache(t)
	found := func() string {
		files, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if len(files) == 0 {
			return ""
		}
		return files[0]
	}
	if file := found(); file != "" {
		return file
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skip(err)
	}
	// Into a directory of its own, so that no half file is ever found.
	tmp := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(tmp, ".npm"), "HOME="+tmp, "npm_config_update_notifier=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		unreachable(t, strings.Join(argv, " "), err, out)
	}
	files, _ := filepath.Glob(filepath.Join(tmp, prefix+"*"))
	if len(files) != 1 {
		t.Fatalf("%v made %q", argv, files)
	}
	data, err := os.ReadFile(files[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(files[0])+".part"), data, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, filepath.Base(files[0])+".part"), filepath.Join(dir, filepath.Base(files[0])))
	}
	if err != nil {
		t.Fatal(err)
	}
	return found()
}

// dataTar gives data.tar of a Debian package (deb(5)): a member of an ar archive.
func dataTar(t *testing.T, deb string) (name string, data []byte) {
	t.Helper()
	all, err := os.ReadFile(deb)
	if err != nil || !bytes.HasPrefix(all, []byte("!<arch>\n")) {
		t.Fatalf("%s is no package: %v", deb, err)
	}
	for rest := all[8:]; len(rest) >= 60; {
		name := strings.TrimRight(string(rest[:16]), " /")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || size > len(rest)-60 {
			t.Fatalf("%s is no package: %v", deb, err)
		}
		if strings.HasPrefix(name, "data.tar") {
			return name, rest[60 : 60+size]
		}
		rest = rest[60+size+size%2:]
	}
	t.Fatalf("%s has no data.tar", deb)
	return "", nil
}

// describe is all of a tree that an archive determines, a line for each file.
func describe(t *testing.T, dir string) map[string]string {
	t.Helper()
	lines := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%v %d", info.Mode(), info.Sys().(*syscall.Stat_t).Nlink)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		case !info.IsDir():
			return fmt.Errorf("%s is a %v", name, info.Mode())
		}
		switch {
		case name == ".":
		case !info.Mode().IsRegular() && time.Since(info.ModTime()) < time.Hour:
			line += " now" // a folder that no entry names, or what unzip gives no time
		default:
			line += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		}
		lines[name] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func compare(t *testing.T, want, got map[string]string) {
	t.Helper()
	differ := 0
	for name, line := range want {
		// unzip gives symbolic links no time, and makes them last, which changes the times of their folders.
		if prefix, ok := strings.CutSuffix(line, " now"); ok && strings.HasPrefix(got[name], prefix) {
			continue
		}
		if got[name] != line {
			if differ++; differ < 10 {
				t.Errorf("%q: %s, want %s", name, got[name], line)
			}
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			if differ++; differ < 10 {
				t.Errorf("%q should not be there", name)
			}
		}
	}
}

// program runs one of the usual programs; the test is skipped where it is not installed.
func program(t *testing.T, stdin []byte, argv ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, errOut.Bytes())
	}
	return out.Bytes()
}

// umask is that of the test's process, which cannot be read without being set.
func currentUmask(t *testing.T) fs.FileMode {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(status), "\nUmask:\t")
	value, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(value, 8, 9)
	if !ok || err != nil {
		t.Fatal("no umask in /proc/self/status")
	}
	return fs.FileMode(mask)
}

// like unpacks the archive both ways and compares.
func like(t *testing.T, data []byte, other func(dir string)) *Report {
	t.Helper()
	dir := t.TempDir()
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	other(theirs)
	o := Options{Limits: DefaultLimits(), Umask: currentUmask(t)}
	report, err := Extract(t.Context(), bytes.NewReader(data), int64(len(data)), ours, o)
	if err != nil {
		t.Fatal(err)
	}
	want, got := describe(t, theirs), describe(t, ours)
	delete(want, ".") // tar and unzip set the mode of the folder they are given
	delete(got, ".")
	compare(t, want, got)
	if len(want) < 2 {
		t.Errorf("only %d files", len(want))
	}
	t.Logf("%s: %d entries, %d bytes", report.Format, report.Entries, report.Bytes)
	return report
}

func likeTar(t *testing.T, data []byte) *Report {
	t.Helper()
	return like(t, data, func(dir string) {
		file := filepath.Join(t.TempDir(), "archive")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		program(t, nil, "tar", "-x", "--no-same-owner", "--no-same-permissions", "-f", file, "-C", dir)
	})
}

func likeUnzip(t *testing.T, data []byte) *Report {
	t.Helper()
	return like(t, data, func(dir string) {
		file := filepath.Join(t.TempDir(), "archive.zip")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		program(t, nil, "unzip", "-q", file, "-d", dir)
	})
}

// TestDebianPackages unpacks what is in packages like tar, as it is and in other formats and compressions, and
// as a zip like unzip.
func TestDebianPackages(t *testing.T) {
	for _, name := range []string{"hello", "sed", "libhamcrest-java", "ncurses-bin"} {
		t.Run(name, func(t *testing.T) {
			deb := download(t, name+"_", "apt-get", "download", name)
			member, data := dataTar(t, deb)
			report := likeTar(t, data)
			if report.Format != strings.TrimPrefix(member, "data.") {
				t.Errorf("%s is taken for %s", member, report.Format)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "data"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			tree := filepath.Join(dir, "tree")
			if err := os.Mkdir(tree, 0o755); err != nil {
				t.Fatal(err)
			}
			program(t, nil, "tar", "-x", "-f", filepath.Join(dir, "data"), "-C", tree)
			plain := program(t, nil, "tar", "-c", "-C", tree, ".")
			likeTar(t, plain)
			likeTar(t, program(t, nil, "tar", "-c", "--format=pax", "-C", tree, "."))
			compressors := [][]string{{"gzip", "-9"}, {"xz", "-T2", "--block-size=100000"}, {"xz", "-C", "sha256"}, {"xz", "-C", "none"}, {"bzip2"}, {"zstd", "-q"}, {"zstd", "-q", "-19"}, {"zstd", "-q", "--long=20"}}
			if name != "sed" {
				compressors = nil // one package is enough for what is about streams
			}
			for _, argv := range compressors {
				t.Run(strings.Join(argv, ""), func(t *testing.T) {
					likeTar(t, program(t, plain, append(argv, "-c")...))
				})
			}
			t.Run("zip", func(t *testing.T) {
				if _, err := exec.LookPath("zip"); err != nil {
					t.Skip(err)
				}
				file := filepath.Join(dir, "tree.zip")
				cmd := exec.CommandContext(t.Context(), "zip", "-q", "-r", "-y", file, ".")
				cmd.Dir = tree
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("zip: %v\n%s", err, out)
				}
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				likeUnzip(t, data)
			})
			// A jar is a zip by another program.
			jars := 0
			for path, line := range describe(t, tree) {
				if strings.HasSuffix(path, ".jar") && strings.HasPrefix(line, "-") {
					jar, err := os.ReadFile(filepath.Join(tree, path))
					if err != nil {
						t.Fatal(err)
					}
					jars++
					t.Run("jar", func(t *testing.T) { likeUnzip(t, jar) })
				}
			}
			if strings.HasSuffix(name, "-java") && jars == 0 {
				t.Error("the package has no jar")
			}
		})
	}
}

func TestNpmPackages(t *testing.T) {
	for _, name := range []string{"lodash@4.17.21", "semver@7.6.0", "ms@2.1.3", "npm-package-arg@12.0.0"} {
		t.Run(name, func(t *testing.T) {
			base, version, _ := strings.Cut(name, "@")
			tgz := download(t, base+"-"+version, "npm", "pack", "--silent", name)
			data, err := os.ReadFile(tgz)
			if err != nil {
				t.Fatal(err)
			}
			likeTar(t, data)
		})
	}
}

// TestSparse unpacks what GNU tar makes of a file with holes.
func TestSparse(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{5 << 20, 40 << 20, 63 << 20} {
		if _, err := f.WriteAt([]byte("data"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Truncate(100<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range [][]string{{"--format=gnu"}, {"--format=pax"}, {"--format=pax", "--sparse-version=0.0"}, {"--format=pax", "--sparse-version=0.1"}} {
		t.Run(strings.Join(format, ""), func(t *testing.T) {
			argv := append([]string{"tar", "-c", "--sparse", "-C", dir}, format...)
			data := program(t, nil, append(argv, "sparse", "other")...)
			if len(data) > 1<<20 {
				t.Skip("the file system of the temporary directory keeps no holes")
			}
			likeTar(t, data)
		})
	}
}
