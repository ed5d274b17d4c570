/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attach/capture/bring_in.h"
#include "attach/capture/change.h"
#include "attach/capture/leave.h"
#include "attach/trace/outlet.h"
#include "attach/trace/records.h"
#include "attach/trace/scripts.h"
#include "attach/helper/inherited.h"
#include "attach/steer/steered.h"
#include "attach/trace/symbols.h"
#include "attach/capture/window.h"
#include "attach/helper/priority.h"
#include "attach/proc/clock.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_status.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"
#include "format/arch.h"

#define SEARCH_LONG_MIB 2048u /* takes about a second */

struct session {
	const struct session_options *options;
	struct session_report *report;
	struct times times;
	uint64_t phase_ns; /* when the current phase began */

	/* The target, as far as heaptap knows it. */
	struct survey survey;
	struct entries entries;
	struct publish *publish;

	/* Changes of the target, and what undoes them. */
	struct lock lock;
	struct journal journal;
	struct guardian guardian;
	struct agent_elf elf;
	struct inside inside;
	struct tap tap;
	struct session_target shown; /* what options->forks is given */

	/* The trace. */
	struct outlet outlet;
	struct records records;

	/* While the window is open. */
	int signal_fd;
	struct loads loads;
	struct scripts scripts;
	struct window window;

	/* How the capture ends. */
	struct change change;
	struct ht_err *pump_error; /* the first error while the agent is removed */
	struct leave leave;
};

/* --- before anything is touched
 * ------------------------------------------------------------------------- */

static struct ht_err *open_signals(struct session *s)
{
	s->signal_fd = inherited_open_signals();
	return s->signal_fd < 0 ? ht_err_sys(errno, "cannot make a signalfd") : NULL;
}

static struct ht_err *take_lock(struct session *s)
{
	struct ourmaps found;
	struct ht_err *err = lock_take(&s->survey.proc, &s->lock);
	/* Prefer the error that names the lock's holder. */
	return err ? ht_err_first(survey_check_tapped(&s->survey.proc, &found), err) : NULL;
}

static void end_phase(struct session *s, enum session_phase phase)
{
	uint64_t now = clock_mono_ns();
	s->report->phase_ns[phase] = now - s->phase_ns;
	s->phase_ns = now;
}

/* The cache's file system may be slow, so read the cache before the target is touched. */
static struct ht_err *get_tables(struct session *s)
{
	struct cache *cache = s->options->cache ? cache_open() : NULL;
	struct ht_err *err = publish_create(&s->publish);
	HT_THEN(err, publish_compile(s->publish, &s->survey.proc, &s->survey.modules, cache));
	cache_close(cache);
	return err;
}

/* While names are looked up, up to a minute, clients still get answers. */
static void answer_clients(void *context)
{
	steered_serve(context);
}

static struct ht_err *open_outlet(struct session *s)
{
	return outlet_open(&s->outlet, &(struct outlet_options){.output = s->options->output,
					       .replace = s->options->replace,
					       .cull_ns = s->options->cull_ns,
					       .symbolize = s->options->symbolize,
					       .proc = &s->survey.proc,
					       .status = &s->survey.status,
					       .cancel_fd = s->signal_fd,
					       .meanwhile = answer_clients,
					       .context = s->options->steered});
}

static void open_steered(struct session *s)
{
	const struct steered_capture capture = {.options = s->options,
		.proc = &s->survey.proc,
		.comm = s->report->comm,
		.times = &s->times,
		.settle = &s->window.settle,
		.memory = &s->window.memory,
		.is_ending = &s->window.is_ending,
		.receiver = &s->inside.receiver,
		.sink = s->outlet.sink,
		.pausing = &s->window.pausing,
		.overhead = &s->window.overhead};
	s->window.pausing =
		(struct pausing){.sink = s->outlet.sink, .image = &s->inside.image, .elf = &s->elf};
	struct ht_err *err = steered_open(s->options->steered, &capture);
	if (err)
		snprintf(s->report->control_problem, sizeof(s->report->control_problem), "%s",
			err->message);
	ht_err_free(err);
}

