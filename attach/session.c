/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/session.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <x86intrin.h>

#include "attach/bring_in.h"
#include "attach/lock.h"
#include "attach/records.h"
#include "attach/symbols.h"
#include "attach/target/clock.h"
#include "attach/window.h"

void session_progress(const struct session *s, const char *fmt, ...)
{
	char line[256];
	va_list args;

	if (!s->options->progress)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	s->options->progress(line);
}

/* --- before anything is touched
 * ------------------------------------------------------------------------- */

static struct ht_err *open_signals(struct session *s)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? ht_err_sys(errno, "cannot make a signalfd") : NULL;
}

static struct ht_err *prepare(struct session *s)
{
	struct ht_err *err = agent_elf_read(&s->elf);
	if (!err)
		err = survey_take(s->options->pid, &s->survey);
	if (err)
		return err;
	memcpy(s->report->comm, s->survey.status.comm, sizeof(s->report->comm));
	err = lock_take(&s->survey.proc, &s->lock_fd);
	if (!err)
		err = open_signals(s);
	if (!err)
		err = publish_create(&s->publish);
	if (!err)
		err = publish_compile(s->publish, &s->survey.proc, &s->survey.modules);
	if (!err)
		err = residue_create(&s->survey.proc, &s->survey.modules, &s->residue);
	if (!err)
		err = sink_create(&(struct sink_options){.path = s->options->output,
					  .replace = s->options->replace},
			&s->sink);
	if (!err)
		err = guardian_start(&s->survey.proc, &s->guardian);
	if (!err)
		residue_look_again(s->residue, &s->survey.proc);
	return err;
}

static struct ht_err *tap(struct session *s)
{
	s->tap = (struct tap){
		.survey = &s->survey, .elf = &s->elf, .image = &s->image, .journal = &s->journal};
	struct ht_err *err = records_put_target(s);
	if (!err)
		err = records_put_capture(s);
	if (!err)
		err = records_put_new_modules(s, false);
	if (err)
		return err;
	s->first_tap_ns = clock_mono_ns();
	journal_set_phase(&s->journal, JOURNAL_TAPPED);
	err = tap_slots(&s->tap);
	if (!err && s->tap.tapped == 0)
		err = ht_err_new(
			HT_ERR_REFUSED, "no slot of process %d could be tapped", s->options->pid);
	return err;
}

/* --- taking it out
 * ---------------------------------------------------------------------------------------------- */

static void pump(void *context)
{
	struct session *s = context;
	struct ht_err *err = receiver_read_socket(s->receiver);
	if (!err)
		err = receiver_drain(s->receiver);
	ht_err_free(err);
}

static bool target_gone(struct session *s, struct ht_err **err)
{
	if (!*err || proc_changed(&s->survey.proc) == PROC_SAME)
		return false;
	ht_err_free(*err);
	*err = NULL;
	s->target_gone = true;
	return true;
}

static struct ht_err *take_out(struct session *s)
{
	struct session_report *report = s->report;
	struct detach detach = {.proc = &s->survey.proc,
		.image = &s->image,
		.journal = s->journal,
		.suspend_seccomp = s->survey.any_seccomp || proc_any_seccomp(&s->survey.proc),
		.deadline_mono_ns = clock_mono_ns() + s->options->detach_deadline_ns,
		.pump = s->receiver ? pump : NULL,
		.context = s};
	struct detach_report result = {0};
	uint64_t start = clock_mono_ns();

	struct ht_err *err = detach_untap(&detach, &result);
	s->end_ns = clock_mono_ns();
	s->end_tsc = __rdtsc();
	report->capture_ns = s->end_ns - s->first_tap_ns;
	if (!err)
		err = detach_unmap(&detach, &result);
	if (target_gone(s, &err))
		return NULL;
	report->detach_ns = clock_mono_ns() - start;
	if (err) {
		result.level = DETACH_INCOMPLETE;
		snprintf(result.why, sizeof(result.why), "%s; the guardian goes on trying",
			err->message);
		ht_err_free(err);
	}
	report->detached = true;
	report->level = result.level;
	memcpy(report->why, result.why, sizeof(report->why));
	report->slots_tapped = result.patch.tapped;
	report->slots_restored = result.patch.restored;
	if (result.stop_max_ns > report->stop_ns)
		report->stop_ns = result.stop_max_ns;
	s->mapped = result.level == DETACH_INCOMPLETE;
	err = residue_compare(s->residue, &s->survey.proc, &s->journal,
		result.level == DETACH_TOMBSTONE, &report->verify);
	if (target_gone(s, &err))
		report->detached = false;
	return err;
}

/* --- the end of the trace
 * --------------------------------------------------------------------------------------- */

static void fill_totals(struct session *s)
{
	struct receiver_totals totals = receiver_totals(s->receiver);
	struct session_report *report = s->report;

	report->events = totals.events;
	report->nested_events = totals.nested;
	report->threads = totals.threads;
	report->dropped_events = sink_dropped_events(s->sink);
	for (size_t i = 0; i < ABI_LOSS_COUNT; i++)
		report->dropped_events += totals.lost[i];
	for (size_t i = 0; i < ABI_TRUNC_COUNT; i++)
		report->truncated_stacks += totals.trunc[i];
}

