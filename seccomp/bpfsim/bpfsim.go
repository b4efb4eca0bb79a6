// Package bpfsim runs seccomp filters without a kernel: it decodes a classic BPF program, checks it as strictly as
// seccomp(2) does, and tells what the program answers to one system call.
//
// See Documentation/networking/filter.rst, seccomp_check_filter and bpf_check_classic of Linux.
package bpfsim

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Instruction is struct sock_filter of <linux/filter.h>.
type Instruction struct {
	Code   uint16
	JT, JF uint8
	K      uint32
}

// Data is struct seccomp_data of <linux/seccomp.h>.
type Data struct {
	NR   int32
	Arch uint32 // AUDIT_ARCH_*
	IP   uint64
	Args [6]uint64
}

// MaxInstructions is BPF_MAXINSNS.
const MaxInstructions = 4096

// Parts of an opcode, <linux/bpf_common.h>.
const (
	classLD, classLDX, classST, classSTX   = 0x00, 0x01, 0x02, 0x03
	classALU, classJMP, classRET, classMSC = 0x04, 0x05, 0x06, 0x07

	modeIMM, modeABS, modeMEM, modeLEN = 0x00, 0x20, 0x60, 0x80

	opADD, opSUB, opMUL, opDIV, opOR, opAND = 0x00, 0x10, 0x20, 0x30, 0x40, 0x50
	opLSH, opRSH, opNEG, opXOR              = 0x60, 0x70, 0x80, 0xa0
	opJA, opJEQ, opJGT, opJGE, opJSET       = 0x00, 0x10, 0x20, 0x30, 0x40

	sourceX = 0x08
	retA    = 0x10
	tax     = 0x00
	txa     = 0x80

	dataSize = 64
	memWords = 16
)

// Program is a checked filter.
type Program []Instruction

// Decode reads an array of struct sock_filter in native (little-endian) order and checks it.
func Decode(raw []byte) (Program, error) {
	if len(raw)%8 != 0 {
		return nil, fmt.Errorf("decode filter: %d bytes are not a whole number of instructions", len(raw))
	}
	p := make(Program, len(raw)/8)
	for i := range p {
		b := raw[8*i:]
		p[i] = Instruction{binary.LittleEndian.Uint16(b), b[2], b[3], binary.LittleEndian.Uint32(b[4:])}
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("decode filter: %w", err)
	}
	return p, nil
}

// Encode is the inverse of Decode.
func (p Program) Encode() []byte {
	raw := make([]byte, 0, 8*len(p))
	for _, in := range p {
		raw = binary.LittleEndian.AppendUint16(raw, in.Code)
		raw = append(raw, in.JT, in.JF)
		raw = binary.LittleEndian.AppendUint32(raw, in.K)
	}
	return raw
}

func (p Program) check() error {
	if len(p) == 0 {
		return errors.New("empty program")
	}
	if len(p) > MaxInstructions {
		return fmt.Errorf("%d instructions, the kernel takes %d", len(p), MaxInstructions)
	}
	// written[i] has a bit for each scratch word that is written on every way to instruction i.
	written := make([]uint16, len(p)+1)
	for i := range written {
		written[i] = ^uint16(0)
	}
	written[0] = 0
	for i, in := range p {
		if err := in.check(); err != nil {
			return fmt.Errorf("instruction %d: %w", i, err)
		}
		here := written[i]
		if in.stores() {
			here |= 1 << in.K
		}
		if in.loadsScratch() && here&(1<<in.K) == 0 {
			return fmt.Errorf("instruction %d: reads scratch word %d before it is written", i, in.K)
		}
		switch {
		case in.class() == classRET:
		case in.class() != classJMP:
			written[i+1] &= here
		case in.Code&0xf0 == opJA:
			if uint64(in.K) >= uint64(len(p)-i-1) {
				return fmt.Errorf("instruction %d: jumps past the end", i)
			}
			written[i+1+int(in.K)] &= here
		default:
			for _, jump := range [...]uint8{in.JT, in.JF} {
				if i+1+int(jump) >= len(p) {
					return fmt.Errorf("instruction %d: jumps past the end", i)
				}
				written[i+1+int(jump)] &= here
			}
		}
	}
	if p[len(p)-1].class() != classRET {
		return errors.New("the last instruction is no return")
	}
	return nil
}

func (in Instruction) class() uint16 { return in.Code & 0x07 }

func (in Instruction) stores() bool { return in.class() == classST || in.class() == classSTX }

func (in Instruction) loadsScratch() bool {
	return in.Code == classLD|modeMEM || in.Code == classLDX|modeMEM
}