static struct ht_err *prepare(struct session *s)
{
	struct ht_err *err = agent_elf_read(&s->elf);
	HT_THEN(err, survey_open(s->options->pid, &s->survey));
	if (!err && s->options->start_ticks &&
		s->survey.proc.start_ticks != s->options->start_ticks)
		err = ht_err_new(
			HT_ERR_TARGET_GONE, "process %d is another one now", s->options->pid);
	s->survey.with_mappings = s->options->mappings;
	s->survey.given_optional = s->options->given_optional;
	/* Take the lock before the guardian is forked: the guardian then holds the lock after
	 * heaptap's death. */
	HT_THEN(err, take_lock(s));
	HT_THEN(err, journal_create(&s->journal));
	HT_THEN(err, guardian_start(&s->survey.proc, &s->journal, linger_run, &s->guardian));
	HT_THEN(err, survey_read(&s->survey));
	HT_THEN(err, entries_plan(&s->survey, s->options->hook, &s->entries));
	HT_THEN(err, entries_check(&s->survey, s->options->hook, &s->entries));
	HT_THEN(err, ownprofile_judge(&s->survey, s->options->child && s->options->child->let_go,
			     s->options->force, &s->report->own_profile));
	if (err)
		return err;
	memcpy(s->report->comm, s->survey.status.comm, sizeof(s->report->comm));
	report_fill_coverage(s->report, &s->survey, &s->entries);
	end_phase(s, SESSION_SURVEY);
	err = scripts_prepare(&s->scripts, &s->survey, s->report->scripts_problem,
		sizeof(s->report->scripts_problem));
	HT_THEN(err, open_signals(s));
	HT_THEN(err, get_tables(s));
	end_phase(s, SESSION_TABLES);
	HT_THEN(err, residue_create(&s->survey.proc, &s->survey.modules, &s->leave.residue));
	HT_THEN(err, open_outlet(s));
	s->leave.sink = s->outlet.sink;
	s->records = (struct records){.survey = &s->survey,
		.image = &s->inside.image,
		.publish = s->publish,
		.handover = outlet_handover(&s->outlet),
		.sink = s->outlet.sink,
		.sample_bytes = s->options->sample_bytes,
		.mappings = s->options->mappings};
	if (!err)
		open_steered(s);
	if (!err)
		residue_look_again(s->leave.residue, &s->survey.proc);
	end_phase(s, SESSION_PICTURE);
	return err;
}

/* Idempotent. */
static struct ht_err *begin_trace(struct session *s)
{
	if (s->times.first_tap_ns)
		return NULL;
	struct ht_err *err = records_put_target(&s->records);
	HT_THEN(err, records_put_capture(&s->records));
	if (!err && s->options->mappings)
		err = records_put_mapped(&s->records);
	HT_THEN(err, records_put_new_modules(&s->records, false, &s->report->untapped_modules));
	if (!err)
		s->times.first_tap_ns = clock_mono_ns();
	return err;
}

/* Guards catch filters installed from now on; check for existing ones. */
static struct ht_err *ask_for_filters(void *context)
{
	struct session *s = context;
	if (s->survey.any_seccomp || s->tap.tapped)
		return NULL;
	struct ht_err *err = proc_any_seccomp(&s->survey.proc, &s->survey.any_seccomp);
	if (!err && s->survey.any_seccomp)
		window_forbid_calls(&s->inside.image);
	return err;
}

static struct ht_err *tap(struct session *s)
{
	s->tap = (struct tap){.survey = &s->survey,
		.elf = &s->elf,
		.image = &s->inside.image,
		.journal = &s->journal,
		.entries = &s->entries,
		.follow = {.execs = s->options->child && s->options->child->hold,
			.forks = s->options->forks != NULL},
		.guarded = ask_for_filters,
		.context = s};
	HT_TRY(begin_trace(s));
	journal_set_phase(&s->journal, JOURNAL_TAPPED);
	struct ht_err *err = tap_slots(&s->tap);
	if (!err && s->tap.tapped == 0)
		err = ht_err_new(HT_ERR_REFUSED,
			"no address of an allocator function in process %d could be changed",
			s->options->pid);
	return err;
}

