/* The command's process between clone and execve. Rlimits, capabilities, no_new_privs, the Landlock
   domain and the filter belong to the command alone, and os/exec has no hook for them. Like vfork(2)'s,
   the child borrows init's memory until it executes: it runs on a stack of its own, with every signal
   blocked, and makes only bare system calls, since those of the C library would reach out to init's other
   threads (nptl(7)). It borrows init's descriptors too, which execve(2) parts again: so init has the
   filter's listener without it being sent, which would count against limits that the command can use up
   for others (unix(7), ETOOMANYREFS). The price is that descriptors 0 to 2 of init are the command's
   afterwards, and init puts them back. */
#define _GNU_SOURCE
#include "spawn.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_SIZE (64 * 1024)

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

/* struct sigaction of the kernel, which is not the C library's (rt_sigaction(2)). */
struct kernel_sigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static long set_handler(int sig, void (*handler)(int))
{
	struct kernel_sigaction sa = {.handler = handler};
	return syscall(SYS_rt_sigaction, sig, &sa, NULL, sizeof sa.mask);
}

static int fail(struct gobox_spawn *s, int step, int index)
{
	s->step = step;
	s->index = index;
	s->err = errno;
	syscall(SYS_exit_group, 127);
	return -1;
}

/* Nothing is left and nothing can come back: not from the bounding set, not by being uid 0, not by
   ambient capabilities (capabilities(7)). */
static int drop_capabilities(void)
{
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (syscall(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL && cap > 0)
				break;
			return -1;
		}
	}
	if (syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	return syscall(SYS_prctl, PR_SET_SECUREBITS,
		       SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
		       SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		       SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0);
}

static int clear_capabilities(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	return syscall(SYS_capset, &h, d);
}

static int load_filter(struct gobox_spawn *s)
{
	struct sock_fprog prog = {s->filter_len, (struct sock_filter *)s->filter};
	long fd;

	if (!s->notify)
		return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	/* Without the second flag (Linux 5.19), signals make a waiting call start over again and again. */
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	s->listener = fd;
	return fd < 0 ? -1 : 0;
}

static int child(void *arg)
{
	struct gobox_spawn *s = arg;

	for (int i = 0; i < s->ndoors; i++) {
		if (syscall(SYS_write, s->doors[i], "0", 1) != 1)
			return fail(s, GOBOX_SPAWN_CGROUP, i);
	}
	/* Last of the namespaces, as its root is the cgroup that the process is in (cgroup_namespaces(7)). */
	if (syscall(SYS_unshare, CLONE_NEWCGROUP) < 0)
		return fail(s, GOBOX_SPAWN_CGROUP, s->ndoors);

	if (syscall(SYS_setpgid, 0, 0) < 0)
		return fail(s, GOBOX_SPAWN_GROUP, 0);
	if (s->tty >= 0) {
		pid_t self = syscall(SYS_getpid);
		if (syscall(SYS_ioctl, s->tty, TIOCSPGRP, &self) < 0)
			return fail(s, GOBOX_SPAWN_GROUP, 1);
	}
	for (int sig = 1; sig <= 64; sig++)
		set_handler(sig, SIG_DFL);
	for (int fd = 0; fd < 3; fd++) {
		if (syscall(SYS_dup3, s->stdio[fd], fd, 0) < 0)
			return fail(s, GOBOX_SPAWN_STDIO, fd);
	}
	/* Closed by execve, since the ruleset is still needed; nothing else survives. */
	if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return fail(s, GOBOX_SPAWN_STDIO, 3);
	/* A session keyring of its own, so that the caller's keys are out of reach (session-keyring(7)). A
	   kernel without keys has none to hide. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return fail(s, GOBOX_SPAWN_KEYRING, 0);
	if (drop_capabilities() < 0)
		return fail(s, GOBOX_SPAWN_CAPS, 0);
	if (s->set_ids) {
		if (syscall(SYS_setgroups, 0, NULL) < 0)
			return fail(s, GOBOX_SPAWN_IDS, 0);
		if (syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0)
			return fail(s, GOBOX_SPAWN_IDS, 1);
		if (syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0)
			return fail(s, GOBOX_SPAWN_IDS, 2);
	}
	if (clear_capabilities() < 0)
		return fail(s, GOBOX_SPAWN_CAPS, 1);
	/* As the command's user, so that it starts nowhere it could not go itself. */
	if (syscall(SYS_chdir, s->dir) < 0)
		return fail(s, GOBOX_SPAWN_CHDIR, 0);
	for (int i = 0; i < s->nrlimits; i++) {
		struct {
			uint64_t cur, max;
		} lim = {s->rlimits[i].soft, s->rlimits[i].hard};
		if (syscall(SYS_prlimit64, 0, s->rlimits[i].resource, &lim, NULL) < 0)
			return fail(s, GOBOX_SPAWN_RLIMIT, i);
	}
	if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(s, GOBOX_SPAWN_NNP, 0);
	if (s->landlock >= 0 && syscall(SYS_landlock_restrict_self, s->landlock, 0) < 0)
		return fail(s, GOBOX_SPAWN_LANDLOCK, 0);
	/* Not after the filter, which may forbid it. */
	struct timespec ts = {0};
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	uint64_t now = (uint64_t)ts.tv_sec * 1000000000u + ts.tv_nsec;
	uint64_t none = 0;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
	if (s->filter && load_filter(s) < 0)
		return fail(s, GOBOX_SPAWN_SECCOMP, 0);
	__atomic_store_n(s->mark, now, __ATOMIC_RELEASE);
	syscall(SYS_execve, s->path, s->argv, s->envp);
	__atomic_store_n(s->mark, 0, __ATOMIC_RELEASE);
	return fail(s, GOBOX_SPAWN_EXEC, 0);
}

