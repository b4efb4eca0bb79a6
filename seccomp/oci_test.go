package seccomp

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gobox/seccomp/bpfsim"
)

type ociVerdict struct {
	name string
	args [6]uint64
	want Action
}

// readSample parses a sample, compiles it and checks what the filter answers.
func checkSample(t *testing.T, file, arch string, kernel Kernel, verdicts []ociVerdict) Profile {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parseOCI(data, file, kernel, arch)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := CompileFor(p, arch)
	if err != nil {
		t.Fatal(err)
	}
	program, err := bpfsim.Decode(compiled.BPF)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		nr, err := Number(v.name, arch)
		if err != nil {
			t.Fatal(err)
		}
		if got := Action(program.Run(&bpfsim.Data{NR: int32(nr), Arch: auditArch(arch), Args: v.args})); got != v.want {
			t.Errorf("%s %s %#x: %s, want %s", arch, v.name, v.args, got, v.want)
		}
	}
	return p
}

func TestDockerForm(t *testing.T) {
	always := []ociVerdict{
		{"read", [6]uint64{}, Allow},
		{"getcwd", [6]uint64{}, denyEPERM},
		{"mount", [6]uint64{}, denyEPERM},
		{"bpf", [6]uint64{}, denyEPERM},
		{"mseal", [6]uint64{}, Allow}, // newer than libseccomp 2.5
		{"clone", [6]uint64{unix.CLONE_VM}, Allow},
		{"clone", [6]uint64{unix.CLONE_NEWUSER}, denyEPERM},
		{"clone3", [6]uint64{}, denyENOSYS},
		{"personality", [6]uint64{}, Allow},
		{"personality", [6]uint64{0xffffffff}, Allow},
		{"personality", [6]uint64{addrNoRandomize}, denyEPERM},
		{"socket", [6]uint64{unix.AF_INET}, Allow},
		{"socket", [6]uint64{unix.AF_ALG}, denyEPERM},
		{"reboot", [6]uint64{}, KillProcess},
		{"ptrace", [6]uint64{}, Log},
	}
	p := checkSample(t, "docker-form.json", "amd64", Kernel{6, 11}, append(always,
		ociVerdict{"arch_prctl", [6]uint64{}, Allow},
		ociVerdict{"renameat", [6]uint64{}, denyEPERM},
		ociVerdict{"process_vm_readv", [6]uint64{}, Allow},
		ociVerdict{"futex_requeue", [6]uint64{}, Allow}))
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{"a_call_of_2031", "SCMP_ARCH_X86, SCMP_ARCH_X32", "a rule for socket compares 64 bits"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note on %s in:\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "socketcall") || strings.Contains(notes, "_llseek") {
		t.Errorf("a note on calls of other architectures:\n%s", notes)
	}
	checkSample(t, "docker-form.json", "arm64", Kernel{6, 12}, append(always,
		ociVerdict{"renameat", [6]uint64{}, Allow},
		ociVerdict{"futex_requeue", [6]uint64{}, denyEPERM}))
	checkSample(t, "docker-form.json", "amd64", Kernel{4, 7}, append(always,
		ociVerdict{"process_vm_readv", [6]uint64{}, denyEPERM},
		ociVerdict{"futex_requeue", [6]uint64{}, denyEPERM}))
}

func TestPodmanForm(t *testing.T) {
	checkSample(t, "podman-form.json", "amd64", Kernel{6, 1}, []ociVerdict{
		{"mount", [6]uint64{}, denyEPERM},
		{"getcwd", [6]uint64{}, denyENOSYS},
		{"socket", [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_AUDIT}, Errno(unix.EINVAL)},
		{"socket", [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}, Allow},
		{"socket", [6]uint64{unix.AF_INET, 0, 9}, Allow},
	})
}

func TestDenyList(t *testing.T) {
	checkSample(t, "oci-denylist.json", "amd64", Kernel{6, 1}, []ociVerdict{
		{"mount", [6]uint64{}, denyEPERM},
		{"getcwd", [6]uint64{}, Errno(unix.ECONNREFUSED)},
		{"ptrace", [6]uint64{}, KillThread},
		{"bpf", [6]uint64{}, Trap},
		{"ioctl", [6]uint64{0, unix.TIOCSTI}, denyEPERM},
		{"ioctl", [6]uint64{0, unix.TIOCSTI | 1<<40}, denyEPERM},
		{"ioctl", [6]uint64{0, unix.TCGETS}, Allow},
		{"unshare", [6]uint64{}, Allow},
	})
}

