/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker thread that changes its name on command, and short-lived threads. The program and its
 * worker are called the-main at first.
 *
 *      name X     the worker calls itself X
 *      keep N S   the worker allocates N blocks of S bytes
 *      short N    N threads, one after the other, call themselves short-worker, allocate, and sleep
 *                 for 1 ms
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/targets/speak.h"

static void *volatile kept[100000];
static unsigned kept_count;
static sem_t begun, done;
static struct job {
	char name[16];
	unsigned count, size;
} job;

static void keep(size_t size)
{
	kept[kept_count++ % 100000] = malloc(size);
}

static void *work(void *unused)
{
	for (;;) {
		while (sem_wait(&begun) != 0)
			;
		if (job.name[0])
			prctl(PR_SET_NAME, job.name);
		for (unsigned i = 0; i < job.count; i++)
			keep(job.size);
		sem_post(&done);
	}
	return unused;
}

static void *live_shortly(void *unused)
{
	prctl(PR_SET_NAME, "short-worker");
	keep(77);
	usleep(1000);
	return unused;
}

static void run_short(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, live_shortly, NULL) != 0)
		speak_fail("no thread");
	pthread_join(thread, NULL);
}

int main(void)
{
	pthread_t worker;
	unsigned count;
	const char *command;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	prctl(PR_SET_NAME, "the-main");
	sem_init(&begun, 0, 0);
	sem_init(&done, 0, 0);
	/* A first short thread, before "ready": glibc keeps its stack for the next ones. */
	run_short();
	if (pthread_create(&worker, NULL, work, NULL) != 0)
		speak_fail("no thread");
	speak_ready();
	while (strcmp(command = speak_hear(), "stop") != 0) {
		job = (struct job){0};
		if (sscanf(command, "name %15s", job.name) == 1 ||
			sscanf(command, "keep %u %u", &job.count, &job.size) == 2) {
			sem_post(&begun);
			while (sem_wait(&done) != 0)
				;
		} else if (sscanf(command, "short %u", &count) == 1) {
			for (unsigned i = 0; i < count; i++)
				run_short();
		}
		speak_add("done");
		speak_send();
	}
	return 0;
}