/* --- taking it out
 * ---------------------------------------------------------------------------------------------- */

static void pump(void *context)
{
	struct session *s = context;
	struct ht_err *err = receiver_read_socket(s->inside.receiver);
	HT_THEN(err, scripts_drain(&s->scripts, s->inside.receiver));
	/* Do not stop removing the agent for this error: the sink counts what was lost. */
	s->pump_error = ht_err_first(s->pump_error, err);
	steered_serve(s->options->steered);
}

/* --- the end of the trace
 * --------------------------------------------------------------------------------------- */

static struct ht_err *finish_events(struct session *s)
{
	/* The target ended before there was a receiver: no event came. */
	if (!s->inside.receiver)
		return NULL;
	HT_TRY(scripts_drain_last(&s->scripts, s->inside.receiver, s->inside.mapped));
	/* Flush first: what the output does not take must be counted in the totals. */
	sink_flush(s->outlet.sink);
	struct ht_err *err = scripts_finish(&s->scripts, s->change.is_gone,
		&s->report->script_places, &s->report->script_names);
	return err ? err : receiver_put_totals(s->inside.receiver);
}

static struct ht_err *put_left(struct session *s)
{
	const struct session_report *r = s->report;
	struct rec rec = {.kind = REC_LEFT, .left.result = REC_LEFT_ENDED};
	if (r->detached)
		rec.left = (struct rec_left){r->level == DETACH_INCOMPLETE  ? REC_LEFT_CODE
					     : r->level == DETACH_TOMBSTONE ? REC_LEFT_PAGE
					     : r->verify.equal		    ? REC_LEFT_UNCHANGED
									    : REC_LEFT_DIFFERS,
			RESIDUE_CHECKS, {r->why, strlen(r->why)}};
	return sink_put(s->outlet.sink, &rec, 0);
}

static struct ht_err *finish_trace(struct session *s)
{
	struct session_report *report = s->report;
	struct rec end = {.kind = REC_END};

	struct ht_err *err = finish_events(s);
	HT_THEN(err,
		records_put_counter(&s->records, REC_COUNTER_UNTAPPED, report->untapped_modules));
	if (!err && report->unseen_places)
		err = records_put_counter(&s->records, REC_COUNTER_UNSEEN, report->unseen_places);
	if (s->times.end_ns == 0) {
		times_end(&s->times);
		window_report(&s->window, &s->times, s->report);
	}
	end.end = (struct rec_end){
		.reason = report->ended, .mono_ns = s->times.end_ns, .tsc = s->times.end_tsc};
	HT_THEN(err, put_left(s));
	HT_THEN(err, sink_put(s->outlet.sink, &end, 0));
	if (!err && s->options->symbolize)
		options_tell(s->options, "looking up names");
	if (!err && s->options->symbolize)
		steered_naming(s->options->steered);
	if (!err)
		outlet_finish(&s->outlet);
	report_fill_totals(report, s->inside.receiver, s->outlet.sink);
	report->sample_bytes = s->options->sample_bytes;
	report->cull_ns = s->options->cull_ns;
	report_fill_output(report, s->outlet.sink);
	err = ht_err_first(s->pump_error, err);
	s->pump_error = NULL;
	return err;
}

/* --- the whole
 * ----------------------------------------------------------------------------------------------------
 */

