package clients

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobox/integration/harness"
)

// TestPostgreSQL has psql fetch some megabytes by COPY over TLS, which begins inside the protocol here, and send them back.
func TestPostgreSQL(t *testing.T) {
	const password = "in-the-clear"
	socket := startPostgres(t, password)
	var rows, sums strings.Builder
	for i := 1; i <= 100_000; i++ {
		sum := fmt.Sprintf("%x", md5.Sum([]byte(fmt.Sprint(i))))
		fmt.Fprintf(&rows, "%d\t%s\n", i, sum)
		sums.WriteString(sum)
	}
	c := client{
		name: "psql", tools: []string{"psql"}, rules: []string{"sql.example.org:5432"}, host: "sql.example.org", other: "sql.example.net", port: 5432,
		env: []string{"PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=20", "PGSSLMODE=verify-full"},
		script: `export PGSSLROOTCERT=$CA
psql -X -q -A -t -v ON_ERROR_STOP=1 -h $HOST -U tester -d postgres > said <<'END'
\conninfo
\copy (select g, md5(g::text) from generate_series(1, 100000) g) to 'rows'
create temp table back (g int, sum text);
\copy back from 'rows'
select md5(string_agg(sum, '' order by g)) from back;
END
grep -o 'TLSv1\.3' said
tail -n 1 said
sha256sum < rows`,
		want: fmt.Sprintf("TLSv1.3\n%x\n%x  -", md5.Sum([]byte(sums.String())), sha256.Sum256([]byte(rows.String()))),
	}
	t.Run(c.name, func(t *testing.T) {
		suite.Each(t, func(t *testing.T, b *harness.Box) {
			own := *b.Suite
			own.NetFlags = slices.Concat(own.NetFlags, []string{"-postgres", socket})
			b.Suite = &own
			c.test(t, b)
		})
	})
}

// startPostgres runs a server for the test, which listens on a UNIX socket and nowhere else, and never as root.
func startPostgres(t *testing.T, password string) (socket string) {
	t.Helper()
	programs := filepath.SplitList("/usr/local/bin:/usr/bin:/bin")
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian's
	programs = append(versions, programs...)
	find := func(name string) string {
		for _, dir := range programs {
			if harness.OnPath(dir, name) {
				return filepath.Join(dir, name)
			}
		}
		harness.Missing(t, name)
		return ""
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	dir := filepath.Join(suite.Dir, "postgres")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: harness.NobodyUID, Gid: harness.NobodyUID, Groups: []uint32{}}
		if err := os.Chown(dir, harness.NobodyUID, harness.NobodyUID); err != nil {
			t.Fatal(err)
		}
	}
	secret, data := filepath.Join(suite.Dir, "postgres-password"), filepath.Join(dir, "data")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(find(name), args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, []string{"LANG=C", "PATH=/usr/bin:/bin"}, attr
		return cmd
	}
	isReady := find("pg_isready")
	out, err := command("initdb", "-D", data, "-U", "tester", "--auth=scram-sha-256", "--pwfile="+secret, "--no-sync", "--encoding=UTF8", "--locale=C").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := command("postgres", "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir, "-c", "fsync=off", "-c", "shared_buffers=16MB")
	var log bytes.Buffer
	server.Stderr = &log
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread that starts it must live, or it gets the signal
		err := server.Start()
		started <- err
		if err == nil {
			ended <- server.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // fast shutdown
		if err := <-ended; err != nil {
			t.Errorf("postgres: %v\n%s", err, log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if exec.Command(isReady, "-q", "-h", dir).Run() == nil {
			return filepath.Join(dir, ".s.PGSQL.5432")
		}
		if time.Now().After(deadline) {
			t.Fatalf("postgres is not ready after a minute")
		}
	}
}
