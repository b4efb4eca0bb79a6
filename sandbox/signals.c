/* Signals as bytes in a pipe. os/signal would do, but costs two thread switches for every signal that is
   turned on, which is a tenth of a short run. Handlers that are not Go's must run on the alternate stack
   (os/signal, "Go programs that use cgo or SWIG"). */
#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t watch_fd = -1;

static void on_signal(int sig)
{
	int saved = errno;
	unsigned char b = (unsigned char)sig;
	/* A full pipe has signals enough in it. */
	ssize_t n = write(watch_fd, &b, 1);
	(void)n;
	errno = saved;
}

void gobox_ignore_signals(void)
{
	/* 32 and 33 are the C library's own; without a handler PID 1 gets none from inside anyway. */
	struct sigaction sa = {.sa_handler = SIG_IGN};
	for (int sig = 1; sig <= 64; sig++) {
		if (sig != SIGCHLD && sig != SIGKILL && sig != SIGSTOP && sig != 32 && sig != 33)
			sigaction(sig, &sa, NULL);
	}
}

int gobox_watch_signals(const int *sigs, int n, int fd, int *err)
{
	struct sigaction old, sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
	sigset_t set;

	watch_fd = fd;
	/* A file size limit of the caller's is an error of write(2) and no reason to die. */
	sa.sa_handler = SIG_IGN;
	sigaction(SIGXFSZ, &sa, NULL);
	sa.sa_handler = on_signal;
	sigfillset(&sa.sa_mask);
	sigemptyset(&set);
	for (int i = 0; i < n; i++) {
		if (sigaction(sigs[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN && sigs[i] != SIGCHLD)
			continue;
		if (sigaction(sigs[i], &sa, NULL) < 0) {
			*err = errno;
			return -1;
		}
		sigaddset(&set, sigs[i]);
	}
	*err = pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	return *err ? -1 : 0;
}
