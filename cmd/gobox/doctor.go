package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gobox/landlock"
	"gobox/policy"
	"gobox/rlimit/cgroup"
)

func doctorCommand(status *int) *cobra.Command {
	var asJSON bool
	var inside string
	var require []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Prove each layer on this host in throw-away sandboxes",
		Long: `Prove each layer on this host by doing it in throw-away sandboxes: what should be refused is tried, and seen to be
refused. For each layer that fails or is missing there is a reason and a fix. The exit status is 1 when a layer fails, or
one of --require is missing.

What is missing without being a failure: cgroups, for which other means stand in, folders of root's that cannot be
idmapped, and overlays, without which workspaces are read-only.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if inside != "" {
				*status = doctorInside(cmd.OutOrStdout(), inside)
				return nil
			}
			d := doctor{require: require}
			d.examine()
			*status = d.status()
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), d.report())
			}
			return d.write(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.VarP(&value{kind: "LAYER", parse: func(text string) error {
		if text != "cgroup" && text != "writable" && text != "overlay" {
			return errors.New("is none of cgroup, overlay and writable; every other layer is needed in any case")
		}
		require = append(require, text)
		return nil
	}}, "require", "", "fail where this is missing: cgroup, overlay, writable")
	f.VarP(word(&inside, "PROBE", ""), "inside", "", "what the sandbox runs")
	_ = f.MarkHidden("inside")
	return cmd
}

// finding is what came of one layer.
type finding struct {
	Layer  string `json:"layer"`
	State  string `json:"state"`  // ok, missing, failed, untried
	Detail string `json:"detail"` // what was seen
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

const (
	stateOK      = "ok"
	stateMissing = "missing" // and something else stands in
	stateFailed  = "failed"
	stateUntried = "untried" // since what it needs has failed
)

type doctor struct {
	require  []string
	findings []finding
	host     policy.Host
	exe      string
}

func (d *doctor) add(layer, state, detail, reason, fix string) {
	d.findings = append(d.findings, finding{layer, state, detail, reason, fix})
}

// judge adds ok when problems is empty, and else the failure.
func (d *doctor) judge(layer, detail string, problems []string, fix string) {
	if len(problems) == 0 {
		d.add(layer, stateOK, detail, "", "")
		return
	}
	d.add(layer, stateFailed, detail, strings.Join(problems, "; "), fix)
}

func (d *doctor) status() int {
	for _, f := range d.findings {
		if f.State == stateFailed || f.State == stateUntried {
			return 1
		}
		if f.State != stateOK && slices.Contains(d.require, f.Layer) {
			return 1
		}
	}
	return 0
}

func (d *doctor) report() any {
	return struct {
		SchemaVersion int       `json:"schema_version"`
		Version       string    `json:"version"`
		Kernel        string    `json:"kernel"`
		UID           int       `json:"uid"`
		OK            bool      `json:"ok"`
		Layers        []finding `json:"layers"`
	}{1, versionText(), kernelText(), os.Geteuid(), d.status() == 0, d.findings}
}

func (d *doctor) write(out io.Writer) error {
	var text strings.Builder
	line := func(name, state, value string) {
		fmt.Fprintf(&text, "%-12s %-8s %s\n", name, state, policy.Printable(value))
	}
	who := "uid " + strconv.Itoa(os.Geteuid())
	line("host", "", "Linux "+kernelText()+", "+who+", gobox "+versionText())
	for _, f := range d.findings {
		line(f.Layer, f.State, f.Detail)
		if f.Reason != "" {
			line("", "reason", f.Reason)
		}
		if f.Fix != "" {
			line("", "fix", f.Fix)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func kernelText() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// examine goes from what everything needs to what only some runs need.
func (d *doctor) examine() {
	d.host = policy.CurrentHost()
	var err error
	if d.exe, err = os.Executable(); err != nil || !strings.HasPrefix(d.exe, "/") || strings.HasSuffix(d.exe, " (deleted)") {
		d.add("gobox", stateFailed, "", "the file of this gobox cannot be found: "+d.exe, "start it from where it is installed")
		return
	}
	dir, err := os.MkdirTemp("", "gobox-doctor-")
	if err != nil {
		d.add("gobox", stateFailed, "", err.Error(), "make the temporary folder writable, or name another with TMPDIR")
		return
	}
	defer os.RemoveAll(dir)
	// Root's sandbox has another user, who owns nothing here where the file system has no idmapped mounts, as in containers.
	if err := os.Chmod(dir, 0o755); err != nil {
		d.add("gobox", stateFailed, "", err.Error(), "name another temporary folder with TMPDIR")
		return
	}
	if !d.examineWalls(dir) {
		// What follows needs a sandbox.
		for _, layer := range []string{"overlay", "writable", "terminal", "network"} {
			d.add(layer, stateUntried, "", "needs a sandbox", "")
		}
	} else {
		d.examineOverlay(dir)
		d.examineWritable(dir)
		d.examineTerminal(dir)
		d.examineNetwork(dir)
	}
	d.examineCgroup(dir)
}

// examineWalls runs the first sandbox and judges what was seen inside and from outside. It tells whether there was one.
func (d *doctor) examineWalls(dir string) bool {
	p := d.policy(dir, policy.ModeReadOnly, probeWalls)
	if d.host.LandlockABI == 0 {
		p.AllowMissing = append(p.AllowMissing, policy.LayerLandlock)
	}
	if !d.host.Seccomp {
		p.AllowMissing = append(p.AllowMissing, policy.LayerSeccomp)
	}
	got, res, err := d.try(p, withoutScratchRule, false)
	if err != nil {
		d.blame(err)
		return false
	}
	d.judgeNamespaces(got)
	d.judge("mounts", "a tree of its own, system and workspace read-only", problems(
		when(got.WriteSystem != "EROFS", "writing to /usr gives "+outcome(got.WriteSystem)+" and not EROFS"),
		when(got.WriteWorkspace != "EROFS", "writing to a read-only workspace gives "+outcome(got.WriteWorkspace)+" and not EROFS"),
		when(got.WriteTmp != "", "writing to /tmp gives "+got.WriteTmp),
		when(got.HostSees, "what is written to /tmp appears on the host"),
		when(got.SetHostname == "", "the hostname could be changed"),
	), "report this: it works on every supported kernel")
	d.judge("privileges", "no capabilities, no new privileges", problems(
		when(got.Capabilities != "0000000000000000", "the command has capabilities "+got.Capabilities),
		when(!got.NoNewPrivs, "no_new_privs is not set"),
	), "report this: it works on every supported kernel")
	d.judgeLandlock(got)
	d.judgeSeccomp(got, res.DeniedSyscalls)
	d.judge("rlimits", "refused the file after the "+strconv.FormatUint(probeFiles, 10)+"th", problems(
		when(got.OpenError != "EMFILE", "opening too many files gives "+outcome(got.OpenError)+" and not EMFILE"),
		when(got.OpenFiles > probeFiles, fmt.Sprintf("%d files were open with a limit of %d", got.OpenFiles, probeFiles)),
	), "report this: it works on every supported kernel")
	return true
}

func (d *doctor) judgeNamespaces(got facts) {
	var shared []string
	for _, name := range namespaceNames() {
		own, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil || got.Namespaces[name] == "" || got.Namespaces[name] == own {
			shared = append(shared, name)
		}
	}
	d.judge("namespaces", strings.Join(namespaceNames(), ", "), problems(
		when(shared != nil, "not its own: "+strings.Join(shared, ", ")),
		when(got.Interfaces != "lo", "there are network interfaces other than lo: "+got.Interfaces),
	), "report this: it works on every supported kernel")
}

func (d *doctor) judgeLandlock(got facts) {
	abi := d.host.LandlockABI
	if abi == 0 {
		fix, cause := d.host.Lack(policy.LayerLandlock)
		reason := cause.Error()
		if list, err := os.ReadFile("/sys/kernel/security/lsm"); err == nil && !strings.Contains(string(list), "landlock") {
			reason, fix = "the kernel has Landlock switched off, or none: lsm="+strings.TrimSpace(string(list)),
				"boot with lsm=landlock,"+strings.TrimSpace(string(list))+"; until then: gobox run --allow-missing landlock"
		}
		d.add("landlock", stateFailed, "", reason, fix)
		return
	}
	detail := "ABI " + strconv.Itoa(abi)
	if gaps := landlock.Gaps(abi); len(gaps) > 0 {
		detail += "; a newer kernel does better: " + strings.Join(gaps, "; ")
	}
	d.judge("landlock", detail, problems(
		when(got.WriteUngranted != "EACCES", "writing to a place that is mounted and not granted gives "+outcome(got.WriteUngranted)+" and not EACCES"),
	), "gobox run --require landlock refuses here; see dmesg for what the kernel says of Landlock")
}

func (d *doctor) judgeSeccomp(got facts, denied uint64) {
	if !d.host.Seccomp {
		fix, cause := d.host.Lack(policy.LayerSeccomp)
		d.add("seccomp", stateFailed, "", cause.Error(), fix)
		return
	}
	d.judge("seccomp", "refused calls and counted them: "+strconv.FormatUint(denied, 10), problems(
		when(got.SeccompMode != "2", "the command runs without a filter"),
		when(got.Unshare != "EPERM", "unshare gives "+outcome(got.Unshare)+" and not EPERM"),
		when(got.IoUring != "ENOSYS", "io_uring_setup gives "+outcome(got.IoUring)+" and not ENOSYS"),
		when(denied == 0, "no notification of the refused call arrived"),
	), "a kernel of 5.9 or newer with CONFIG_SECCOMP_FILTER and user notification")
}

// examineOverlay: the command writes, and the host's folder stays as it is.
func (d *doctor) examineOverlay(dir string) {
	got, _, err := d.try(d.policy(dir, policy.ModeOverlay, probeWrite), nil, false)
	if err != nil {
		fix := "Linux 6.6 or newer, or --scratch DIR on ext4, xfs or btrfs"
		var e *policy.Error
		if errors.As(err, &e) && e.Hint != "" {
			fix = e.Hint
		}
		d.add("overlay", stateMissing, "workspaces are read-only where nothing else is asked for", err.Error(), fix)
		return
	}
	d.judge("overlay", "writable to the command, untouched on the host", problems(
		when(got.WriteWorkspace != "", "writing to the workspace gives "+got.WriteWorkspace),
		when(exists(dir+"/"+probeName), "what was written is on the host"),
	), "--workspace-mode ro or rw")
}

// examineWritable: what the command creates belongs to the folder's owner. For root that takes an idmapped mount.
func (d *doctor) examineWritable(dir string) {
	if d.host.EUID != 0 {
		got, _, err := d.try(d.policy(dir, policy.ModeReadWrite, probeWrite), nil, false)
		if err != nil {
			d.fail("writable", err, "")
			return
		}
		d.judge("writable", "a file written with --workspace-mode rw is the caller's", problems(
			when(got.WriteWorkspace != "", "writing to the workspace gives "+got.WriteWorkspace),
			when(!exists(dir+"/"+probeName), "what was written is not on the host"),
		), "")
		return
	}
	got, _, err := d.try(d.policy(dir, policy.ModeReadWrite, probeWrite), nil, false)
	const fix = "workspaces of root's on a file system with idmapped mounts (ext4, xfs, btrfs; tmpfs since Linux 6.3), or owned by an ordinary user, or --workspace-mode overlay"
	if err != nil {
		d.add("writable", stateMissing, "folders of root's in "+os.TempDir()+" cannot be written to from inside", err.Error(), fix)
		return
	}
	var st unix.Stat_t
	_ = unix.Stat(dir+"/"+probeName, &st)
	d.judge("writable", "a file written to root's folder is root's, though the command is not root", problems(
		when(got.WriteWorkspace != "", "writing to the workspace gives "+got.WriteWorkspace),
		when(!exists(dir+"/"+probeName), "what was written is not on the host"),
		when(st.Uid != 0, "what was written belongs to uid "+strconv.Itoa(int(st.Uid))),
	), fix)
}

func (d *doctor) examineTerminal(dir string) {
	got, _, err := d.try(d.policy(dir, policy.ModeReadOnly, probeTerminal), nil, true)
	if err != nil {
		d.fail("terminal", err, "mount /dev/pts with newinstance and ptmxmode=666")
		return
	}
	d.judge("terminal", "a pty of the sandbox's own", problems(when(!got.Terminal, "the command's stdin is no terminal")),
		"mount /dev/pts with newinstance and ptmxmode=666")
}

// examineNetwork: of two names the allowed one is there, and an address that no rule names is not reached. No name or packet of it leaves
// this host.
func (d *doctor) examineNetwork(dir string) {
	p := d.policy(dir, policy.ModeReadOnly, probeNetwork)
	p.AllowNet = []string{probeAllowed + ":443"}
	const fix = "a kernel with network namespaces, and with veth for a network that shares no ports (CONFIG_NET_NS, CONFIG_VETH); sysctl user.max_net_namespaces must allow two for each run"
	got, res, err := d.try(p, nil, false)
	if err != nil {
		d.fail("network", err, fix)
		return
	}
	detail := "a list of hosts: an allowed name is there, another is not, and what no rule names is reset"
	if len(res.Notes) > 0 {
		detail += "; " + strings.Join(res.Notes, "; ")
	}
	d.judge("network", detail, problems(
		when(got.ResolveAllowed != "", "looking up an allowed name gives "+got.ResolveAllowed),
		when(got.ResolveOther == "", "a name that no rule has was found"),
		when(got.DialOther == "", "an address that no rule names was reached"),
		when(res.DeniedConnections < 2, "the refusals were not seen by the supervisor"),
	), fix)
}

func (d *doctor) examineCgroup(dir string) {
	want := cgroup.Limits{Memory: 64 << 20, Pids: 64, CPUs: 1}
	support := cgroup.Detect()
	have := strings.Join(support.Controllers(), ", ")
	lacks := support.Lacks(want)
	if len(lacks) == 0 || support.Scope() {
		p := d.policy(dir, policy.ModeReadOnly, probeTerminal)
		p.Memory, p.Pids, p.CPUs = 512<<20, want.Pids, want.CPUs
		p.Require = []policy.Layer{policy.LayerCgroup}
		_, res, err := d.try(p, nil, false)
		if err == nil {
			d.judge("cgroup", "version "+strconv.Itoa(res.Cgroup.Version)+": memory, pids, cpu", problems(
				when(res.Cgroup.Version == 0, "the command was in no cgroup of gobox's"),
				when(res.Survived, "the cgroup could not be removed"),
			), "gobox runs gc cleans up")
			return
		}
		if len(lacks) == 0 {
			d.fail("cgroup", err, "")
			return
		}
	}
	detail := "none; rlimits, tmpfs sizes and init's watch stand in, --cpus cannot be had"
	if have != "" {
		detail = "version " + strconv.Itoa(support.Version) + ": " + have + "; for the rest other means stand in"
	}
	var why, fixes []string
	for _, l := range lacks {
		why = append(why, l.Controller+": "+l.Why)
		if l.Hint != "" && !slices.Contains(fixes, l.Hint) {
			fixes = append(fixes, l.Hint)
		}
	}
	d.add("cgroup", stateMissing, detail, strings.Join(why, "; "), strings.Join(fixes, "; "))
}

// fail notes an error of a sandbox's as the layer's failure.
func (d *doctor) fail(layer string, err error, fix string) {
	var e *policy.Error
	if errors.As(err, &e) && e.Hint != "" {
		fix = e.Hint
	}
	d.add(layer, stateFailed, "", err.Error(), fix)
}

// blame finds the layer that kept the first sandbox from being; the others cannot be tried then.
func (d *doctor) blame(err error) {
	guilty := "namespaces"
	var e *policy.Error
	if errors.As(err, &e) {
		switch {
		case strings.Contains(e.Step, "landlock"):
			guilty = "landlock"
		case strings.Contains(e.Step, "seccomp"):
			guilty = "seccomp"
		case strings.Contains(e.Step, "rlimit"):
			guilty = "rlimits"
		case strings.HasPrefix(e.Step, "mount"), strings.HasPrefix(e.Step, "make"), strings.HasPrefix(e.Step, "pivot"), strings.HasPrefix(e.Step, "mask"):
			guilty = "mounts"
		}
	}
	for _, layer := range []string{"namespaces", "mounts", "privileges", "landlock", "seccomp", "rlimits"} {
		if layer != guilty {
			d.add(layer, stateUntried, "", "there was no sandbox, for "+guilty, "")
			continue
		}
		fix := ""
		if layer == "namespaces" || layer == "mounts" {
			fix = namespacesFix(err)
		}
		if fix == "" {
			d.fail(layer, err, "")
		} else {
			d.add(layer, stateFailed, "", err.Error(), fix)
		}
	}
}

// namespacesFix names the setting of this host that refuses user namespaces, empty when none is known to.
func namespacesFix(err error) string {
	settings := [][3]string{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for gobox alone (docs/policies.md has one)"},
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		settings = [][3]string{{"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"}}
	}
	for _, s := range settings {
		if text, err := os.ReadFile(s[0]); err == nil && strings.TrimSpace(string(text)) == s[1] {
			return s[2]
		}
	}
	return ""
}

func problems(list ...string) []string {
	var found []string
	for _, p := range list {
		if p != "" {
			found = append(found, p)
		}
	}
	return found
}

func when(bad bool, text string) string {
	if bad {
		return text
	}
	return ""
}

func outcome(errno string) string {
	if errno == "" {
		return "success"
	}
	return errno
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }
