/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/detach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "attach/inject/escape.h"
#include "attach/inject/remote.h"
#include "attach/target/clock.h"

#define PROMPT_NS	  CLOCK_NS_PER_S /* a proof that took longer is level 1 */
#define UNMAP_ATTEMPTS	  4u
#define PASS_PAUSE_NS	  (500000ull)
#define PASS_PAUSE_MAX_NS (20 * CLOCK_NS_PER_MS)

struct ht_err *detach_untap(struct detach *detach, struct detach_report *ret)
{
	*ret = (struct detach_report){0};
	journal_set_phase(&detach->journal, JOURNAL_DETACHING);
	struct ht_err *err = image_disable_all(detach->image);
	__atomic_store_n(&image_config(detach->image)->stop, 1, __ATOMIC_RELEASE);
	return ht_err_first(err, patch_untap_all(detach->proc, &detach->journal, &ret->patch));
}

/* --- what the quiescence proof asks of us
 * ---------------------------------------------------------- */

static raddr_t real_of(void *context, raddr_t entry)
{
	return image_real(((struct detach *)context)->image, entry);
}

static enum quiesce_books books_of(void *context, pid_t tid)
{
	const struct detach *detach = context;
	const struct image *image = detach->image;
	struct proc_status status;
	enum quiesce_books books = QUIESCE_UNKNOWN;

	/* The books are the parent's, whose threads may have had the same numbers. */
	if (image->forked)
		return QUIESCE_UNKNOWN;
	struct ht_err *err = proc_status(detach->proc, tid, &status);
	ht_err_free(err);
	if (err)
		return QUIESCE_UNKNOWN;
	for (uint32_t i = 0; i < image->slot_max; i++) {
		if (!image_slot_claimed(image, i))
			continue;
		const struct abi_slot_head *head =
			(const void *)(image->local + ABI_SLOTS_OFF + (uint64_t)i * ABI_SLOT_BYTES);
		uint64_t key = __atomic_load_n(&head->key, __ATOMIC_ACQUIRE);
		if (!key || key & ABI_SLOT_DEAD ||
			__atomic_load_n(&head->tid, __ATOMIC_ACQUIRE) != (uint32_t)status.ns_tid)
			continue;
		if (__atomic_load_n(&head->state, __ATOMIC_ACQUIRE) != ABI_SLOT_IDLE)
			return QUIESCE_INSIDE;
		books = QUIESCE_IDLE;
	}
	return books;
}

static struct stackscan_ranges ranges_of(const struct detach *detach)
{
	raddr_t base = detach->image->base;
	const struct journal_header *h = detach->journal.header;
	return (struct stackscan_ranges){
		.text_lo = base + ABI_THUNKS_OFF,
		.text_hi = base + ABI_TEXT_OFF + ABI_TEXT_MAX,
		.thunk_lo = detach->image->thunks,
		.thunk_hi = detach->image->thunks + HT_PAGE_BYTES,
		.slack_lo = h->slack,
		.slack_hi = h->slack + h->slack_bytes,
	};
}

/* Passes until every thread was seen outside, or the deadline. */
static struct ht_err *pass_until_outside(const struct quiesce_options *options,
	const struct detach *detach, struct quiesce_report *report)
{
	struct quiesce *quiesce;
	struct ht_err *err = quiesce_create(options, &quiesce);
	if (err)
		return err;
	uint64_t pause_ns = PASS_PAUSE_NS;
	for (;;) {
		if (detach->pump)
			detach->pump(detach->context);
		err = quiesce_pass(quiesce, report);
		if (err || report->left == 0 || clock_mono_ns() > detach->deadline_mono_ns)
			break;
		clock_sleep_ns(pause_ns);
		pause_ns = pause_ns * 2 > PASS_PAUSE_MAX_NS ? PASS_PAUSE_MAX_NS : pause_ns * 2;
	}
	quiesce_destroy(quiesce);
	return err;
}

