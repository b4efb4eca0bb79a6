package seccomp

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// readEntry reads one element of syscalls and adds its rules, if its conditions hold here.
func (r *ociReader) readEntry(n node) error {
	members, ok := n.value.([]member)
	if !ok {
		return r.errorAt(n.offset, "an entry of syscalls must be an object")
	}
	var names, single, action, errno, errnoName, args *member
	applies := true
	for i := range members {
		m := &members[i]
		switch m.key {
		case "names":
			names = m
		case "name":
			single = m
		case "action":
			action = m
		case "errnoRet":
			errno = m
		case "errno":
			errnoName = m
		case "args":
			args = m
		case "comment":
			if _, err := r.text(m.node, m.key); err != nil {
				return err
			}
		case "includes", "excludes":
			holds, err := r.readCondition(m.node, m.key)
			if err != nil {
				return err
			}
			applies = applies && holds
		default:
			return r.errorAt(m.keyOffset, "unknown key %q", m.key)
		}
	}
	if action == nil {
		return r.errorAt(n.offset, "action is missing")
	}
	a, err := r.readAction(action, errno, errnoName)
	if err != nil {
		return err
	}
	var conds []Cond
	if args != nil {
		if conds, err = r.readArgs(args.node); err != nil {
			return err
		}
	}
	items, calls, err := r.readNames(n, names, single)
	if err != nil {
		return err
	}
	for i, call := range calls {
		keep, err := r.checkName(items[i], call, a, applies)
		if err != nil {
			return err
		}
		if keep && applies {
			r.profile.Rules = append(r.profile.Rules, Rule{Name: call, Action: a, Conds: conds})
			r.noteHighBits(call, a, conds)
		}
	}
	return nil
}

// noteHighBits warns of a comparison that a caller defeats by setting a bit the kernel does not look at, see Cond.
func (r *ociReader) noteHighBits(call string, a Action, conds []Cond) {
	takesInt := slices.ContainsFunc(filtered[:], func(f argTable) bool { return f.name == call })
	for _, c := range conds {
		upward := c.Op == NotEqual || c.Op == Greater || c.Op == GreaterEqual
		if !takesInt || c.Op == MaskedEqual || upward != a.Permits() {
			continue
		}
		note := fmt.Sprintf("a rule for %s compares 64 bits where the kernel takes 32; SCMP_CMP_MASKED_EQ cannot be got round", call)
		if !slices.Contains(r.profile.Notes, note) {
			r.note("%s", note)
		}
		return
	}
}

func (r *ociReader) readNames(entry node, names, single *member) ([]node, []string, error) {
	switch {
	case names != nil && single != nil:
		return nil, nil, r.errorAt(single.keyOffset, "name and names are given both")
	case single != nil:
		call, err := r.text(single.node, single.key)
		return []node{single.node}, []string{call}, err
	case names == nil:
		return nil, nil, r.errorAt(entry.offset, "names is missing")
	}
	items, calls, err := r.texts(names.node, names.key)
	if err == nil && len(calls) == 0 {
		err = r.errorAt(names.offset, "names is empty")
	}
	return items, calls, err
}

// checkName reports whether the call exists here. One that does not is left out when the outcome is a denial all the
// same: this architecture cannot make the call, or the profile's default takes care of a number unknown to gobox.
func (r *ociReader) checkName(n node, call string, a Action, applies bool) (bool, error) {
	_, err := Number(call, r.arch)
	if err == nil {
		return true, nil
	}
	if call == "" || strings.Trim(call, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return false, r.errorAt(n.offset, "%q is no name of a system call", call)
	}
	var unknown *UnknownCallError
	if errors.As(err, &unknown) && unknown.Elsewhere || foreignOnly(call, r.arch) || !applies {
		return false, nil
	}
	if !r.profile.Default.Permits() {
		r.note("%v; the profile's default applies", err)
		return false, nil
	}
	if a.Permits() {
		return false, nil
	}
	return false, r.errorAt(n.offset, "%v, and the profile allows what it does not name", err)
}

