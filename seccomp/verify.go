package seccomp

import (
	"fmt"
	"slices"

	"gobox/seccomp/bpfsim"
	"gobox/seccomp/decision"
	"gobox/seccomp/sysnum"
)

// verify compares the program with the profile: for every system call number up to past the last known, and for all
// arguments there are. It guards against contradicting rules, of which libseccomp obeys now one and now the other, and
// against its faults (GHSA-4q85-33p6-j5g6).
func verify(p Profile, arch string, program bpfsim.Program) error {
	names := namesByNumber(arch)
	byName := make(map[string][]Rule, len(p.Rules))
	for _, r := range p.Rules {
		byName[r.Name] = append(byName[r.Name], r)
	}
	set := decision.New(decision.MaxNodes)
	for nr := range numbersChecked {
		name := names[nr]
		rules, rest := byName[name], p.Default
		if name != "" {
			rest = p.rest(name)
		}
		got, err := program.Decide(set, int32(nr), auditArch(arch))
		if err != nil {
			return fmt.Errorf("compare the filter for system call %d (%s) with the profile: %w", nr, name, err)
		}
		want := decide(set, rules, rest)
		if err := set.Err(); err != nil {
			return fmt.Errorf("compare the filter for system call %d (%s) with the profile: %w", nr, name, err)
		}
		if args, answer, asked, differ := set.Difference(got, want); differ {
			return mismatch(name, nr, rules, args, Action(asked), Action(answer))
		}
		if len(rules) > 0 {
			set.Clear()
		}
	}
	return verifyForeign(arch, program)
}

// decide is what rules and rest say about a call, as evaluate does, for all arguments at once.
func decide(s *decision.Set, rules []Rule, rest Action) decision.Diagram {
	// The last that is put on top wins: the strictest, and of equals the one given first.
	order := slices.Clone(rules)
	slices.Reverse(order)
	slices.SortStableFunc(order, func(a, b Rule) int {
		switch {
		case a.Action.stricter(b.Action):
			return 1
		case b.Action.stricter(a.Action):
			return -1
		}
		return 0
	})
	d := s.Value(uint32(rest))
	for _, r := range order {
		matches := s.True
		for _, c := range r.Conds {
			matches = s.And(matches, c.decide(s))
		}
		d = s.If(matches, s.Value(uint32(r.Action)), d)
	}
	return d
}

// decide is Matches for all values at once.
func (c Cond) decide(s *decision.Set) decision.Diagram {
	field, all := decision.Field{Arg: c.Arg, Bits: 64}, ^uint64(0)
	switch c.Op {
	case NotEqual:
		return s.Not(s.Compare(field, all, decision.Equal, c.Value))
	case Less:
		return s.Not(s.Compare(field, all, decision.AtLeast, c.Value))
	case LessEqual:
		return s.Not(s.Compare(field, all, decision.Greater, c.Value))
	case Equal:
		return s.Compare(field, all, decision.Equal, c.Value)
	case GreaterEqual:
		return s.Compare(field, all, decision.AtLeast, c.Value)
	case Greater:
		return s.Compare(field, all, decision.Greater, c.Value)
	case MaskedEqual:
		return s.Compare(field, c.Mask, decision.Equal, c.Value)
	}
	return s.False
}

// mismatch tells whose fault it is that the filter does not answer as the rules ask.
func mismatch(name string, nr int, rules []Rule, args [6]uint64, want, got Action) error {
	matched := slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !r.matches(&args) })
	if slices.ContainsFunc(matched, func(r Rule) bool { return r.Action != want }) {
		return fmt.Errorf("rules for %s contradict each other: for arguments %#x they ask for %q, the filter answers %q",
			name, args, want, got)
	}
	if len(rules) > 1 {
		return fmt.Errorf("libseccomp merges the rules for %s wrongly: for arguments %#x they ask for %q, the filter answers %q "+
			"(as in GHSA-4q85-33p6-j5g6); compare arguments with SCMP_CMP_MASKED_EQ, or give the call fewer rules", name, args, want, got)
	}
	return fmt.Errorf("the filter answers %q to system call %d (%s) with arguments %#x, the profile says %q", got, nr, name, args, want)
}

// numbersChecked is well past the newest system call, 471 in Linux 6.18.
const numbersChecked = 1024

// x32Bit is __X32_SYSCALL_BIT of <asm/unistd.h>.
const x32Bit = 0x40000000

// verifyForeign makes sure that no call of another architecture gets through.
func verifyForeign(arch string, program bpfsim.Program) error {
	for _, foreign := range [...]uint32{
		0x40000003, // AUDIT_ARCH_I386
		0x40000028, // AUDIT_ARCH_ARM
		0xC000003E, // AUDIT_ARCH_X86_64
		0xC00000B7, // AUDIT_ARCH_AARCH64
		0,
	} {
		data := bpfsim.Data{Arch: foreign}
		first := 0
		if foreign == auditArch(arch) {
			if arch != "amd64" {
				continue
			}
			first = x32Bit
		}
		for nr := first; nr < first+numbersChecked; nr++ {
			data.NR = int32(nr)
			if got := Action(program.Run(&data)); got != KillProcess {
				return fmt.Errorf("the filter answers %q to system call %#x of architecture %#x", got, nr, foreign)
			}
		}
	}
	return nil
}

// namesByNumber has the name of each call of arch at its number.
func namesByNumber(arch string) [numbersChecked]string {
	var names [numbersChecked]string
	for name, nr := range sysnum.All(arch) {
		names[nr] = name
	}
	return names
}
