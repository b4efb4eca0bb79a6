package clients

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gobox/integration/testnet/authority"

	"golang.org/x/crypto/ssh"
)

// Every package and repository of the site says this, and its tests look for it.
const greeting = "hello from the site"

// file is one of an archive.
type file struct{ name, text string }

// makeSite makes what integration/testnet serves: files, a Python index, npm packages, Go modules, a git repository, keys of SSH, and
// the authority of its TLS.
func makeSite(dir string) error {
	put := map[string]string{"data/file.txt": greeting + "\n"}
	for name, add := range map[string]func(map[string]string) error{"python": pythonPackage, "npm": npmPackage, "go": goModule, "ssh": sshKeys, "ca": certificates} {
		if err := add(put); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, text := range put {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return repository(filepath.Join(dir, "git"))
}

func zipped(files []file) (string, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		w, err := z.Create(f.name)
		if err != nil {
			return "", err
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			return "", err
		}
	}
	err := z.Close()
	return b.String(), err
}

// pythonPackage is an index (PEP 503) of one wheel, which is on another host.
func pythonPackage(put map[string]string) error {
	const wheel, info = "demo-1.0-py3-none-any.whl", "demo-1.0.dist-info/"
	text, err := zipped([]file{
		{"demo/__init__.py", "def main():\n    print('" + greeting + "')\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "demo/__init__.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	})
	put["data/"+wheel] = text
	put["simple/demo/index.html"] = `<!DOCTYPE html><html><body><a href="https://pkg.files.example.org/data/` + wheel + `">` + wheel + `</a></body></html>`
	return err
}

// npmPackage is a package whose metadata and archive come from whatever host was asked.
func npmPackage(put map[string]string) error {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	t := tar.NewWriter(gz)
	for _, f := range []file{
		{"package/package.json", `{"name": "demo", "version": "1.0.0", "main": "index.js"}`},
		{"package/index.js", "console.log('" + greeting + "')\n"},
	} {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}); err != nil {
			return err
		}
		if _, err := t.Write([]byte(f.text)); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	put["tarballs/demo-1.0.0.tgz"] = b.String()
	sum := sha512.Sum512(b.Bytes())
	put["npm/demo.json"] = fmt.Sprintf(`{"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "demo", "version": "1.0.0", `+
		`"dist": {"tarball": "https://HOST/tarballs/demo-1.0.0.tgz", "integrity": "sha512-%s"}}}}`, base64.StdEncoding.EncodeToString(sum[:]))
	return nil
}

// goModule is what the proxy protocol of Go modules asks for.
func goModule(put map[string]string) error {
	const version, mod = "mod/example.org/hello/@v/v1.0.0", "module example.org/hello\n\ngo 1.20\n"
	const in = "example.org/hello@v1.0.0/"
	text, err := zipped([]file{{in + "go.mod", mod}, {in + "hello.go", "package hello\n\n// Greeting: " + greeting + "\nconst Greeting = 1\n"}})
	put[version+".zip"], put[version+".mod"] = text, mod
	put[version+".info"] = `{"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}`
	put["mod/example.org/hello/@v/list"] = "v1.0.0\n"
	return err
}

// sshKeys are the host's, the user's, and what the user knows of the host.
func sshKeys(put map[string]string) error {
	for _, name := range []string{"host", "user"} {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		block, err := ssh.MarshalPrivateKey(private, "")
		if err != nil {
			return err
		}
		key, err := ssh.NewPublicKey(public)
		if err != nil {
			return err
		}
		put["ssh/"+name], put["ssh/"+name+".pub"] = string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(key))
	}
	put["ssh/known_hosts"] = "git.example.org,other.example.net " + put["ssh/host.pub"]
	return nil
}

func certificates(put map[string]string) error {
	a, err := authority.New()
	if err != nil {
		return err
	}
	put["ca/certificate.pem"], put["ca/key.pem"] = string(a.Certificate), string(a.Key)
	return nil
}

// repository makes hello.git with two commits.
func repository(dir string) error {
	bare := filepath.Join(dir, "hello.git")
	script := `set -e
git init -q -b main "$1"
cd "$1"
git config user.name Tester
git config user.email tester@example.org
echo first > README
git add README
git commit -q -m one
printf '%s\n' "$2" > README
git commit -q -a -m two
git clone -q --bare . "$3"
rm -rf "$1"`
	cmd := exec.Command("sh", "-c", script, "sh", filepath.Join(dir, "making"), greeting, bare)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") { // of a hook that runs the tests
			env = append(env, v)
		}
	}
	cmd.Env = append(env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git: %w\n%s", err, out)
	}
	return nil
}
