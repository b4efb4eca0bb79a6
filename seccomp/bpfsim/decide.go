package bpfsim

import (
	"fmt"

	"gobox/seccomp/decision"
)

// Decide gives what the program answers to the call of the given architecture and number, for all arguments at once. It
// knows the instructions that libseccomp writes, and fails on others.
func (p Program) Decide(s *decision.Set, nr int32, arch uint32) (decision.Diagram, error) {
	w := walk{program: p, set: s, number: uint32(nr), arch: arch}
	d := w.from(place{})
	if w.err == nil {
		w.err = s.Err()
	}
	return d, w.err
}

// place is a point in the program with what the accumulator holds there.
type place struct {
	pc    int
	known bool // the accumulator is value, else it is the word at offset under mask
	value uint32
	word  uint32
	mask  uint32
}

type walk struct {
	program      Program
	set          *decision.Set
	number, arch uint32
	seen         map[place]decision.Diagram
	err          error
}

func (w *walk) from(at place) decision.Diagram {
	if w.err != nil {
		return w.set.False
	}
	if d, ok := w.seen[at]; ok {
		return d
	}
	d := w.step(at)
	if w.seen != nil { // else no argument has been asked for yet
		w.seen[at] = d
	}
	return d
}

// step follows the program to the first instruction whose outcome depends on an argument.
func (w *walk) step(at place) decision.Diagram {
	for {
		in := w.program[at.pc]
		next := at.pc + 1
		switch in.Code {
		case classRET:
			return w.set.Value(in.K)
		case classLD | modeABS:
			at = w.load(in.K)
		case classALU | opAND:
			at.value &= in.K
			at.mask &= in.K
		case classJMP | opJA:
			next += int(in.K)
		case classJMP | opJEQ, classJMP | opJGT, classJMP | opJGE, classJMP | opJSET:
			yes, no := at, at
			yes.pc, no.pc = next+int(in.JT), next+int(in.JF)
			if !at.known {
				if w.seen == nil {
					w.seen = map[place]decision.Diagram{}
				}
				return w.set.If(w.compare(in, at), w.from(yes), w.from(no))
			}
			next = no.pc
			if in.jumps(at.value, in.K) {
				next = yes.pc
			}
		default:
			return w.fail("instruction %d: opcode %#x is none that libseccomp writes", at.pc, in.Code)
		}
		at.pc = next
	}
}

func (w *walk) load(offset uint32) place {
	switch {
	case offset == 0:
		return place{known: true, value: w.number}
	case offset == 4:
		return place{known: true, value: w.arch}
	case offset < 16:
		w.fail("the program looks at the instruction pointer")
	}
	return place{word: offset, mask: 0xFFFFFFFF}
}

func (w *walk) compare(in Instruction, at place) decision.Diagram {
	op := decision.Equal
	switch in.Code & 0xf0 {
	case opJGT:
		op = decision.Greater
	case opJGE:
		op = decision.AtLeast
	case opJSET:
		op = decision.AnySet
	}
	field := decision.Field{Arg: uint8((at.word - 16) / 8), Shift: uint8(at.word%8) * 8, Bits: 32}
	return w.set.Compare(field, uint64(at.mask), op, uint64(in.K))
}

func (w *walk) fail(format string, args ...any) decision.Diagram {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	return w.set.False
}
