#ifndef GOBOX_SIGNALS_H
#define GOBOX_SIGNALS_H

/* Ignores every signal that can be, but for SIGCHLD and those the C library keeps. */
void gobox_ignore_signals(void);

/* From now on each of the n signals is written to fd, a non-blocking pipe, as one byte; one that is
   ignored stays so. Returns 0, or -1 with errno in *err. */
int gobox_watch_signals(const int *sigs, int n, int fd, int *err);

#endif
