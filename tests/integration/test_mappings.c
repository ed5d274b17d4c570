/* SPDX-License-Identifier: Apache-2.0
 *
 * attach --mmap: what the report says of mappings is, byte by byte, what the target itself wrote
 * down (tests/targets/mapper.c), and heap growth outside of allocator calls has stacks.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/support/books.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"

#define PHASE_MS 60000

static const char *const with_mmap[] = {"--mmap", NULL};

static void check_same(const json_t *report, const char *path, const json_t *books, const char *own)
{
	uint64_t trace = report_u64(report, path), target = report_u64(books, own);
	ck_assert_msg(
		trace == target, "%s: the trace says %lu, the target %lu", path, trace, target);
}

/* Bytes of `kind` on stacks that contain `function`. */
static uint64_t bytes_through(const json_t *report, const char *function, const char *kind)
{
	uint64_t bytes = 0;
	size_t index, frame_index;
	json_t *stack, *frame;
	json_array_foreach(report_at(report, "mappings.stacks"), index, stack)
		json_array_foreach(report_at(stack, "frames"), frame_index, frame)
	{
		const char *name = json_string_value(json_object_get(frame, "function"));
		if (name && !strcmp(name, function))
			bytes += report_u64(stack, kind);
	}
	return bytes;
}

static void check_owners(const json_t *report, const json_t *books)
{
	static const char *const kind[] = {"anonymous_bytes", "file_bytes", "reserved_bytes"};
	const char *owner;
	json_t *left;
	json_object_foreach(report_at(books, "owners"), owner,
		left) for (size_t i = 0; i < HT_ARRAY_SIZE(kind); i++)
	{
		uint64_t trace = bytes_through(report, owner, kind[i]);
		ck_assert_msg(trace == report_u64(left, kind[i]),
			"%s of %s: the trace says %lu, the target %lu", kind[i], owner, trace,
			report_u64(left, kind[i]));
	}
}

static void check_books(const json_t *report, const json_t *books, bool alone)
{
	static const char *const sum[] = {
		"maps", "unmaps", "remaps", "protects", "advices", "made_bytes", "advised_bytes"};
	static const char *const left[] = {"anonymous_bytes", "file_bytes", "reserved_bytes"};
	char path[64], own[64];
	for (size_t i = 0; i < HT_ARRAY_SIZE(sum); i++) {
		snprintf(path, sizeof(path), "mappings.%s", sum[i]);
		check_same(report, path, books, sum[i]);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(left); i++) {
		snprintf(path, sizeof(path), "mappings.%s", left[i]);
		snprintf(own, sizeof(own), "left.%s", left[i]);
		check_same(report, path, books, own);
	}
	if (alone)
		check_same(report, "mappings.peak_bytes", books, "peak_bytes");
	check_owners(report, books);
	ck_assert_uint_eq(json_array_size(report_at(report, "warnings")), 0);
}

/* Makes a capture while the target is idle; it must leave nothing. In a phase the target changes
 * its own mappings. */
static void check_detach(struct victim *victim)
{
	struct procsnap *before = procsnap_take(victim->pid, 0);
	struct tap tap;
	tap_start(&tap, victim->pid, with_mmap);
	tap_wait_any(&tap);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_ge(report_u64(attach, "slots_restored"), 5);
	json_decref(attach);
	procsnap_verify(before, victim->pid);
}

/* Runs one phase of the target before the capture, one in it, and one after it. */
static void compare_books(const char *threads, const char *operations)
{
	const char *const argv[] = {
		run_built("tests/targets/mapper"), "-t", threads, "-n", operations, NULL};
	struct victim victim;
	victim_start(&victim, argv);
	free(victim_ask(&victim, "go", PHASE_MS));
	check_detach(&victim);
	struct tap tap;
	tap_start_changing(&tap, victim.pid, PROCSNAP_FILE_CHANGES, with_mmap);
	tap_wait_any(&tap);
	HT_FREED char *text = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);

	json_t *books = report_parse(text), *report = report_load(tap.trace);
	check_books(report, books, !strcmp(threads, "1"));
	check_same(report, "mappings.before_bytes", books, "before_bytes");
	json_decref(report);
	json_decref(books);
}

/* All mapping calls of a command are recorded. --sample applies only to allocator calls. Mappings
 * that the dynamic linker made before the first hook count as made before the window. */
HT_TEST(a_command_from_its_start)
{
	static const char *const sample[] = {"0", "64K"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(sample); i++) {
		char *trace = tmpdir_path("run.htap"), *text;
		const char *const argv[] = {run_built("heaptap"), "run", "--mmap", "--sample",
			sample[i], "-q", "-f", "-o", trace, "--", run_built("tests/targets/mapper"),
			"-t", "4", "-o", NULL};
		ck_assert_int_eq(run_program(argv, PHASE_MS, &text, NULL), 0);
		json_t *books = report_parse(text), *report = report_load(trace);
		check_books(report, books, false);
		json_decref(report);
		json_decref(books);
		free(text);
		free(trace);
	}
}

HT_TEST(one_thread)
{
	compare_books("1", "20000");
}

HT_TEST(eight_threads)
{
	compare_books("8", "3000");
}

