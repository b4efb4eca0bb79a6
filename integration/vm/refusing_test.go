package vm

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"gobox/record"
)

// long says whether the long form is asked for, as make test-kernels does: every case on every kernel.
func long() bool { return os.Getenv("GOBOX_VM_LONG") != "" }

// hostFunctions: r NAME WHO FLAG... runs gobox as root or user and tells the status, the result and stderr.
const hostFunctions = `
mkdir /tmp/root /tmp/user && chown 1000:1000 /tmp/user
cat >/bin/r <<'END'
#!/bin/sh
name=$1 who=$2
shift 2
cd /tmp/$who || exit 91
case $who in root) as=env ;; user) as=as_user ;; esac
$as gobox run --result /tmp/$who/result.json "$@" -- /bin/busybox sh -c 'exit 3' >/dev/null 2>/tmp/$who/err
echo "== $name $who $?"
cat /tmp/$who/result.json /tmp/$who/err
rm -f /tmp/$who/result.json
END
chmod 755 /bin/r
`

// A hostCase is what must come of one run of [hostFunctions].
type hostCase struct {
	name, who, status string
	says              []string // on stderr
	missing           string   // layers.missing of the result
}

func judgeHosts(t *testing.T, out string, cases []hostCase) {
	t.Helper()
	sections := make(map[string]string)
	for _, part := range strings.Split(out, "== ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		sections[head] = body
	}
	for _, c := range cases {
		body, ok := sections[c.name+" "+c.who+" "+c.status]
		if !ok {
			t.Errorf("%s as %s: no exit status %s", c.name, c.who, c.status)
			continue
		}
		var rec record.Result
		if err := json.NewDecoder(strings.NewReader(body)).Decode(&rec); err != nil {
			t.Errorf("%s as %s: %v in %s", c.name, c.who, err, body)
		}
		if c.status == "125" && rec.Outcome != record.SetupFailed || strings.Join(rec.Layers.Missing, " ") != c.missing {
			t.Errorf("%s as %s: outcome %s, missing %q", c.name, c.who, rec.Outcome, rec.Layers.Missing)
		}
		for _, want := range c.says {
			if !strings.Contains(body, want) {
				t.Errorf("%s as %s: no %q in\n%s", c.name, c.who, want, body)
			}
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestHostNamespaces: where user namespaces or a procfs of one's own are refused, gobox refuses too, and says by what.
func TestHostNamespaces(t *testing.T) {
	files := map[string]string{"/bin/gobox": goboxBinary(t)}
	kernels := series
	if !long() {
		kernels = series[1:]
	}
	for _, series := range kernels {
		t.Run(series, func(t *testing.T) {
			out := boot(t, Config{Files: files, Script: hostFunctions + `
r plain root
r plain user
sysctl -q -w user.max_user_namespaces=0
r none root
r none user
sysctl -q -w user.max_user_namespaces=1000
sysctl -q -w kernel.unprivileged_userns_clone=0
r unprivileged root
r unprivileged user
sysctl -q -w kernel.unprivileged_userns_clone=1
if [ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ] && [ "$(cat /sys/module/apparmor/parameters/enabled)" = Y ]; then
	sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=1
	r apparmor user
	sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0
fi
# As container engines do it.
unshare -m sh -c '
for f in kcore keys timer_list; do mount --bind /dev/null /proc/$f || exit; done
mount -t tmpfs -o ro none /proc/acpi
for d in sys irq; do mount --bind /proc/$d /proc/$d && mount -o remount,bind,ro /proc/$d || exit; done
r masked root
r masked user
'
r again root
r again user
echo == end
`}, series)
			max := []string{"namespaces clone: no space left on device", "hint: ", "sysctl user.max_user_namespaces"}
			clone := []string{"namespaces clone: operation not permitted", "hint: ", "kernel.unprivileged_userns_clone"}
			proc := []string{"mount proc on /proc: operation not permitted", "hint: ", "docker run --security-opt systempaths=unconfined"}
			cases := []hostCase{
				{"plain", "root", "3", nil, ""},
				{"plain", "user", "3", nil, ""},
				{"none", "root", "125", max, ""},
				{"none", "user", "125", max, ""},
				{"unprivileged", "root", "3", nil, ""},
				{"unprivileged", "user", "125", clone, ""},
				{"masked", "root", "125", proc, ""},
				{"masked", "user", "125", proc, ""},
				{"again", "root", "3", nil, ""},
				{"again", "user", "3", nil, ""},
			}
			if strings.Contains(out, "== apparmor") {
				cases = append(cases, hostCase{"apparmor", "user", "125", []string{"hint: ", "kernel.apparmor_restrict_unprivileged_userns"}, ""})
			}
			judgeHosts(t, out, cases)
		})
	}
}

// TestHostWithoutLandlock: a kernel that has it but was booted without.
func TestHostWithoutLandlock(t *testing.T) {
	files := map[string]string{"/bin/gobox": goboxBinary(t)}
	kernels := series
	if !long() {
		kernels = series[:1]
	}
	for _, series := range kernels {
		t.Run(series, func(t *testing.T) {
			out := boot(t, Config{Files: files, Cmdline: "lsm=lockdown,yama,apparmor", Script: hostFunctions + `
mount -t securityfs none /sys/kernel/security
r without root
r without user
r allowed root --allow-missing landlock
r allowed user --allow-missing landlock
r required user --require landlock
cd /tmp/user
echo "== doctor user $(as_user gobox doctor >out 2>&1; echo $?)"
cat out
echo == end
`}, series)
			refused := []string{"layer landlock: landlock is not among the security modules enabled at boot", "hint: ", "--allow-missing landlock"}
			warned := []string{"gobox: warning: landlock: landlock is not among the security modules enabled at boot"}
			judgeHosts(t, out, []hostCase{
				{"without", "root", "125", refused, ""},
				{"without", "user", "125", refused, ""},
				{"allowed", "root", "3", warned, "landlock"},
				{"allowed", "user", "3", warned, "landlock"},
				{"required", "user", "125", refused[:1], ""},
			})
			for _, want := range []string{"boot with lsm=landlock,lockdown,"} {
				if _, text, _ := strings.Cut(out, "== doctor"); !strings.Contains(text, want) {
					t.Errorf("doctor: no %q in\n%s", want, text)
				}
			}
		})
	}
}
