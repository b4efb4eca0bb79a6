/* Init's start takes about as long as that of the Go runtime, and needs nothing of it. So `gobox run` begins
   with it before there is a Go runtime, in a thread that waits until the program ends: init dies with the
   thread that cloned it. What goes wrong here is tried again, and explained, by sandbox.Launch. */
#define _GNU_SOURCE
#include "early.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../namespaces/clone.h"

extern char **environ;
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static struct gobox_early early;
static int pair[2] = {-1, -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int state; /* 0: nothing was started, 1: under way, 2: done */

/* The namespaces, name and environment of init; a test holds them equal to those of sandbox.Launch. */
static const unsigned long init_flags = 0x10000000 /* user */ | 0x00020000 /* mount */ | 0x20000000 /* pid */ |
					0x40000000 /* net */ | 0x08000000 /* ipc */ | 0x04000000 /* uts */;
static char *const init_argv[] = {"gobox-init", NULL};
static char *const init_env[] = {"GOMAXPROCS=1", "GOGC=off", NULL};

static void *start(void *unused)
{
	struct gobox_clone c = {
		.flags = init_flags, .path = "/proc/self/exe", .argv = init_argv, .envp = init_env, .sock = pair[1],
	};
	int pid = gobox_clone(&c);

	(void)unused;
	close(pair[1]);
	pthread_mutex_lock(&lock);
	if (pid > 0) {
		early.pid = pid;
		early.pidfd = c.pidfd;
		early.sock = pair[0];
	} else {
		close(pair[0]);
	}
	state = 2;
	pthread_cond_signal(&done);
	pthread_mutex_unlock(&lock);
	for (;;)
		pause();
}

/* A wrong guess costs time and nothing else. */
static int wants_sandbox(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "run") != 0)
		return 0;
	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
		/* Numbers of descriptors that are the caller's must not be taken by ours. */
		if (strcmp(argv[i], "--dry-run") == 0 || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 ||
		    strncmp(argv[i], "--status-fd", 11) == 0 || strncmp(argv[i], "--control-fd", 12) == 0 ||
		    strncmp(argv[i], "--secret", 8) == 0)
			return 0;
	}
	return 1;
}

__attribute__((constructor(200))) static void begin(int argc, char **argv)
{
	struct rlimit nofile;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;

	if (!wants_sandbox(argc, argv))
		return;
	/* With one of the first three closed, a new descriptor would take its place. */
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			return;
	}
	if (getrlimit(RLIMIT_NOFILE, &nofile) < 0 || nofile.rlim_cur < 32)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	state = 1;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	/* The thread is not Go's: it must get no signal that Go will have a handler for. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* Not by the detour of starved.c, which is for the runtime's threads. */
	if (__real_pthread_create(&thread, &attr, start, NULL) != 0) {
		close(pair[0]);
		close(pair[1]);
		state = 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
}

struct gobox_early gobox_early_take(void)
{
	struct gobox_early taken = {0, -1, -1};

	pthread_mutex_lock(&lock);
	while (state == 1)
		pthread_cond_wait(&done, &lock);
	if (state == 2) {
		taken = early;
		state = 0;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

unsigned long gobox_early_flags(void) { return init_flags; }
const char *gobox_early_argv(int i) { return init_argv[i]; }
const char *gobox_early_env(int i) { return init_env[i]; }
