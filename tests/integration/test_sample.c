/* SPDX-License-Identifier: Apache-2.0
 *
 * attach --sample: estimates from a sample equal what the target itself wrote down
 * (tests/targets/ledger.c), within the error of that number of samples; each recorded free is of a
 * sampled block; and the target is unchanged.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000
#define RATE	 256u
#define SIGMAS	 5 /* an estimate is off by more in one of two million cases */
/*
 * Variance that each call adds to the estimated number of calls: (1 - p) / p, averaged over the
 * ledger's sizes s, one in 16 of which is 0. Variance of the bytes: s * s * (1 - p) / p, less than
 * s * RATE.
 */
#define CALL_VARIANCE 26.0

struct estimate {
	double calls, bytes;
	uint64_t samples;
};

static void estimate_add(struct estimate *estimate, uint64_t size)
{
	double p = -expm1(-((double)size + 1) / RATE);
	estimate->samples++;
	estimate->calls += 1 / p;
	estimate->bytes += (double)size / p;
}

static void check_near(const char *what, double found, double variance, uint64_t want)
{
	double off = fabs(found - (double)want);
	double bound = SIGMAS * sqrt(variance);
	ck_assert_msg(off <= bound,
		"%s: estimated %.0f, the target says %lu: off by %.0f, more than "
		"%.0f",
		what, found, want, off, bound);
}

static void check_bytes(const char *what, const struct estimate *estimate, uint64_t want)
{
	check_near(what, estimate->bytes, RATE * (double)want, want);
}

static bool allocates(const struct event *event)
{
	return event->kind == ABI_EVENT_ALLOC || event->kind == ABI_EVENT_REALLOC_END;
}

/* Compares estimates from the trace's events with the ledger, for each function and for all.
 * Returns the estimate for all. */
static struct estimate check_trace(const struct tracefile *file, const json_t *ledger)
{
	static const char *const name[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) [ABI_HOOK_##id] = #name,
		ABI_HOOKS(X)
#undef X
	};
	struct estimate all = {0}, of_hook[ABI_HOOK_COUNT] = {0};
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		if (!allocates(event))
			continue;
		estimate_add(&all, event->size);
		estimate_add(&of_hook[event->hook % ABI_HOOK_COUNT], event->size);
	}
	uint64_t calls = report_u64(ledger, "allocations");
	check_near("calls", all.calls, CALL_VARIANCE * (double)calls, calls);
	check_bytes("bytes", &all, report_u64(ledger, "allocated_bytes"));
	json_t *functions = report_at(ledger, "functions");
	for (int hook = 0; hook < ABI_HOOK_COUNT; hook++) {
		json_t *books = json_object_get(functions, name[hook]);
		if (books)
			check_bytes(name[hook], &of_hook[hook], report_u64(books, "bytes"));
	}
	return all;
}

/* An event that makes a sampled block live at an address, or ends it. */
struct change {
	uint64_t addr, tsc, size;
	size_t index; /* of the event in the file */
	int by;	      /* 1: block sampled; -1: block freed; 0: a failed realloc, the block stays */
};

static int by_addr_and_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	if (x->addr != y->addr)
		return x->addr > y->addr ? 1 : -1;
	if (x->tsc != y->tsc)
		return x->tsc > y->tsc ? 1 : -1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Returns the thread's last REALLOC_BEGIN before event `index`; fails without one. */
static struct change *begin_before(
	const struct tracefile *file, struct change *change, size_t count, size_t index)
{
	while (count-- > 0) {
		const struct event *event = &file->event[change[count].index];
		if (event->tid == file->event[index].tid && event->kind == ABI_EVENT_REALLOC_BEGIN)
			return &change[count];
	}
	ck_abort_msg("no realloc has begun that could have failed");
}

static size_t collect(const struct tracefile *file, struct change *ret)
{
	size_t count = 0;
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		if (event->kind == ABI_EVENT_REALLOC_FAIL)
			begin_before(file, ret, count, i)->by = 0;
		if (event->kind == ABI_EVENT_REALLOC_FAIL || event->kind == ABI_EVENT_REALLOC_FREED)
			continue;
		ret[count++] = (struct change){
			event->addr, event->tsc, event->size, i, allocates(event) ? 1 : -1};
	}
	qsort(ret, count, sizeof(*ret), by_addr_and_time);
	return count;
}

/* For each address there must be as many frees as sampled blocks, or one fewer: then the last block
 * is outstanding. */
static void check_frees(const struct tracefile *file, const json_t *ledger)
{
	struct change *change = calloc(file->event_count + 1, sizeof(*change));
	size_t count = collect(file, change);
	struct estimate live = {0};
	uint64_t size = 0;
	int balance = 0;
	for (size_t i = 0; i < count; i++) {
		balance += change[i].by;
		if (change[i].by > 0)
			size = change[i].size;
		if (i + 1 < count && change[i + 1].addr == change[i].addr)
			continue;
		ck_assert_msg(balance == 0 || balance == 1, "%lx: %d", change[i].addr, balance);
		if (balance)
			estimate_add(&live, size);
		balance = 0;
	}
	check_bytes("outstanding", &live, report_u64(ledger, "outstanding_bytes"));
	free(change);
}

