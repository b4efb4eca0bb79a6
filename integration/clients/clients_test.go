package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gobox/integration/harness"
)

// client is a program with a task on one host.
type client struct {
	name  string
	tools []string
	rules []string // for --allow-net
	flags []string // of gobox besides
	env   []string // that it needs, inside and outside
	host  string   // that the rules allow
	other string   // that no rule allows, and which serves the same; default: other.example.net
	port  int      // default: 443
	// script does the task on $HOST, in an empty folder, and says what came of it. The authority of the test's internet is in the system's
	// bundle, where most clients look by themselves, and in the file $CA.
	script string
	want   string // what it says
	via    string // how gobox's proxy variables lead it: connect or http; none if it pays no attention to them
	socks  bool   // takes ALL_PROXY=socks5h:// too
	// prepare puts what it needs besides into the workspace.
	prepare func(t *testing.T, b *harness.Box)
}

// others are where the hosts are that no rule allows.
var others = map[string][]string{"other.example.net": {"93.184.216.40:", "[2606:2800:220:1::40]:"}, "sql.example.net": {"93.184.216.61:"}}

// cloning leaves the new repository, which is protected in a real folder, to the command.
var cloning = []string{"--allow-path", "git.example.org/hello/.git"}

var clients = []client{
	{
		name: "curl", tools: []string{"curl"}, rules: []string{"web.example.org"}, host: "web.example.org", via: "connect", socks: true,
		script: "curl -fsS --max-time 20 -o out -w '%{http_version}\\n' https://$HOST/data/file.txt; cat out", want: "2\n" + greeting,
	},
	{
		name: "curl-plain", tools: []string{"curl"}, rules: []string{"web.example.org:80"}, host: "web.example.org", port: 80, via: "http",
		script: "curl -fsS --max-time 20 -o out http://$HOST/data/file.txt; cat out", want: greeting,
	},
	{
		name: "wget", tools: []string{"wget"}, rules: []string{"web.example.org"}, host: "web.example.org", via: "connect",
		script: "wget -q --tries=1 --timeout=20 https://$HOST/data/file.txt; cat file.txt", want: greeting,
	},
	{
		name: "git-https", tools: []string{"git"}, flags: cloning, rules: []string{"git.example.org"}, host: "git.example.org", via: "connect", socks: true,
		script: "git clone -q https://$HOST/git/hello.git; cat hello/README; git -C hello rev-list --count HEAD", want: greeting + "\n2",
	},
	{
		name: "git-ssh", tools: []string{"git", "ssh"}, flags: cloning, rules: []string{"git.example.org:22"}, host: "git.example.org", port: 22,
		env:     []string{"GIT_SSH_COMMAND=ssh -F none -i ../key -o UserKnownHostsFile=../known_hosts -o BatchMode=yes"},
		prepare: sshFiles,
		script:  "git clone -q ssh://git@$HOST/hello.git; cat hello/README; git -C hello rev-list --count HEAD", want: greeting + "\n2",
	},
	{
		// Binary data both ways at once, what ends one way first, and how a command ended.
		name: "ssh", tools: []string{"ssh", "cmp"}, rules: []string{"git.example.org:22"}, host: "git.example.org", port: 22, prepare: sshFiles,
		script: "ssh='ssh -F none -i ../key -o UserKnownHostsFile=../known_hosts -o BatchMode=yes'\n" +
			"head -c 8388608 /dev/urandom > sent; $ssh tester@$HOST cat < sent > back; cmp sent back; wc -c < back\n" +
			"$ssh tester@$HOST fail 2>&1 || echo status $?", want: "8388608\nfailed as asked\nstatus 7",
	},
	{
		// What is under way when one end has said its last comes back whole.
		name: "half-close", tools: []string{"python3"}, rules: []string{"web.example.org:7000"}, host: "web.example.org", port: 7000,
		prepare: copies("halfclose.py"), script: "python3 ../halfclose.py $HOST", want: "the same 4194304",
	},
	{
		// The index is on one host and the files are on another, of a wildcard.
		name: "pip", tools: []string{"pip3", "python3"}, rules: []string{"index.example.org", "*.files.example.org"}, host: "index.example.org", via: "connect",
		script: "export PIP_CERT=$CA\n" +
			"pip3 --disable-pip-version-check install -q --no-cache-dir --retries 0 --index-url https://$HOST/simple/ --target . demo\n" +
			"python3 -c 'import demo; demo.main()'", want: greeting,
	},
	{
		name: "npm", tools: []string{"npm", "node"}, rules: []string{"*.files.example.org"}, host: "npm.files.example.org", via: "connect",
		script: "export NODE_EXTRA_CA_CERTS=$CA; echo '{}' > package.json\n" +
			"npm install --silent --no-audit --no-fund --no-update-notifier --fetch-retries=0 --cache ./cache --registry https://$HOST/npm/ demo\n" +
			"node -e 'require(\"demo\")'", want: greeting,
	},
	{
		name: "go", tools: []string{"go"}, rules: []string{"*.files.example.org"}, host: "mod.files.example.org", via: "connect",
		env: []string{"GOSUMDB=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOENV=off", "GOFLAGS=-modcacherw"},
		script: "export GOPATH=$PWD GOCACHE=$PWD/cache GOPROXY=https://$HOST/mod\n" +
			"go mod download example.org/hello@v1.0.0\n" +
			"sed -n 's/.*Greeting: //p' pkg/mod/example.org/hello@v1.0.0/hello.go", want: greeting,
	},
	{
		// HttpsURLConnection, HttpClient by HTTP/2, and WebSocket.
		name: "java", tools: []string{"java", "javac", "keytool"}, rules: []string{"web.example.org"}, host: "web.example.org",
		prepare: compiled,
		script: "store=../trust-$mode.p12\n" +
			"[ -e $store ] || keytool -importcert -noprompt -file $CA -keystore $store -storetype PKCS12 -storepass changeit 2>/dev/null\n" +
			"java -XX:TieredStopAtLevel=1 -Djavax.net.ssl.trustStore=$store -Djavax.net.ssl.trustStorePassword=changeit -cp .. Fetch $HOST",
		want: greeting + "\nHTTP_2 " + greeting + "\nwelcome 64 goodbye 1000",
	},
	{
		name: "node-fetch", tools: []string{"node"}, rules: []string{"web.example.org"}, host: "web.example.org",
		prepare: copies("fetch.mjs"),
		script:  "NODE_EXTRA_CA_CERTS=$CA node ../fetch.mjs https://$HOST/data/file.txt", want: greeting,
	},
	{
		name: "node-http2", tools: []string{"node"}, rules: []string{"web.example.org"}, host: "web.example.org",
		prepare: copies("h2.mjs"),
		script:  "NODE_EXTRA_CA_CERTS=$CA node ../h2.mjs https://$HOST", want: greeting + "\nh2 4",
	},
}

