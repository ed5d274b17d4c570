/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs in unusual states:
 *
 *      states leader      the main thread ends, another one goes on
 *      states vfork       "vfork" starts a child by vfork(2) that waits until it is killed; the
 *                         thread waits for it, and says "again" afterwards
 *      states vfork -t    the same, with a second thread
 *      states rseq        the only thread counts per core within restartable sequences, and so do
 *                         three forked processes, in shared counters; "count" answers how often
 *                         this thread did
 */
#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/wait.h>

#include "tests/targets/speak.h"

#define CORES_MAX 1024
#define COUNTERS  4

static void *serve(void *arg)
{
	while (strcmp(speak_hear(), "stop"))
		free(malloc(100));
	_exit(arg != NULL);
}

static int be_leader(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, serve, NULL))
		speak_fail("pthread_create: errno %d", errno);
	speak_ready();
	pthread_exit(NULL);
}

static void *idle(void *arg)
{
	for (;;) {
		poll(NULL, 0, 10);
		free(malloc(100));
	}
	return arg;
}

static int be_in_vfork(bool threaded)
{
	pthread_t thread;
	if (threaded && pthread_create(&thread, NULL, idle, NULL))
		speak_fail("pthread_create: errno %d", errno);
	speak_ready();
	while (!strcmp(speak_hear(), "vfork")) {
		pid_t child = vfork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		waitpid(child, NULL, 0);
		speak_add("again");
		speak_send();
	}
	_exit(0);
}

static struct {
	struct {
		long count;
		char fill[56];
	} core[CORES_MAX];
	volatile long made[COUNTERS];
	volatile bool stop;
} * shared;

/* Adds 1 to the counter of this core, unless it is interrupted: load and store are 4,000
 * instructions apart. False: interrupted, nothing was added. */
__attribute__((noinline)) static bool count_once(void)
{
	struct rseq *rseq = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	__asm__ volatile goto(".pushsection __rseq_cs, \"aw\"\n"
			      ".balign 32\n"
			      "3:	.long 0, 0\n"
			      "	.quad 1f, 2f - 1f, 4f\n"
			      ".popsection\n"
			      "	lea	3b(%%rip), %%rax\n"
			      "	mov	%%rax, %0\n"
			      "1:	mov	%1, %%eax\n"
			      "	shl	$6, %%rax\n"
			      "	add	%2, %%rax\n"
			      "	mov	(%%rax), %%rdx\n"
			      "	mov	$2000, %%ecx\n"
			      "5:	dec	%%ecx\n"
			      "	jnz	5b\n"
			      "	inc	%%rdx\n"
			      "	mov	%%rdx, (%%rax)\n"
			      "2:\n"
			      ".pushsection .text.unlikely, \"ax\"\n"
			      "	.byte	0x0f, 0xb9, 0x3d\n"
			      "	.long	0x53053053\n"
			      "4:	jmp	%l[aborted]\n"
			      ".popsection\n"
			      :
			      : "m"(rseq->rseq_cs), "m"(rseq->cpu_id), "r"(shared->core)
			      : "rax", "rcx", "rdx", "memory", "cc"
			      : aborted);
	return true;
aborted:
	return false;
}

static void count(unsigned who)
{
	for (int i = 0; i < 1000; i++)
		if (count_once())
			shared->made[who]++;
}

static void start_counters(pid_t child[COUNTERS])
{
	pid_t parent = getpid();
	for (unsigned i = 1; i < COUNTERS; i++) {
		child[i] = fork();
		if (child[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!shared->stop && getppid() == parent)
			count(i);
		_exit(0);
	}
}

static void check_counters(void)
{
	long made = 0, counted = 0;
	for (unsigned i = 0; i < COUNTERS; i++)
		made += shared->made[i];
	for (unsigned i = 0; i < CORES_MAX; i++)
		counted += shared->core[i].count;
	if (made != counted)
		speak_fail("%ld additions, and the counters say %ld", made, counted);
}

static int be_in_rseq(void)
{
	struct pollfd command = {.fd = STDIN_FILENO, .events = POLLIN};
	pid_t child[COUNTERS] = {0};

	if (!__rseq_size)
		speak_fail("the C library has not registered rseq");
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	start_counters(child);
	speak_ready();
	for (;;) {
		count(0);
		free(malloc(100));
		if (!poll(&command, 1, 0))
			continue;
		if (!strcmp(speak_hear(), "stop"))
			break;
		speak_add("%ld", shared->made[0]);
		speak_send();
	}
	shared->stop = true;
	for (unsigned i = 1; i < COUNTERS; i++)
		waitpid(child[i], NULL, 0);
	check_counters();
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *state = argc > 1 ? argv[1] : "";
	if (!strcmp(state, "leader"))
		return be_leader();
	if (!strcmp(state, "vfork"))
		return be_in_vfork(argc > 2);
	if (!strcmp(state, "rseq"))
		return be_in_rseq();
	speak_fail("usage: states leader | vfork [-t] | rseq");
}
