/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/steer/steered.h"
#include "attach/cli/naming.h"
#include "attach/cli/print.h"
#include "attach/cli/print_session.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "attach/run/background.h"
#include "attach/jobs/beside.h"
#include "attach/jobs/command.h"
#include "attach/jobs/finished.h"
#include "attach/jobs/push.h"
#include "attach/run/marklog.h"
#include "attach/run/progress.h"
#include "attach/series/schedule.h"
#include "attach/series/standby.h"
#include "attach/series/waiting.h"
#include "attach/jobs/webpage.h"
#include "attach/run/words.h"

#define NUMBER_DIGITS 3
#define NUMBER_MAX    1000000u
#define TRIGGER_BYTES 160u
#define PASS_MS	      20 /* between two looks at whether the page is written */
#define NOTHING	      "nothing was recorded"

/* The captures of one process. */
struct attach {
	const struct options *options;
	struct proc proc; /* stays open between windows; zeroed if there is one window, which begins
			     now */
	struct schedule schedule;
	struct finished finished;
	struct push push;
	struct beside beside;
	struct progress progress; /* of the current window */
	struct standby standby;	  /* of the current wait, or of one that a client stopped */
	uint64_t number;	  /* number of the current window, from 1 */
	uint64_t end_ns;	  /* CLOCK_BOOTTIME: when a series that rotates ends; 0: never */
	uint64_t traces;	  /* finished traces */
	bool is_over;		  /* no window follows */
	int worst;		  /* exit status so far */
};

/* One window. */
struct window {
	char *output, *page; /* owned; page NULL: none */
	struct session_report report;
};

static bool is_series(const struct attach *attach)
{
	return series_has_several(&attach->options->series);
}

/* --- one window ------------------------------------------------------------------------------- */

/* Each trace of a series gets another name. */
static struct ht_err *name_output(const struct attach *attach, char **ret)
{
	const struct options *options = attach->options;
	char *first = NULL;
	struct ht_err *err = naming_expand(options->output, options->pid, &first);
	if (err || !is_series(attach)) {
		*ret = first;
		return err;
	}
	const bool is_apart = naming_tells_windows_apart(options->output);
	unsigned number = is_apart ? 2 : (unsigned)attach->number;
	char *name = is_apart ? strdup(first) : naming_number(first, number, NUMBER_DIGITS);
	while (name && is_apart && access(name, F_OK) == 0 && number < NUMBER_MAX) {
		free(name);
		name = naming_number(first, number++, NUMBER_DIGITS);
	}
	free(first);
	*ret = name;
	return name ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for the name of the trace");
}

static struct ht_err *name_files(const struct attach *attach, struct window *window)
{
	const struct options *options = attach->options;
	struct ht_err *err = name_output(attach, &window->output);
	if (!err && options->html)
		err = webpage_name(options->page, window->output, options->pid, options->replace,
			&window->page);
	return err;
}

static uint64_t duration_ns(const struct attach *attach)
{
	const uint64_t now_ns = waiting_now_ns();
	if (!attach->end_ns)
		return attach->options->duration_ns;
	return attach->end_ns > now_ns ? attach->end_ns - now_ns : 1;
}

/* Number of windows of the series; 0: no limit. */
static uint64_t windows(const struct attach *attach)
{
	return attach->schedule.count == UINT64_MAX ? 0 : attach->schedule.count;
}

/* Called when all is hooked. */
static void tell_begun(void *context)
{
	struct attach *attach = context;
	marklog_start(attach->options);
	background_begun((void *)attach->progress.output);
}

static struct session_options session_of(struct attach *attach, const struct window *window)
{
	const struct options *options = attach->options;
	struct session_options session = outcome_options(options, options->pid);
	session.output = window->output;
	session.duration_ns = duration_ns(attach);
	session.window = is_series(attach) ? attach->number : 0;
	session.windows = is_series(attach) ? windows(attach) : 0;
	session.start_ticks = attach->proc.start_ticks;
	const bool is_shown = !options->quiet && isatty(STDERR_FILENO);
	/* The lines of several captures would be written over each other. */
	const bool is_watched = is_shown && !options->is_one_of_several;
	session.progress = is_shown ? progress_say : NULL;
	session.steered = steered_create();
	attach->progress =
		(struct progress){.output = window->output, .reserve_bytes = STORE_RESERVE_BYTES};
	if (is_watched) {
		progress_begin(&attach->progress);
		steered_watch(session.steered, progress_show, &attach->progress);
	}
	session.begun = tell_begun;
	session.begun_context = attach;
	if (options->words) {
		session.limits.is_over = beside_is_over;
		session.limits.context = &attach->beside;
	}
	return session;
}

