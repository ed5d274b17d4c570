/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/jump_page.h"

#include <stdlib.h>

#include "attach/elf/modules.h"
#include "attach/got/slots.h"
#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_status.h"
#include "attach/proof/prove.h"
#include "attach/undo/detach.h"

#define ATTEMPTS 4u /* a signal handler may jump away before the stub has begun */

struct page {
	struct image image; /* holds only the page */
	const struct jump_page_look *look;
};

static struct ht_err *count_slots(
	const struct proc *proc, raddr_t page, struct jump_page_report *report)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	HT_CLEANUP(slots_deinit) struct slots slots = {0};
	HT_TRY(proc_maps_read(proc, &maps));
	HT_TRY(modules_read(proc, &maps, &modules));
	HT_TRY(slots_read_left(proc, &modules, &slots));
	for (size_t i = 0; i < slots.count; i++) {
		const struct slot *slot = &slots.slot[i];
		if (slot->value < page || slot->value >= page + HT_PAGE_BYTES)
			continue;
		report->slots++;
		report->at = slot->addr;
	}
	return NULL;
}

static struct stackscan_ranges ranges_of(raddr_t page)
{
	return (struct stackscan_ranges){.thunk_lo = page, .thunk_hi = page + HT_PAGE_BYTES};
}

struct ht_err *jump_page_search(const struct proc *proc, raddr_t page,
	const struct jump_page_look *look, struct escape_found *ret)
{
	const struct stackscan_ranges ranges = ranges_of(page);
	const struct escape_search search = {.proc = proc,
		.ranges = &ranges,
		.is_cancelled = look->is_cancelled,
		.context = look->context};
	return escape_scan_memory(&search, ret);
}

struct ht_err *jump_page_still(
	const struct proc *proc, raddr_t page, const raddr_t *place, size_t count, size_t *ret)
{
	const struct stackscan_ranges ranges = ranges_of(page);
	return escape_still(proc, &ranges, place, count, ret);
}

static raddr_t real_behind(void *context, raddr_t entry)
{
	const struct page *page = context;
	return image_real(&page->image, entry);
}

static bool is_cancelled(void *context)
{
	const struct page *page = context;
	return page->look->is_cancelled && page->look->is_cancelled(page->look->context);
}

static struct ht_err *examine(
	const struct proc *proc, struct page *page, struct jump_page_report *report)
{
	bool filtered;
	HT_TRY(proc_any_seccomp(proc, &filtered));
	const struct image *image = &page->image;
	struct prove prove = {.threads = {.proc = proc,
				      .ranges = ranges_of(image->thunks),
				      .filtered = filtered,
				      .real = real_behind,
				      .books = quiesce_calls_nothing,
				      .context = page},
		.own_lo = image->thunks,
		.own_hi = image->thunks + HT_PAGE_BYTES,
		.deadline_mono_ns = page->look->deadline_mono_ns,
		.is_cancelled = is_cancelled,
		.context = page};
	struct prove_report proof;

	struct ht_err *err = count_slots(proc, image->thunks, report);
	if (err || report->slots)
		return err;
	HT_TRY(prove_forgotten(&prove, &proof));
	report->unused = proof.outside && proof.pointers == 0 && proof.unread_bytes == 0;
	report->pointers = proof.pointers;
	report->unread_bytes = proof.unread_bytes;
	report->at = proof.pointer_at;
	report->found = proof.found;
	report->tid = proof.outside ? 0 : proof.threads.tid;
	report->stop_max_ns = proof.threads.stop_max_ns;
	return NULL;
}

struct ht_err *jump_page_examine(const struct proc *proc, raddr_t page,
	const struct jump_page_look *look, struct jump_page_report *ret)
{
	struct page ours = {.image = {.memfd = -1}, .look = look};
	struct image *image = &ours.image;
	struct jump_page_report report = {0};
	struct ht_err *err = NULL;
	HT_TRY(image_adopt(image, proc, page));
	for (size_t i = 0; !err && i < image->thunk_count; i++)
		if (image->thunk[i].target != image->thunk[i].real)
			err = ht_err_new(HT_ERR_REFUSED,
				"the page at %lx in process %d is in use by a capture",
				(unsigned long)page, proc->pid);
	HT_THEN(err, examine(proc, &ours, &report));
	free(image->thunk);
	if (!err)
		*ret = report;
	return err;
}

/* Is the mapping at `page` still our jump page, and no larger? */
static struct ht_err *check_ours(const struct proc *proc, raddr_t page)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_maps_read(proc, &maps));
	const struct proc_map *map = proc_maps_find(&maps, page);
	if (!map || map->lo != page || map->hi != page + HT_PAGE_BYTES || !ours_is(map->name))
		return ht_err_new(HT_ERR_INCOMPLETE,
			"the mapping at %lx in process %d is no longer heaptap's page",
			(unsigned long)page, proc->pid);
	return NULL;
}

struct remains {
	const struct proc *proc;
	raddr_t page;
};

static struct ht_err *look_at_page(void *context, pid_t tid, struct stub_unmap *ret)
{
	const struct remains *remains = context;
	(void)tid;
	*ret = (struct stub_unmap){.lo = {remains->page}, .hi = {remains->page + HT_PAGE_BYTES}};
	return check_ours(remains->proc, remains->page);
}

struct ht_err *jump_page_remove(const struct proc *proc, raddr_t page,
	const struct remote_slack *slack, uint64_t deadline_mono_ns, uint64_t *ret_stop_ns)
{
	struct remains remains = {.proc = proc, .page = page};
	const struct remote_remains look = {.look = look_at_page, .context = &remains};
	struct remote_unmapped unmapped = {.stop_ns = *ret_stop_ns};
	bool filtered;
	HT_TRY(proc_any_seccomp(proc, &filtered));
	for (unsigned attempt = 1;; attempt++) {
		struct ht_err *err = check_ours(proc, page);
		HT_THEN(err, remote_unmap(proc, slack, &look, filtered, &unmapped));
		*ret_stop_ns = unmapped.stop_ns;
		/* After any result, restore the stub's place as soon as no thread is in it. */
		struct ht_err *restore = detach_slack(proc, slack, filtered, deadline_mono_ns);
		bool again =
			err && err->code == HT_ERR_INCOMPLETE && !restore && attempt < ATTEMPTS;
		if (!again)
			return ht_err_first(err, restore);
		ht_err_free(err);
	}
}
