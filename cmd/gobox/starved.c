/* The Go runtime aborts with a trace of its own when it can make no thread, as happens to an ordinary user whose other processes have
   used up RLIMIT_NPROC. gobox must say what is wrong, and exit as one that failed. The linker leads every call of pthread_create here
   (ld(1), --wrap). */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* How often runtime/cgo tries (_cgo_try_pthread_create of gcc_libinit.c) before it aborts, with longer and longer waits. */
enum { tries = 20 };

static int failures, is_init, made;

/* The first thread that the Go runtime makes is its monitor (runtime.sysmon), which looks after the others every 20 microseconds
   while nothing is wrong. In a program this short that is a tenth of its CPU time. A timer slack (PR_SET_TIMERSLACK, nanoseconds)
   makes it look every millisecond; threads inherit it, so that all others, and the command, keep what gobox was started with. */
static const unsigned long monitor_slack = 1000000;

__attribute__((constructor(150))) static void gobox_starved_who(int argc, char **argv)
{
	is_init = argc == 1 && strcmp(argv[0], "gobox-init") == 0 && getpid() == 1;
	/* runtime/cgo frees something in every new thread, and the C library would map and set up a heap for each to do so. */
	mallopt(M_ARENA_MAX, 1);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static const char text[] =
		"gobox: error: start a thread: the limit of the user's processes and threads is used up\n"
		"gobox: hint: ulimit -u 4096 raises it; what the user runs besides counts too\n";
	int slack = made++ == 0 ? prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) : 0;
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, monitor_slack, 0, 0, 0);
	int err = __real_pthread_create(thread, attr, start, arg);
	if (slack > 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);

	if (err == 0)
		__atomic_store_n(&failures, 0, __ATOMIC_RELAXED);
	else if (err == EAGAIN && __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) >= tries) {
		/* Of init, the supervisor tells. */
		if (!is_init && write(2, text, sizeof text - 1) < 0)
			_exit(125);
		_exit(125);
	}
	return err;
}
