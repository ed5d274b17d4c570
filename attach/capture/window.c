/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/window.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "attach/capture/guard_wait.h"
#include "attach/capture/change.h"
#include "attach/steer/steered.h"
#include "attach/helper/priority.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/process/proc_open.h"

#define TICK_MS		  5
#define NAMES_NS	  500000	 /* between two looks while short-lived threads start */
#define LOADS_NS	  1000000	 /* between two looks while libraries are loaded */
#define HEAP_LIMIT_NS	  CLOCK_NS_PER_S /* of a heap reading that the end waits for */
#define HOLDS_MAX	  64u /* each takes milliseconds: limits a program whose execs fail */
#define SECCOMP_PERIOD_NS (250 * CLOCK_NS_PER_MS) /* between two looks at all threads */

/*
 * After a change of libraries: reads the survey again, publishes unwind tables, hooks new slots. If
 * a thread waits (`asked`), its slots are hooked first; if the tables take long, the thread goes on
 * before them, and its calls are recorded with stacks that count as cut. `late`: code of the new
 * libraries has already run.
 */
static struct ht_err *follow_modules(
	struct window *window, bool asked, uint64_t question, bool late)
{
	size_t old_count = window->use.survey->modules.count;
	uint64_t *old_id = calloc(old_count + 1, sizeof(*old_id));
	bool gone = false;
	if (!old_id)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", old_count);
	for (size_t i = 0; i < old_count; i++)
		old_id[i] = window->use.survey->modules.module[i].id;
	struct ht_err *err = survey_refresh(window->use.survey, window->use.image->thunks,
		window->use.image->thunks + HT_PAGE_BYTES);
	/* A thread may have listed its library between the caller's check and this survey. It will
	 * ask for it, so the library is not late. */
	late = late &&
	       !(loads_see_constructors(window->use.loads) && loads_come(window->use.loads));
	/* After an exec, another process that shares the old memory still shows the old modules. */
	HT_THEN(err, proc_check_same(&window->use.survey->proc));
	if (!err && asked)
		err = tap_slots(window->use.tap);
	struct ht_err *refused = err && err->code == HT_ERR_REFUSED ? err : NULL;
	if (refused)
		err = NULL;
	late |= asked && loads_tapped(window->use.loads);
	if (!err && asked && publish_is_long(window->use.publish, &window->use.survey->modules))
		loads_answer_early(window->use.loads, question);
	HT_THEN(err, publish_compile(window->use.publish, &window->use.survey->proc,
			     &window->use.survey->modules, NULL));
	HT_THEN(err, records_put_gone_modules(window->use.records, old_id, old_count, &gone));
	HT_THEN(err, publish_snapshot(window->use.publish, window->use.image->local,
			     window->use.image->base, &window->use.survey->modules,
			     &window->use.survey->maps, gone));
	HT_THEN(err, records_put_new_modules(
			     window->use.records, late, &window->use.report->untapped_modules));
	if (!err && !asked)
		err = tap_slots(window->use.tap);
	err = ht_err_first(err, refused);
	/* Slots without room are not recorded, but counted; the capture goes on. */
	if (err && err->code == HT_ERR_REFUSED) {
		ht_err_free(err);
		err = NULL;
	}
	window->use.report->slots_left = window->use.tap->left;
	watch_settled(window->use.watch);
	free(old_id);
	return err;
}

void window_forbid_calls(struct image *image)
{
	__atomic_fetch_or(&image_config(image)->flags, ABI_FLAG_NO_SYSCALL, __ATOMIC_RELEASE);
}

/*
 * The agent must make no system call in a thread that enters a seccomp filter during the capture,
 * as the filter may kill the thread. The guards see to that (agent/guard.c). A thread that enters a
 * filter by a system call instruction of its own is noticed here, perhaps too late: a buffer may
 * have got full in between.
 */
static void follow_seccomp(
	struct window *window, uint64_t now_ns, const struct glance_status *status)
{
	if (window->use.survey->any_seccomp)
		return;
	window->use.survey->any_seccomp = status->seccomp != 0;
	if (!window->use.survey->any_seccomp && now_ns >= window->next_seccomp_ns) {
		window->next_seccomp_ns = now_ns + SECCOMP_PERIOD_NS;
		/* Errors are ignored: the next look reads again, and the detach does in any
		 * case. */
		ht_err_free(proc_any_seccomp(
			&window->use.survey->proc, &window->use.survey->any_seccomp));
	}
	if (window->use.survey->any_seccomp)
		window_forbid_calls(window->use.image);
}

/* The agent found the socket closed and no look of heaptap's for ten seconds, and has stopped
 * recording. */