static struct ht_err *prove_outside(
	struct detach *detach, bool rewrite, struct detach_report *report, bool *ret_proven)
{
	struct quiesce_options options = {.proc = detach->proc,
		.ranges = ranges_of(detach),
		.rewrite = rewrite,
		.filtered = detach->suspend_seccomp,
		.real = real_of,
		.books = books_of,
		.context = detach};
	struct ht_err *err = pass_until_outside(&options, detach, &report->quiesce);

	*ret_proven = !err && report->quiesce.left == 0;
	if (report->quiesce.stop_max_ns > report->stop_max_ns)
		report->stop_max_ns = report->quiesce.stop_max_ns;
	return err;
}

/* The stub calls nothing: only a PC, live or saved, can be in its place. */
static enum quiesce_books no_return_addresses(void *context, pid_t tid)
{
	(void)context;
	(void)tid;
	return QUIESCE_IDLE;
}

struct ht_err *detach_slack(const struct proc *proc, const struct remote_slack *slack,
	bool suspend_seccomp, uint64_t deadline_mono_ns)
{
	struct detach detach = {.proc = proc, .deadline_mono_ns = deadline_mono_ns};
	struct quiesce_options options = {.proc = proc,
		.ranges = {.slack_lo = slack->addr, .slack_hi = slack->addr + slack->bytes},
		.filtered = suspend_seccomp,
		.books = no_return_addresses};
	struct quiesce_report report;
	struct ht_err *err = pass_until_outside(&options, &detach, &report);
	if (err)
		return err;
	if (report.left)
		return ht_err_new(HT_ERR_INCOMPLETE,
			"thread %d could not be proven outside the attach stub, whose %zu bytes "
			"stay behind "
			"the code at %lx",
			report.tid, slack->bytes, (unsigned long)slack->addr);
	return remote_slack_restore(proc, slack);
}

/* --- unmapping
 * ---------------------------------------------------------------------------------------- */

static struct remote_slack slack_of(const struct detach *detach)
{
	const struct journal_header *h = detach->journal.header;
	struct remote_slack slack = {.addr = h->slack, .bytes = h->slack_bytes};
	memcpy(slack.original, h->slack_original, sizeof(slack.original));
	return slack;
}

/* Is the image still what is mapped there? The target may have unmapped it, and something else may
 * be there. */
static struct ht_err *check_ours(struct detach *detach, raddr_t addr)
{
	struct stat stat;
	struct proc_maps maps;
	struct ht_err *err = proc_maps_read(detach->proc, &maps);
	if (err)
		return err;
	const struct proc_map *map = proc_maps_find(&maps, addr);
	if (!map || fstat(detach->image->memfd, &stat) < 0 || map->inode != stat.st_ino)
		err = ht_err_new(HT_ERR_INCOMPLETE,
			"what is mapped at %lx in process %d is not the agent any more",
			(unsigned long)addr, detach->proc->pid);
	proc_maps_deinit(&maps);
	return err;
}

/* Programs close descriptors that they do not know, and get the number for something of their own.
 */
static bool fd_is_ours(const struct proc *proc, const struct journal_header *h)
{
	char name[32], ours[48];
	char *link = NULL;

	if (h->agent_fd < 0)
		return false;
	snprintf(name, sizeof(name), "fd/%d", h->agent_fd);
	snprintf(ours, sizeof(ours), "socket:[%lu]", (unsigned long)h->agent_fd_inode);
	struct ht_err *err = proc_link(proc, name, &link);
	bool same = !err && strcmp(link, ours) == 0;
	ht_err_free(err);
	free(link);
	return same;
}

static struct ht_err *unmap(struct detach *detach, bool keep, struct detach_report *report)
{
	struct journal_header *h = detach->journal.header;
	struct remote_slack slack = slack_of(detach);
	bool own = h->thunks == h->image + ABI_THUNKS_OFF;
	struct stub_unmap what = {.fd = fd_is_ours(detach->proc, h) ? h->agent_fd : -1};
	uint64_t stop_ns = 0;

