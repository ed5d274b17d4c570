/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/linger.h"

#include <poll.h>
#include <unistd.h>

#include "attach/memory/slow.h"
#include "attach/memory/stalled.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_status.h"
#include "attach/process/gate.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"
#include "attach/undo/cleanup.h"
#include "format/helper.h"

#define GENERATIONS_MAX 64u
#define PAUSE_NS	(200 * CLOCK_NS_PER_MS)
#define PAUSE_MAX_NS	(10 * CLOCK_NS_PER_S)
#define GATE_NS		(10 * CLOCK_NS_PER_S)
#define PAUSE_SHARE	4u  /* a pause is 1/4 of the time since the start */
#define SEARCH_SHARE	16u /* the next search waits this many times the length of the last one */
#define PROOF_NS	CLOCK_NS_PER_S

static pid_t parent_of(pid_t pid)
{
	struct proc_status status = {0};
	ht_err_free(proc_status_of(pid, &status));
	return status.ppid;
}

bool linger_reaches(pid_t target)
{
	pid_t pid = getppid();
	if (target == 1)
		return true;
	for (unsigned i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
		if (pid == target)
			return true;
		pid = parent_of(pid);
	}
	return false;
}

/* --- one page
 * ---------------------------------------------------------------------------------------- */

struct wait {
	struct linger_page at;
	struct proc proc;
	int gate_fd;
	bool done;
	uint64_t search_ns; /* the next search is not before */
	uint64_t gate_ns;   /* the gate must be open by then */
};

static bool is_ended_by_another(void *context)
{
	const struct wait *wait = context;
	struct pollfd gate = {.fd = wait->gate_fd, .events = POLLIN};
	return poll(&gate, 1, 0) > 0;
}

static struct ht_err *open_process(struct wait *wait)
{
	HT_TRY(proc_open(wait->at.pid, &wait->proc));
	struct ht_err *err = proc_open_mem(&wait->proc);
	if (!err && wait->proc.start_ticks != wait->at.start_ticks)
		err = ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", wait->at.pid);
	if (err)
		proc_close(&wait->proc);
	return err;
}

static void wait_begin(struct wait *wait, const struct linger_page *at)
{
	*wait = (struct wait){.at = *at, .gate_fd = -1};
	struct ht_err *err = open_process(wait);
	wait->done = err != NULL;
	wait->gate_ns = clock_mono_ns() + GATE_NS;
	if (!err)
		wait->gate_fd = gate_open(&wait->proc);
	ht_err_free(err);
}

/* The gate may still be held by the lingering process of an earlier capture, which gives it up when
 * it next runs. If it is still held at gate_ns, the holder belongs to a later capture. */
static void open_gate(struct wait *wait)
{
	if (wait->done || wait->gate_fd >= 0)
		return;
	wait->gate_fd = gate_open(&wait->proc);
	wait->done = wait->gate_fd < 0 && clock_mono_ns() > wait->gate_ns;
}

static void wait_end(struct wait *wait)
{
	proc_close(&wait->proc);
	fd_close(&wait->gate_fd);
	wait->done = true;
}

/* With the lock held, examines the threads and unmaps the page if nothing leads to it. */
static struct ht_err *take_out(struct wait *wait, const struct jump_page_look *look)
{
	struct cleanup_report report;
	struct lock lock;
	/* An error here does not end the wait: another heaptap may hold the lock only for a
	 * moment. */
	HT_TRY(lock_take_now(&wait->proc, &lock));
	struct ht_err *err = cleanup_look(&wait->proc, look, &report);
	lock_release(&lock);
	if (err)
		return err;
	wait->done = report.outcome != CLEANUP_IN_USE;
	linger_page_note(&wait->at, &report.found.found);
	return NULL;
}

/* Searches all memory. Seldom, since some gigabytes cost a second. */
static struct ht_err *search(struct wait *wait)
{
	const struct jump_page_look look = {.deadline_mono_ns = clock_mono_ns() + PROOF_NS,
		.is_cancelled = is_ended_by_another,
		.context = wait};
	uint64_t began_ns = clock_mono_ns();
	struct escape_found found;
	struct ht_err *err = jump_page_search(&wait->proc, wait->at.page, &look, &found);
	if (!err && !found.count && !found.unread_bytes)
		err = take_out(wait, &look);
	else if (!err)
		linger_page_note(&wait->at, &found);
	/* Give up if unread memory is the only reason for the page: it may hold an address, and
	 * each search would swap a part of it in. */
	wait->done |= !err && found.unread_bytes && !found.count;
	uint64_t now_ns = clock_mono_ns();
	wait->search_ns = now_ns + (now_ns - began_ns) * SEARCH_SHARE;
	return err;
}