/* The report must equal the trace, except for the rounding of each sample, and say that its figures
 * are estimates. */
static void check_report(const char *path, const struct estimate *all)
{
	json_auto_t *report = report_load(path);
	ck_assert_uint_eq(report_u64(report, "capture.sample_bytes"), RATE);
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
	ck_assert_uint_eq(report_u64(report, "totals.samples"), all->samples);
	double variance = (double)all->samples / 4;
	check_near("allocations of the report", all->calls, variance,
		report_u64(report, "totals.allocations"));
	check_near("bytes of the report", all->bytes, variance,
		report_u64(report, "totals.allocated_bytes"));
	ck_assert_uint_eq(report_u64(report, "totals.before_frees"), 0);
	ck_assert(json_is_null(report_at(report, "totals.temporary")));
}

/* `way`: the value of --hook; NULL: without, for a program with slots. */
static void compare_books(bool nested, const char *way, const char *const argv[])
{
	struct victim victim;
	struct tap tap;
	struct tracefile file;
	victim_start(&victim, argv);
	free(victim_ask(&victim, "go", PHASE_MS));
	/* A timer's signal may be pending in one snapshot only. */
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, victim.pid,
		(const char *[]){"--sample", "256", way ? "--hook" : NULL, way, NULL});
	if (way)
		tap_wait_any(&tap);
	else
		tap_wait_on(&tap, strrchr(argv[0], '/'));
	HT_FREED char *books = victim_ask(&victim, "go", PHASE_MS);
	json_t *attach = tap_stop(&tap, 0), *ledger = report_parse(books);
	tap_check_clean(attach);
	ck_assert_uint_eq(report_u64(attach, "sample_bytes"), RATE);
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", PHASE_MS));
	victim_stop(&victim);
	tracefile_load(tap.trace, &file);
	struct estimate all = check_trace(&file, ledger);
	/* With nested handlers a REALLOC_FAIL event may be the handler's or the interrupted
	 * call's. */
	if (!nested)
		check_frees(&file, ledger);
	check_report(tap.trace, &all);
	tracefile_deinit(&file);
	json_decref(attach);
	json_decref(ledger);
}

#define SAMPLE_TEST(name, nested, program, ...)                                                    \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		compare_books(nested, NULL,                                                        \
			(const char *[]){                                                          \
				run_built("tests/targets/" program), ##__VA_ARGS__, NULL});        \
	}

SAMPLE_TEST(one_thread, false, "ledger", "-n", "300000")
SAMPLE_TEST(eight_threads, false, "ledger", "-t", "8")
SAMPLE_TEST(short_lived_threads, false, "ledger", "-t", "16", "-n", "5000", "-m", "storm")
SAMPLE_TEST(handlers_between_calls, false, "ledger", "-t", "4", "-m", "signals")
SAMPLE_TEST(handlers_within_calls, true, "ledger-own", "-t", "4", "-n", "30000", "-m", "nested")
SAMPLE_TEST(forked_children, false, "ledger", "-t", "4", "-m", "forks")
SAMPLE_TEST(linked_jemalloc, false, "ledger-jemalloc", "-l", "-t", "4")
SAMPLE_TEST(linked_tcmalloc, false, "ledger-tcmalloc", "-l", "-t", "4")

/* The operators are linked in and get entry hooks. */
HT_TEST(operators_linked_in)
{
	compare_books(false, "auto",
		(const char *[]){run_built("tests/targets/operators-jemalloc-direct"), "-n", NULL});
}

/* Rate 0 records every allocation, and no figure is an estimate. */
HT_TEST(a_rate_of_zero_records_all)
{
	struct victim victim;
	struct tap tap;
	victim_start(
		&victim, (const char *[]){run_built("tests/targets/ledger"), "-n", "1000", NULL});
	tap_start(&tap, victim.pid, (const char *[]){"--sample", "0", NULL});
	tap_wait_on(&tap, "/ledger");
	char *books = victim_ask(&victim, "go", PHASE_MS);
	tap_check_clean(tap_stop(&tap, 0));
	json_t *report = report_load(tap.trace), *ledger = report_parse(books);
	ck_assert_uint_eq(report_u64(report, "capture.sample_bytes"), 0);
	ck_assert_uint_eq(
		report_u64(report, "totals.allocations"), report_u64(ledger, "allocations"));
	victim_stop(&victim);
}

HT_TEST(wrong_rates_are_refused)
{
	static const char *const wrong[] = {"", "-1", "many", "1KB", "2T", "1.5X"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		char *said, *complaint;
		ck_assert_int_eq(run_program((const char *[]){run_built("heaptap"), "attach", "-p",
						     "1", "--sample", wrong[i], NULL},
					 PHASE_MS, &said, &complaint),
			2);
		ck_assert_ptr_nonnull(strstr(complaint, "not a size"));
		free(said);
		free(complaint);
	}
}

HT_SUITE("integration/sample")