static struct ht_err *put_counter(struct session *s, enum rec_counter counter, uint64_t total)
{
	struct rec rec = {.kind = REC_LOSS};
	rec.loss = (struct rec_loss){.counter = counter, .total = total};
	return sink_put(s->sink, &rec, 0);
}

static struct ht_err *finish_trace(struct session *s)
{
	struct session_report *report = s->report;
	struct rec end = {.kind = REC_END};

	struct ht_err *err = receiver_drain_last(s->receiver);
	if (!err)
		err = receiver_put_totals(s->receiver);
	if (!err)
		err = put_counter(s, REC_COUNTER_UNTAPPED, report->untapped_modules);
	fill_totals(s);
	if (s->end_ns == 0) {
		s->end_ns = clock_mono_ns();
		s->end_tsc = __rdtsc();
		report->capture_ns = s->end_ns - s->first_tap_ns;
	}
	end.end =
		(struct rec_end){.reason = report->ended, .mono_ns = s->end_ns, .tsc = s->end_tsc};
	if (!err)
		err = sink_put(s->sink, &end, 0);
	if (!err && s->options->symbolize && sink_state(s->sink) == SINK_OK) {
		session_progress(s, "looking up names");
		err = symbols_append(s->sink, s->survey.status.ruid, s->survey.status.rgid,
			report->symbols_problem, sizeof(report->symbols_problem));
	}
	if (!err)
		err = sink_finish(s->sink);
	report->sink_state = sink_state(s->sink);
	if (sink_problem(s->sink))
		snprintf(report->sink_problem, sizeof(report->sink_problem), "%s",
			sink_problem(s->sink));
	report->trace_bytes = sink_bytes(s->sink);
	return err;
}

/* --- the whole
 * ----------------------------------------------------------------------------------------------------
 */

static void release(struct session *s)
{
	watch_destroy(s->watch);
	receiver_destroy(s->receiver);
	if (s->mapped || s->image.local) {
		close(s->remote.daemon_fd);
		if (s->remote.agent_socket >= 0)
			close(s->remote.agent_socket);
	}
	image_deinit(&s->image);
	if (s->mapped && !s->target_gone)
		guardian_leave(&s->guardian);
	else
		guardian_dismiss(&s->guardian);
	sink_destroy(s->sink);
	residue_destroy(s->residue);
	publish_destroy(s->publish);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	survey_deinit(&s->survey);
}

/* After a failed attach: nothing may be left. */
static struct ht_err *roll_back(struct session *s)
{
	if (!s->slack_written || s->target_gone)
		return NULL;
	struct recover_report report;
	struct ht_err *err;
	if (!s->image.local || !s->journal.header) {
		err = recover_run(&s->survey.proc, -1, &s->slack, &report);
		s->mapped = err != NULL; /* then the stub's place is still the guardian's */
		return err;
	}
	err = take_out(s);
	if (!err && s->report->detached && s->report->level >= DETACH_TOMBSTONE)
		err = ht_err_new(HT_ERR_INCOMPLETE, "%s", s->report->why);
	return err;
}

/* Ends the capture that has begun: takes the tap out if there is a target left, completes the
 * trace. */
static struct ht_err *conclude(struct session *s, struct ht_err *window)
{
	struct ht_err *err = NULL;

	if (window)
		s->report->ended = REC_END_ERROR;
	if (!s->target_gone) {
		session_progress(s, "detaching");
		err = take_out(s);
	}
	s->report->slots_foreign = s->survey.foreign_count;
	err = ht_err_first(window, err);
	return ht_err_first(err, finish_trace(s));
}

static struct ht_err *attach(struct session *s)
{
	struct ht_err *err = bring_in(s);
	if (!err)
		err = tap(s);
	s->report->attach_ns = clock_mono_ns() - s->start_ns;
	return err;
}

static struct ht_err *capture(struct session *s)
{
	struct ht_err *err = prepare(s);
	if (err)
		return err;
	session_progress(s, "attaching to %d (%s): %zu slots in %zu modules", s->options->pid,
		s->report->comm, s->survey.tap_count, s->survey.modules.count);
	err = attach(s);
	if (target_gone(s, &err)) {
		s->report->ended = proc_changed(&s->survey.proc) == PROC_EXECED
					   ? REC_END_TARGET_EXEC
					   : REC_END_TARGET_EXIT;
		if (s->first_tap_ns)
			return conclude(s, NULL);
		return ht_err_new(HT_ERR_TARGET_GONE, "process %d ended while we attached to it",
			s->options->pid);
	}
	if (err)
		return ht_err_first(err, roll_back(s));
	session_progress(s, "capturing%s", s->options->duration_ns ? "" : " until Ctrl-C");
	return conclude(s, window_run(s));
}

struct ht_err *session_run(const struct session_options *options, struct session_report *ret)
{
	struct session session = {.options = options,
		.report = ret,
		.guardian = {.fd = -1},
		.lock_fd = -1,
		.signal_fd = -1,
		.remote = {.memfd = -1, .daemon_fd = -1, .agent_socket = -1},
		.start_ns = clock_mono_ns(),
		.start_tsc = __rdtsc()};

	*ret = (struct session_report){0};
	struct ht_err *err = capture(&session);
	release(&session);
	return err;
}
