/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/memory/pagemap.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_living.h"

/* True if the kernel does not tell: then the state of each page is read. */
static bool is_swapped(const struct proc *proc)
{
	char *text = NULL;
	struct ht_err *err = proc_text(proc, "status", &text);
	const char *line = text ? strstr(text, "\nVmSwap:") : NULL;
	bool swapped = !line || strtoull(line + sizeof("\nVmSwap:") - 1, NULL, 10) != 0;
	ht_err_free(err);
	free(text);
	return swapped;
}

struct ht_err *view_init(struct view *view, const struct proc *proc)
{
	*view = (struct view){.proc = proc,
		.round = 1,
		.left = VIEW_BUDGET,
		.pagemap_fd = -1,
		.touched = {.fd = -1}};
	view->page = calloc(VIEW_PAGES, sizeof(*view->page));
	if (!view->page)
		return ht_err_new(HT_ERR_NOMEM, "no memory to read a heap");
	HT_TRY(proc_maps_read(proc, &view->maps));
	if (is_swapped(proc))
		HT_TRY(pagemap_open(proc, &view->pagemap_fd));
	return pagemap_open(proc, &view->touched.fd);
}

void view_pause(struct view *view)
{
	struct proc_maps maps;
	if (view->pause_ns)
		clock_sleep_ns(view->pause_ns);
	struct ht_err *err = proc_maps_read(view->proc, &maps);
	view->err = ht_err_first(view->err, err);
	if (err)
		return;
	proc_maps_deinit(&view->maps);
	view->maps = maps;
}

struct ht_err *view_deinit(struct view *view)
{
	fd_close(&view->pagemap_fd);
	fd_close(&view->touched.fd);
	proc_maps_deinit(&view->maps);
	free(view->page);
	return view->err;
}

bool view_holds(const struct view *view, raddr_t addr)
{
	const struct proc_map *map = proc_maps_find(&view->maps, addr);
	return map && map->inode == 0 && map->read && map->write && !map->shared;
}

bool view_may_hold(const struct view *view, raddr_t addr)
{
	const struct proc_map *map = proc_maps_find(&view->maps, addr);
	return map && map->inode == 0 && !map->shared && map->read == map->write;
}

/* Do not read a swapped-out page: the kernel would hold a lock on the target's mappings while it
 * fetches the page. */
static bool is_present(struct view *view, raddr_t addr, size_t bytes)
{
	uint64_t entry[256];
	raddr_t at = ht_align_down(addr, HT_PAGE_BYTES);
	if (view->pagemap_fd < 0 ||
		(at == view->present_page && addr + bytes <= at + HT_PAGE_BYTES))
		return true;
	for (size_t count; at < addr + bytes; at += count * HT_PAGE_BYTES) {
		uint64_t pages = (addr + bytes - at + HT_PAGE_BYTES - 1) / HT_PAGE_BYTES;
		struct ht_err *err = pagemap_read(view->proc, view->pagemap_fd, at, entry,
			pages < HT_ARRAY_SIZE(entry) ? pages : HT_ARRAY_SIZE(entry), &count);
		bool failed = err || !count;
		ht_err_free(err);
		for (size_t i = 0; !failed && i < count; i++)
			failed = entry[i] & PAGEMAP_SWAPPED;
		view->swapped |= failed;
		if (failed)
			return false;
	}
	view->present_page = at - HT_PAGE_BYTES;
	return true;
}

bool view_spend(struct view *view, uint64_t cost)
{
	view->spent |= view->left < cost;
	if (view->spent || view->err)
		return false;
	view->left -= cost;
	return true;
}

size_t view_read_data(struct view *view, raddr_t addr, void *ret, size_t bytes)
{
	size_t got = 0;
	if (view_spend(view, VIEW_READ_COST) && is_present(view, addr, bytes))
		view->err = memory_read_some(view->proc, addr, ret, bytes, &got);
	return view->err ? 0 : got;
}

