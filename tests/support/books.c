/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/books.h"

#include <check.h>
#include <stdio.h>

#include "tests/support/report.h"
#include "tests/support/tracefile.h"

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

void books_fold(json_t *ledger, const char *function, const char *into)
{
	static const char *const sums[] = {"calls", "bytes"};
	json_t *functions = report_at(ledger, "functions");
	json_t *source = json_object_get(functions, function),
	       *target = json_object_get(functions, into);
	ck_assert(source && target);
	for (size_t i = 0; i < HT_ARRAY_SIZE(sums); i++) {
		json_int_t sum = json_integer_value(json_object_get(source, sums[i])) +
				 json_integer_value(json_object_get(target, sums[i]));
		json_object_set_new(target, sums[i], json_integer(sum));
		json_object_set_new(source, sums[i], json_integer(0));
	}
}

void books_check_report(const char *path, const json_t *ledger, bool cut)
{
	json_t *report = report_load(path);
	check_totals(report, ledger);
	if (!cut)
		ck_assert_uint_eq(report_u64(report, "capture.truncated_stacks"), 0);
	if (json_array_size(report_at(ledger, "threads")) == 1)
		check_equal("peak_bytes", report_u64(report, "totals.peak_bytes"),
			report_u64(ledger, "peak_bytes"));
	json_decref(report);
}

void books_check(const char *path, const json_t *ledger, bool by_thread, bool cut)
{
	books_check_report(path, ledger, cut);
	struct tracefile file;
	tracefile_load(path, &file);
	ck_assert(file.complete);
	check_functions(&file, ledger);
	if (by_thread)
		check_threads(&file, ledger);
	check_equal("events", file.event_count, file.counter[REC_COUNTER_EVENTS]);
	tracefile_deinit(&file);
}
