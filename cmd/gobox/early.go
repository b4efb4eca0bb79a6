package main

/*
#include "early.h"
*/
import "C"

import "gobox/sandbox"

// launch gives the sandbox that early.c has begun with before the Go runtime started, or starts one.
func launch() *sandbox.Sandbox {
	if e := C.gobox_early_take(); e.pid > 0 {
		return sandbox.Adopt(int(e.pid), int(e.pidfd), int(e.sock))
	}
	return sandbox.Launch()
}

// earlyInit says with what early.c starts init.
func earlyInit() (flags uint64, argv, env []string) {
	list := func(at func(C.int) *C.char) (words []string) {
		for i := C.int(0); at(i) != nil; i++ {
			words = append(words, C.GoString(at(i)))
		}
		return words
	}
	return uint64(C.gobox_early_flags()),
		list(func(i C.int) *C.char { return C.gobox_early_argv(i) }),
		list(func(i C.int) *C.char { return C.gobox_early_env(i) })
}
