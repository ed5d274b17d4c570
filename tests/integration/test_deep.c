/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of deep recursions are right: stacks of up to 16,384 frames are complete, deeper ones have
 * the inner frames, and each cut stack is counted. Also in threads with stacks of gigabytes. The
 * stacks are compared with those that tests/targets/deepstack.c records.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS  60000
#define SIZE_LO	   5000u /* as in deepstack.c */
#define FRAMES_MAX 16384u
#define LEAST	   (FRAMES_MAX / 4) /* frames that a cut stack has at least */
#define OUTER_MAX  10u		    /* frames outside of level 1 */

static void read_at(int memory, uint64_t at, void *ret, size_t bytes)
{
	ck_assert_int_eq(pread(memory, ret, bytes, (off_t)at), (ssize_t)bytes);
}

/* The address in the target at which the memory begins that agent and daemon share. */
static uint64_t find_image(pid_t pid)
{
	char path[64], line[4400];
	uint64_t lo, offset, image = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, "memfd:heaptap-") &&
			sscanf(line, "%lx-%*x rw-s %lx", &lo, &offset) == 2)
			image = lo - offset;
	}
	fclose(maps);
	ck_assert_uint_ne(image, 0);
	return image;
}

struct scene {
	int memory;	/* of the target */
	uint64_t image; /* address in the target of the memory that agent and daemon share */
	uint32_t tid;
};

/* Has the daemon told the agent where the thread's stack is? */
static bool is_bounded(const struct scene *scene)
{
	const uint64_t image = scene->image;
	const int memory = scene->memory;
	struct abi_control control;
	read_at(memory, image + ABI_CONTROL_OFF, &control, sizeof(control));
	for (uint64_t i = 0; i < ABI_SLOT_MAX; i++) {
		struct abi_slot_head head;
		if (!(control.claimed[i / 64] >> i % 64 & 1))
			continue;
		read_at(memory, image + ABI_SLOTS_OFF + i * ABI_SLOT_BYTES, &head, sizeof(head));
		if (head.tid == scene->tid && head.stack_hi != 0 &&
			head.bounds_incarnation == head.incarnation)
			return true;
	}
	return false;
}

static void wait_bounded(pid_t pid, uint32_t tid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	struct scene scene = {open(path, O_RDONLY | O_CLOEXEC), find_image(pid), tid};
	ck_assert_int_ge(scene.memory, 0);
	run_until(is_bounded(&scene), ANSWER_MS);
	close(scene.memory);
}

static uint64_t *read_record(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert(fd >= 0 && !fstat(fd, &st));
	uint64_t *words = malloc((size_t)st.st_size);
	ck_assert_int_eq(read(fd, words, (size_t)st.st_size), st.st_size);
	close(fd);
	return words;
}

/* How an event's stack compares with `level` recorded levels. Right: it has all levels and ends
 * soon after them (OUTER_MAX), or it has only the inner levels and nothing outside of them. */
struct found {
	bool is_right, is_whole;
	uint64_t levels, outer;
};

static struct found compare(
	const struct tracefile *file, uint32_t node, const uint64_t *address, uint64_t level)
{
	struct found found = {.is_right = node != 0};
	if (!node)
		return found;
	node = file->node[node].parent; /* the call of malloc */
	while (node && found.levels < level &&
		file->node[node].pc == address[level - found.levels - 1]) {
		found.levels++;
		node = file->node[node].parent;
	}
	found.is_whole = found.levels == level;
	found.is_right = found.is_whole || !node;
	while (node && found.is_whole && found.outer < OUTER_MAX) {
		found.outer++;
		node = file->node[node].parent;
	}
	found.is_right &= !node;
	return found;
}

