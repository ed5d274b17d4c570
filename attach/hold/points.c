/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hold/points.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "attach/memory/checksum.h"
#include "attach/memory/memory.h"
#include "attach/memory/pagemap.h"
#include "attach/thread/regs.h"
#include "attach/thread/stops.h"

/* Writes by ptrace, by a word within a page: unlike a write to /proc/PID/mem
 * (proc_mem.force_override), every kernel lets a tracer write to code in this way. */
static struct ht_err *put_byte(const struct proc *proc, raddr_t addr, uint8_t byte)
{
	uint8_t word[sizeof(long)];
	raddr_t at = ht_align_down(addr, sizeof(word));
	long value;

	HT_TRY(memory_read(proc, at, word, sizeof(word)));
	word[addr - at] = byte;
	memcpy(&value, word, sizeof(value));
	/* Twice, since a single failure may be spurious. */
	if (ptrace(PTRACE_POKETEXT, proc->pid, (void *)at, (void *)value) == 0 ||
		ptrace(PTRACE_POKETEXT, proc->pid, (void *)at, (void *)value) == 0)
		return NULL;
	return errno == ESRCH
		       ? stops_ended(proc->pid)
		       : ht_err_sys(errno, "cannot write to the code of process %d", proc->pid);
}

/* Checksum of the page that contains `addr`; 0: unreadable. */
static uint64_t page_sum(const struct proc *proc, raddr_t addr)
{
	uint8_t page[HT_PAGE_BYTES];
	bool unread = ht_err_drop(
		memory_read(proc, ht_align_down(addr, sizeof(page)), page, sizeof(page)));
	return unread ? 0 : checksum(0, page, sizeof(page));
}

struct ht_err *points_set(
	const struct proc *proc, const raddr_t addr[], size_t count, struct points *ret)
{
	*ret = (struct points){.count = count};
	for (size_t i = 0; i < count; i++) {
		struct point *point = &ret->point[i];
		point->addr = addr[i];
		point->shared = pagemap_own(proc, addr[i], 1) == PAGEMAP_OWN_NONE;
		point->sum = page_sum(proc, addr[i]);
		HT_TRY(memory_read(proc, addr[i], &point->byte, 1));
		/* The kernel would take heaptap's breakpoint for the other tool's, and not stop the
		 * process. */
		if (point->byte == REGS_BREAKPOINT)
			return ht_err_new(HT_ERR_REFUSED,
				"another tool (a debugger, a uprobe of perf or bpftrace) has a "
				"breakpoint at the start of the command; remove it and try again");
	}
	return points_set_again(proc, ret);
}

struct ht_err *points_set_again(const struct proc *proc, const struct points *points)
{
	for (size_t i = 0; i < points->count; i++)
		HT_TRY(put_byte(proc, points->point[i].addr, REGS_BREAKPOINT));
	return NULL;
}

struct ht_err *points_clear(const struct proc *proc, const struct points *points)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < points->count; i++)
		err = ht_err_first(
			err, put_byte(proc, points->point[i].addr, points->point[i].byte));
	return err;
}

struct ht_err *points_step_over(const struct proc *proc, const struct points *points, size_t i)
{
	const struct point *point = &points->point[i];
	HT_TRY(put_byte(proc, point->addr, point->byte));
	HT_TRY(stops_resume_and_await(proc->pid, PTRACE_SINGLESTEP));
	return put_byte(proc, point->addr, REGS_BREAKPOINT);
}

raddr_t points_copied(const struct proc *proc, const struct points *points, size_t i)
{
	const struct point *point = &points->point[i];
	return point->shared && point->sum && page_sum(proc, point->addr) == point->sum
		       ? ht_align_down(point->addr, HT_PAGE_BYTES)
		       : 0;
}
