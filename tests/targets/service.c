/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves made-up requests, with a cache that fills in the first half second: `service SEED LEAK`.
 * LEAK is the share, in percent, of sessions that are never freed. The cache is never freed either;
 * everything else is freed after at most 64 ms. Commands:
 *
 *      run MS          answers "done" when the time is over
 */
#include <stdlib.h>
#include <time.h>

#include "tests/targets/random.h"
#include "tests/targets/speak.h"

#define LIVES_MAX 64 /* milliseconds */
#define SITE	  __attribute__((noinline)) static void

struct block {
	struct block *next;
};

static struct block *due[LIVES_MAX + 1]; /* [ms % (LIVES_MAX + 1)]: blocks to free then */
static void *volatile kept;
static uint64_t seed;
static unsigned leak_percent;
static long now_ms;

static void free_later(void *memory)
{
	struct block *block = memory;
	const size_t at = ((size_t)now_ms + 1 + next_random(&seed) % LIVES_MAX) % (LIVES_MAX + 1);
	block->next = due[at];
	due[at] = block;
}

SITE serve_request(void)
{
	for (unsigned i = 0; i < 8; i++)
		free_later(malloc(512 + next_random(&seed) % 1024));
}

SITE open_session(void)
{
	void *block = malloc(2000);
	if (next_random(&seed) % 100 < leak_percent)
		kept = block;
	else
		free_later(block);
}

SITE fill_cache(void)
{
	if (now_ms < 500)
		kept = malloc(2048);
}

static void run(long ms)
{
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (now_ms = 0; now_ms < ms; now_ms++) {
		struct block **at = &due[(size_t)now_ms % (LIVES_MAX + 1)];
		while (*at) {
			struct block *block = *at;
			*at = block->next;
			free(block);
		}
		serve_request();
		open_session();
		fill_cache();
		next.tv_nsec += 1000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	speak_add("done");
	speak_send();
}

int main(int argc, char **argv)
{
	seed = argc > 1 ? strtoull(argv[1], NULL, 10) | 1 : 1;
	leak_percent = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (strncmp(command, "run ", 4))
			speak_fail("no command %s", command);
		run(strtol(command + 4, NULL, 10));
	}
	_exit(0);
}