static void show(const struct attach *attach, const char *line)
{
	if (!attach->options->quiet)
		print_text(stderr, "heaptap: %s\n", line);
}

/* After an error clients cannot see the wait. */
static void open_standby(
	struct attach *attach, uint64_t number, uint64_t next_ns, const char *waits_for)
{
	const struct standby_wait wait = {.window = number,
		.windows = windows(attach),
		.next_boot_ns = next_ns,
		.waits_for = waits_for};
	struct ht_err *err = standby_open(&attach->standby, &attach->proc, &wait);
	if (err && attach->options->verbose)
		show(attach, err->message);
	ht_err_free(err);
}

/* Answers clients that ask while a page is written. */
static void serve_standby(void *context)
{
	struct attach *attach = context;
	struct pollfd client;
	const int most_ms = standby_poll(&attach->standby, &client);
	(void)poll(&client, 1, most_ms < 0 || most_ms > PASS_MS ? PASS_MS : most_ms);
	attach->is_over |= standby_serve(&attach->standby, &client);
}

/* The page is written between two windows, which may take longer than the time between them:
 * clients see that heaptap waits. */
static int write_beside_standby(struct attach *attach, const struct window *window)
{
	struct schedule schedule = attach->schedule;
	uint64_t missed;
	const uint64_t next_ns = schedule_next(&schedule, waiting_now_ns(), &missed);
	const struct webpage_wait wait = {serve_standby, attach};
	if (attach->is_over || next_ns == SCHEDULE_OVER)
		return webpage_write(window->output, window->page, attach->options->replace, NULL);
	open_standby(
		attach, attach->number + 1, next_ns, "the page of the window before is written");
	const int ret =
		webpage_write(window->output, window->page, attach->options->replace, &wait);
	attach->is_over |= standby_close(&attach->standby);
	return ret;
}

/* Returns the status of the capture, unless that is 0: then that of the page. */
static int write_page(struct attach *attach, const struct window *window, int status)
{
	const struct options *options = attach->options;
	/* The page of a large trace takes longer than words_bound allows. */
	words_unbound();
	const int page_status = write_beside_standby(attach, window);
	words_bound((enum exit_status)status);
	if (page_status == 0 && !options->quiet)
		print_text(stderr, "page:  %s\n", window->page);
	return status == EXIT_DONE ? page_status : status;
}

/* Does heaptap print the first screen of the report? Only for one capture that a person watches on
 * a terminal. */
static bool shows_screen(const struct attach *attach, const struct window *window)
{
	const struct options *options = attach->options;
	return window->report.trace_finished && !is_series(attach) && !options->quiet &&
	       !options->is_one_of_several && !options->json && !options->background &&
	       strcmp(window->output, "-") != 0 && isatty(STDOUT_FILENO);
}

/* Prints the result, and writes the page. */
static int present(struct attach *attach, struct window *window, int status)
{
	const struct options *options = attach->options;
	const bool has_screen = shows_screen(attach, window);
	progress_clear(&attach->progress);
	if (has_screen)
		(void)webpage_print_screen(window->output);
	words_bound((enum exit_status)status);
	if (outcome_is_printed(options, &window->report))
		print_session(&window->report, window->output, options->verbose, !has_screen);
	if (window->page && window->report.trace_finished)
		status = write_page(attach, window, status);
	struct ht_err *err = NULL;
	if (options->json && strcmp(window->output, "-") != 0)
		err = print_session_json(&window->report, options->pid, window->output);
	if (err)
		status = words_complain(err);
	fflush(stdout);
	words_unbound();
	return status;
}

/* Does the way in which a window ended allow another one? */
static bool may_go_on(const struct session_report *report, int status)
{
	return (status == EXIT_DONE || status == EXIT_INCOMPLETE_TRACE) &&
	       report->ended != REC_END_SIGNAL && report->ended != REC_END_STOP &&
	       report->ended != REC_END_DISK_FULL && report->ended != REC_END_ERROR;
}

