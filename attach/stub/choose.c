/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/choose.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_tids.h"
#include "attach/thread/proc_where.h"

#define SLACK_ALIGN    64u
#define USER_SPACE_END 0x7ffffffff000ull
#define RANGE_ALIGN    0x200000ull
#define RANGE_MARGIN   0x10000000ull /* 256 MiB to the neighbours: stacks and arenas may grow */

static int by_cost(const void *a, const void *b)
{
	const struct choose_thread *x = a, *y = b;
	if (x->cost != y->cost)
		return x->cost < y->cost ? -1 : 1;
	if (x->addressed != y->addressed)
		return x->addressed ? 1 : -1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

/* Finds most kernel threads: they have no registers of user space. proc_is_worker finds the others
 * before they are stopped. */
static bool is_nowhere(const struct proc_syscall *call)
{
	return call->where != PROC_RUNNING && !call->sp && !call->pc;
}

/* False if the kernel does not tell (no CONFIG_PROC_CHILDREN). */
static bool has_children(const struct proc *proc, pid_t tid)
{
	char path[32], first;
	snprintf(path, sizeof(path), "task/%d/children", tid);
	FD_GUARD int fd = openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &first, 1) > 0;
}

struct ht_err *choose_threads(const struct proc *proc, bool filtered, struct choose_threads *ret)
{
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tids = {0};
	struct ht_err *err = NULL;
	HT_TRY(proc_tids_read(proc, &tids));
	struct choose_threads threads = {.thread = calloc(tids.count + 1, sizeof(*threads.thread))};
	if (!threads.thread)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu threads", tids.count);
	for (size_t i = 0; !err && i < tids.count; i++) {
		struct proc_syscall call;
		pid_t tid = tids.tid[i];
		err = proc_syscall_read(proc, tid, &call);
		enum stopcost cost = err || is_nowhere(&call)
					     ? STOPCOST_NEVER
					     : stopcost_of(proc, tid, &call, filtered);
		if (cost != STOPCOST_NEVER)
			threads.thread[threads.count++] = (struct choose_thread){
				tid, cost, tid == proc->pid || has_children(proc, tid)};
	}
	if (err) {
		choose_threads_deinit(&threads);
		return err;
	}
	qsort(threads.thread, threads.count, sizeof(*threads.thread), by_cost);
	*ret = threads;
	return NULL;
}

void choose_threads_deinit(struct choose_threads *threads)
{
	free(threads->thread);
	*threads = (struct choose_threads){0};
}

/* The stub reads its own data: in code that may only be executed (a protection key) the read would
 * kill the thread. */
static bool may_hold_stub(const struct proc_map *map)
{
	return map && map->read && map->exec && !map->write && !map->shared && map->inode;
}

/* The end of the unused bytes behind a segment: at the end of its last page, or where the next
 * segment begins in that page. */
static raddr_t end_of_rest(const struct module *module, size_t index)
{
	const struct module_segment *segment = &module->segment[index];
	uint64_t hi = ht_align_up(segment->vaddr + segment->memsz, HT_PAGE_BYTES);

	if (index + 1 < module->segment_count && module->segment[index + 1].vaddr < hi)
		hi = module->segment[index + 1].vaddr;
	return module->bias + hi;
}

/* The unused file bytes behind an executable segment; 0 bytes: none. */
static struct choose_slack slack_behind(
	const struct module *module, size_t index, const struct proc_maps *maps)
{
	const struct module_segment *segment = &module->segment[index];
	raddr_t lo = ht_align_up(module->bias + segment->vaddr + segment->memsz, SLACK_ALIGN);
	raddr_t hi = end_of_rest(module, index);

	if (module->vdso || !(segment->flags & PF_X) || (segment->flags & PF_W) || hi <= lo ||
		!may_hold_stub(proc_maps_find(maps, lo)))
		return (struct choose_slack){0};
	return (struct choose_slack){.addr = lo, .bytes = hi - lo};
}

/* The module's start code, which has run and never runs again; 0 bytes: none. */
static struct choose_slack slack_spent(const struct module *module, const struct proc_maps *maps)
{
	raddr_t lo = ht_align_up(module->spent, SLACK_ALIGN),
		hi = module->spent + module->spent_bytes;
	const struct proc_map *map = proc_maps_find(maps, lo);

