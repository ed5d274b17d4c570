/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/prove.h"

#include "attach/helper/priority.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/kin.h"
#include "attach/process/proc_open.h"

#define PASS_PAUSE_NS	  (500000ull)
#define PASS_PAUSE_MAX_NS (20 * CLOCK_NS_PER_MS)
#define ROUNDS		  4u
#define PATIENCE_NS	  (200 * CLOCK_NS_PER_MS)
#define ROUND_PAUSE_NS	  (5 * CLOCK_NS_PER_MS)

static struct ht_err *pass_over(const struct prove *prove, const struct quiesce_options *options,
	struct quiesce_report *report)
{
	struct quiesce *quiesce;
	struct ht_err *err;
	HT_TRY(quiesce_create(options, &quiesce));
	uint64_t pause_ns = PASS_PAUSE_NS;
	int before = priority_raise();
	for (;;) {
		if (prove->pump)
			prove->pump(prove->context);
		err = proc_check_same(options->proc);
		HT_THEN(err, quiesce_pass(quiesce, report));
		if (err || report->left == 0 || clock_mono_ns() > prove->deadline_mono_ns)
			break;
		clock_sleep_ns(pause_ns);
		pause_ns = pause_ns * 2 > PASS_PAUSE_MAX_NS ? PASS_PAUSE_MAX_NS : pause_ns * 2;
	}
	priority_restore(before);
	quiesce_destroy(quiesce);
	return err;
}

static void add_report(struct quiesce_report *to, const struct quiesce_report *from)
{
	to->threads += from->threads;
	to->stopped += from->stopped;
	to->asleep += from->asleep;
	to->awake += from->awake;
	to->inside += from->inside;
	to->rewritten += from->rewritten;
	to->entries_left += from->entries_left;
	if (from->stop_max_ns > to->stop_max_ns)
		to->stop_max_ns = from->stop_max_ns;
	if (from->left) {
		to->left += from->left;
		to->tid = from->tid;
		to->why = from->why;
	}
}

static struct ht_err *pass_over_sharer(const struct prove *prove,
	const struct quiesce_options *options, pid_t pid, struct quiesce_report *report)
{
	struct quiesce_options theirs = *options;
	struct quiesce_report found = {0};
	struct proc sharer;
	struct ht_err *err = proc_open(pid, &sharer);

	theirs.proc = &sharer;
	HT_THEN(err, proc_open_mem(&sharer));
	/* `pid` may have been reused before proc_open pinned it: ask again. */
	bool shares = true;
	HT_THEN(err, kin_shares(options->proc, pid, &shares));
	if (!err && shares)
		err = pass_over(prove, &theirs, &found);
	proc_close(&sharer);
	/* A process that ended or runs another program is outside, whatever was seen before. */
	struct ht_err *looked = err ? kin_shares(options->proc, pid, &shares) : NULL;
	if (err && !looked && !shares) {
		ht_err_free(err);
		err = NULL;
		found.left = 0;
	}
	ht_err_free(looked);
	add_report(report, &found);
	return err;
}

/* Processes that share the memory are in no task list. A process that is created from here on comes
 * from a thread that was seen outside, so it begins outside. */
static struct ht_err *pass_until_outside(
	const struct prove *prove, bool rewrite, struct quiesce_report *report)
{
	struct quiesce_options options = prove->threads;
	HT_CLEANUP(proc_tids_deinit) struct proc_tids sharers = {0};

	options.rewrite = rewrite;
	options.deadline_mono_ns = prove->deadline_mono_ns;
	struct ht_err *err = pass_over(prove, &options, report);
	if (err || report->left)
		return err;
	HT_TRY(kin_sharing(options.proc, &sharers));
	for (size_t i = 0; i < sharers.count; i++)
		HT_TRY(pass_over_sharer(prove, &options, sharers.tid[i], report));
	return NULL;
}

struct ht_err *prove_outside(const struct prove *prove, struct prove_report *ret)
{
	struct prove_report report = {0};
	struct ht_err *err = pass_until_outside(prove, false, &report.threads);
	report.outside = report.threads.left == 0;
	report.pointers = report.threads.entries_left;
	if (!err)
		*ret = report;
	return err;
}

static struct ht_err *search(const struct prove *prove, struct prove_report *report)
{
	const struct escape_search search = {.proc = prove->threads.proc,
		.ranges = &prove->threads.ranges,
		.own_lo = prove->own_lo,
		.own_hi = prove->own_hi,
		.is_cancelled = prove->is_cancelled,
		.context = prove->context};
	struct escape_found found;
	struct ht_err *err = escape_scan_memory(&search, &found);
	if (!err && found.count)
		report->found = found;
	if (!err && found.count > report->pointers) {
		report->pointers = found.count;
		report->pointer_at = found.addr;
	}
	if (!err)
		report->unread_bytes = found.unread_bytes;
	return err;
}

struct ht_err *prove_unkept(const struct prove *prove, struct prove_report *ret)
{
	struct ht_err *err = prove_outside(prove, ret);
	return err || !ret->outside ? err : search(prove, ret);
}

static struct ht_err *try_once(const struct prove *prove, struct prove_report *report)
{
	uint64_t stop_max_ns = report->threads.stop_max_ns;

	*report = (struct prove_report){0};
	struct ht_err *err = search(prove, report);
	HT_THEN(err, pass_until_outside(prove, true, &report->threads));
	HT_THEN(err, search(prove, report));
	report->outside = report->threads.left == 0;
	report->pointers += report->threads.entries_left;
	if (stop_max_ns > report->threads.stop_max_ns)
		report->threads.stop_max_ns = stop_max_ns;
	return err;
}

/* A search sees pointers on stacks before they are rewritten: only another round, however long the
 * last one took, shows that they are gone. No round begins that would end after the deadline. */
static bool is_worth_another(const struct prove *prove, const struct prove_report *report,
	uint64_t since_ns, uint64_t patience_ns)
{
	uint64_t now_ns = clock_mono_ns();
	bool may_help = report->threads.rewritten > 0 || now_ns < patience_ns;
	return report->outside && report->pointers && may_help &&
	       now_ns + (now_ns - since_ns) < prove->deadline_mono_ns;
}

struct ht_err *prove_forgotten(const struct prove *prove, struct prove_report *ret)
{
	uint64_t since_ns = clock_mono_ns(), patience_ns = since_ns + PATIENCE_NS;
	struct prove_report report = {0};
	HT_TRY(try_once(prove, &report));

	for (unsigned round = 1; round < ROUNDS; round++) {
		if (!is_worth_another(prove, &report, since_ns, patience_ns))
			break;
		clock_sleep_ns(ROUND_PAUSE_NS);
		since_ns = clock_mono_ns();
		HT_TRY(try_once(prove, &report));
	}
	*ret = report;
	return NULL;
}
