/* SPDX-License-Identifier: Apache-2.0
 *
 * Under a seccomp filter that it has learned of, the agent makes no system call: the target's
 * filter allows all calls of the program's own code and traps those of any other code, also calls
 * that most filters allow; the program counts the trapped ones (tests/targets/outsider.c). And when
 * the agent has given up, some time after the death of heaptap and its guardian, it records,
 * unwinds and sends nothing.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define ANSWER_MS  60000
#define GIVE_UP_MS 240000 /* the agent gives up after 10 s and two full buffers of one thread */
#define ROUNDS	   30000ull
/* Each round makes two blocks in each of four threads: enough to fill several buffers of each
 * thread. */
#define EVENTS_MIN (4 * 4 * ROUNDS)

static void start(struct victim *victim)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/outsider"), NULL});
}

static void ask(struct victim *victim, const char *command, const char *answer)
{
	HT_FREED char *got = victim_ask(victim, command, ANSWER_MS);
	ck_assert_str_eq(got, answer);
}

/* Has the target work. `how`: how it enters the filter in the middle; "": it enters none. Returns
 * how many calls came from code outside of the program. */
static uint64_t work_counting(struct victim *victim, const char *how)
{
	char command[64];
	snprintf(command, sizeof(command), "work %llu%s%s", ROUNDS, *how ? " " : "", how);
	HT_FREED char *answer = victim_ask(victim, command, ANSWER_MS);
	json_auto_t *books = report_parse(answer);
	uint64_t outside = report_u64(books, "outside");
	ck_assert_uint_gt(report_u64(books, "handled"), 0);
	return outside;
}

static void work(struct victim *victim, const char *how)
{
	ck_assert_uint_eq(work_counting(victim, how), 0);
}

/* In a snapshot a joined thread may still exist, and a new one may have all signals blocked. */
static void begin(
	struct victim *victim, struct tap *tap, unsigned changes, const char *const extra[])
{
	tap_start_changing(
		tap, victim->pid, PROCSNAP_THREADS_CHANGE | PROCSNAP_MASKS_CHANGE | changes, extra);
	tap_wait_on(tap, "/outsider");
}

static void end(struct tap *tap)
{
	json_auto_t *attach = tap_stop(tap, TAP_MAY_DROP);
	tap_check_equal(attach);
	ck_assert_uint_ge(
		report_u64(attach, "events") + report_u64(attach, "dropped_events"), EVENTS_MIN);
}

static const char *const with_mappings[] = {"--mmap", "--symbolize", "later", NULL};
static const char *const sampled[] = {"--sample", "4K", "--symbolize", "later", NULL};

/* The target enters the filter before the capture. */
static void check_from_the_beginning(const char *const extra[], bool all)
{
	struct victim victim;
	struct tap tap;
	start(&victim);
	ask(&victim, "enter trap", "entered");
	begin(&victim, &tap, 0, extra);
	work(&victim, "");
	/* A call from outside is counted: the counter works. */
	ask(&victim, "outside", "outside 1");
	if (all) {
		end(&tap);
	} else {
		json_t *attach = tap_stop(&tap, TAP_MAY_DROP);
		tap_check_equal(attach);
		json_decref(attach);
	}
	work(&victim, "");
	victim_stop(&victim);
}

HT_TEST(filter_of_before)
{
	check_from_the_beginning(with_mappings, true);
}

HT_TEST(filter_of_before_a_sample)
{
	check_from_the_beginning(sampled, false);
}

/* The filter comes during the capture. Threads that are in the agent then must not make a system
 * call afterwards. */
static void check_entered(const char *how)
{
	struct victim victim;
	struct tap tap;
	start(&victim);
	begin(&victim, &tap, PROCSNAP_FILTERED, with_mappings);
	work(&victim, how);
	work(&victim, "");
	end(&tap);
	work(&victim, "");
	victim_stop(&victim);
}

HT_TEST(filter_entered_by_all)
{
	check_entered("trap");
}

