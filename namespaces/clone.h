#ifndef GOBOX_CLONE_H
#define GOBOX_CLONE_H

/* Steps of a failed start, see cloneSteps in clone.go. */
enum gobox_clone_step {
	GOBOX_CLONE_OK = 0,
	GOBOX_CLONE_CLONE,
	GOBOX_CLONE_STDIO,
	GOBOX_CLONE_CAPS,
	GOBOX_CLONE_EXEC,
};

struct gobox_clone {
	unsigned long flags;      /* CLONE_NEW* */
	const char *path;         /* the binary to execute */
	char *const *argv;
	char *const *envp;
	int sock;                 /* becomes descriptor 3, the only one kept beside /dev/null on 0-2 */
	int pidfd;                /* out: pidfd of the child, close-on-exec */
	int step;                 /* out: GOBOX_CLONE_* of what failed */
	int err;                  /* out: errno */
};

/* Returns the child's pid, or -1 with step and err set and no child left. */
int gobox_clone(struct gobox_clone *c);

/* Returns the pid of a process that does nothing in a new user namespace until it is killed, and the stack
   that it needs until then, for gobox_free_stack; or -1 with errno in *err. */
int gobox_clone_userns(void **stack, int *err);
void gobox_free_stack(void *stack);

#endif
