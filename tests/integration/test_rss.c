/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests where resident memory grew: for targets that take memory of one kind, the report's figures
 * equal those of the target's status file and of mallinfo2 (tests/targets/resident.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000
#define READINGS 10u /* of a heap that grows */
#define MIB	 1048576
/* The kernel keeps up to 64 pages per processor or thread in local counters before it adds them
 * up. */
#define COUNT_SLACK_BYTES (64 * 4096 * 8)
/* A capture itself adds less than this to any part: its buffers, pages of the stack. */
#define PART_SLACK_BYTES (4 * MIB)

static const char *const part_names[] = {"heap_bytes", "allocator_free_bytes",
	"other_anonymous_bytes", "file_bytes", "shared_bytes"};

struct subject {
	struct victim victim;
	struct tap tap;
};

static void start(struct subject *subject)
{
	victim_start(&subject->victim,
		(const char *[]){run_built("tests/targets/resident"), tmpdir_path("mapped"), NULL});
}

static void order(struct subject *subject, const char *commands)
{
	char *copy = strdup(commands), *rest = copy;
	for (char *command; (command = strsep(&rest, ","));) {
		char *answer = victim_ask(&subject->victim, command, PHASE_MS);
		ck_assert_str_eq(answer, "done");
		free(answer);
	}
	free(copy);
}

static json_t *figures_of(struct subject *subject)
{
	HT_FREED char *answer = victim_ask(&subject->victim, "figures", PHASE_MS);
	json_t *figures = report_parse(answer);
	return figures;
}

static bool has_begun(const char *trace)
{
	json_auto_t *report = report_load_begun(trace);
	bool has = report && json_array_size(report_at(report, "heap.accounts")) &&
		   report_u64(report, "memory.samples");
	return has;
}

static void attach(struct subject *subject, const char *option)
{
	tap_start(&subject->tap, subject->victim.pid, (const char *[]){option, NULL});
	tap_wait_on(&subject->tap, "/resident");
	run_until(has_begun(subject->tap.trace), PHASE_MS);
}

static json_t *detach(struct subject *subject)
{
	tap_check_clean(tap_stop(&subject->tap, 0));
	return report_load(subject->tap.trace);
}

/* The report's warning about RSS; NULL: it has none. */
static const char *rss_warning(const json_t *report)
{
	size_t index;
	json_t *warning;
	json_array_foreach(report_at(report, "warnings"), index, warning)
	{
		if (strstr(json_string_value(warning), "RSS grew"))
			return json_string_value(warning);
	}
	return NULL;
}

static int64_t growth_of(const json_t *report, const char *part)
{
	char path[96];
	snprintf(path, sizeof(path), "rss.growth.%s", part);
	return json_integer_value(report_at(report, path));
}

/* The sum of all parts must equal the growth of RSS, to the byte. */
static void check_sum(const json_t *report)
{
	int64_t sum = -growth_of(report, "swapped_bytes");
	for (size_t i = 0; i < HT_ARRAY_SIZE(part_names); i++)
		sum += growth_of(report, part_names[i]);
	ck_assert_int_eq(sum, json_integer_value(report_at(report, "rss.growth_bytes")));
}

static void check_near(
	const json_t *report, const char *what, int64_t got, int64_t expected, int64_t slack_bytes)
{
	HT_FREED char *text = json_dumps(report_at(report, "rss"), 0);
	ck_assert_msg(llabs(got - expected) <= slack_bytes, "%s is %ld, not %ld: %s", what, got,
		expected, text);
}

static const struct {
	const char *before, *within, *option;
	int mib[HT_ARRAY_SIZE(part_names)]; /* expected growth of each part */
	bool is_warned, changes;
} kinds[] = {
	{"mapping 40", "blocks 60,read,shared 30,sysv 20", NULL, {60, 0, 0, 40, 50}, false, true},
	{"blocks 60", "holes,mapping 40,read", "--mmap", {-54, 54, 0, 40, 0}, false, true},
	{"", "anonymous 60,stack 20", NULL, {0, 0, 80, 0, 0}, true, true},
	{"", "anonymous 60", "--mmap", {0, 0, 60, 0, 0}, false, false},
	/* Blocks that are never written to: they are live, but not resident. */
	{"", "untouched 60", NULL, {60, 0, -60, 0, 0}, false, false},
};

static void check_kind(size_t index)
{
	struct subject subject;
	start(&subject);
	if (kinds[index].before[0])
		order(&subject, kinds[index].before);
	attach(&subject, kinds[index].option);
	order(&subject, kinds[index].within);
	if (kinds[index].changes)
		tap_drop(&subject.tap, "it has mapped files, or started a thread");
	json_t *figures = figures_of(&subject);
	json_t *report = detach(&subject);
	check_sum(report);
	for (size_t i = 0; i < HT_ARRAY_SIZE(part_names); i++)
		check_near(report, part_names[i], growth_of(report, part_names[i]),
			(int64_t)kinds[index].mib[i] * MIB, PART_SLACK_BYTES);
	static const char *const same[] = {"rss", "anonymous", "file"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(same); i++) {
		char path[64];
		snprintf(path, sizeof(path), "memory.end.%s_bytes", same[i]);
		check_near(report, path, (int64_t)report_u64(report, path),
			(int64_t)report_u64(figures, same[i]), COUNT_SLACK_BYTES);
	}
	const char *warning = rss_warning(report);
	ck_assert_msg(!warning == !kinds[index].is_warned, "%s: %s", kinds[index].within,
		warning ? warning : "no warning");
	if (warning)
		ck_assert_ptr_nonnull(strstr(warning, "--mmap"));
	victim_stop(&subject.victim);
}