	what.lo[0] = h->image + (own && keep ? HT_PAGE_BYTES : 0);
	what.hi[0] = h->image + h->image_bytes;
	if (!own && !keep) {
		what.lo[1] = h->thunks;
		what.hi[1] = h->thunks + HT_PAGE_BYTES;
	}
	struct ht_err *err = check_ours(detach, h->image + ABI_TABLES_OFF);
	for (unsigned attempt = 0; !err; attempt++) {
		err = remote_unmap(detach->proc, &slack, &what, detach->suspend_seccomp, &stop_ns);
		if (!err || err->code != HT_ERR_INCOMPLETE || attempt == UNMAP_ATTEMPTS - 1)
			break;
		/* A signal handler jumped away before the stub began: once more, when the place is
		 * empty. */
		ht_err_free(err);
		err = detach_slack(
			detach->proc, &slack, detach->suspend_seccomp, detach->deadline_mono_ns);
		if (!err)
			err = check_ours(detach, h->image + ABI_TABLES_OFF);
	}
	if (stop_ns > report->stop_max_ns)
		report->stop_max_ns = stop_ns;
	if (!err)
		h->agent_fd = -1;
	return err;
}

static void explain(struct detach_report *report, enum detach_level level)
{
	report->level = level;
	if (level == DETACH_TOMBSTONE)
		snprintf(report->why, sizeof(report->why),
			"%zu pointers to allocator hooks remain in the target's memory (one at "
			"%lx): one page "
			"of jump stubs stays mapped for them",
			report->escaped, (unsigned long)report->escaped_at);
	else if (level == DETACH_INCOMPLETE)
		snprintf(report->why, sizeof(report->why),
			"thread %d could not be proven outside the agent (%s): it stays mapped and "
			"only "
			"forwards calls; the guardian goes on trying",
			report->quiesce.tid, report->quiesce.why ? report->quiesce.why : "unknown");
}

static struct ht_err *find_escapes(
	struct detach *detach, const struct stackscan_ranges *ranges, struct detach_report *report)
{
	struct escape_found found;
	raddr_t base = detach->image->base;
	struct ht_err *err =
		escape_scan_memory(detach->proc, ranges, base, base + detach->image->bytes, &found);
	if (!err && found.count > report->escaped) {
		report->escaped = found.count;
		report->escaped_at = found.addr;
	}
	return err;
}

static struct ht_err *may_have_escaped(struct detach *detach, bool *ret)
{
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
	struct ht_err *err = proc_maps_read(detach->proc, &maps);
	if (err)
		return err;
	err = modules_read(detach->proc, &maps, &modules);
	proc_maps_deinit(&maps);
	if (err)
		return err;
	err = slots_read(detach->proc, &modules, 0, 0, &slots);
	if (!err) {
		/* The slots are restored by now: ask the journal which of them were ours. */
		err = escape_is_possible(detach->proc, &modules, &slots, &detach->journal, ret);
		slots_deinit(&slots);
	}
	modules_deinit(&modules);
	return err;
}

struct ht_err *detach_unmap(struct detach *detach, struct detach_report *ret)
{
	struct stackscan_ranges ranges = ranges_of(detach);
	uint64_t start = clock_mono_ns();
	bool escapes = false, proven = false;

	struct ht_err *err = may_have_escaped(detach, &escapes);
	if (!err && escapes)
		err = find_escapes(detach, &ranges, ret);
	if (!err)
		err = prove_outside(detach, escapes, ret, &proven);
	if (!err && escapes)
		err = find_escapes(detach, &ranges, ret);
	if (err)
		return err;
	if (!proven) {
		explain(ret, DETACH_INCOMPLETE);
		return NULL;
	}
	bool keep = ret->escaped + ret->quiesce.entries_left > 0;
	if (keep) {
		ret->escaped += ret->quiesce.entries_left;
		explain(ret, DETACH_TOMBSTONE);
		journal_set_phase(&detach->journal, JOURNAL_TOMBSTONE);
	} else {
		ret->level = clock_mono_ns() - start > PROMPT_NS ? DETACH_RETRIED : DETACH_PROVEN;
	}
	struct remote_slack slack = slack_of(detach);
	err = unmap(detach, keep, ret);
	/* The stub's last instructions may still be ahead of its thread, or saved in a signal
	 * frame. */
	return err ? err
		   : detach_slack(detach->proc, &slack, detach->suspend_seccomp,
			     detach->deadline_mono_ns);
}