static struct ht_err *given_up(const struct window *window)
{
	/* Any other value was written by the program; the check for damage reports that. */
	if (__atomic_load_n(&image_control(window->use.image)->given_up, __ATOMIC_ACQUIRE) !=
		ABI_GIVEN_UP)
		return NULL;
	return ht_err_new(HT_ERR_INTERNAL,
		"recording has ended: process %d closed heaptap's socket while heaptap was stopped",
		window->use.survey->proc.pid);
}

/* A debugger's breakpoint in the distance bytes of an entry hook would make the jump lead
 * elsewhere. So heaptap detaches when a debugger attaches; a debugger sets no breakpoint before it
 * has read the program's symbols. */
static struct ht_err *debugged(const struct window *window, const struct glance_status *status)
{
	if (!window->use.entries->hooked || !status->tracer)
		return NULL;
	return ht_err_new(HT_ERR_INTERNAL,
		"recording has ended: process %d is now traced by process %d, whose breakpoints "
		"could hit code that heaptap has changed",
		window->use.survey->proc.pid, status->tracer);
}

/* A thread that is about to exec waits for heaptap. If the exec fails, the thread goes on in this
 * program. */
static void hold_exec(struct window *window)
{
	const struct session_child *child = window->use.options->child;
	struct abi_config *config = image_config(window->use.image);
	struct follow_ask ask;

	/* Only followed commands can be held; ignore requests from other targets. */
	if (!child || !child->hold || !config->follow ||
		!guard_wait_find(window->use.image, &window->use.survey->proc, false, &ask))
		return;
	window->use.change->has_execed |= child->hold(child->context, &ask);
	follow_answer(&ask);
	if (++window->holds == HOLDS_MAX)
		__atomic_store_n(&config->follow, 0, __ATOMIC_RELEASE);
}

static struct ht_err *look_for_modules(struct window *window, uint64_t now)
{
	uint64_t question, before = window->use.report->untapped_modules;
	bool changed, asked = loads_asked(window->use.loads, &question);
	/* A thread of the target waits: on a busy machine each step of ours would cost a time slice
	 * of every computing thread. */
	int priority = asked ? priority_raise() : 0;
	struct ht_err *err = watch_modules(window->use.watch, now, &changed);

	if (!err && (changed || asked))
		err = follow_modules(window, asked, question,
			!loads_see_constructors(window->use.loads) ||
				!(asked || loads_come(window->use.loads)));
	if (asked) {
		loads_answer(window->use.loads, question);
		window->use.report->untapped_modules += loads_count(
			window->use.loads, question, window->use.report->untapped_modules - before);
		priority_restore(priority);
	}
	return err;
}