	if (!module->spent_bytes || hi <= lo || !may_hold_stub(map) || hi > map->hi)
		return (struct choose_slack){0};
	return (struct choose_slack){
		.addr = lo, .bytes = hi - lo, .left = module->natives.start.return_to};
}

raddr_t choose_slack_left(const struct modules *modules, raddr_t addr)
{
	for (size_t m = 0; m < modules->count; m++)
		if (addr - modules->module[m].spent < modules->module[m].spent_bytes)
			return modules->module[m].natives.start.return_to;
	return 0;
}

/* The places in a module for a stub: those behind its segments, then its start code; `index` from
 * 0. False: no more. */
static bool slack_at(const struct module *module, const struct proc_maps *maps, size_t index,
	struct choose_slack *ret)
{
	if (index > module->segment_count)
		return false;
	*ret = index < module->segment_count ? slack_behind(module, index, maps)
					     : slack_spent(module, maps);
	return true;
}

bool choose_is_slack(
	const struct modules *modules, const struct proc_maps *maps, raddr_t addr, size_t bytes)
{
	for (size_t m = 0; m < modules->count; m++) {
		const struct module *module = &modules->module[m];
		struct choose_slack slack;
		for (size_t s = 0; slack_at(module, maps, s, &slack); s++)
			if (addr >= slack.addr && bytes <= slack.bytes &&
				addr - slack.addr <= slack.bytes - bytes)
				return true;
	}
	return false;
}

bool choose_slack_any(const struct modules *modules, const struct proc_maps *maps, size_t want,
	choose_suits *suits, void *context)
{
	for (size_t m = 0; m < modules->count; m++) {
		const struct module *module = &modules->module[m];
		struct choose_slack slack;
		for (size_t s = 0; slack_at(module, maps, s, &slack); s++) {
			if (slack.bytes < want)
				continue;
			slack.bytes = want;
			if (suits(context, &slack))
				return true;
		}
	}
	return false;
}

static bool does_suit(struct choose_slack slack, size_t want, choose_suits *suits, void *context)
{
	slack.bytes = want;
	return !suits || suits(context, &slack);
}

struct ht_err *choose_slack(const struct modules *modules, const struct proc_maps *maps,
	size_t want, choose_suits *suits, void *context, struct choose_slack *ret)
{
	struct choose_slack best = {0};

	for (size_t m = 0; m < modules->count; m++) {
		const struct module *module = &modules->module[m];
		struct choose_slack slack;
		/* A place behind the code is preferred to the start code, if it is long enough. */
		for (size_t s = 0; module->initial && slack_at(module, maps, s, &slack); s++)
			if (slack.bytes >= want && slack.bytes > best.bytes &&
				(s < module->segment_count || !best.bytes) &&
				does_suit(slack, want, suits, context))
				best = slack;
	}
	if (best.bytes < want)
		return ht_err_new(HT_ERR_REFUSED,
			"no library that was loaded at the start has %zu unused bytes behind its "
			"code, so heaptap cannot enter the process safely",
			want);
	best.bytes = want;
	*ret = best;
	return NULL;
}

struct ht_err *choose_range(
	const struct proc_maps *maps, uint64_t bytes, unsigned attempt, raddr_t *ret)
{
	uint64_t need = bytes + 2 * RANGE_MARGIN;
	raddr_t gap_lo = 0, gap_hi = 0, at = HT_PAGE_BYTES * 16;

	for (size_t i = 0; i <= maps->count; i++) {
		raddr_t lo = i < maps->count ? maps->map[i].lo : USER_SPACE_END;
		if (lo > USER_SPACE_END)
			lo = USER_SPACE_END;
		if (lo > at && lo - at > gap_hi - gap_lo) {
			gap_lo = at;
			gap_hi = lo;
		}
		if (i < maps->count)
			at = maps->map[i].hi;
	}
	if (gap_hi - gap_lo < need)
		return ht_err_new(HT_ERR_REFUSED,
			"the process has no free range of %lu MiB of address space",
			(unsigned long)(need >> 20));
	uint64_t dice = attempt;
	if (getrandom(&dice, sizeof(dice), GRND_NONBLOCK) < 0)
		dice = attempt * 0x9e3779b97f4a7c15ull;
	uint64_t room = (gap_hi - gap_lo - need) / RANGE_ALIGN;
	*ret = ht_align_up(gap_lo + RANGE_MARGIN, RANGE_ALIGN) +
	       (room > 1 ? dice % (room - 1) : 0) * RANGE_ALIGN;
	return NULL;
}