static void look_at(struct wait *wait)
{
	size_t left = 0;
	if (proc_changed(&wait->proc) != PROC_SAME) {
		wait->done = true;
		return;
	}
	/* No other process would end this one if a file system stalled. */
	struct ht_err *err = stalled_avoid(&wait->proc);
	wait->done = slow_is_avoided();
	if (!err && !wait->done)
		err = jump_page_still(
			&wait->proc, wait->at.page, wait->at.place, wait->at.place_count, &left);
	if (!err && !wait->done && !left && clock_mono_ns() >= wait->search_ns)
		err = search(wait);
	wait->done |= err && err->code == HT_ERR_TARGET_GONE;
	ht_err_free(err);
}

/* --- all pages
 * ------------------------------------------------------------------------------------- */

static uint64_t pause_ns(uint64_t elapsed_ns)
{
	uint64_t pause = elapsed_ns / PAUSE_SHARE;
	return pause < PAUSE_NS ? PAUSE_NS : pause > PAUSE_MAX_NS ? PAUSE_MAX_NS : pause;
}

/* Returns at `until_ns`, when a process ends, or when another heaptap comes. */
static void sleep_until(struct wait *waits, size_t count, uint64_t until_ns)
{
	struct pollfd poll_of[2 * LINGER_PAGES_MAX];
	uint64_t now_ns = clock_mono_ns();
	for (size_t i = 0; i < count; i++) {
		const struct wait *wait = &waits[i];
		poll_of[2 * i] = (struct pollfd){.fd = wait->gate_fd, .events = POLLIN};
		poll_of[2 * i + 1] =
			(struct pollfd){.fd = wait->done ? -1 : wait->proc.pidfd, .events = POLLIN};
	}
	int timeout_ms = until_ns > now_ns ? (int)((until_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;
	poll(poll_of, 2 * count, timeout_ms);
}

static size_t end_those_that_are_done(struct wait *waits, size_t count)
{
	size_t left = 0;
	for (size_t i = 0; i < count; i++) {
		struct wait *wait = &waits[i];
		open_gate(wait);
		if (!wait->done &&
			(is_ended_by_another(wait) || proc_changed(&wait->proc) != PROC_SAME))
			wait->done = true;
		if (wait->done)
			wait_end(wait);
		left += !wait->done;
	}
	return left;
}

static void wait_for_all(struct wait *waits, size_t count, uint64_t time_ns)
{
	uint64_t began_ns = clock_mono_ns(), end_ns = began_ns + time_ns, next_ns = began_ns;

	while (end_those_that_are_done(waits, count)) {
		uint64_t now_ns = clock_mono_ns();
		if (now_ns >= next_ns) {
			for (size_t i = 0; i < count; i++)
				if (!waits[i].done)
					look_at(&waits[i]);
			if (now_ns >= end_ns)
				break;
			now_ns = clock_mono_ns();
			next_ns = now_ns + pause_ns(now_ns - began_ns);
			if (next_ns > end_ns)
				next_ns = end_ns;
			continue;
		}
		sleep_until(waits, count, next_ns);
	}
	for (size_t i = 0; i < count; i++)
		wait_end(&waits[i]);
}

static bool leave_all(int ready_fd)
{
	int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, ready_fd};
	setsid();
	bool left = chdir("/") == 0;
	return helper_close_all_but(kept, HT_ARRAY_SIZE(kept)) && left;
}

void linger_run(const struct linger_plan *plan, int ready_fd)
{
	struct wait waits[LINGER_PAGES_MAX];
	/* An inherited descriptor that stays open here does more harm than the page that stays. */
	bool left = leave_all(ready_fd);

	for (size_t i = 0; left && i < plan->count; i++)
		wait_begin(&waits[i], &plan->page[i]);
	(void)!write(ready_fd, "", 1);
	close(ready_fd);
	if (left)
		wait_for_all(waits, plan->count, plan->time_ns);
}
