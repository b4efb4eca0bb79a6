package seccomp

import "slices"

// fullProduct is enough to try all combinations for every call of the built-in policy.
const fullProduct = 1 << 17

// argumentCases yields argument values around everything the rules compare with: all combinations if these are no more
// than limit, else arguments that fulfil each rule, with each argument varied alone, and those that fulfil any two.
func argumentCases(rules []Rule, limit int) func(yield func([6]uint64) bool) {
	var values [6][]uint64
	product := 1
	for arg := range values {
		values[arg] = interestingValues(rules, uint8(arg))
		product = min(product*len(values[arg]), limit+1)
	}
	return func(yield func([6]uint64) bool) {
		if product <= limit {
			var args [6]uint64
			combine(&values, &args, 0, yield)
			return
		}
		for _, r := range rules {
			base := satisfying([6]uint64{}, r)
			for _, other := range rules {
				if !covers(other, r) && !yield(satisfying(base, other)) {
					return
				}
			}
		}
		for arg := range values {
			varied := map[[6]uint64]bool{}
			for _, r := range rules {
				args := satisfying([6]uint64{}, r)
				args[arg] = 0
				if varied[args] {
					continue
				}
				varied[args] = true
				for _, v := range values[arg] {
					args[arg] = v
					if !yield(args) {
						return
					}
				}
			}
		}
	}
}

// covers reports whether a compares every argument that b compares, so that fulfilling a leaves nothing of b.
func covers(a, b Rule) bool {
	for _, c := range b.Conds {
		if !slices.ContainsFunc(a.Conds, func(o Cond) bool { return o.Arg == c.Arg }) {
			return false
		}
	}
	return true
}

func combine(values *[6][]uint64, args *[6]uint64, arg int, yield func([6]uint64) bool) bool {
	if arg == len(values) {
		return yield(*args)
	}
	for _, v := range values[arg] {
		args[arg] = v
		if !combine(values, args, arg+1, yield) {
			return false
		}
	}
	return true
}

// interestingValues are the values the rules compare argument arg with, their neighbours, and the same with bits set
// that an int does not have or that the mask leaves out. Just 0 for an argument that no rule looks at.
func interestingValues(rules []Rule, arg uint8) []uint64 {
	seen := map[uint64]bool{0: true}
	list := []uint64{0}
	add := func(vs ...uint64) {
		for _, v := range vs {
			if !seen[v] {
				seen[v] = true
				list = append(list, v)
			}
		}
	}
	for _, r := range rules {
		for _, c := range r.Conds {
			if c.Arg != arg {
				continue
			}
			add(^uint64(0), c.Value, c.Value-1, c.Value+1, c.Value|1<<32, c.Value|1<<63, c.Value^1<<31)
			if c.Op != MaskedEqual {
				continue
			}
			add(c.Value|^c.Mask, c.Value^c.Mask)
			if low := c.Mask & -c.Mask; c.Mask != low32 {
				add(c.Value^low, c.Value|(^c.Mask&low32))
			}
		}
	}
	return list
}

// satisfying changes arguments so that they fulfil the rule, where each is compared once.
func satisfying(args [6]uint64, r Rule) [6]uint64 {
	for _, c := range r.Conds {
		switch c.Op {
		case Less, NotEqual:
			args[c.Arg] = c.Value - 1
		case Greater:
			args[c.Arg] = c.Value + 1
		default:
			args[c.Arg] = c.Value
		}
	}
	return args
}