// check refuses what seccomp_check_filter and bpf_check_classic refuse in a single instruction.
func (in Instruction) check() error {
	switch in.Code {
	case classLD | modeABS:
		if in.K >= dataSize || in.K%4 != 0 {
			return fmt.Errorf("loads from offset %d", in.K)
		}
	case classLD | modeMEM, classLDX | modeMEM, classST, classSTX:
		if in.K >= memWords {
			return fmt.Errorf("uses scratch word %d", in.K)
		}
	case classALU | opDIV:
		if in.K == 0 {
			return errors.New("divides by zero")
		}
	case classALU | opLSH, classALU | opRSH:
		if in.K >= 32 {
			return fmt.Errorf("shifts by %d", in.K)
		}
	case classLD | modeLEN, classLDX | modeLEN, classLD | modeIMM, classLDX | modeIMM,
		classRET, classRET | retA, classMSC | tax, classMSC | txa,
		classALU | opADD, classALU | opSUB, classALU | opMUL, classALU | opAND, classALU | opOR, classALU | opXOR, classALU | opNEG,
		classALU | opADD | sourceX, classALU | opSUB | sourceX, classALU | opMUL | sourceX, classALU | opDIV | sourceX,
		classALU | opAND | sourceX, classALU | opOR | sourceX, classALU | opXOR | sourceX,
		classALU | opLSH | sourceX, classALU | opRSH | sourceX,
		classJMP | opJA, classJMP | opJEQ, classJMP | opJGT, classJMP | opJGE, classJMP | opJSET,
		classJMP | opJEQ | sourceX, classJMP | opJGT | sourceX, classJMP | opJGE | sourceX, classJMP | opJSET | sourceX:
	default:
		return fmt.Errorf("opcode %#x is not for seccomp", in.Code)
	}
	return nil
}

// Run gives the program's return value, a SECCOMP_RET_* action and its data. The program must come from Decode.
func (p Program) Run(d *Data) uint32 {
	var a, x uint32
	var mem [memWords]uint32
	for pc := 0; ; pc++ {
		in := p[pc]
		switch in.Code {
		case classRET:
			return in.K
		case classRET | retA:
			return a
		case classLD | modeABS:
			a = d.word(in.K)
		case classLD | modeLEN:
			a = dataSize
		case classLDX | modeLEN:
			x = dataSize
		case classLD | modeIMM:
			a = in.K
		case classLDX | modeIMM:
			x = in.K
		case classLD | modeMEM:
			a = mem[in.K]
		case classLDX | modeMEM:
			x = mem[in.K]
		case classST:
			mem[in.K] = a
		case classSTX:
			mem[in.K] = x
		case classMSC | tax:
			x = a
		case classMSC | txa:
			a = x
		case classJMP | opJA:
			pc += int(in.K)
		default:
			operand := in.K
			if in.Code&sourceX != 0 {
				operand = x
			}
			if in.class() == classJMP {
				if in.jumps(a, operand) {
					pc += int(in.JT)
				} else {
					pc += int(in.JF)
				}
				continue
			}
			if in.Code == classALU|opDIV|sourceX && operand == 0 {
				return 0 // the kernel ends the program so
			}
			a = in.compute(a, operand)
		}
	}
}

func (in Instruction) jumps(a, operand uint32) bool {
	switch in.Code & 0xf0 {
	case opJEQ:
		return a == operand
	case opJGT:
		return a > operand
	case opJGE:
		return a >= operand
	default: // opJSET, the check leaves nothing else
		return a&operand != 0
	}
}

func (in Instruction) compute(a, operand uint32) uint32 {
	switch in.Code & 0xf0 {
	case opADD:
		return a + operand
	case opSUB:
		return a - operand
	case opMUL:
		return a * operand
	case opDIV:
		return a / operand
	case opAND:
		return a & operand
	case opOR:
		return a | operand
	case opXOR:
		return a ^ operand
	case opLSH:
		return a << (operand & 31)
	case opRSH:
		return a >> (operand & 31)
	default: // opNEG
		return -a
	}
}

// word is the 32-bit word at the given offset of struct seccomp_data on a little-endian machine.
func (d *Data) word(offset uint32) uint32 {
	switch {
	case offset == 0:
		return uint32(d.NR)
	case offset == 4:
		return d.Arch
	case offset == 8:
		return uint32(d.IP)
	case offset == 12:
		return uint32(d.IP >> 32)
	}
	arg := d.Args[(offset-16)/8]
	if offset%8 != 0 {
		return uint32(arg >> 32)
	}
	return uint32(arg)
}
