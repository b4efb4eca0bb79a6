package seccomp

import (
	"fmt"
	"os"

	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// This file alone speaks to libseccomp.

// optimizeAbove is the number of rules from which on a balanced tree beats a list of comparisons.
const optimizeAbove = 32

func libseccompArch(arch string) (libseccomp.ScmpArch, error) {
	switch arch {
	case "amd64":
		return libseccomp.ArchAMD64, nil
	case "arm64":
		return libseccomp.ArchARM64, nil
	}
	return libseccomp.ArchInvalid, fmt.Errorf("no system call policy for architecture %s", arch)
}

func libseccompAction(a Action) (libseccomp.ScmpAction, error) {
	switch a.kind() {
	case KillProcess:
		return libseccomp.ActKillProcess, nil
	case KillThread:
		return libseccomp.ActKillThread, nil
	case Trap:
		return libseccomp.ActTrap, nil
	case Log:
		return libseccomp.ActLog, nil
	case Allow:
		return libseccomp.ActAllow, nil
	case unix.SECCOMP_RET_ERRNO:
		return libseccomp.ActErrno.SetReturnCode(int16(a & unix.SECCOMP_RET_DATA)), nil
	}
	return libseccomp.ActInvalid, fmt.Errorf("%s cannot be compiled", a)
}

func libseccompOp(o Op) libseccomp.ScmpCompareOp {
	switch o {
	case NotEqual:
		return libseccomp.CompareNotEqual
	case Less:
		return libseccomp.CompareLess
	case LessEqual:
		return libseccomp.CompareLessOrEqual
	case Equal:
		return libseccomp.CompareEqual
	case GreaterEqual:
		return libseccomp.CompareGreaterEqual
	case Greater:
		return libseccomp.CompareGreater
	case MaskedEqual:
		return libseccomp.CompareMaskedEqual
	}
	return libseccomp.CompareInvalid
}

// foreignOnly reports whether the linked libseccomp has the call on other architectures but not on arch.
func foreignOnly(name, arch string) bool {
	a, err := libseccompArch(arch)
	if err != nil {
		return false
	}
	if _, err := libseccomp.GetSyscallFromName(name); err != nil {
		return false
	}
	nr, err := libseccomp.GetSyscallFromNameByArch(name, a)
	return err != nil || nr < 0
}

// resolvable reports whether the linked libseccomp knows the call on arch, by the number we know it by.
func resolvable(name, arch string, nr int) (bool, error) {
	a, err := libseccompArch(arch)
	if err != nil {
		return false, err
	}
	got, err := libseccomp.GetSyscallFromNameByArch(name, a)
	if err != nil {
		return false, nil // older than the call
	}
	if got >= 0 && int(got) != nr {
		return false, fmt.Errorf("libseccomp has %s as system call %d of %s, not %d", name, got, arch, nr)
	}
	return got >= 0, nil
}

// compileRules has libseccomp turn the rules into BPF for arch. Calls that match none get the action fallback, calls of
// another architecture end the process.
func compileRules(arch string, fallback Action, rules []Rule) ([]byte, error) {
	target, err := libseccompArch(arch)
	if err != nil {
		return nil, err
	}
	action, err := libseccompAction(fallback)
	if err != nil {
		return nil, err
	}
	filter, err := libseccomp.NewFilter(action)
	if err != nil {
		return nil, fmt.Errorf("make filter: %w", err)
	}
	defer filter.Release()
	if err := selectArch(filter, target); err != nil {
		return nil, err
	}
	if err := filter.SetBadArchAction(libseccomp.ActKillProcess); err != nil {
		return nil, fmt.Errorf("set action for foreign architectures: %w", err)
	}
	if len(rules) > optimizeAbove {
		if err := filter.SetOptimize(2); err != nil {
			return nil, fmt.Errorf("set filter optimisation: %w", err)
		}
	}
	for _, r := range rules {
		// libseccomp refuses a rule that does what is done anyway.
		if r.Action == fallback {
			continue
		}
		if err := addRule(filter, r); err != nil {
			return nil, fmt.Errorf("add rule for %s: %w", r.Name, err)
		}
	}
	return exportBPF(filter)
}

func selectArch(filter *libseccomp.ScmpFilter, target libseccomp.ScmpArch) error {
	native, err := libseccomp.GetNativeArch()
	if err != nil {
		return fmt.Errorf("ask for native architecture: %w", err)
	}
	if native == target {
		return nil
	}
	if err := filter.AddArch(target); err != nil {
		return fmt.Errorf("add architecture %s: %w", target, err)
	}
	if err := filter.RemoveArch(native); err != nil {
		return fmt.Errorf("remove architecture %s: %w", native, err)
	}
	return nil
}

func addRule(filter *libseccomp.ScmpFilter, r Rule) error {
	// Numbers in rules are those of the native architecture; libseccomp translates them by name.
	nr, err := libseccomp.GetSyscallFromName(r.Name)
	if err != nil {
		return err
	}
	action, err := libseccompAction(r.Action)
	if err != nil {
		return err
	}
	if len(r.Conds) == 0 {
		return filter.AddRuleExact(nr, action)
	}
	conds := make([]libseccomp.ScmpCondition, 0, len(r.Conds))
	for _, c := range r.Conds {
		values := []uint64{c.Value}
		if c.Op == MaskedEqual {
			values = []uint64{c.Mask, c.Value}
		}
		cond, err := libseccomp.MakeCondition(uint(c.Arg), libseccompOp(c.Op), values...)
		if err != nil {
			return err
		}
		conds = append(conds, cond)
	}
	return filter.AddRuleConditionalExact(nr, action, conds)
}

// exportBPF writes to memory by way of a file, which is all that libseccomp before 2.6 offers.
func exportBPF(filter *libseccomp.ScmpFilter) ([]byte, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create memory file for filter: %w", err)
	}
	file := os.NewFile(uintptr(fd), "filter")
	defer file.Close()
	if err := filter.ExportBPF(file); err != nil {
		return nil, fmt.Errorf("export filter: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("export filter: %w", err)
	}
	raw := make([]byte, info.Size())
	if _, err := file.ReadAt(raw, 0); err != nil {
		return nil, fmt.Errorf("export filter: %w", err)
	}
	return raw, nil
}
