/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes one command at a time:
 *
 *      work N        N allocations; every tenth stays; answers "worked"
 *      hold N        N MiB from malloc, written to; they stay; answers "held"
 *      map N         N MiB from mmap, likewise
 *      flood         allocates without end in a second thread, up to two million blocks a second;
 *                    answers "flooding"
 *      exit N        ends with this status
 *      exec          execs itself; the new program says "ready" again
 *      undumpable    clears its dumpable flag; answers "done"
 *      rename NAME   renames its main thread; answers "done"
 *
 * Also built statically, where no GOT slot leads to the allocator.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/targets/speak.h"

static void work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *volatile ptr = malloc(100);
		if (i % 10)
			free(ptr);
	}
}

static void hold(unsigned long mib, bool from_mmap)
{
	for (unsigned long i = 0; i < mib; i++) {
		size_t bytes = 1 << 20;
		void *memory = from_mmap ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
						   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
					 : malloc(bytes);
		if (!memory || memory == MAP_FAILED)
			speak_fail("no memory: errno %d", errno);
		memset(memory, 1, bytes);
	}
}

static atomic_bool is_flooding;

static void *flood(void *arg)
{
	for (;;) {
		work(1000);
		atomic_store(&is_flooding, true);
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	return arg;
}

static void answer(const char *text)
{
	speak_add("%s", text);
	speak_send();
}

int main(int argc, char **argv)
{
	(void)argc;
	pthread_t thread;
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strncmp(command, "work ", 5)) {
			work(strtoul(command + 5, NULL, 10));
			answer("worked");
		} else if (!strncmp(command, "hold ", 5) || !strncmp(command, "map ", 4)) {
			bool from_mmap = command[0] == 'm';
			hold(strtoul(command + (from_mmap ? 4 : 5), NULL, 10), from_mmap);
			answer("held");
		} else if (!strcmp(command, "flood")) {
			if (pthread_create(&thread, NULL, flood, NULL))
				speak_fail("no thread");
			while (!atomic_load(&is_flooding))
				nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
			answer("flooding");
		} else if (!strncmp(command, "exit ", 5)) {
			exit((int)strtoul(command + 5, NULL, 10));
		} else if (!strcmp(command, "exec")) {
			execv("/proc/self/exe", argv);
			speak_fail("exec: errno %d", errno);
		} else if (!strcmp(command, "undumpable")) {
			prctl(PR_SET_DUMPABLE, 0);
			answer("done");
		} else if (!strncmp(command, "rename ", 7)) {
			prctl(PR_SET_NAME, command + 7);
			answer("done");
		}
	}
	_exit(0);
}