static int record(struct attach *attach, struct window *window)
{
	struct session_options session = session_of(attach, window);
	struct session_report *report = &window->report;
	struct ht_err *err = session_run(&session, report);
	marklog_stop();
	int status =
		(int)(err ? outcome_error_status(err) : outcome_status(attach->options, report));
	steered_end(
		session.steered, (unsigned)status, outcome_end_text(err, attach->options, report));
	if (err) {
		words_bound((enum exit_status)status);
		status = (int)words_complain(err);
		words_unbound();
		/* An earlier window could write to the same file system, which has too little room
		 * now. */
		if (status == EXIT_USAGE && attach->traces)
			status = EXIT_INCOMPLETE_TRACE;
		/* The process may not be refused at the next window, if another capture has ended
		 * by then. */
		attach->is_over = status != EXIT_REFUSED || !attach->options->series.every_ns;
		return status;
	}
	attach->is_over =
		!may_go_on(report, status) || (attach->end_ns && report->ended == REC_END_DURATION);
	status = present(attach, window, status);
	if (report->trace_finished && strcmp(window->output, "-") != 0) {
		push_start(&attach->push, window->output);
		finished_add(&attach->finished, window->output, window->page);
	}
	attach->traces += report->trace_finished;
	return status;
}

static int run_window(struct attach *attach)
{
	struct window window = {0};
	struct ht_err *err = name_files(attach, &window);
	int status = err ? (int)words_complain(err) : record(attach, &window);
	attach->is_over |= err != NULL;
	free(window.output);
	free(window.page);
	return status;
}

/* --- the series ------------------------------------------------------------------------------- */

static struct ht_err *begin(struct attach *attach)
{
	const struct options *options = attach->options;
	const struct series_options *series = &options->series;
	const bool waits = series->delay_ns || is_series(attach) || series_has_trigger(series);
	attach->schedule = (struct schedule){.first_ns = waiting_now_ns() + series->delay_ns,
		.every_ns = series->every_ns,
		.count = series->count			      ? series->count
			 : series->every_ns || series->rotate ? UINT64_MAX
							      : 1};
	attach->finished.command = series->exec;
	attach->push.address = series->push;
	attach->push.quiet = options->quiet;
	attach->finished.keep = series->keep ? series->keep : series->rotate ? 2 : 0;
	attach->beside.words = options->words;
	struct ht_err *err = push_check(&attach->push);
	return !err && waits ? proc_open(options->pid, &attach->proc) : err;
}

static void show_wait(const struct attach *attach, uint64_t until_ns, uint64_t missed)
{
	const uint64_t now_ns = waiting_now_ns();
	char line[128];
	if (missed) {
		snprintf(line, sizeof(line), "%lu window%s began too late and was left out",
			(unsigned long)missed, missed == 1 ? "" : "s");
		show(attach, line);
	}
	if (until_ns < now_ns + CLOCK_NS_PER_S)
		return;
	snprintf(line, sizeof(line), "detached; window %lu begins in %.0f s",
		(unsigned long)attach->number, (double)(until_ns - now_ns) / 1e9);
	show(attach, attach->number == 1 ? strchr(line, 'w') : line);
}

/* "its RSS is 60.0 MiB"; "" without a trigger. */
static const char *name_trigger(const struct series_options *series, char ret[TRIGGER_BYTES])
{
	char size[PRINT_SIZE_BYTES];
	int length = 0;
	*ret = '\0';
	if (series->trigger_rss_bytes)
		length = snprintf(ret, TRIGGER_BYTES, "its RSS is %s",
			print_size(series->trigger_rss_bytes, size));
	if (series->trigger_growth.bytes)
		length += snprintf(ret + length, TRIGGER_BYTES - (size_t)length,
			"%sits RSS has grown by %s", length ? " or " : "",
			print_size(series->trigger_growth.bytes, size));
	if (series->trigger_growth.span_ns)
		snprintf(ret + length, TRIGGER_BYTES - (size_t)length, " within %.0f s",
			(double)series->trigger_growth.span_ns / 1e9);
	return ret;
}

static void show_trigger(const struct attach *attach, const char *trigger)
{
	char line[TRIGGER_BYTES + 80];
	snprintf(line, sizeof(line), "waiting, without touching process %d, until %s",
		(int)attach->options->pid, trigger);
	show(attach, line);
}

/* With -b, lets the caller's process end before the first window. */
static void leave_caller(const struct attach *attach)
{
	char *output;
	struct ht_err *err = name_output(attach, &output);
	if (!err)
		background_begun(output);
	ht_err_free(err);
	free(output);
}

