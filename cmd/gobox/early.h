#ifndef GOBOX_EARLY_H
#define GOBOX_EARLY_H

/* What early.c has started; pid is 0 when it has started nothing. */
struct gobox_early {
	int pid, pidfd, sock;
};

/* Waits until the start is done and gives what came of it. Only the first call gives anything. */
struct gobox_early gobox_early_take(void);

/* With what init is started: its flags, and the i-th word of its arguments or environment, NULL after the
   last. */
unsigned long gobox_early_flags(void);
const char *gobox_early_argv(int i);
const char *gobox_early_env(int i);

#endif
