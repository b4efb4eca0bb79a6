package main

/*
#cgo LDFLAGS: -Wl,--wrap=pthread_create
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// The Go runtime ends with a trace of its own when it can reserve no address space or make no thread, before any
// Go code could refuse. This runs before the runtime. The figures are what gobox was seen to need, rounded up: the
// runtime reserves 0.6 GB of address space that it does not use, and gobox and its init have a dozen threads.
__attribute__((constructor(150))) static void gobox_refuse_starved(void)
{
	static const struct {
		int resource;
		rlim_t least;
		const char *text;
	} needs[] = {
		{RLIMIT_AS, (rlim_t)1 << 30,
		 "gobox: error: start address space: the limit is below the 1 GiB that gobox itself needs\n"
		 "gobox: hint: ulimit -v unlimited raises it; for the command alone it is --address-space SIZE\n"},
		{RLIMIT_NPROC, 16,
		 "gobox: error: start processes: the limit is below the 16 processes and threads that gobox itself needs\n"
		 "gobox: hint: ulimit -u 256 raises it; for the command alone it is --pids N\n"},
	};
	for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
		struct rlimit l;
		if (getrlimit(needs[i].resource, &l) < 0 || l.rlim_cur >= needs[i].least)
			continue;
		// Root is not held to it (getrlimit(2)).
		if (needs[i].resource == RLIMIT_NPROC && getuid() == 0)
			continue;
		if (write(2, needs[i].text, strlen(needs[i].text)) < 0)
			_exit(125);
		_exit(125);
	}
}
*/
import "C"
