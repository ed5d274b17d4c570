/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/heapread.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/trace/memory.h"
#include "attach/trace/records.h"
#include "attach/daemon/receiver.h"
#include "attach/daemon/sink.h"
#include "attach/helper/pulse.h"
#include "attach/memory/slow.h"
#include "attach/proc/clock.h"
#include "format/arch.h"
#include "format/helper.h"

/* Short: heaptap receives nothing from the target meanwhile. */
#define DEATH_PATIENCE_NS (20 * CLOCK_NS_PER_MS)
#define LAST_PATIENCE_NS  CLOCK_NS_PER_S

struct heapread_page {
	uint64_t done;
	struct heap heap;
};

_Static_assert(sizeof(struct heapread_page) <= HT_PAGE_BYTES, "a page");

/* --- in the process that reads --- */

static _Noreturn void read_heap(const struct heapread *reading)
{
	const struct proc *proc = reading->proc;
	struct heapread_page *page = reading->page;
	int kept[] = {proc->mem_fd, proc->dir_fd, proc->pidfd};

	setpgid(0, 0);
	/* Close the lock, and the sockets of the guardian and the agent: other processes would take
	 * this process for the daemon. */
	if (!helper_close_all_but(kept, HT_ARRAY_SIZE(kept)))
		_exit(1);
	(void)pulse_watch();
	/* A read that waits for a file system would hold the target's mmap_lock. */
	slow_avoid();
	struct ht_err *err = heap_read(proc, reading->modules, &page->heap);
	__atomic_store_n(&page->done, !err, __ATOMIC_RELEASE);
	_exit(0);
}

/* --- in the daemon --- */

void heapread_start(struct heapread *reading, uint64_t limit_ns)
{
	if (!reading->page) {
		void *page = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return;
		reading->page = page;
	}
	memset(reading->page, 0, sizeof(*reading->page));
	reading->begin_tsc = arch_tsc();
	reading->end_ns = clock_mono_ns() + limit_ns;
	pid_t pid = helper_fork(SIGKILL);
	if (pid == 0)
		read_heap(reading);
	if (pid < 0)
		return;
	reading->pid = pid;
	if (reading->receiver)
		receiver_hold(reading->receiver, reading->begin_tsc);
}

static struct ht_err *put_heap(const struct heapread *reading, const struct heap *heap)
{
	struct rec rec = {.kind = REC_HEAP};
	rec.heap = (struct rec_heap){.begin_tsc = reading->begin_tsc,
		.end_tsc = arch_tsc(),
		.account_count = heap->count};
	for (size_t i = 0; i < heap->count; i++) {
		const struct heap_account *from = &heap->account[i];
		struct rec_account *to = &rec.heap.account[i];
		to->allocator = records_text(from->allocator);
		to->reason = records_text(from->reason);
		if (!from->known)
			continue;
		to->flags = REC_ACCOUNT_KNOWN;
		to->held_bytes = from->held_bytes;
		to->off_bytes = from->off_bytes;
		to->system_bytes = from->system_bytes;
		to->arenas = from->arenas;
		to->header_bytes = from->header_bytes;
	}
	return sink_put(reading->sink, &rec, 0);
}

/* Puts the sum over all heaps; nothing if one is unknown. */
static struct ht_err *put_values(struct sink *sink, const struct heap *heap)
{
	struct memory sum = {0};
	for (size_t i = 0; i < heap->count; i++) {
		const struct heap_account *account = &heap->account[i];
		if (!account->known)
			return NULL;
		for (size_t k = 0; k < account->value_count && k < HEAP_VALUES_MAX; k++)
			memory_set(&sum, account->value[k].kind,
				sum.number[account->value[k].kind] + account->value[k].bytes);
	}
	return memory_put(sink, &sum, clock_mono_ns());
}

static void end(struct heapread *reading)
{
	kill(reading->pid, SIGKILL);
	if (!helper_ends_within(reading->pid, DEATH_PATIENCE_NS) &&
		reading->dying_count < HEAPREAD_DYING_MAX)
		reading->dying[reading->dying_count++] = reading->pid;
	reading->pid = 0;
}

struct ht_err *heapread_look(struct heapread *reading, bool *ret_runs)
{
	struct ht_err *err;
	int status;

	*ret_runs = false;
	if (!reading->pid)
		return NULL;
	bool ended = helper_has_ended(reading->pid, &status);
	if (!ended && clock_mono_ns() < reading->end_ns) {
		*ret_runs = true;
		return NULL;
	}
	if (ended)
		reading->pid = 0;
	static const struct heap late = {
		.account = {{.allocator = "malloc", .reason = "it was not read in time"}},
		.count = 1};
	bool done = __atomic_load_n(&reading->page->done, __ATOMIC_ACQUIRE);
	err = put_heap(reading, done ? &reading->page->heap : &late);
	if (!err && done)
		err = put_values(reading->sink, &reading->page->heap);
	heapread_stop(reading);
	return err;
}

void heapread_stop(struct heapread *reading)
{
	if (reading->pid)
		end(reading);
	if (reading->receiver)
		receiver_hold(reading->receiver, UINT64_MAX);
}

void heapread_finish(struct heapread *reading)
{
	heapread_stop(reading);
	uint64_t end_ns = clock_mono_ns() + LAST_PATIENCE_NS;
	for (unsigned i = 0; i < reading->dying_count; i++) {
		uint64_t now_ns = clock_mono_ns();
		(void)helper_ends_within(reading->dying[i], now_ns < end_ns ? end_ns - now_ns : 0);
	}
	reading->dying_count = 0;
	if (reading->page)
		munmap(reading->page, HT_PAGE_BYTES);
	reading->page = NULL;
}
