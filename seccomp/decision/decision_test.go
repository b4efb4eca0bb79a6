package decision

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// holds is Compare for one value, by Go's own arithmetic.
func holds(field, mask uint64, op Op, value uint64) bool {
	switch op {
	case Equal:
		return field&mask == value
	case Greater:
		return field&mask > value
	case AtLeast:
		return field&mask >= value
	default:
		return field&mask&value != 0
	}
}

// TestCompare tries every mask, value and field of four bits, at three places.
func TestCompare(t *testing.T) {
	for _, f := range []Field{{0, 0, 4}, {3, 30, 4}, {5, 60, 4}} {
		for op := Equal; op <= AnySet; op++ {
			for mask := range uint64(16) {
				for value := range uint64(17) {
					s := New(MaxNodes)
					d := s.Compare(f, mask, op, value)
					for v := range uint64(16) {
						at := [6]uint64{^uint64(0), 1, 2, 3, 4, 5}
						at[f.Arg] = at[f.Arg]&^(15<<f.Shift) | v<<f.Shift
						if got := valueAt(s, d, at) == 1; got != holds(v, mask, op, value) {
							t.Fatalf("%+v: %d & %d, op %d, %d: %v", f, v, mask, op, value, got)
						}
					}
				}
			}
		}
	}
}

// TestSameFunction builds the same function in two ways, and a function that differs in one point.
func TestSameFunction(t *testing.T) {
	s := New(MaxNodes)
	whole := Field{Arg: 2, Bits: 64}
	const x = 0x8000_0001_0000_0005
	// Not equal is below or above.
	below := s.Not(s.Compare(whole, ^uint64(0), AtLeast, x))
	above := s.Compare(whole, ^uint64(0), Greater, x)
	either := s.If(below, s.True, above)
	unequal := s.Not(s.Compare(whole, ^uint64(0), Equal, x))
	if either != unequal {
		t.Error("the same function has two diagrams")
	}
	// By halves, as a filter compares.
	high, low := Field{Arg: 2, Shift: 32, Bits: 32}, Field{Arg: 2, Bits: 32}
	equal := s.And(s.Compare(high, 1<<32-1, Equal, x>>32), s.Compare(low, 1<<32-1, Equal, x&(1<<32-1)))
	if s.Not(equal) != unequal {
		t.Error("halves and whole differ")
	}
	if at, a, b, found := s.Difference(unequal, s.True); !found || at != [6]uint64{2: x} || a != 0 || b != 1 {
		t.Errorf("difference at %#x: %d, %d, %v", at, a, b, found)
	}
	if _, _, _, found := s.Difference(either, unequal); found {
		t.Error("a difference of a function with itself")
	}
	if s.Value(7) == s.Value(7<<16) || s.value(s.Value(0x7fff0001)) != 0x7fff0001 {
		t.Error("values are mixed up")
	}
}

func TestIfAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := New(MaxNodes)
		var fields []Field
		var masks, values []uint64
		var ops []Op
		d := s.Value(99)
		for range 6 {
			f := Field{Arg: uint8(r.IntN(6)), Shift: uint8(r.IntN(2) * 32), Bits: 32}
			mask, value, op := uint64(r.Uint32())|uint64(r.IntN(2))*0xFFFFFFFF, uint64(r.Uint32()>>r.IntN(32)), Op(r.IntN(4))
			d = s.If(s.Compare(f, mask, op, value), s.Value(uint32(len(fields))), d)
			fields, masks, values, ops = append(fields, f), append(masks, mask), append(values, value), append(ops, op)
		}
		for range 500 {
			var at [6]uint64
			for i := range at {
				at[i] = r.Uint64() >> r.IntN(64) << r.IntN(64)
				if k := r.IntN(len(values)); r.IntN(2) == 0 {
					at[i] = values[k] << fields[k].Shift
				}
			}
			want := uint32(99)
			for i, f := range fields {
				if holds(at[f.Arg]>>f.Shift&0xFFFFFFFF, masks[i], ops[i], values[i]) {
					want = uint32(i)
				}
			}
			if got := valueAt(s, d, at); got != want {
				t.Fatalf("%#x: %d, want %d", at, got, want)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	s := New(40)
	if s.Err() != nil {
		t.Fatal("full from the start")
	}
	s.Compare(Field{Bits: 64}, ^uint64(0), Equal, 1)
	if !errors.Is(s.Err(), ErrTooLarge) {
		t.Errorf("64 nodes in a set of 40: %v", s.Err())
	}
	s.If(s.True, s.False, s.True) // must not panic
	if s.Clear(); s.Err() != nil {
		t.Error("still full after Clear")
	}
}

// valueAt is the value for the given arguments.
func valueAt(s *Set, d Diagram, arguments [args]uint64) uint32 {
	for {
		bit := s.nodes[d].bit
		if bit == terminals {
			return s.value(d)
		}
		d = s.branch(d, bit, arguments[bit/argBits]>>(argBits-1-bit%argBits)&1 == 1)
	}
}
