#include "textflag.h"

// func int80call(nr, a, b uint32) uint32
TEXT ·int80call(SB), NOSPLIT, $0-20
	MOVL nr+0(FP), AX
	MOVL a+4(FP), BX
	MOVL b+8(FP), CX
	INT  $0x80
	MOVL AX, ret+16(FP)
	RET
