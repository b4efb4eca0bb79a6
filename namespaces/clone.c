/* The child of clone(2) here shares the supervisor's memory until it executes, as vfork(2)'s does:
   copying the page tables of a Go process would cost more than all of it. It therefore runs on a stack
   of its own, with every signal blocked, and makes only bare system calls. */
#define _GNU_SOURCE
#include "clone.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_SIZE (64 * 1024)

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_RAISE 2
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static int fail(struct gobox_clone *c, int step)
{
	c->step = step;
	c->err = errno;
	syscall(SYS_exit_group, 127);
	return -1;
}

/* The new user namespace has no id map yet, so that the program about to be executed has no uid that
   could keep capabilities across execve(2). Ambient capabilities do (capabilities(7)). */
static int keep_capabilities(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	d[0].inheritable = d[0].permitted;
	d[1].inheritable = d[1].permitted;
	if (syscall(SYS_capset, &h, d) < 0)
		return -1;
	for (unsigned long cap = 0; cap < 64; cap++) {
		uint32_t word = d[cap / 32].permitted;
		if (!(word & (1u << (cap % 32))))
			continue;
		if (syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	}
	return 0;
}

static int child(void *arg)
{
	struct gobox_clone *c = arg;
	sigset_t none;
	int null;

	/* First of all: from here on the death of the supervisor's thread is ours. */
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	syscall(SYS_setsid);

	/* The socket may have any number, also 0 to 2: move it out of the way first. */
	int sock = syscall(SYS_fcntl, c->sock, F_DUPFD, 10);
	if (sock < 0)
		return fail(c, GOBOX_CLONE_STDIO);
	null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
	if (null < 0)
		return fail(c, GOBOX_CLONE_STDIO);
	for (int fd = 0; fd < 3; fd++) {
		if (fd != null && syscall(SYS_dup3, null, fd, 0) < 0)
			return fail(c, GOBOX_CLONE_STDIO);
	}
	if (syscall(SYS_dup3, sock, 3, 0) < 0)
		return fail(c, GOBOX_CLONE_STDIO);
	if (syscall(SYS_close_range, 4u, ~0u, 0u) < 0)
		return fail(c, GOBOX_CLONE_STDIO);

	if (keep_capabilities() < 0)
		return fail(c, GOBOX_CLONE_CAPS);

	sigemptyset(&none);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
	syscall(SYS_execve, c->path, c->argv, c->envp);
	return fail(c, GOBOX_CLONE_EXEC);
}

int gobox_clone(struct gobox_clone *c)
{
	sigset_t all, old;
	pid_t pid;
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	c->step = GOBOX_CLONE_OK;
	if (stack == MAP_FAILED) {
		c->step = GOBOX_CLONE_CLONE;
		c->err = errno;
		return -1;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(child, stack + STACK_SIZE, (int)c->flags | CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD,
		    c, &c->pidfd);
	if (pid < 0) {
		c->step = GOBOX_CLONE_CLONE;
		c->err = errno;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stack, STACK_SIZE);
	if (pid > 0 && c->step != GOBOX_CLONE_OK) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		close(c->pidfd);
		pid = -1;
	}
	return pid;
}

static int wait_for_death(void *arg)
{
	pid_t parent = *(pid_t *)arg;

	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	/* A parent killed before that sends no signal any more. */
	if (syscall(SYS_getppid) != parent)
		syscall(SYS_exit_group, 1);
	syscall(SYS_close_range, 0u, ~0u, 0u);
	/* With every signal blocked, nothing but SIGKILL ends it. */
	uint64_t all = ~(uint64_t)0;
	for (;;)
		syscall(SYS_rt_sigtimedwait, &(uint64_t){0}, NULL, NULL, sizeof all);
}

int gobox_clone_userns(void **stack, int *err)
{
	sigset_t all, old;
	pid_t pid;
	char *p = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (p == MAP_FAILED) {
		*err = errno;
		return -1;
	}
	*(pid_t *)p = syscall(SYS_getpid);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* It borrows this process's memory for its short life: a fork would copy its page tables. */
	pid = clone(wait_for_death, p + STACK_SIZE, CLONE_VM | CLONE_NEWUSER | SIGCHLD, p);
	if (pid < 0)
		*err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0) {
		munmap(p, STACK_SIZE);
		return -1;
	}
	*stack = p;
	return pid;
}

void gobox_free_stack(void *stack) { munmap(stack, STACK_SIZE); }
