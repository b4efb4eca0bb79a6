#ifndef GOBOX_SPAWN_H
#define GOBOX_SPAWN_H

#include <stdint.h>

/* Parts of the command's own set-up, in their order; see spawnSteps in init_spawn.go. */
enum gobox_spawn_step {
	GOBOX_SPAWN_OK = 0,
	GOBOX_SPAWN_CLONE,
	GOBOX_SPAWN_CGROUP,
	GOBOX_SPAWN_GROUP,
	GOBOX_SPAWN_STDIO,
	GOBOX_SPAWN_KEYRING,
	GOBOX_SPAWN_CAPS,
	GOBOX_SPAWN_IDS,
	GOBOX_SPAWN_CHDIR,
	GOBOX_SPAWN_RLIMIT,
	GOBOX_SPAWN_NNP,
	GOBOX_SPAWN_LANDLOCK,
	GOBOX_SPAWN_SECCOMP,
	GOBOX_SPAWN_EXEC,
};

struct gobox_rlimit {
	int resource;
	uint64_t soft, hard;
};

struct gobox_spawn {
	const char *path, *dir;
	char *const *argv;
	char *const *envp;
	int stdio[3];                        /* none of them 0 to 2 */
	int cgroup;                          /* directory of the command's cgroup to be born in, or -1 */
	const int *doors;                    /* files to write 0 to, to enter it otherwise */
	int ndoors;
	int tty;                             /* the slave that gets the command's group in front, or -1 */
	int set_ids;                         /* change to uid and gid, with no supplementary group */
	uint32_t uid, gid;
	const struct gobox_rlimit *rlimits;
	int nrlimits;
	int landlock;                        /* ruleset, or -1 for none */
	const void *filter;                  /* struct sock_filter[filter_len], or NULL for none */
	unsigned short filter_len;
	int notify;                          /* the filter reports what it refuses */
	uint64_t *mark;                      /* gets the time of CLOCK_MONOTONIC, in ns, just before execve, and 0 when that fails */
	int listener;                        /* out: descriptor that it reports to, when notify is set */
	int step, index, err;                /* out: what failed */
};

/* Descriptors 0 to 2 of the caller become the command's. Returns the command's pid, or -1 with step, index and err set and no child left. */
int gobox_spawn(struct gobox_spawn *s);

#endif
