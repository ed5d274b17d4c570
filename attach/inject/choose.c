/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/choose.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#define SLACK_ALIGN    64u
#define USER_SPACE_END 0x7ffffffff000ull
#define RANGE_ALIGN    0x200000ull
#define RANGE_MARGIN   0x10000000ull /* 256 MiB to the neighbours: stacks and arenas may grow */

enum rank {
	RANK_RUNNING,
	RANK_RESTARTS,	    /* the kernel restarts the call as it was */
	RANK_RESTART_BLOCK, /* restarted by restart_syscall(2): a signal handler in between shows */
	RANK_REPEATED,	    /* we have to make the call again */
	RANK_NEVER,
};

static enum rank rank_of_call(long nr)
{
	switch (nr) {
	case SYS_vfork:
	case SYS_clone:
	case SYS_clone3:
	case SYS_execve:
	case SYS_execveat:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_rt_sigsuspend:
	case SYS_pause:
	case SYS_ptrace:
		return RANK_NEVER;
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_poll:
	case SYS_restart_syscall:
		return RANK_RESTART_BLOCK;
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_select:
	case SYS_pselect6:
	case SYS_ppoll:
		return RANK_REPEATED;
	default:
		return RANK_RESTARTS;
	}
}

static enum rank rank_of(const struct proc_syscall *call)
{
	switch (call->where) {
	case PROC_RUNNING:
		return RANK_RUNNING;
	case PROC_IN_SYSCALL:
		return rank_of_call(call->nr);
	case PROC_BLOCKED_ELSEWHERE:
		return RANK_RESTARTS;
	case PROC_THREAD_GONE:
		break;
	}
	return RANK_NEVER;
}

struct ranked {
	pid_t tid;
	enum rank rank;
};

static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

struct ht_err *choose_threads(const struct proc *proc, struct choose_threads *ret)
{
	struct proc_tids tids;
	struct ht_err *err = proc_tids_read(proc, &tids);
	if (err)
		return err;
	struct ranked *ranked = calloc(tids.count + 1, sizeof(*ranked));
	pid_t *order = calloc(tids.count + 1, sizeof(*order));
	size_t count = 0;
	for (size_t i = 0; ranked && order && !err && i < tids.count; i++) {
		struct proc_syscall call;
		err = proc_syscall_read(proc, tids.tid[i], &call);
		enum rank rank = err ? RANK_NEVER : rank_of(&call);
		if (rank != RANK_NEVER)
			ranked[count++] = (struct ranked){tids.tid[i], rank};
	}
	if (!ranked || !order)
		err = ht_err_new(HT_ERR_NOMEM, "no memory for %zu threads", tids.count);
	if (!err) {
		qsort(ranked, count, sizeof(*ranked), by_rank);
		for (size_t i = 0; i < count; i++)
			order[i] = ranked[i].tid;
		*ret = (struct choose_threads){.tid = order, .count = count};
		order = NULL;
	}
	free(order);
	free(ranked);
	proc_tids_deinit(&tids);
	return err;
}

void choose_threads_deinit(struct choose_threads *threads)
{
	free(threads->tid);
	*threads = (struct choose_threads){0};
}

/* A plugin may be unloaded until we come back to take everything out. */
static bool stays(const struct module *module)
{
	const char *name = strrchr(module->path, '/');
	return module->executable || module->interpreter ||
	       (name && strncmp(name, "/libc.so.", strlen("/libc.so.")) == 0);
}

struct ht_err *choose_slack(const struct modules *modules, const struct proc_maps *maps,
	size_t want, struct choose_slack *ret)
{
	struct choose_slack best = {0};
	bool best_stays = false;

	for (size_t m = 0; m < modules->count; m++) {
		const struct module *module = &modules->module[m];
		if (module->vdso)
			continue;
		for (size_t s = 0; s < module->segment_count; s++) {
			const struct module_segment *segment = &module->segment[s];
			if (!(segment->flags & PF_X) || (segment->flags & PF_W))
				continue;
			raddr_t end = module->bias + segment->vaddr + segment->memsz;
			raddr_t lo = ht_align_up(end, SLACK_ALIGN);
			raddr_t hi = ht_align_up(end, HT_PAGE_BYTES);
			const struct proc_map *map = proc_maps_find(maps, lo);
			bool better =
				stays(module) == best_stays ? hi - lo > best.bytes : !best_stays;
			if (hi <= lo || hi - lo < want || !better || !map || !map->exec ||
				map->write || map->shared || !map->inode)
				continue;
			best_stays = stays(module);
			best = (struct choose_slack){.addr = lo, .bytes = hi - lo};
		}
	}
	if (best.bytes < want)
		return ht_err_new(HT_ERR_REFUSED,
			"no module of the target has %zu unused bytes behind its code, so the "
			"agent cannot be brought in safely",
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
			"the target has no free range of %lu MiB of address space",
			(unsigned long)(need >> 20));
	uint64_t dice = attempt;
	if (getrandom(&dice, sizeof(dice), GRND_NONBLOCK) < 0)
		dice = attempt * 0x9e3779b97f4a7c15ull;
	uint64_t room = (gap_hi - gap_lo - need) / RANGE_ALIGN;
	*ret = ht_align_up(gap_lo + RANGE_MARGIN, RANGE_ALIGN) +
	       (room > 1 ? dice % (room - 1) : 0) * RANGE_ALIGN;
	return NULL;
}