func TestClients(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			suite.Each(t, func(t *testing.T, b *harness.Box) { c.test(t, b) })
		})
	}
}

// test does the task on the allowed host and then on the other, which must be refused, said and recorded, and serves whoever is not in a sandbox.
func (c client) test(t *testing.T, b *harness.Box) {
	env, other := c.layOut(t, b), c.otherHost()
	res, said := b.Online(t, harness.Run{Bin: "/bin/sh", Args: []string{"frame.sh", "outside", other}, Env: env})
	if want := c.want + "\n" + other + " ended with 0\n"; string(res.Stdout) != want || !slices.ContainsFunc(said.Connections(), c.isOther) {
		t.Fatalf("control: without a sandbox it should say %q: %v", want, res)
	}
	modes := map[string]string{"proxied": "transparent"}
	if c.via != "" {
		modes = map[string]string{"proxied": c.via, "direct": "transparent"}
	}
	if c.socks {
		modes["socks"] = "socks5"
	}
	for mode, via := range modes {
		c.inside(t, b, env, mode, via)
	}
	b.NoSurvivors(t)
}

func (c client) inside(t *testing.T, b *harness.Box, env []string, mode, via string) {
	other := c.otherHost()
	for _, host := range []string{c.host, other} {
		if err := os.RemoveAll(filepath.Join(b.Work, host)); err != nil {
			t.Fatal(err)
		}
	}
	flags := append([]string{"--workspace-mode", "rw", "--timeout", "2m", "--run-id", mode, "--ro", certificate(b)}, c.flags...)
	for _, rule := range c.rules {
		flags = append(flags, "--allow-net", rule)
	}
	for _, v := range env {
		flags = append(flags, "--env", v)
	}
	res, said, rec := b.OnlineRecorded(t, harness.Run{Flags: flags, Argv: []string{"sh", "frame.sh", mode, c.host, other}, Timeout: 3 * time.Minute})
	rest, ok := strings.CutPrefix(string(res.Stdout), c.want+"\n"+c.host+" ended with 0\n")
	if res.Code != 0 || !ok || !strings.Contains(rest, other+" ended with ") || strings.Contains(rest, " ended with 0\n") || strings.Contains(rest, greeting) {
		t.Errorf("%s: it should say %q, and then fail: %v", mode, c.want, res)
	}
	if at := slices.DeleteFunc(said.Connections(), func(at string) bool { return !c.isOther(at) }); len(at) > 0 || said.Asked(other) > 0 {
		t.Errorf("%s: the other host heard of it: %v", mode, said)
	}
	if text := "hint: " + other; !strings.Contains(string(res.Stderr), text) || !strings.Contains(string(res.Stderr), " is refused by gobox's network policy") {
		t.Errorf("%s: nothing says %q: %s", mode, text, res.Stderr)
	}
	denied := false
	for _, d := range rec.Denials {
		switch d.Object {
		case fmt.Sprintf("%s:%d", other, c.port443()):
			denied = denied || d.Fix == "--allow-net "+d.Object
		case other:
			denied = denied || strings.HasPrefix(d.Fix, "--allow-net "+other+":")
		}
		if d.Layer != "network" || !strings.Contains(d.Object, other) {
			t.Errorf("%s: more is denied than what should be: %+v", mode, d)
		}
	}
	if !denied {
		t.Errorf("%s: no denial of %s with its flag: %+v", mode, other, rec.Denials)
	}
	ways := map[string]int{}
	for _, e := range b.Events(t, mode) {
		if e.Verdict == "allowed" {
			ways[e.Via]++
		}
	}
	if ways[via] == 0 || len(ways) != 1 {
		t.Errorf("%s: connections came by %v, and not by %s", mode, ways, via)
	}
}