/* Returns how many stacks were cut. */
static uint64_t check_stacks(const struct tracefile *file, const uint64_t *record, uint64_t blocks)
{
	uint64_t levels = record[0], seen = 0, wrong = 0, cut = 0, outer = 0;
	const uint64_t *address = record + 1, *level = address + levels;
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		uint64_t number = event->size - SIZE_LO;
		if (event->kind != ABI_EVENT_ALLOC || event->size < SIZE_LO || number >= blocks)
			continue;
		struct found found = compare(file, event->stack, address, level[number]);
		/* Each whole stack has as many frames outside of level 1 as the first stack, which
		 * is whole. */
		outer = seen++ ? outer : found.outer;
		bool is_right = found.is_right &&
				(found.is_whole ? found.outer == outer : found.levels >= LEAST);
		is_right &= found.is_whole == (1 + level[number] + outer <= FRAMES_MAX);
		cut += !found.is_whole;
		if (!is_right && wrong++ < 5)
			fprintf(stderr,
				"block %lu: level %lu, %lu levels found, %lu frames outside\n",
				number, level[number], found.levels, found.outer);
	}
	ck_assert_msg(wrong == 0, "%lu of %lu stacks are wrong", wrong, seen);
	ck_assert_uint_eq(seen, blocks);
	return cut;
}

/* Returns how many stacks were cut. */
static uint64_t recurse(const char *program, uint64_t levels, uint64_t stack_mib, struct tap *tap)
{
	char name[64], command[4200];
	struct victim victim;
	uint64_t blocks, record_cut;
	int tid;
	snprintf(name, sizeof(name), "tests/targets/%s", program);
	victim_start(&victim, (const char *[]){run_built(name), NULL});
	tap_start(tap, victim.pid, (const char *[]){"--lossless", NULL});
	tap_wait_on(tap, program);
	snprintf(command, sizeof(command), "thread %lu", stack_mib);
	char *answer = victim_ask(&victim, command, ANSWER_MS);
	ck_assert_int_eq(sscanf(answer, "thread %d", &tid), 1);
	wait_bounded(victim.pid, (uint32_t)tid);
	snprintf(command, sizeof(command), "go %lu", levels);
	answer = victim_ask(&victim, command, ANSWER_MS);
	ck_assert_int_eq(sscanf(answer, "done %lu", &blocks), 1);
	tap_check_clean(tap_stop(tap, 0));
	char *path = tmpdir_path("record");
	snprintf(command, sizeof(command), "save %s", path);
	free(victim_ask(&victim, command, ANSWER_MS));
	victim_stop(&victim);

	struct tracefile file;
	tracefile_load(tap->trace, &file);
	HT_FREED uint64_t *record = read_record(path);
	record_cut = check_stacks(&file, record, blocks);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_DEPTH], record_cut);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_STACK], 0);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_NODES], 0);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_NO_RULE], 0);
	tracefile_deinit(&file);
	return record_cut;
}

HT_TEST(stacks_of_the_kept_depth)
{
	struct tap tap;
	ck_assert_uint_eq(recurse("deepstack-O2", FRAMES_MAX - OUTER_MAX, 64, &tap), 0);
	ck_assert_uint_eq(recurse("deepstack-O0", FRAMES_MAX - OUTER_MAX, 0, &tap), 0);
}

HT_TEST(deeper_stacks_are_cut_and_counted)
{
	struct tap tap;
	char *text;
	uint64_t cut = recurse("deepstack-O2", 20000, 64, &tap);
	ck_assert_uint_gt(cut, 0);
	ck_assert_int_eq(run_program((const char *[]){run_built("heaptap-analyze"), "report",
					     tap.trace, NULL},
				 ANSWER_MS, &text, NULL),
		0);
	char *said = strstr(text, " stacks cut: deeper than 16,384 frames");
	ck_assert_ptr_nonnull(said);
	ck_assert_uint_gt(recurse("deepstack-O0", 50000, 64, &tap), cut);
}

HT_TEST(stacks_of_gigabytes)
{
	struct tap tap;
	ck_assert_uint_eq(recurse("deepstack-O2", 12000, 1024, &tap), 0);
	ck_assert_uint_gt(recurse("deepstack-O2", 18000, 8192, &tap), 0);
}

HT_SUITE("integration/deep")
