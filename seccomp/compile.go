package seccomp

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"gobox/seccomp/bpfsim"
)

// Compile turns the profile into a filter for this machine, by libseccomp, and then compares what it answers with what
// the profile says; it fails when they differ, and for a profile under which no command can start.
func Compile(p Profile) (Program, error) {
	if err := p.checkRunnable(); err != nil {
		return Program{}, err
	}
	return CompileFor(p, runtime.GOARCH)
}

// CompileFor is Compile for arch, "amd64" or "arm64", whatever this machine is.
func CompileFor(p Profile, arch string) (Program, error) {
	raw, err := join(p, arch)
	if err != nil {
		return Program{}, fmt.Errorf("compile system call profile %s: %w", p.Name, err)
	}
	program, err := bpfsim.Decode(raw)
	if err != nil {
		return Program{}, fmt.Errorf("compile system call profile %s: %w", p.Name, err)
	}
	if err := verify(p, arch, program); err != nil {
		return Program{}, fmt.Errorf("compile system call profile %s: %w", p.Name, err)
	}
	return Program{Name: p.Name, BPF: raw}, nil
}

// part is what libseccomp compiles in one go: the rules of calls that share an action for what matches none of them.
type part struct {
	fallback Action
	rules    []Rule
	numbers  []int // of the calls that are sent here; none for the first part, which takes what is left
	bpf      bpfsim.Program
}

// join compiles the parts and puts them behind one another, with a jump table in front.
//
// libseccomp knows one fallback action per filter and cannot say "any other argument". So each fallback has a filter of
// its own, complete with its check of the architecture:
//
//	architecture is ours?   no -> first part, which kills
//	number is one that libseccomp does not know yet -> its action
//	number is one with a fallback of its own -> jump to that part
//	first part (default action)
//	second part (EPERM), third part (ENOTTY), ...
func join(p Profile, arch string) ([]byte, error) {
	parts := []part{{fallback: p.Default}}
	type direct struct {
		number int
		action Action
	}
	var directs []direct
	for _, name := range p.callNames() {
		nr, err := Number(name, arch)
		if err != nil {
			continue // a call that arch lacks cannot be made
		}
		rules := p.rulesFor(name)
		known, err := resolvable(name, arch, nr)
		if err != nil {
			return nil, err
		}
		if !known {
			if len(rules) != 1 || len(rules[0].Conds) != 0 {
				return nil, fmt.Errorf("libseccomp is older than %s and cannot compare its arguments", name)
			}
			directs = append(directs, direct{nr, rules[0].Action})
			continue
		}
		at := 0
		if rest := p.rest(name); rest != p.Default {
			for at = 1; at < len(parts) && parts[at].fallback != rest; at++ {
			}
			if at == len(parts) {
				parts = append(parts, part{fallback: rest})
			}
			parts[at].numbers = append(parts[at].numbers, nr)
		}
		parts[at].rules = append(parts[at].rules, rules...)
	}

	table := 3 + 2*len(directs)
	for i := range parts {
		raw, err := compileRules(arch, parts[i].fallback, parts[i].rules)
		if err != nil {
			return nil, err
		}
		if parts[i].bpf, err = bpfsim.Decode(raw); err != nil {
			return nil, err
		}
		table += 2 * len(parts[i].numbers)
	}
	if table == 3 {
		return parts[0].bpf.Encode(), nil
	}

	program := bpfsim.Program{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetArch},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch(arch), JT: 1},
		{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(table - 2)},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNumber},
	}
	table++
	for _, d := range directs {
		program = append(program,
			bpfsim.Instruction{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(d.number), JF: 1},
			bpfsim.Instruction{Code: unix.BPF_RET | unix.BPF_K, K: uint32(d.action)})
	}
	start := table
	for _, part := range parts {
		for _, nr := range part.numbers {
			program = append(program,
				bpfsim.Instruction{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), JF: 1},
				bpfsim.Instruction{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(start - len(program) - 2)})
		}
		start += len(part.bpf)
	}
	for _, part := range parts {
		program = append(program, part.bpf...)
	}
	return program.Encode(), nil
}

// Offsets in struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
)

// auditArch is the AUDIT_ARCH_* value of arch.
func auditArch(arch string) uint32 {
	if arch == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// callNames are the calls that the profile speaks of, each once, in the order of the profile.
func (p Profile) callNames() []string {
	seen := make(map[string]bool, len(p.Rules))
	var names []string
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, r := range p.Rules {
		add(r.Name)
	}
	for _, r := range p.Rests {
		add(r.Name)
	}
	return names
}

func (p Profile) rulesFor(name string) []Rule {
	var rules []Rule
	for _, r := range p.Rules {
		if r.Name == name {
			rules = append(rules, r)
		}
	}
	return rules
}