func TestParseOCIRefuses(t *testing.T) {
	const run = `{"names":["execve"],"action":"SCMP_ACT_ALLOW"}`
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "p.json:1:1: unexpected end of file"},
		{"truncated", "{\n \"defaultAction\":", "p.json:2:18: unexpected end of file"},
		{"not JSON", "{\n  \"defaultAction\": SCMP_ACT_ALLOW}", "p.json:2:20: invalid character 'S' looking for beginning of value"},
		{"trailing", "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}\n{}", "p.json:2:1: text after"},
		{"list", "[]", "p.json:1:1: a profile must be an object"},
		{"no default", "{}", "p.json:1:1: defaultAction is missing"},
		{"unknown key", "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\n\t\"sycalls\":[]}", `p.json:2:2: unknown key "sycalls"`},
		{"wrong case", `{"DefaultAction":"SCMP_ACT_ALLOW"}`, `p.json:1:2: unknown key "DefaultAction"`},
		{"twice", "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\n\"defaultAction\":\"SCMP_ACT_ALLOW\"}", `p.json:2:1: "defaultAction" is given twice`},
		{"whole configuration", `{"ociVersion":"1.0.2"}`, "p.json:1:2: this is a whole runtime configuration"},
		{"unknown action", `{"defaultAction":"SCMP_ACT_PASS"}`, `p.json:1:18: unknown action "SCMP_ACT_PASS"`},
		{"notify", `{"defaultAction":"SCMP_ACT_NOTIFY"}`, "p.json:1:18: action SCMP_ACT_NOTIFY"},
		{"trace", `{"defaultAction":"SCMP_ACT_TRACE"}`, "p.json:1:18: action SCMP_ACT_TRACE"},
		{"listener", `{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"/x"}`, "p.json:1:35: listenerPath"},
		{"flag", `{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_LOG"]}`, "p.json:1:44: flag SECCOMP_FILTER_FLAG_LOG is not supported"},
		{"unknown flag", `{"defaultAction":"SCMP_ACT_ALLOW","flags":["X"]}`, `p.json:1:44: unknown flag "X"`},
		{"other machine", `{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_S390X"]}`, "p.json:1:51: the profile is for SCMP_ARCH_S390X, this machine is SCMP_ARCH_X86_64"},
		{"unknown architecture", `{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_VAX"]}`, `p.json:1:52: unknown architecture "SCMP_ARCH_VAX"`},
		{"both architectures", `{"defaultAction":"SCMP_ACT_ALLOW","architectures":[],"archMap":[]}`, "p.json:1:54: archMap and architectures"},
		{"errno with allow", `{"defaultAction":"SCMP_ACT_ALLOW","defaultErrnoRet":1}`, "p.json:1:35: defaultErrnoRet has no meaning with action SCMP_ACT_ALLOW"},
		{"errno too large", `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":4096}`, "p.json:1:53: defaultErrnoRet must be a whole number from 0 to 4095"},
		{"errno fraction", `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1.5}`, "p.json:1:53: defaultErrnoRet must be"},
		{"errno name", `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrno":"EFOO"}`, `p.json:1:50: unknown errno "EFOO"`},
		{"errno disagrees", `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,"defaultErrno":"ENOSYS"}`, "defaultErrnoRet is EPERM but defaultErrno is ENOSYS"},
		{"no execve", `{"defaultAction":"SCMP_ACT_ERRNO"}`, "p.json:1:1: profile p.json denies execve"},
		{"execve killed", `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["execve"],"action":"SCMP_ACT_KILL"}]}`, "denies execve"},
		{"some execve", `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["execve"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":5,"op":"SCMP_CMP_EQ"}]}]}`, "denies some execve"},
	} {
		check(t, tt.name, tt.text, tt.want)
	}
	for _, tt := range []struct{ name, entry, want string }{
		{"no action", `{"names":["read"]}`, "3:1: action is missing"},
		{"no names", `{"action":"SCMP_ACT_ALLOW"}`, "3:1: names is missing"},
		{"empty names", `{"names":[],"action":"SCMP_ACT_ALLOW"}`, "3:10: names is empty"},
		{"both names", `{"names":["read"],"name":"write","action":"SCMP_ACT_ALLOW"}`, "3:19: name and names"},
		{"number as name", `{"names":[1],"action":"SCMP_ACT_ALLOW"}`, "3:11: an entry of names must be a string"},
		{"odd name", `{"names":["re ad"],"action":"SCMP_ACT_ALLOW"}`, `3:11: "re ad" is no name`},
		{"unknown key", `{"names":["read"],"action":"SCMP_ACT_ALLOW","errnoret":1}`, `3:45: unknown key "errnoret"`},
		{"errno with kill", `{"names":["read"],"action":"SCMP_ACT_KILL","errnoRet":1}`, "3:44: errnoRet has no meaning"},
		{"unknown op", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":1,"op":"=="}]}`, `unknown op "=="`},
		{"no op", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":1}]}`, "3:53: an entry of args needs"},
		{"index", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":6,"value":1,"op":"SCMP_CMP_EQ"}]}`, "3:62: index must be a whole number from 0 to 5"},
		{"negative", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":-1,"op":"SCMP_CMP_EQ"}]}`, "value must be a whole number"},
		{"twice compared", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":1,"op":"SCMP_CMP_GE"},{"index":0,"value":9,"op":"SCMP_CMP_LE"}]}`, "3:94: argument 0 is compared twice"},
		{"mask never", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":1,"valueTwo":2,"op":"SCMP_CMP_MASKED_EQ"}]}`, "never matches"},
		{"stray valueTwo", `{"names":["read"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":1,"valueTwo":2,"op":"SCMP_CMP_EQ"}]}`, "valueTwo has a meaning"},
		{"condition", `{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"cap":["X"]}}`, `3:57: unknown key "cap"`},
		{"condition's architecture", `{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"arches":["vax"]}}`, `unknown architecture "vax"`},
		{"condition's kernel", `{"names":["read"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"new"}}`, `minKernel "new"`},
		{"excluded, still read", `{"names":["read"],"action":"SCMP_ACT_ALOW","includes":{"caps":["CAP_SYS_ADMIN"]}}`, `unknown action "SCMP_ACT_ALOW"`},
	} {
		check(t, tt.name, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["+run+",\n\n"+tt.entry+"]}", tt.want)
	}
	// A denial that cannot be made good is refused only where the call would be allowed otherwise.
	check(t, "unknown call denied", "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[\n{\"names\":[\"mout\"],\"action\":\"SCMP_ACT_ERRNO\"}]}",
		`p.json:2:11: "mout" is no system call known here; did you mean mount, and the profile allows`)
}

func check(t *testing.T, name, text, want string) {
	t.Helper()
	_, err := parseOCI([]byte(text), "p.json", Kernel{6, 1}, "amd64")
	var syntax *SyntaxError
	if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %s", name, err, want)
	}
}

// TestContradiction: what libseccomp makes of rules that disagree depends on their order, so they are refused.
func TestContradiction(t *testing.T) {
	for _, entries := range []string{
		// Equal to the default, which libseccomp would drop without a word.
		`{"names":["socket"],"action":"SCMP_ACT_ALLOW"},{"names":["socket"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":38,"op":"SCMP_CMP_EQ"}]}`,
		`{"names":["socket"],"action":"SCMP_ACT_ALLOW"},{"names":["socket"],"action":"SCMP_ACT_KILL","args":[{"index":0,"value":38,"op":"SCMP_CMP_EQ"}]}`,
		`{"names":["read"],"action":"SCMP_ACT_ALLOW"},{"names":["read"],"action":"SCMP_ACT_ERRNO"}`,
	} {
		p, err := ParseOCI([]byte(`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["execve"],"action":"SCMP_ACT_ALLOW"},`+entries+`]}`), "p.json", Kernel{6, 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(p); err == nil {
			t.Errorf("compiled: %s", entries)
		}
	}
}

func TestRunningKernel(t *testing.T) {
	k, err := RunningKernel()
	if err != nil {
		t.Fatal(err)
	}
	if !k.atLeast(Kernel{4, 8}) || k.atLeast(Kernel{k.Major, k.Minor + 1}) || k.atLeast(Kernel{k.Major + 1, 0}) {
		t.Errorf("kernel %v", k)
	}
}

func FuzzParseOCI(f *testing.F) {
	for _, file := range []string{"docker-form.json", "podman-form.json", "oci-denylist.json"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"defaultAction":"SCMP_ACT_ALLOW","defaultAction":"SCMP_ACT_ERRNO"}`))
	f.Add([]byte("{\"defaultAction\":\"\\ud800\",\n\"syscalls\":null}"))
	f.Add([]byte(strings.Repeat("[", 64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseOCI(data, "p", Kernel{6, 1}, "amd64")
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error without a place: %v", err)
			}
			if lines := 1 + strings.Count(string(data), "\n"); syntax.Line < 1 || syntax.Line > lines || syntax.Column < 1 || syntax.Column > len(data)+1 {
				t.Fatalf("place outside of the file: %v", err)
			}
			return
		}
		if v, err := p.Explain("execve"); err != nil || !v.Action.Permits() {
			t.Fatalf("accepted, but denies execve: %v %v", v, err)
		}
		for _, r := range p.Rules {
			if _, err := Number(r.Name, "amd64"); err != nil {
				t.Fatalf("rule for no call: %v", err)
			}
		}
		// Whatever it says, the compiled form says the same or there is none, and foreign calls are out.
		compiled, err := CompileFor(p, "amd64")
		if err != nil {
			t.Logf("not compiled: %v", err)
			return
		}
		faithful(t, drawing{rand.New(rand.NewPCG(uint64(len(data)), 1))}, p, "amd64", compiled, 20)
	})
}