HT_TEST(reports_each_kind_of_growth)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(kinds); i++)
		check_kind(i);
}

/* Free bytes equal mallinfo2's, which counts cached blocks as used. The second round gives the free
 * pages back to the kernel. */
HT_TEST(reports_free_chunks_to_the_byte)
{
	for (int trims = 0; trims < 2; trims++) {
		struct subject subject;
		start(&subject);
		order(&subject, "blocks 60");
		attach(&subject, NULL);
		order(&subject, trims ? "holes,trim" : "holes");
		json_t *figures = figures_of(&subject);
		json_t *report = detach(&subject), *end = report_at(report, "memory.end");
		uint64_t free_bytes =
			report_u64(end, "glibc_top_bytes") + report_u64(end, "glibc_bins_bytes");
		uint64_t resident_bytes = report_u64(end, "glibc_free_resident_bytes");
		ck_assert_uint_eq(free_bytes, report_u64(figures, "free"));
		ck_assert_uint_ge(free_bytes, 54 * MIB - BUFSIZ);
		check_sum(report);
		/* Blocks between the holes are 30 kB apart: most pages lie in holes. */
		if (trims)
			ck_assert_uint_lt(resident_bytes, free_bytes / 2);
		else
			ck_assert_uint_gt(resident_bytes, free_bytes - free_bytes / 20);
		check_near(report, "other", growth_of(report, "other_anonymous_bytes"), 0,
			PART_SLACK_BYTES);
		ck_assert_ptr_null(rss_warning(report));
		victim_stop(&subject.victim);
	}
}

HT_TEST(a_heap_that_was_never_used_is_zero)
{
	struct subject subject;
	start(&subject);
	attach(&subject, NULL);
	order(&subject, "blocks 5");
	json_t *heap = report_at(detach(&subject), "heap");
	ck_assert(json_is_true(report_at(heap, "known")));
	ck_assert_uint_eq(report_u64(heap, "start_bytes") + report_u64(heap, "off_bytes"), 0);
	ck_assert_uint_ge(report_u64(heap, "end_bytes"), 5 * MIB - BUFSIZ);
	ck_assert_uint_ge(report_u64(heap, "peak_bytes"), report_u64(heap, "end_bytes"));
	victim_stop(&subject.victim);
}

static bool has_rss(const char *trace, uint64_t at_least_bytes)
{
	json_auto_t *report = report_load_begun(trace);
	bool has = report && report_u64(report, "rss.last_bytes") >= at_least_bytes;
	return has;
}

/* After an exit there is no memory to read, and after an exec it is that of another program. The
 * report's last figure must be from before. */
HT_TEST(an_end_and_an_exec_give_no_figure)
{
	static const char *const ends[] = {"exit", "exec"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(ends); i++) {
		struct subject subject;
		start(&subject);
		attach(&subject, NULL);
		order(&subject, "anonymous 100");
		run_until(has_rss(subject.tap.trace, 100 * MIB), PHASE_MS);
		tap_drop(&subject.tap, "it is gone, or another program");
		victim_send(&subject.victim, ends[i]);
		json_decref(tap_wait(&subject.tap, 5));
		json_t *report = report_load(subject.tap.trace);
		ck_assert_uint_ge(report_u64(report, "rss.last_bytes"), 100 * MIB);
		ck_assert_uint_ge(report_u64(report, "memory.end.anonymous_bytes"), 100 * MIB);
		ck_assert_ptr_nonnull(rss_warning(report));
		if (i)
			victim_kill(&subject.victim);
		else
			ck_assert_int_eq(victim_wait(&subject.victim, PHASE_MS), 0);
	}
}

/* Each thread's arena grows all the time, into memory that was reserved when heaptap read the
 * mappings: such a heap is known at each reading. */
HT_TEST(a_heap_that_grows_is_known)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/holder"), NULL});
	free(victim_ask(&victim, "leak", PHASE_MS));
	for (unsigned i = 0; i < READINGS; i++) {
		struct tap tap;
		tap_start(&tap, victim.pid, (const char *[]){"-d", "200ms", NULL});
		tap_check_equal(tap_wait(&tap, TAP_MAY_DROP));
		json_auto_t *report = report_load(tap.trace);
		HT_FREED char *text = json_dumps(report_at(report, "heap"), 0);
		ck_assert_msg(json_is_true(report_at(report, "heap.known")), "%u: %s", i, text);
	}
	victim_kill(&victim);
}

HT_SUITE("integration/rss")