uint64_t view_limit(struct view *view, uint64_t most)
{
	uint64_t kept = view->left - most;
	view->left = most;
	return kept;
}

void view_unlimit(struct view *view, uint64_t kept)
{
	view->left += kept;
	view->spent = false;
}

void view_forget(struct view *view)
{
	view->round++;
	view->present_page = 0;
}

static const struct view_page *page_read(struct view *view, raddr_t addr)
{
	struct view_page *page = &view->page[addr / HT_PAGE_BYTES % VIEW_PAGES];
	if (page->addr == addr && page->round == view->round)
		return page;
	page->addr = addr;
	page->round = view->round;
	page->bytes = view_read_data(view, addr, page->data, HT_PAGE_BYTES);
	return page;
}

bool view_read(struct view *view, raddr_t addr, void *ret, size_t bytes)
{
	if (addr > INT64_MAX - bytes || !view_spend(view, VIEW_LOOK_COST))
		return false;
	for (size_t done = 0, now; done < bytes; done += now) {
		raddr_t at = ht_align_down(addr + done, HT_PAGE_BYTES);
		size_t skip = addr + done - at;
		now = HT_PAGE_BYTES - skip < bytes - done ? HT_PAGE_BYTES - skip : bytes - done;
		if (!view_may_hold(view, at))
			return false;
		const struct view_page *page = page_read(view, at);
		if (page->bytes < skip + now)
			return false;
		memcpy((uint8_t *)ret + done, page->data + skip, now);
	}
	return true;
}

static bool is_listed(const struct view_touched *touched, raddr_t addr)
{
	return addr >= touched->addr && (addr - touched->addr) / HT_PAGE_BYTES < touched->count;
}

/* Returns the state of the page at `addr`; 0: unknown, as is that of all pages behind it. */
static uint64_t touched_entry(struct view *view, raddr_t addr)
{
	struct view_touched *touched = &view->touched;
	if (touched->round != view->round || !is_listed(touched, addr)) {
		touched->count = 0;
		if (view_spend(view, VIEW_READ_COST))
			view->err = pagemap_read(view->proc, touched->fd, addr, touched->entry,
				VIEW_ENTRIES, &touched->count);
		touched->addr = addr;
		touched->round = view->round;
	}
	if (view->err || !is_listed(touched, addr))
		return 0;
	return touched->entry[(addr - touched->addr) / HT_PAGE_BYTES];
}

bool view_touched(struct view *view, raddr_t *at, raddr_t hi, raddr_t *ret_end)
{
	const uint64_t there = PAGEMAP_PRESENT | PAGEMAP_SWAPPED;
	raddr_t end;
	*ret_end = hi;
	if (view->touched.fd < 0)
		return *at < hi;
	while (*at < hi && !(touched_entry(view, ht_align_down(*at, HT_PAGE_BYTES)) & there)) {
		if (view->spent || view->err || !view->touched.count)
			return false;
		*at = ht_align_down(*at, HT_PAGE_BYTES) + HT_PAGE_BYTES;
	}
	if (*at >= hi)
		return false;
	end = ht_align_down(*at, HT_PAGE_BYTES) + HT_PAGE_BYTES;
	while (end < hi && is_listed(&view->touched, end) && touched_entry(view, end) & there)
		end += HT_PAGE_BYTES;
	*ret_end = end < hi ? end : hi;
	return true;
}

bool view_resident(struct view *view, raddr_t lo, raddr_t hi, uint64_t *ret_bytes)
{
	*ret_bytes = 0;
	if (view->touched.fd < 0)
		return false;
	for (raddr_t at = lo, end; at < hi; at = end) {
		raddr_t page = ht_align_down(at, HT_PAGE_BYTES);
		end = page + HT_PAGE_BYTES < hi ? page + HT_PAGE_BYTES : hi;
		if (touched_entry(view, page) & PAGEMAP_PRESENT)
			*ret_bytes += end - at;
		if (view->spent || view->err || !view->touched.count)
			return false;
	}
	return true;
}