/* CPU time of all threads of the target; 0: the target has ended. */
static uint64_t cpu_ns_of(pid_t pid)
{
	clockid_t clock;
	struct timespec now;
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
		return 0;
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct ht_err *mind_overhead(struct window *window, uint64_t now_ns)
{
	struct overhead *overhead = &window->overhead;
	if (window->is_ending || !overhead_is_due(overhead, now_ns))
		return NULL;
	const struct overhead_look look = {now_ns, receiver_totals(window->use.receiver).events,
		cpu_ns_of(window->use.survey->proc.pid)};
	if (!look.cpu_ns)
		return NULL;
	return pausing_set(&window->pausing, PAUSING_OVERHEAD, overhead_judge(overhead, &look));
}

static struct ht_err *tick(struct window *window)
{
	uint64_t now = clock_mono_ns();
	struct glance_status status;
	bool reads;

	struct ht_err *err = look_for_modules(window, now);
	hold_exec(window);
	if (window->use.options->forks)
		window->use.options->forks->look(window->use.options->forks, window->use.shown);
	/* Errors are ignored: the next look reads again. */
	struct ht_err *untold = glance_status(&window->glance, &status);
	if (untold)
		status = (struct glance_status){0};
	ht_err_free(untold);
	follow_seccomp(window, now, &status);
	HT_THEN(err, given_up(window));
	HT_THEN(err, debugged(window, &status));
	HT_THEN(err, watch_threads(window->use.watch, now, status.stack_kib));
	if (!err && !settle_has_begun(&window->settle))
		err = memory_look(&window->memory, now);
	HT_THEN(err, scripts_follow(window->use.scripts, window->use.receiver));
	HT_THEN(err, mind_overhead(window, now));
	if (!err && !window->is_ending)
		err = heapread_look(&window->heapread, &reads);
	sink_tick(window->use.sink);
	steered_serve(window->use.options->steered);
	return err;
}

/* Has the target forbidden its threads what recording needs (agent/guard.c)? */
static bool is_mute(const struct window *window)
{
	uint64_t forbidden =
		__atomic_load_n(&image_control(window->use.image)->forbidden, __ATOMIC_ACQUIRE);
	return forbidden & ABI_FORBIDDEN_CLOCK;
}

enum turn { TURN_GO_ON, TURN_END };

static enum turn judge_turn(
	struct window *window, uint64_t end_ns, bool signalled, enum rec_end_reason *ret)
{
	enum proc_change change = glance_changed(&window->glance);

	if (change != PROC_SAME) {
		*ret = change_reason(window->use.change, change);
		window->use.change->is_gone = true;
	} else if (signalled) {
		*ret = REC_END_SIGNAL;
	} else if (steered_take_stop(window->use.options->steered)) {
		*ret = REC_END_STOP;
	} else if (is_mute(window)) {
		*ret = REC_END_FORBIDDEN;
	} else if (end_ns && clock_mono_ns() >= end_ns) {
		*ret = REC_END_DURATION;
	} else if (limits_reached(&window->limits, clock_mono_ns(), window->memory.rss_bytes,
			   sink_bytes(window->use.sink), ret)) {
		return TURN_END;
	} else if (sink_state(window->use.sink) != STORE_OK) {
		*ret = sink_state(window->use.sink) == STORE_FULL ? REC_END_DISK_FULL
								  : REC_END_ERROR;
	} else {
		return TURN_GO_ON;
	}
	return TURN_END;
}

/* Takes all pending signals at once, so that only a later signal counts as a second one. If heaptap
 * is a command's parent, gives the signals to the command and returns false. */
static bool take_signals(const struct window *window)
{
	const struct session_child *child = window->use.options->child;
	struct signalfd_siginfo info[4];
	ssize_t got = read(window->use.signal_fd, info, sizeof(info));
	size_t count = got > 0 ? (size_t)got / sizeof(info[0]) : 0;

	if (!child || !child->attend)
		return count > 0;
	for (size_t i = 0; i < count; i++)
		child->attend(child->context, &info[i]);
	child->attend(child->context, NULL);
	return false;
}

/* If heaptap died now, no process would clean the target. */
static struct ht_err *unguarded(void)
{
	return ht_err_new(HT_ERR_INTERNAL,
		"the guardian process was killed, so heaptap ended the capture; "
		"the trace holds everything recorded until then");
}

/* Is this an end that the options or `heaptap stop` asked for? */
static bool is_wanted(enum rec_end_reason reason)
{
	return reason == REC_END_DURATION || reason == REC_END_STOP || reason == REC_END_RSS ||
	       reason == REC_END_GROWTH || reason == REC_END_SIZE || reason == REC_END_COMMAND;
}

/* Before a requested end heaptap reads the heap once more, so that the trace can be compared with
 * the allocators' figures. Any other end, and a second signal, takes effect at once. */
static enum turn put_off(struct window *window, enum turn turn, enum rec_end_reason reason)
{
	bool runs = false;
	bool asked = reason == REC_END_SIGNAL || is_wanted(reason);

	if (window->is_ending) {
		struct ht_err *err = heapread_look(&window->heapread, &runs);
		window->heap_error = ht_err_first(window->heap_error, err);
		/* A second signal ends the window at once; a second stop command does not. */
		if (runs && (turn == TURN_GO_ON || is_wanted(reason)))
			return TURN_GO_ON;
		if (turn == TURN_END && !asked)
			window->use.report->ended = reason;
		return TURN_END;
	}
	if (turn == TURN_GO_ON)
		return turn;
	window->use.report->ended = reason;
	if (!asked || (window->use.options->child && window->use.options->child->let_go))
		return TURN_END;
	/* Stop the reading that began with the window, if it still runs. */
	heapread_stop(&window->heapread);
	heapread_start(&window->heapread, HEAP_LIMIT_NS);
	window->is_ending = window->heapread.pid != 0;
	return window->is_ending ? TURN_GO_ON : TURN_END;
}

/* Ends the window, and begins the settle time. */
static struct ht_err *begin_settling(struct window *window)
{
	struct ht_err *err = memory_end(&window->memory, false);
	window->is_ending = true;
	/* In the settle time only the limit on the trace's size holds. */
	limits_begin(&window->limits,
		&(struct limits_options){.trace_bytes = window->use.options->limits.trace_bytes});
	options_tell(window->use.options,
		"the window is over; frees of its blocks are recorded for %.1f s more",
		(double)window->settle.wanted_ns / CLOCK_NS_PER_S);
	return ht_err_first(err, settle_begin(&window->settle, window->use.image, window->use.elf,
					 window->use.sink));
}

/* Ends the window, and later the settle time. */
static struct ht_err *take_turn(struct window *window, bool signalled, enum turn *ret)
{
	const bool settles = settle_has_begun(&window->settle);
	const uint64_t duration_ns = window->use.options->duration_ns;
	uint64_t end_ns = settles	? window->settle.end_ns
			  : duration_ns ? window->use.times->first_tap_ns + duration_ns
					: 0;
	enum rec_end_reason reason = window->use.report->ended;
	*ret = judge_turn(window, end_ns, signalled, &reason);
	if (settles) {
		/* At the end of the settle time the report keeps the reason for the window's
		 * end. */
		if (*ret == TURN_END && reason != REC_END_DURATION)
			window->use.report->ended = reason;
		return NULL;
	}
	*ret = put_off(window, *ret, reason);
	if (*ret != TURN_END || !settle_follows(&window->settle, window->use.report->ended))
		return NULL;
	*ret = TURN_GO_ON;
	return begin_settling(window);
}

static struct ht_err *pump(struct window *window)
{
	uint64_t next_tick_ns = 0;
	struct ht_err *err = NULL;

	/* A command that is still held before its first instruction has no heap to read. */
	if (!window->use.options->child || !window->use.options->child->let_go)
		heapread_start(&window->heapread, HEAP_LIMIT_NS);
	for (;;) {
		/* If the output has no room, leave the events with the target: its threads wait for
		 * a bounded time, drop events, and count them. */
		bool has_room = sink_has_room(window->use.sink);
		struct pollfd wait[] = {
			{.fd = has_room ? receiver_socket(window->use.receiver) : -1,
				.events = POLLIN},
			{.fd = window->use.survey->proc.pidfd, .events = POLLIN},
			{.fd = window->use.signal_fd, .events = POLLIN},
			{.fd = sink_fd(window->use.sink), .events = POLLOUT},
			{.fd = window->use.guardian_fd}};
		bool names_soon = watch_names_soon(window->use.watch);
		const struct timespec timeout = {.tv_nsec = names_soon ? NAMES_NS
							    : loads_are_busy(window->use.loads)
								    ? LOADS_NS
								    : TICK_MS * CLOCK_NS_PER_MS};
		ppoll(wait, HT_ARRAY_SIZE(wait), &timeout, NULL);
		if (wait[4].revents) {
			heapread_stop(&window->heapread);
			return unguarded();
		}
		if (wait[0].revents & POLLIN)
			err = receiver_read_socket(window->use.receiver);
		if (err)
			break;
		if (wait[3].revents)
			sink_tick(window->use.sink);
		bool signalled = take_signals(window);
		uint64_t now = clock_mono_ns(), question;
		if (now < next_tick_ns && !signalled && !(wait[1].revents & POLLIN) &&
			!loads_asked(window->use.loads, &question)) {
			err = names_soon ? watch_names(window->use.watch) : NULL;
			if (err)
				break;
			continue;
		}
		next_tick_ns = now + TICK_MS * CLOCK_NS_PER_MS;
		enum turn turn;
		err = take_turn(window, signalled, &turn);
		if (err || turn == TURN_END)
			break;
		err = tick(window);
		if (err && err->code == HT_ERR_TARGET_GONE) {
			ht_err_free(err);
			err = NULL;
		}
		if (err)
			break;
	}
	heapread_stop(&window->heapread);
	/* Drop the signal that ended the command: it must not cut the detach short. */
	if (window->use.options->child)
		(void)take_signals(window);
	return err;
}

struct ht_err *window_run(struct window *window, const struct window_use *use)
{
	window->use = *use;
	glance_open(&window->glance, &window->use.survey->proc);
	limits_begin(&window->limits, &window->use.options->limits);
	window->heapread = (struct heapread){.proc = &window->use.survey->proc,
		.modules = &window->use.survey->modules,
		.receiver = window->use.receiver,
		.sink = window->use.sink};
	struct ht_err *err = memory_begin(
		&window->memory, &window->use.survey->proc, window->use.sink, window->use.memfd);
	loads_listen(window->use.loads, !err);
	HT_THEN(err, pump(window));
	loads_listen(window->use.loads, false);
	window->use.report->untapped_modules += loads_end(window->use.loads);
	if (!err && !window->use.change->is_gone)
		err = watch_names(window->use.watch);
	if (!settle_has_begun(&window->settle))
		err = ht_err_first(err, memory_end(&window->memory, window->use.change->is_gone));
	glance_close(&window->glance);
	return err;
}

void window_report(
	const struct window *window, const struct times *times, struct session_report *report)
{
	const struct settle *settle = &window->settle;
	uint64_t end_ns = settle_has_begun(settle) ? settle->begin_ns : times->end_ns;
	report->capture_ns = end_ns - times->first_tap_ns;
	report->settle_ns = times->end_ns - end_ns;
	report->pauses = window->pausing.count;
	report->paused_ns = pausing_ns(&window->pausing, end_ns);
	report->overhead_limit_ppm = window->overhead.limit_ppm;
	report->overhead_ppm = overhead_mean_ppm(&window->overhead);
}

void window_close(struct window *window)
{
	heapread_finish(&window->heapread);
	ht_err_free(window->heap_error);
	window->heap_error = NULL;
}
