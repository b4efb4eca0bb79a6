package bpfsim

import (
	"strings"
	"testing"
)

const allow = 0x7fff0000

// ret is the shortest program.
var ret = Instruction{Code: classRET, K: allow}

func TestDecodeRefuses(t *testing.T) {
	long := make(Program, MaxInstructions+1)
	for i := range long {
		long[i] = ret
	}
	for _, tt := range []struct {
		name    string
		program Program
		want    string
	}{
		{"empty", Program{}, "empty"},
		{"too long", long, "4097 instructions"},
		{"no return", Program{{Code: classLD | modeABS}}, "no return"},
		{"unknown opcode", Program{{Code: 0xffff}, ret}, "opcode 0xffff"},
		{"packet load", Program{{Code: 0x30}, ret}, "opcode 0x30"},
		{"indirect load", Program{{Code: 0x40}, ret}, "opcode 0x40"},
		{"modulo", Program{{Code: classALU | 0x90, K: 3}, ret}, "opcode 0x94"},
		{"load past the data", Program{{Code: classLD | modeABS, K: 64}, ret}, "offset 64"},
		{"load between words", Program{{Code: classLD | modeABS, K: 2}, ret}, "offset 2"},
		{"scratch word 16", Program{{Code: classST, K: 16}, ret}, "scratch word 16"},
		{"scratch word unwritten", Program{{Code: classLD | modeMEM, K: 3}, ret}, "word 3 before"},
		{"scratch word written on one way", Program{
			{Code: classJMP | opJEQ, JF: 1}, {Code: classST, K: 3}, {Code: classLD | modeMEM, K: 3}, ret}, "instruction 2: reads scratch word 3"},
		{"division by zero", Program{{Code: classALU | opDIV}, ret}, "divides by zero"},
		{"shift too far", Program{{Code: classALU | opLSH, K: 32}, ret}, "shifts by 32"},
		{"jump past the end", Program{{Code: classJMP | opJA, K: 1}, ret}, "past the end"},
		{"jump far past the end", Program{{Code: classJMP | opJA, K: 0xffffffff}, ret}, "past the end"},
		{"branch past the end", Program{{Code: classJMP | opJEQ, JT: 1}, ret}, "past the end"},
		{"other branch past the end", Program{{Code: classJMP | opJEQ, JF: 1}, ret}, "past the end"},
	} {
		if _, err := Decode(tt.program.Encode()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Decode(make([]byte, 9)); err == nil {
		t.Error("nine bytes decoded")
	}
	if _, err := Decode(long[:MaxInstructions].Encode()); err != nil {
		t.Errorf("longest program: %v", err)
	}
}

func TestRunLoads(t *testing.T) {
	data := &Data{NR: -2, Arch: 0xC000003E, IP: 0x1111111122222222}
	for i := range data.Args {
		data.Args[i] = uint64(2*i+1)<<32 | uint64(2*i)
	}
	want := []uint32{0xfffffffe, 0xC000003E, 0x22222222, 0x11111111, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	for i, w := range want {
		p := decode(t, Program{{Code: classLD | modeABS, K: uint32(4 * i)}, {Code: classRET | retA}})
		if got := p.Run(data); got != w {
			t.Errorf("word at %d: %#x, want %#x", 4*i, got, w)
		}
	}
}

func decode(t *testing.T, p Program) Program {
	t.Helper()
	decoded, err := Decode(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestRunArithmetic(t *testing.T) {
	imm := func(a, x uint32) Program {
		return Program{{Code: classLDX | modeIMM, K: x}, {Code: classLD | modeIMM, K: a}}
	}
	for _, tt := range []struct {
		name string
		a, x uint32
		code uint16
		k    uint32
		want uint32
	}{
		{"add", 0xffffffff, 0, classALU | opADD, 2, 1},
		{"add x", 5, 7, classALU | opADD | sourceX, 0, 12},
		{"sub", 1, 0, classALU | opSUB, 2, 0xffffffff},
		{"sub x", 9, 4, classALU | opSUB | sourceX, 0, 5},
		{"mul", 0x10000, 0, classALU | opMUL, 0x10000, 0},
		{"mul x", 3, 4, classALU | opMUL | sourceX, 0, 12},
		{"div", 7, 0, classALU | opDIV, 2, 3},
		{"div x", 8, 2, classALU | opDIV | sourceX, 0, 4},
		{"div by x = 0 ends with 0", 8, 0, classALU | opDIV | sourceX, 0, 0},
		{"and", 0xff, 0, classALU | opAND, 0x0f, 0x0f},
		{"and x", 0xf0, 0x3c, classALU | opAND | sourceX, 0, 0x30},
		{"or", 1, 0, classALU | opOR, 6, 7},
		{"or x", 1, 2, classALU | opOR | sourceX, 0, 3},
		{"xor", 5, 0, classALU | opXOR, 1, 4},
		{"xor x", 5, 3, classALU | opXOR | sourceX, 0, 6},
		{"lsh", 1, 0, classALU | opLSH, 31, 0x80000000},
		{"lsh x", 1, 4, classALU | opLSH | sourceX, 0, 16},
		{"rsh", 0x80000000, 0, classALU | opRSH, 31, 1},
		{"rsh x", 16, 4, classALU | opRSH | sourceX, 0, 1},
		{"neg", 1, 0, classALU | opNEG, 0, 0xffffffff},
		{"tax, txa", 1, 9, classMSC | txa, 0, 9},
		{"len", 1, 0, classLD | modeLEN, 0, 64},
	} {
		p := decode(t, append(imm(tt.a, tt.x), Instruction{Code: tt.code, K: tt.k}, Instruction{Code: classRET | retA}))
		if got := p.Run(&Data{}); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

func TestRunJumps(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   uint16
		a, k uint32
		want bool
	}{
		{"equal", opJEQ, 3, 3, true}, {"not equal", opJEQ, 3, 4, false},
		{"greater, unsigned", opJGT, 0x80000000, 1, true}, {"greater, equal", opJGT, 3, 3, false},
		{"at least", opJGE, 3, 3, true}, {"less", opJGE, 2, 3, false},
		{"bit set", opJSET, 6, 2, true}, {"bit clear", opJSET, 6, 9, false},
	} {
		for _, x := range []bool{false, true} {
			jump := Instruction{Code: classJMP | tt.op, K: tt.k, JF: 1}
			if x {
				jump.Code, jump.K = jump.Code|sourceX, 0
			}
			p := decode(t, Program{
				{Code: classLDX | modeIMM, K: tt.k}, {Code: classLD | modeIMM, K: tt.a}, jump,
				{Code: classRET, K: 1}, {Code: classRET, K: 0},
			})
			if got := p.Run(&Data{}) == 1; got != tt.want {
				t.Errorf("%s (by register: %v): %v", tt.name, x, got)
			}
		}
	}
	p := decode(t, Program{{Code: classJMP | opJA, K: 1}, {Code: classRET, K: 1}, {Code: classRET, K: 2}})
	if got := p.Run(&Data{}); got != 2 {
		t.Errorf("jump: %d", got)
	}
}

func TestRunScratch(t *testing.T) {
	p := decode(t, Program{
		{Code: classLD | modeIMM, K: 7}, {Code: classST, K: 15}, {Code: classMSC | tax}, {Code: classSTX, K: 0},
		{Code: classLD | modeIMM}, {Code: classLDX | modeMEM, K: 15}, {Code: classLD | modeMEM, K: 0},
		{Code: classALU | opADD | sourceX}, {Code: classRET | retA},
	})
	if got := p.Run(&Data{}); got != 14 {
		t.Errorf("%d", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Program{ret}.Encode())
	f.Add(Program{{Code: classLD | modeABS}, {Code: classJMP | opJEQ, JT: 1}, {Code: classRET}, ret}.Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Decode(raw)
		if err != nil {
			return
		}
		if string(p.Encode()) != string(raw) {
			t.Fatal("encoded to other bytes")
		}
		p.Run(&Data{Args: [6]uint64{1, 2, 3, 4, 5, 6}}) // ends, and stays inside of the program
	})
}
