/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts are exact: what the trace and the report say equals what the target itself wrote down,
 * whatever its threads, signals and children do (tests/targets/ledger.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000

static const char *const total[] = {"allocations", "allocated_bytes", "frees", "freed_bytes",
	"before_frees", "before_freed_bytes", "outstanding_blocks", "outstanding_bytes"};

static void check_equal(const char *what, uint64_t trace, uint64_t ledger)
{
	ck_assert_msg(trace == ledger, "%s: the trace says %lu, the target %lu (%+ld)", what, trace,
		ledger, (long)(trace - ledger));
}

static void check_totals(const json_t *report, const json_t *ledger)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(total); i++) {
		char path[64];
		snprintf(path, sizeof(path), "totals.%s", total[i]);
		check_equal(total[i], report_u64(report, path), report_u64(ledger, total[i]));
	}
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
}

static void check_functions(const struct tracefile *file, const json_t *ledger)
{
	static const char *const name[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) [ABI_HOOK_##id] = #name,
		ABI_HOOKS(X)
#undef X
	};
	json_t *functions = report_at(ledger, "functions");
	for (int hook = 0; hook < ABI_HOOK_COUNT; hook++) {
		json_t *expected = json_object_get(functions, name[hook]);
		if (!expected)
			continue;
		struct tracefile_count count = tracefile_allocations(file, 0, (enum abi_hook)hook);
		check_equal(name[hook], count.calls, report_u64(expected, "calls"));
		check_equal(name[hook], count.bytes, report_u64(expected, "bytes"));
	}
}

static void check_threads(const struct tracefile *file, const json_t *ledger)
{
	size_t index;
	json_t *thread;
	json_array_foreach(report_at(ledger, "threads"), index, thread)
	{
		uint32_t tid = (uint32_t)report_u64(thread, "tid");
		struct tracefile_count sum = {0};
		for (int hook = 0; hook < ABI_HOOK_COUNT; hook++) {
			struct tracefile_count count =
				tracefile_allocations(file, tid, (enum abi_hook)hook);
			sum.calls += count.calls;
			sum.bytes += count.bytes;
		}
		check_equal("calls of a thread", sum.calls, report_u64(thread, "allocations"));
		check_equal("bytes of a thread", sum.bytes, report_u64(thread, "allocated_bytes"));
		check_equal("frees of a thread", tracefile_frees(file, tid),
			report_u64(thread, "frees"));
	}
}

/* `nested`: handlers run in the middle of a hook, from where no table leads down the stack. */
static void check_trace(const char *path, const json_t *ledger, bool by_thread, bool nested)
{
	json_t *report = report_load(path);
	check_totals(report, ledger);
	if (!nested)
		ck_assert_uint_eq(report_u64(report, "capture.truncated_stacks"), 0);
	if (json_array_size(report_at(ledger, "threads")) == 1)
		check_equal("peak_bytes", report_u64(report, "totals.peak_bytes"),
			report_u64(ledger, "peak_bytes"));
	json_decref(report);
	struct tracefile file;
	tracefile_load(path, &file);
	ck_assert(file.complete);
	check_functions(&file, ledger);
	if (by_thread)
		check_threads(&file, ledger);
	check_equal("events", file.event_count, file.counter[REC_COUNTER_EVENTS]);
	tracefile_deinit(&file);
}

static bool has_option(const char *const argv[], const char *value)
{
	for (size_t i = 1; argv[i]; i++)
		if (!strcmp(argv[i], value))
			return true;
	return false;
}

/* One phase before the capture, so that lazy slots are bound and blocks of before exist; then one
 * within; then one after, which the trace must know nothing of. */
static void compare_books(const char *const argv[])
{
	struct victim victim;
	victim_start(&victim, argv);
	free(victim_ask(&victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim.pid, 0);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, strrchr(argv[0], '/'));
	char *books = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);

	json_t *ledger = report_parse(books);
	/* A handler's calls are booked apart from the thread it interrupted. */
	bool nested = has_option(argv, "nested");
	bool by_thread = !nested && !has_option(argv, "storm") && !has_option(argv, "signals");
	check_trace(tap.trace, ledger, by_thread, nested);
	json_decref(ledger);
	free(books);
}

#define LEDGER_TEST(name, program, ...)                                                            \
	START_TEST(name)                                                                           \
	{                                                                                          \
		const char *const argv[] = {                                                       \
			run_built("tests/targets/" program), ##__VA_ARGS__, NULL};                 \
		compare_books(argv);                                                               \
	}                                                                                          \
	END_TEST

LEDGER_TEST(one_thread, "ledger", "-n", "300000")
LEDGER_TEST(eight_threads, "ledger", "-t", "8")
LEDGER_TEST(sixty_four_threads, "ledger", "-t", "64", "-n", "20000")
LEDGER_TEST(short_lived_threads, "ledger", "-t", "16", "-n", "5000", "-m", "storm")
LEDGER_TEST(handlers_between_calls, "ledger", "-t", "4", "-m", "signals")
LEDGER_TEST(handlers_within_calls, "ledger-own", "-t", "4", "-n", "30000", "-m", "nested")
LEDGER_TEST(forked_children, "ledger", "-t", "4", "-m", "forks")
LEDGER_TEST(lazy_binding, "ledger-lazy", "-t", "2")
LEDGER_TEST(fixed_addresses, "ledger-nopie", "-t", "2")
LEDGER_TEST(linked_jemalloc, "ledger-jemalloc", "-l", "-t", "4")
LEDGER_TEST(linked_tcmalloc, "ledger-tcmalloc", "-l", "-t", "4")

START_TEST(preloaded_jemalloc)
{
	setenv("LD_PRELOAD", "libjemalloc.so.2", 1);
	struct victim victim;
	victim_start(&victim,
		(const char *[]){run_built("tests/targets/ledger"), "-l", "-t", "2", NULL});
	unsetenv("LD_PRELOAD");
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/ledger");
	char *books = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	victim_stop(&victim);
	json_t *ledger = report_parse(books);
	check_trace(tap.trace, ledger, true, false);
}
END_TEST

/* Two captures of one process: the second knows nothing of the first. */
START_TEST(twice)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/ledger"), "-t", "4", NULL});
	for (int round = 0; round < 2; round++) {
		struct tap tap;
		tap_start(&tap, victim.pid, NULL);
		tap_wait_on(&tap, "/ledger");
		char *books = victim_ask(&victim, "go", PHASE_MS);
		tap_check_clean(tap_stop(&tap, 0));
		check_trace(tap.trace, report_parse(books), true, false);
	}
	victim_stop(&victim);
}
END_TEST

HT_SUITE("integration/ledger", one_thread, eight_threads, sixty_four_threads, short_lived_threads,
	handlers_between_calls, handlers_within_calls, forked_children, lazy_binding,
	fixed_addresses, linked_jemalloc, linked_tcmalloc, preloaded_jemalloc, twice)