static void release(struct session *s)
{
	steered_close(s->options->steered);
	window_close(&s->window);
	watch_destroy(s->inside.watch);
	scripts_close(&s->scripts);
	receiver_destroy(s->inside.receiver);
	ht_err_free(s->pump_error);
	const int taken[] = {
		s->inside.remote.memfd, s->inside.remote.daemon_fd, s->inside.remote.agent_socket};
	for (size_t i = 0; i < HT_ARRAY_SIZE(taken); i++)
		if (taken[i] >= 0)
			close(taken[i]);
	s->journal.shown = NULL;
	if (s->report->detached && s->report->level == DETACH_TOMBSTONE)
		image_keep_thunks(&s->inside.image);
	image_deinit(&s->inside.image);
	if ((s->inside.mapped && !s->change.is_gone) || s->report->children.pending)
		guardian_leave(&s->guardian);
	else if (!guardian_dismiss_to_linger(
			 &s->guardian, &s->leave.jump_page_left.plan, GUARDIAN_PATIENCE_NS))
		s->report->guardian_left = s->guardian.pid;
	outlet_close(&s->outlet);
	residue_destroy(s->leave.residue);
	publish_destroy(s->publish);
	entries_deinit(&s->entries);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	lock_release(&s->lock);
	journal_destroy(&s->journal);
	survey_deinit(&s->survey);
}

/* The search of much memory for hooks' addresses takes seconds (attach/proof/DESIGN.md). */
static void tell_detach(const struct session *s)
{
	const uint64_t mib = s->window.memory.rss_bytes >> 20;
	if (mib < SEARCH_LONG_MIB)
		options_tell(s->options, "detaching");
	else
		options_tell(s->options,
			"detaching; searching %.1f GiB of memory for addresses of heaptap",
			(double)mib / 1024);
}

/* Ends a capture that has begun: detaches if the target still runs, and completes the trace. */
static struct ht_err *conclude(struct session *s, struct ht_err *window)
{
	struct ht_err *err = NULL;

	steered_detaching(s->options->steered);
	if (s->options->forks)
		s->options->forks->settle(s->options->forks, &s->shown);
	if (!change_noticed(&s->change, &window)) {
		if (window)
			s->report->ended = REC_END_ERROR;
		tell_detach(s);
		int niceness = priority_raise();
		err = leave_take_out(&s->leave);
		priority_restore(niceness);
	}
	s->report->slots_foreign = s->survey.foreign_count;
	report_add_partial(s->report, &s->survey);
	s->report->tables = publish_counts(s->publish);
	err = ht_err_first(window, err);
	/* Clean the children first: the output may be slow. */
	err = ht_err_first(err, leave_clean_children(&s->leave));
	err = ht_err_first(err, finish_trace(s));
	return err ? remains_add_of(err, remains_of_detach(&s->leave.remains, s->report)) : NULL;
}

static struct ht_err *attach(struct session *s)
{
	int niceness = priority_raise();
	const struct bring_in_use use = {.options = s->options,
		.times = &s->times,
		.survey = &s->survey,
		.entries = &s->entries,
		.publish = s->publish,
		.elf = &s->elf,
		.guardian = &s->guardian,
		.journal = &s->journal,
		.loads = &s->loads,
		.scripts = &s->scripts,
		.change = &s->change,
		.sink = s->outlet.sink};
	struct ht_err *err = bring_in(&use, &s->inside);
	if (!err)
		s->report->stop_ns = s->inside.remote.stop_ns;
	end_phase(s, SESSION_BRING_IN);
	HT_THEN(err, tap(s));
	end_phase(s, SESSION_TAP);
	priority_restore(niceness);
	s->report->attach_ns = clock_mono_ns() - s->times.start_ns;
	return err;
}

static struct ht_err *changed_untouched(struct session *s)
{
	if (s->survey.proc.pid && proc_changed(&s->survey.proc) == PROC_EXECED)
		s->report->ended = REC_END_TARGET_EXEC;
	return ht_err_new(HT_ERR_REFUSED,
		"process %d ended, or became another program, before heaptap touched it",
		s->options->pid);
}

/* If the process has ended, that explains a failed read. */
static bool gone_meanwhile(struct session *s, struct ht_err **err)
{
	if (*err && (*err)->code == HT_ERR_TARGET_GONE) {
		ht_err_free(*err);
		*err = NULL;
		return true;
	}
	return *err && s->survey.proc.pid && change_noticed(&s->change, err);
}

/* A capture that failed leaves no trace file. */
static struct ht_err *discard(struct session *s, struct ht_err *err)
{
	sink_discard(s->outlet.sink);
	return ht_err_first(err, leave_clean_children(&s->leave));
}