static enum waiting_end wait_until_due(struct attach *attach, uint64_t next_ns, uint64_t missed)
{
	const struct series_options *series = &attach->options->series;
	const struct waiting_trigger trigger = {series->trigger_rss_bytes, series->trigger_growth};
	struct waiting waiting = {.proc = &attach->proc, .standby = &attach->standby};
	char text[TRIGGER_BYTES];
	open_standby(attach, attach->number, next_ns, name_trigger(series, text));
	if (attach->number == 1 && series_waits(series))
		leave_caller(attach);
	/* A signal may have come while the window before was finished. */
	enum waiting_end end = waiting_until(&waiting, 1);
	if (end == WAITING_DUE) {
		show_wait(attach, next_ns, missed);
		end = waiting_until(&waiting, next_ns);
	}
	if (end == WAITING_DUE && series_has_trigger(series)) {
		standby_waits_on(&attach->standby);
		show_trigger(attach, text);
		end = waiting_trigger(&waiting, &trigger);
	}
	if (standby_close(&attach->standby) && end == WAITING_DUE)
		end = WAITING_STOPPED;
	return end;
}

/* A signal or a request of a client ended the series. */
static void show_ended(const struct attach *attach)
{
	const unsigned long all = (unsigned long)windows(attach);
	char line[80];
	int length = snprintf(line, sizeof(line), "the series ends after window %lu",
		(unsigned long)attach->number - 1);
	if (all)
		snprintf(line + length, sizeof(line) - (size_t)length, " of %lu", all);
	show(attach, line);
}

/* False: no window begins. */
static bool wait_for_window(struct attach *attach)
{
	uint64_t missed;
	const uint64_t next_ns = schedule_next(&attach->schedule, waiting_now_ns(), &missed);
	if (next_ns == SCHEDULE_OVER)
		return false;
	attach->number++;
	if (!attach->proc.pid)
		return true;
	const enum waiting_end end = wait_until_due(attach, next_ns, missed);
	if (end == WAITING_ENDED) {
		print_text(stderr,
			"heaptap: process %d ended while heaptap waited; %lu trace%s recorded\n",
			(int)attach->options->pid, (unsigned long)attach->traces,
			attach->traces == 1 ? " was" : "s were");
		attach->worst = outcome_worse(attach->worst, EXIT_TARGET_ENDED);
	} else if (end != WAITING_DUE && !attach->traces) {
		show(attach, NOTHING);
	} else if (end != WAITING_DUE) {
		show_ended(attach);
	}
	return end == WAITING_DUE;
}

/* Answers clients that have stopped a wait. */
static void tell_end(struct attach *attach)
{
	char message[80];
	snprintf(message, sizeof(message), "%lu trace%s recorded before",
		(unsigned long)attach->traces, attach->traces == 1 ? " was" : "s were");
	standby_end(&attach->standby, (unsigned)attach->worst, attach->traces ? message : NOTHING);
}

/* If the command of attach -- CMD cannot be started, heaptap does not touch the process. */
static int check_command(const struct options *options)
{
	const int sys = options->words ? command_check(options->words[0]) : 0;
	if (!sys)
		return EXIT_DONE;
	(void)words_complain(command_explain(options->words[0], sys));
	return sys == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int attach_run(const struct options *options)
{
	struct attach attach = {.options = options, .standby = STANDBY_NONE};
	enum exit_status left;
	struct ht_err *err;
	if (background_leave(options, &left, &err))
		return (int)(err ? words_complain(err) : left);
	inherited_signals();
	int status = check_command(options);
	if (status != EXIT_DONE)
		return status;
	err = inherited_check_room();
	HT_THEN(err, begin(&attach));
	if (err) {
		proc_close(&attach.proc);
		return (int)words_complain(err);
	}
	while (!attach.is_over && wait_for_window(&attach)) {
		if (!attach.end_ns && options->series.rotate && options->duration_ns)
			attach.end_ns = waiting_now_ns() + options->duration_ns;
		attach.worst = outcome_worse(attach.worst, run_window(&attach));
	}
	crew_wait(&attach.finished.crew);
	crew_wait(&attach.push.crew);
	tell_end(&attach);
	finished_deinit(&attach.finished);
	proc_close(&attach.proc);
	return attach.worst;
}