/* CPU time of the process, in ticks of 10 ms. */
static unsigned long ticks_of(pid_t pid)
{
	unsigned long user = 0, system = 0;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "re");
	ck_assert_ptr_nonnull(stat);
	ck_assert_int_eq(fscanf(stat,
				 "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				 "%lu %lu",
				 &user, &system),
		2);
	fclose(stat);
	return user + system;
}

static void tap_at_work(struct tap *tap, const struct victim *victim, unsigned long ticks)
{
	tap_start_changing(tap, victim->pid, PROCSNAP_FILE_CHANGES, with_mmap);
	tap_wait_any(tap);
	unsigned long until = ticks_of(victim->pid) + ticks;
	run_until(ticks_of(victim->pid) >= until, PHASE_MS);
}

/* Detaches while the threads are in mapping hooks most of the time. The phase must outlast the last
 * capture, or the test tests nothing. The target checks each result. */
HT_TEST(detached_in_their_midst)
{
	const char *const argv[] = {
		run_built("tests/targets/mapper"), "-t", "2", "-n", "400000000", NULL};
	struct victim victim;
	victim_start(&victim, argv);
	victim_send(&victim, "go");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (unsigned i = 0; i < 2; i++) {
		struct tap tap;
		tap_at_work(&tap, &victim, 3);
		json_t *attach = tap_stop(&tap, 0);
		tap_check_equal(attach);
		ck_assert_uint_gt(report_u64(attach, "mappings"), 0);
		json_decref(attach);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct tap tap;
		tap_at_work(&tap, &victim, i + 1);
		run_deinit(&tap.run);
		run_until(tap_guardian_is_done(victim.pid), PHASE_MS);
		tap_verify(&tap);
		json_decref(report_run("verify", victim.pid, 0));
	}
	ck_assert_int_eq(kill(victim.pid, 0), 0);
	victim_kill(&victim);
}

/* Accessible anonymous bytes, and the part on stacks with a function whose name begins with
 * `prefix`. */
static void growth_of(
	const json_t *report, const char *prefix, uint64_t *ret_bytes, uint64_t *ret_named)
{
	size_t index, frame_index;
	json_t *stack, *frame;
	*ret_bytes = report_u64(report, "mappings.anonymous_bytes");
	*ret_named = 0;
	json_array_foreach(report_at(report, "mappings.stacks"), index, stack)
	{
		bool is_named = false;
		json_array_foreach(report_at(stack, "frames"), frame_index, frame)
		{
			const char *name = json_string_value(json_object_get(frame, "function"));
			is_named |= name && !strncmp(name, prefix, strlen(prefix));
		}
		*ret_named += is_named ? report_u64(stack, "anonymous_bytes") : 0;
	}
}

/* V8 reserves memory with mmap and makes it accessible with mprotect: allocator calls or mmap alone
 * do not show the growth. */
HT_TEST(growth_of_a_javascript_heap)
{
	uint64_t bytes, named;
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){"/usr/bin/node", "tests/targets/growing.js", NULL});
	free(victim_ask(&victim, "grow", PHASE_MS));
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_NODE);
	tap_start(&tap, victim.pid, with_mmap);
	tap_wait_any(&tap);
	free(victim_ask(&victim, "grow", PHASE_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	victim_prove_alive(&victim);
	victim_stop(&victim);

	json_auto_t *report = report_load(tap.trace);
	growth_of(report, "v8::internal::", &bytes, &named);
	ck_assert_uint_gt(bytes, 20 << 20);
	ck_assert_msg(named > bytes - bytes / 10, "%lu of %lu bytes on stacks of V8", named, bytes);
	ck_assert_uint_gt(report_u64(report, "mappings.protects"), 0);
}

/* The preloaded allocator calls mmap within the program's allocator calls, so hooks run within
 * hooks. Its blocks are counted as usual. */
HT_TEST(an_allocator_that_is_a_library)
{
	setenv("LD_PRELOAD", "libjemalloc.so.2", 1);
	struct victim victim;
	victim_start(&victim,
		(const char *[]){run_built("tests/targets/ledger"), "-l", "-t", "4", NULL});
	unsetenv("LD_PRELOAD");
	struct tap tap;
	tap_start(&tap, victim.pid, with_mmap);
	tap_wait_on(&tap, "/ledger");
	HT_FREED char *text = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	victim_stop(&victim);

	json_t *books = report_parse(text), *report = report_load(tap.trace);
	books_check(tap.trace, books, true, false);
	ck_assert_uint_gt(report_u64(report, "mappings.maps"), 0);
	ck_assert_uint_eq(report_u64(report, "capture.nested_events"), 0);
	json_decref(report);
	json_decref(books);
}

HT_TEST(nothing_unless_asked_for)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built("tests/targets/mapper"), NULL});
	tap_start_changing(&tap, victim.pid, PROCSNAP_FILE_CHANGES, NULL);
	tap_wait_any(&tap);
	free(victim_ask(&victim, "go", PHASE_MS));
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "mappings"), 0);
	json_decref(attach);
	victim_stop(&victim);
	json_auto_t *report = report_load(tap.trace);
	ck_assert(json_is_null(report_at(report, "mappings")));
}

HT_SUITE("integration/mappings")