func (c client) otherHost() string {
	if c.other == "" {
		return "other.example.net"
	}
	return c.other
}

// isOther says whether an address is the other host's.
func (c client) isOther(at string) bool {
	return slices.ContainsFunc(others[c.otherHost()], func(prefix string) bool { return strings.HasPrefix(at, prefix) })
}

func (c client) port443() int {
	if c.port == 0 {
		return 443
	}
	return c.port
}

// layOut makes the workspace, and gives the environment that the client needs besides.
func (c client) layOut(t *testing.T, b *harness.Box) []string {
	t.Helper()
	env := slices.Clone(c.env)
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, tool := range c.tools {
		if tool == "go" {
			path = b.GoDir(t) + ":" + path
		}
		if !harness.OnPath(path, tool) {
			harness.Missing(t, tool)
		}
	}
	copies("frame.sh")(t, b)
	b.File(t, filepath.Join(b.Work, "client.sh"), c.script+"\n")
	if c.prepare != nil {
		c.prepare(t, b)
	}
	return append(env, "PATH="+path, "CA="+certificate(b))
}

// certificate is the file of the authority.
func certificate(b *harness.Box) string { return filepath.Join(b.NetFlags[1], "ca/certificate.pem") }

// copies gives a preparation that puts files of testdata into the workspace.
func copies(names ...string) func(*testing.T, *harness.Box) {
	return func(t *testing.T, b *harness.Box) {
		t.Helper()
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			b.File(t, filepath.Join(b.Work, name), string(text))
		}
	}
}

// sshFiles are the user's key, which ssh wants to be the user's alone, and what is known of hosts.
func sshFiles(t *testing.T, b *harness.Box) {
	t.Helper()
	for name, from := range map[string]string{"key": "user", "known_hosts": "known_hosts"} {
		text, err := os.ReadFile(filepath.Join(b.NetFlags[1], "ssh", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(b.File(t, filepath.Join(b.Work, name), string(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// classes are the Java programs, compiled once.
var classes = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(suite.Dir, "classes")
	out, err := exec.Command("javac", "-nowarn", "-d", dir, "testdata/Fetch.java").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("javac: %w\n%s", err, out)
	}
	return dir, err
})

func compiled(t *testing.T, b *harness.Box) {
	t.Helper()
	dir, err := classes()
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*.class"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no classes: %v", err)
	}
	for _, from := range list {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		b.File(t, filepath.Join(b.Work, filepath.Base(from)), string(text))
	}
}