HT_TEST(filter_entered_by_each_with_prctl)
{
	check_entered("each");
}

/* Proves that the counter works: with heaptap stopped the agent does not learn of the filter, its
 * buffers fill, and its system calls must be counted. */
HT_TEST(filter_entered_unseen)
{
	struct victim victim;
	struct tap tap;
	start(&victim);
	begin(&victim, &tap, PROCSNAP_FILTERED, NULL);
	kill(tap.run.pid, SIGSTOP);
	uint64_t outside = work_counting(&victim, "unseen");
	ck_assert_uint_gt(outside + work_counting(&victim, ""), 0);
	kill(tap.run.pid, SIGCONT);
	json_decref(tap_stop(&tap, TAP_MAY_DROP));
	victim_stop(&victim);
}

/* --- no reader is left --- */

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	printf("skipped: silent: needs root to look at the agent's memory\n");
	return false;
}

/* Opens the memfd that agent and daemon share. */
static int open_image(pid_t pid)
{
	char line[512], path[128];
	int fd = -1;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	while (fd < 0 && fgets(line, sizeof(line), maps)) {
		unsigned long lo, hi;
		char perms[5];
		if (!strstr(line, "memfd:heaptap-") ||
			sscanf(line, "%lx-%lx %4s", &lo, &hi, perms) != 3 || perms[1] != 'w')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", pid, lo, hi);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	fclose(maps);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static bool has_given_up(int image)
{
	const off_t at = ABI_SHARED_OFF + offsetof(struct abi_control, given_up);
	uint64_t word = 0;
	ck_assert_int_eq(pread(image, &word, sizeof(word), at), sizeof(word));
	return word == ABI_GIVEN_UP;
}

/* Hashes all allocated parts of the image with their offsets: events, stacks, marks, counts. */
static uint64_t hash_image(int image)
{
	static uint64_t words[HT_PAGE_BYTES];
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
	for (off_t at = 0, end; (at = lseek(image, at, SEEK_DATA)) >= 0; at = end) {
		end = lseek(image, at, SEEK_HOLE);
		hash = (hash ^ (uint64_t)at) * 0x100000001b3u;
		for (off_t from = at; from < end;) {
			ssize_t got = pread(image, words, sizeof(words), from);
			ck_assert_int_gt(got, 0);
			for (size_t i = 0; i < (size_t)got / sizeof(words[0]); i++)
				hash = (hash ^ words[i]) * 0x100000001b3u;
			from += got;
		}
	}
	return hash;
}

static void recover(struct tap *tap)
{
	json_decref(report_run("recover", tap->target, 0));
	tap_verify(tap);
}

HT_TEST(killed_with_its_guardian)
{
	struct victim victim;
	struct tap tap;
	if (!is_root())
		return;
	start(&victim);
	work(&victim, "");
	begin(&victim, &tap, 0, with_mappings);
	int image = open_image(victim.pid);
	tap_abandon(&tap);
	run_until((work(&victim, ""), has_given_up(image)), GIVE_UP_MS);
	uint64_t hash = hash_image(image);
	work(&victim, "");
	ck_assert_msg(hash_image(image) == hash, "something is still written down");
	close(image);
	recover(&tap);
	victim_stop(&victim);
}

/* Under a filter the agent cannot make a call to find out whether its reader lives. */
HT_TEST(killed_with_its_guardian_before_a_filter)
{
	struct victim victim;
	struct tap tap;
	if (!is_root())
		return;
	start(&victim);
	begin(&victim, &tap, PROCSNAP_FILTERED, with_mappings);
	int image = open_image(victim.pid);
	tap_abandon(&tap);
	run_until((work(&victim, ""), has_given_up(image)), GIVE_UP_MS);
	close(image);
	work(&victim, "unseen");
	work(&victim, "");
	recover(&tap);
	victim_stop(&victim);
}

HT_SUITE_WAITING(
	"integration/silent", killed_with_its_guardian, killed_with_its_guardian_before_a_filter)
