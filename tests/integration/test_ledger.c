/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts are exact: what the trace and the report say equals what the target itself wrote down,
 * whatever its threads, signals and children do (tests/targets/ledger.c).
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/books.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000

static bool has_option(const char *const argv[], const char *value)
{
	for (size_t i = 1; argv[i]; i++)
		if (!strcmp(argv[i], value))
			return true;
	return false;
}

/* Runs one phase before the capture, so that lazy slots are bound and older blocks exist, one phase
 * in the capture, and one after it, which must not be in the trace. */
static void compare_books(const char *const argv[])
{
	struct victim victim;
	victim_start(&victim, argv);
	free(victim_ask(&victim, "go", PHASE_MS));
	bool nested = has_option(argv, "nested"), timed = nested || has_option(argv, "signals");
	/* A timer's signal may be pending in one snapshot only. */
	struct procsnap *before = procsnap_take(victim.pid, timed ? PROCSNAP_MASKS_CHANGE : 0);
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, strrchr(argv[0], '/'));
	HT_FREED char *books = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);

	json_auto_t *ledger = report_parse(books);
	/* The ledger counts a handler's calls apart from those of the thread that the handler
	 * interrupts. */
	bool by_thread = !nested && !has_option(argv, "storm") && !has_option(argv, "signals");
	books_check(tap.trace, ledger, by_thread, nested);
}

#define LEDGER_TEST(name, program, ...)                                                            \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		const char *const argv[] = {                                                       \
			run_built("tests/targets/" program), ##__VA_ARGS__, NULL};                 \
		compare_books(argv);                                                               \
	}

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
LEDGER_TEST(what_jemalloc_alone_has, "extended")
LEDGER_TEST(linked_tcmalloc, "ledger-tcmalloc", "-l", "-t", "4")
LEDGER_TEST(tcmalloc_by_its_names, "ledger-tcnames", "-l", "-t", "4")

/* The capture has the program's first calls: if its slots are lazy, none is bound. */
static void compare_preloaded(const char *library, const char *program, const char *const options[])
{
	const char *argv[16] = {run_built(program)};
	size_t count = 1;
	for (; *options; options++)
		argv[count++] = *options;
	setenv("LD_PRELOAD", library, 1);
	struct victim victim;
	victim_start(&victim, argv);
	unsetenv("LD_PRELOAD");
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, strrchr(program, '/'));
	HT_FREED char *books = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	victim_stop(&victim);
	json_auto_t *ledger = report_parse(books);
	books_check(tap.trace, ledger, !has_option(argv, "signals"), false);
}

#define PRELOAD_TEST(name, library, program, ...)                                                  \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		compare_preloaded(library, "tests/targets/" program,                               \
			(const char *const[]){__VA_ARGS__, NULL});                                 \
	}

#define WRAPPING	  run_built("tests/targets/libwrapping.so")
#define WRAPPING_VERSIONS run_built("tests/targets/libwrapping-versions.so")

PRELOAD_TEST(preloaded_jemalloc, "libjemalloc.so.2", "ledger", "-l", "-t", "2")
PRELOAD_TEST(functions_that_call_each_other, WRAPPING, "ledger", "-l", "-t", "2")
PRELOAD_TEST(handlers_between_calls_that_nest, WRAPPING, "ledger", "-l", "-t", "2", "-m", "signals")
PRELOAD_TEST(
	lazy_behind_a_preloaded_library, "libc_malloc_debug.so.0", "ledger-lazy", "-l", "-t", "2")
PRELOAD_TEST(lazy_behind_one_with_versions, WRAPPING_VERSIONS, "ledger-lazy", "-l", "-t", "2")

HT_TEST(sized_frees)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/sized"), NULL});
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, "/sized");
	json_auto_t *books = report_parse(victim_ask(&victim, "go", PHASE_MS));
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	json_auto_t *report = report_load(tap.trace);
	ck_assert_uint_eq(report_u64(report, "totals.allocations"), 2001);
	ck_assert_uint_eq(report_u64(report, "totals.frees"), 2000);
	ck_assert_uint_eq(report_u64(report, "totals.outstanding_blocks"), 1);
	ck_assert_uint_eq(
		report_u64(report, "totals.outstanding_bytes"), report_u64(books, "left"));
}

/* Makes two captures of one process: the second trace must have nothing of the first. */
HT_TEST(twice)
{
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built("tests/targets/ledger"), "-t", "4", NULL});
	for (int round = 0; round < 2; round++) {
		struct tap tap;
		tap_start(&tap, victim.pid, NULL);
		tap_wait_on(&tap, "/ledger");
		char *books = victim_ask(&victim, "go", PHASE_MS);
		tap_check_clean(tap_stop(&tap, 0));
		books_check(tap.trace, report_parse(books), true, false);
	}
	victim_stop(&victim);
}

HT_SUITE("integration/ledger")
