// Package decision has decision diagrams over the six arguments of a system call. A diagram stands for a function from all
// their 384 bits to a number, and two diagrams of one Set stand for the same function if and only if they are equal. So a
// filter can be compared with its policy for every argument there is, not for a sample.
//
// The diagrams are reduced and ordered (Bryant, "Graph-Based Algorithms for Boolean Function Manipulation", 1986), with many
// terminals. The order is that of the arguments, in each the highest bit first, under which every comparison with a constant
// has at most 64 nodes.
package decision

import "errors"

// Diagram is a function of the arguments; it belongs to the Set that made it.
type Diagram int32

const (
	args      = 6
	argBits   = 64
	terminals = args * argBits // variable of a node that decides nothing
)

// node asks one bit and goes on with no or yes. A terminal has its value in no and yes.
type node struct {
	bit     uint16
	no, yes Diagram
}

// MaxNodes is the largest limit of a Set. The maps of a Set have packed keys, with 20 bits for a Diagram.
const MaxNodes = 1 << 20

func (n node) key() uint64 { return uint64(n.bit)<<40 | uint64(n.no)<<20 | uint64(n.yes) }

// Set holds diagrams. The zero value is not usable, see New.
type Set struct {
	nodes   []node
	unique  map[uint64]Diagram // by node.key
	choices map[uint64]Diagram // answers of If
	limit   int
	full    bool
	False   Diagram
	True    Diagram
}

// ErrTooLarge is that a function needs more nodes than the Set may hold.
var ErrTooLarge = errors.New("too many conditions that depend on one another")

// New makes a Set that holds up to limit nodes, at most MaxNodes. Past that its diagrams mean nothing, and Err says so.
func New(limit int) *Set {
	s := &Set{limit: min(limit, MaxNodes), unique: map[uint64]Diagram{}, choices: map[uint64]Diagram{}}
	s.Clear()
	return s
}

// Clear forgets all diagrams.
func (s *Set) Clear() {
	s.nodes, s.full = s.nodes[:0], false
	clear(s.unique)
	clear(s.choices)
	s.False, s.True = s.Value(0), s.Value(1)
}

// Err is ErrTooLarge when the limit has been met.
func (s *Set) Err() error {
	if s.full {
		return ErrTooLarge
	}
	return nil
}

// Value is the function that always gives v. False and True are those of 0 and 1.
func (s *Set) Value(v uint32) Diagram {
	half := Diagram(v >> 16)
	return s.intern(node{terminals, half, Diagram(v & 0xFFFF)})
}

func (s *Set) value(d Diagram) uint32 {
	n := s.nodes[d]
	return uint32(n.no)<<16 | uint32(n.yes)
}

func (s *Set) intern(n node) Diagram {
	key := n.key()
	if d, ok := s.unique[key]; ok {
		return d
	}
	if len(s.nodes) >= s.limit {
		s.full = true
		return 0
	}
	d := Diagram(len(s.nodes))
	s.nodes = append(s.nodes, n)
	s.unique[key] = d
	return d
}

func (s *Set) ask(bit uint16, no, yes Diagram) Diagram {
	if no == yes {
		return no
	}
	return s.intern(node{bit, no, yes})
}

// Op is how Compare compares.
type Op uint8

const (
	Equal   Op = iota // field & mask == value
	Greater           // field & mask > value
	AtLeast           // field & mask >= value
	AnySet            // field & mask & value != 0
)

// Field is a run of bits of an argument.
type Field struct {
	Arg   uint8 // 0 to 5
	Shift uint8 // of its lowest bit
	Bits  uint8
}

// Compare is True for the arguments whose field compares so, as unsigned numbers, and False for the others.
func (s *Set) Compare(f Field, mask uint64, op Op, value uint64) Diagram {
	// d is the answer for what lies below the bit, given that all above were equal.
	d := s.False
	if op == Equal || op == AtLeast {
		d = s.True
	}
	for i := range f.Bits {
		bit := uint16(f.Arg)*argBits + argBits - 1 - uint16(f.Shift+i)
		asked, want := mask>>i&1 == 1, value>>i&1 == 1
		switch {
		case op == AnySet:
			if asked && want {
				d = s.ask(bit, d, s.True)
			}
		case !asked && want: // 0 against 1
			d = s.False
		case !asked:
		case want:
			d = s.ask(bit, s.False, d)
		case op == Equal:
			d = s.ask(bit, d, s.False)
		default:
			d = s.ask(bit, d, s.True)
		}
	}
	if f.Bits < 64 && value>>f.Bits != 0 && op != AnySet {
		return s.False // no such field is as large
	}
	return d
}

// If gives then where cond is True, and other where it is False.
func (s *Set) If(cond, then, other Diagram) Diagram {
	switch {
	case cond == s.True || then == other:
		return then
	case cond == s.False:
		return other
	case s.full:
		return 0
	}
	key := uint64(cond)<<40 | uint64(then)<<20 | uint64(other)
	if d, ok := s.choices[key]; ok {
		return d
	}
	bit := min(s.nodes[cond].bit, s.nodes[then].bit, s.nodes[other].bit)
	no := s.If(s.branch(cond, bit, false), s.branch(then, bit, false), s.branch(other, bit, false))
	yes := s.If(s.branch(cond, bit, true), s.branch(then, bit, true), s.branch(other, bit, true))
	d := s.ask(bit, no, yes)
	s.choices[key] = d
	return d
}

func (s *Set) branch(d Diagram, bit uint16, yes bool) Diagram {
	switch n := s.nodes[d]; {
	case n.bit != bit:
		return d
	case yes:
		return n.yes
	default:
		return n.no
	}
}

// And is True where both are.
func (s *Set) And(a, b Diagram) Diagram { return s.If(a, b, s.False) }

// Not is True where d is False.
func (s *Set) Not(d Diagram) Diagram { return s.If(d, s.False, s.True) }

// Difference gives arguments for which a and b have different values, and these; false when there are none.
func (s *Set) Difference(a, b Diagram) (at [args]uint64, inA, inB uint32, found bool) {
	if a == b {
		return at, 0, 0, false
	}
	for {
		bit := min(s.nodes[a].bit, s.nodes[b].bit)
		if bit == terminals {
			return at, s.value(a), s.value(b), true
		}
		yes := s.branch(a, bit, false) == s.branch(b, bit, false)
		if yes {
			at[bit/argBits] |= 1 << (argBits - 1 - bit%argBits)
		}
		a, b = s.branch(a, bit, yes), s.branch(b, bit, yes)
	}
}