static struct ht_err *let_go(struct session *s)
{
	const struct session_child *child = s->options->child;
	struct ht_err *err = child && child->let_go ? child->let_go(child->context) : NULL;
	s->change.is_gone = err != NULL;
	return err;
}

static struct ht_err *run_window(struct session *s)
{
	const struct window_use use = {.options = s->options,
		.report = s->report,
		.times = &s->times,
		.survey = &s->survey,
		.entries = &s->entries,
		.publish = s->publish,
		.image = &s->inside.image,
		.elf = &s->elf,
		.tap = &s->tap,
		.records = &s->records,
		.scripts = &s->scripts,
		.loads = &s->loads,
		.receiver = s->inside.receiver,
		.watch = s->inside.watch,
		.sink = s->outlet.sink,
		.change = &s->change,
		.shown = &s->shown,
		.signal_fd = s->signal_fd,
		.guardian_fd = s->guardian.fd,
		.memfd = s->inside.remote.memfd};
	struct ht_err *err = window_run(&s->window, &use);
	s->pump_error = s->window.heap_error;
	s->window.heap_error = NULL;
	return err;
}

static struct ht_err *capture(struct session *s)
{
	struct ht_err *err = prepare(s);
	if (gone_meanwhile(s, &err))
		return changed_untouched(s);
	if (err)
		return err;
	options_tell(s->options,
		"attaching to %d (%s): %zu addresses of allocator functions in %zu modules",
		s->options->pid, s->report->comm, s->survey.tap_count, s->survey.modules.count);
	err = attach(s);
	if (err && !change_noticed(&s->change, &err))
		err = remains_add_of(err, leave_roll_back(&s->leave));
	if (err && !change_noticed(&s->change, &err))
		return discard(s, err);
	if (s->change.is_gone)
		return s->inside.slack_written ? conclude(s, begin_trace(s)) : changed_untouched(s);
	err = let_go(s);
	if (err)
		return discard(s, err);
	options_tell(s->options, "capturing%s", s->options->duration_ns ? "" : " until Ctrl-C");
	if (s->options->begun)
		s->options->begun(s->options->begun_context);
	return conclude(s, run_window(s));
}

struct ht_err *session_run(const struct session_options *options, struct session_report *ret)
{
	struct session session = {.options = options,
		.report = ret,
		.guardian = {.fd = -1},
		.lock = LOCK_NONE,
		.signal_fd = -1,
		.inside.remote = {.memfd = -1, .daemon_fd = -1, .agent_socket = -1},
		.times = times_begin()};

	*ret = (struct session_report){0};
	session.phase_ns = session.times.start_ns;
	session.window.settle.wanted_ns = options->settle_ns;
	session.window.overhead.limit_ppm = options->max_overhead_ppm;
	session.change = (struct change){.proc = &session.survey.proc, .ended = &ret->ended};
	session.leave = (struct leave){.options = options,
		.report = ret,
		.survey = &session.survey,
		.journal = &session.journal,
		.inside = &session.inside,
		.change = &session.change,
		.times = &session.times,
		.window = &session.window,
		.pump = pump,
		.context = &session,
		.remains = {options->pid, &session.inside.image, &session.inside.slack,
			&session.guardian},
		.jump_page_left = {.proc = &session.survey.proc,
			.image = &session.inside.image,
			.linger_ns = options->linger_ns}};
	session.shown = (struct session_target){.proc = &session.survey.proc,
		.image = &session.inside.image,
		.journal = &session.journal,
		.slack = &session.inside.slack,
		.heritage = options->heritage};
	struct ht_err *err = capture(&session);
	release(&session);
	if (err && ret->children.left + ret->children.pages) {
		char left[CHILDREN_TEXT_BYTES];
		children_name(&ret->children, left);
		err = remains_add(err, left);
	}
	return err && ret->guardian_left
		       ? remains_add(err, "its guardian has not ended and may still be at work")
		       : err;
}
