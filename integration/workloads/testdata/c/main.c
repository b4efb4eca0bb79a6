#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "work.h"

static void *thread(void *arg)
{
	long *n = arg;
	*n = work(*n);
	return NULL;
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
}

int main(void)
{
	pthread_t threads[4];
	long numbers[4] = {10, 15, 20, 25};
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, thread, &numbers[i]))
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("threads %ld %ld %ld %ld\n", numbers[0], numbers[1], numbers[2], numbers[3]);

	sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || sem_init(shared, 1, 0))
		return 1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		sem_post(shared);
		_exit(3);
	}
	sem_wait(shared);
	int status;
	waitpid(child, &status, 0);
	printf("fork %d\n", WEXITSTATUS(status));

	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	printf("signal %d\n", caught == SIGUSR1);
	return 0;
}