/* struct clone_args of <linux/sched.h> up to the field used here. */
struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

#define CLONE_INTO_CGROUP_FLAG 0x200000000ULL
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

/* clone3 with a stack for the child, which runs child(s) and never returns. The C library has no such
   call; what follows the system call must not touch the old stack in the child. */
static long clone3_child(struct clone3_args *args, struct gobox_spawn *s)
{
	long ret;
#if defined(__x86_64__)
	register int (*fn)(void *) __asm__("r12") = child;
	register void *arg __asm__("r13") = s;
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args), "r"(fn), "r"(arg)
			 : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone3;
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = sizeof *args;
	register int (*fn)(void *) __asm__("x20") = child;
	register void *arg __asm__("x21") = s;
	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x21\n\t"
			 "blr x20\n\t"
			 "brk #0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(fn), "r"(arg)
			 : "memory", "cc");
	ret = x0;
#else
	(void)args, (void)s;
	ret = -ENOSYS;
#endif
	return ret;
}

/* A process born in its cgroup costs nothing; one that moves there by version 2's cgroup.procs waits for
   milliseconds. */
static pid_t clone_child(struct gobox_spawn *s, char *stack)
{
	const unsigned long flags = CLONE_VM | CLONE_VFORK | CLONE_FILES;

	if (s->cgroup >= 0) {
		int ndoors = s->ndoors;
		struct clone3_args args = {
			.flags = flags | CLONE_INTO_CGROUP_FLAG,
			.exit_signal = SIGCHLD,
			.stack = (uint64_t)(uintptr_t)stack,
			.stack_size = STACK_SIZE,
			.cgroup = s->cgroup,
		};
		s->ndoors = 0;
		long pid = clone3_child(&args, s);
		if (pid > 0)
			return pid;
		s->ndoors = ndoors;
	}
	return clone(child, stack + STACK_SIZE, flags | SIGCHLD, s);
}

int gobox_spawn(struct gobox_spawn *s)
{
	sigset_t all, old;
	pid_t pid;
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	s->step = GOBOX_SPAWN_OK;
	if (stack == MAP_FAILED) {
		s->step = GOBOX_SPAWN_CLONE;
		s->err = errno;
		return -1;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone_child(s, stack);
	if (pid < 0) {
		s->step = GOBOX_SPAWN_CLONE;
		s->err = errno;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stack, STACK_SIZE);
	if (pid > 0 && s->step != GOBOX_SPAWN_OK) {
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		pid = -1;
	}
	return pid;
}