// readCondition decides an includes or excludes object: for no capabilities, this architecture and this kernel.
func (r *ociReader) readCondition(n node, kind string) (bool, error) {
	members, err := r.object(n, kind)
	if err != nil {
		return false, err
	}
	include := kind == "includes"
	holds := true
	for _, m := range members {
		switch m.key {
		case "caps":
			_, caps, err := r.texts(m.node, m.key)
			if err != nil {
				return false, err
			}
			// An exclusion by a capability never strikes a process that has none.
			if include && len(caps) > 0 {
				holds = false
			}
		case "arches":
			items, arches, err := r.texts(m.node, m.key)
			if err != nil {
				return false, err
			}
			for i, a := range arches {
				if !isDockerArchitecture(a) {
					return false, r.errorAt(items[i].offset, "unknown architecture %q", a)
				}
			}
			if len(arches) > 0 && slices.Contains(arches, r.arch) != include {
				holds = false
			}
		case "minKernel":
			text, err := r.text(m.node, m.key)
			if err != nil {
				return false, err
			}
			if text == "" {
				continue
			}
			least, ok := parseKernel(text, false)
			if !ok {
				return false, r.errorAt(m.offset, "minKernel %q is not of the form 4.8", text)
			}
			if r.kernel.atLeast(least) != include {
				holds = false
			}
		default:
			return false, r.errorAt(m.keyOffset, "unknown key %q", m.key)
		}
	}
	return holds, nil
}

func (r *ociReader) readArgs(n node) ([]Cond, error) {
	items, err := r.list(n, "args")
	if err != nil {
		return nil, err
	}
	var conds []Cond
	for _, item := range items {
		c, err := r.readArg(item)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(conds, func(o Cond) bool { return o.Arg == c.Arg }) {
			return nil, r.errorAt(item.offset, "argument %d is compared twice in one rule", c.Arg)
		}
		conds = append(conds, c)
	}
	return conds, nil
}

func (r *ociReader) readArg(n node) (Cond, error) {
	members, ok := n.value.([]member)
	if !ok {
		return Cond{}, r.errorAt(n.offset, "an entry of args must be an object")
	}
	var index, value, op *member
	var c Cond
	var second uint64
	var err error
	for i := range members {
		m := &members[i]
		switch m.key {
		case "index":
			index = m
			var v uint64
			v, err = r.number(m.node, m.key, 5)
			c.Arg = uint8(v)
		case "value":
			value = m
			c.Value, err = r.number(m.node, m.key, math.MaxUint64)
		case "valueTwo":
			second, err = r.number(m.node, m.key, math.MaxUint64)
		case "op":
			op = m
			c.Op, err = r.readOp(m.node)
		default:
			err = r.errorAt(m.keyOffset, "unknown key %q", m.key)
		}
		if err != nil {
			return Cond{}, err
		}
	}
	if index == nil || value == nil || op == nil {
		return Cond{}, r.errorAt(n.offset, "an entry of args needs index, value and op")
	}
	if c.Op == MaskedEqual {
		c.Mask, c.Value = c.Value, second
		if c.Value&^c.Mask != 0 {
			return Cond{}, r.errorAt(n.offset, "valueTwo %#x has bits that the mask %#x leaves out, so it never matches", c.Value, c.Mask)
		}
	} else if second != 0 {
		return Cond{}, r.errorAt(n.offset, "valueTwo has a meaning with SCMP_CMP_MASKED_EQ only")
	}
	return c, nil
}

func (r *ociReader) readOp(n node) (Op, error) {
	word, err := r.text(n, "op")
	if err != nil {
		return 0, err
	}
	switch word {
	case "SCMP_CMP_NE":
		return NotEqual, nil
	case "SCMP_CMP_LT":
		return Less, nil
	case "SCMP_CMP_LE":
		return LessEqual, nil
	case "SCMP_CMP_EQ":
		return Equal, nil
	case "SCMP_CMP_GE":
		return GreaterEqual, nil
	case "SCMP_CMP_GT":
		return Greater, nil
	case "SCMP_CMP_MASKED_EQ":
		return MaskedEqual, nil
	}
	return 0, r.errorAt(n.offset, "unknown op %q", word)
}
