/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/steer/steered.h"
#include "attach/cli/naming.h"
#include "attach/cli/print.h"
#include "attach/cli/print_session.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "attach/run/parent.h"
#include "attach/series/outcome.h"
#include "attach/jobs/webpage.h"

#define FOLLOW_MAX 16u /* programs after the first; each gets a trace */

struct program {
	char *output;
	char *page; /* NULL: without --html */
	bool has_trace;
};

/* The programs that the process has become, one by one. */
struct programs {
	const struct forks_process *of;
	const struct options *options;
	unsigned tries; /* how often a recording was tried */
	unsigned count; /* entries of `program` */
	struct program program[FOLLOW_MAX + 1];
	uint64_t left_ns; /* rest of --duration; 0: no limit */
	char comm[64];	  /* name of the last program that was recorded */
	bool execed;	  /* the last capture ended because the process became another program */
};

/* Prints the report. heaptap exits with the command's status, so only the text shows a problem. */
static struct ht_err *tell(const struct programs *programs, const struct session_report *report,
	const struct launch *launch, const char *output)
{
	const struct options *options = programs->options;
	if (options->json)
		return print_session_json(report, launch->pid, output);
	if (launch->late && !options->quiet)
		print_text(stderr,
			"heaptap: %s was already running when recording began; its first "
			"allocations are missing\n",
			report->comm);
	if (!outcome_is_printed(options, report))
		return NULL;
	if (programs->of->is_child)
		print_text(stderr, "heaptap: %s, the child %d:\n", report->comm, (int)launch->pid);
	else if (programs->count > 1 && !programs->execed)
		print_text(stderr, "heaptap: %s is the last of %u programs, one after the other:\n",
			report->comm, programs->count);
	print_session(report, output, options->verbose, !programs->execed);
	return NULL;
}

/* The name of a child's trace differs from those of other processes: the pattern or the end of the
 * name has its number. */
static struct ht_err *name_first(const struct programs *programs, pid_t pid, char **ret)
{
	const char *pattern = programs->options->output;
	struct ht_err *err = naming_expand(pattern, pid, ret);
	if (err || !programs->of->is_child || naming_has_pid(pattern))
		return err;
	char *name = naming_number(*ret, (unsigned)pid, 1);
	free(*ret);
	*ret = name;
	return name ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for the name of the trace");
}

/* Has the trace of an earlier program this name, or a file that must not be replaced? For the
 * command's first name a file does not count here: the session refuses it. */
static bool is_taken(const struct programs *programs, const char *name, bool is_numbered)
{
	for (unsigned i = 0; i < programs->count; i++)
		if (!strcmp(programs->program[i].output, name))
			return true;
	return (is_numbered || programs->of->is_child) && !programs->options->replace &&
	       access(name, F_OK) == 0;
}

static struct ht_err *name_program(struct programs *programs, pid_t pid)
{
	char *first;
	HT_TRY(name_first(programs, pid, &first));
	char *name = strdup(first);
	for (unsigned number = 2; name && is_taken(programs, name, number > 2); number++) {
		free(name);
		name = naming_number(first, number, 1);
	}
	free(first);
	if (!name)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the name of the trace");
	programs->program[programs->count++] = (struct program){.output = name};
	return NULL;
}

static void forget_program(struct program *program)
{
	free(program->output);
	free(program->page);
}

/* --html=PAGE names one page: that of the command's first program. */
static struct ht_err *name_page(struct programs *programs, pid_t pid)
{
	const struct options *options = programs->options;
	struct program *program = &programs->program[programs->count - 1];
	const bool is_first = programs->count == 1 && !programs->of->is_child;
	struct ht_err *err =
		!options->html ? NULL
			       : webpage_name(is_first ? options->page : NULL, program->output, pid,
					 options->replace, &program->page);
	if (err)
		forget_program(&programs->program[--programs->count]);
	return err;
}

/* Call it after the last program: while a page is written, the next program would run
 * unrecorded. */
static void write_pages(const struct programs *programs)
{
	const struct options *options = programs->options;
	for (unsigned i = 0; i < programs->count; i++) {
		const struct program *program = &programs->program[i];
		if (!program->page || !program->has_trace)
			continue;
		if (webpage_write(program->output, program->page, options->replace, NULL) == 0 &&
			!options->quiet)
			print_text(stderr, "page:  %s\n", program->page);
	}
}

/* heaptap is not the parent of a recorded child, so another process may have got the child's
 * PID. */
static struct ht_err *check_child(const struct programs *programs, pid_t pid)
{
	struct proc proc;
	if (!programs->of->is_child)
		return NULL;
	struct ht_err *err = proc_open(pid, &proc);
	if (!err && proc.start_ticks != programs->of->start_ticks)
		err = ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", (int)pid);
	proc_close(&proc);
	return err;
}

static struct ht_err *record(struct programs *programs, struct launch *launch)
{
	const struct forks_process *of = programs->of;
	struct session_child child = parent_child(launch, programs->tries++ < FOLLOW_MAX);
	struct session_options session = outcome_options(programs->options, launch->pid);
	struct session_report report;
	HT_TRY(check_child(programs, launch->pid));
	HT_TRY(name_program(programs, launch->pid));
	HT_TRY(name_page(programs, launch->pid));
	struct program *program = &programs->program[programs->count - 1];
	/* Signals to a recorder are meant for its capture, not for the child. */
	if (of->is_child)
		child.attend = NULL;
	session.output = program->output;
	session.child = &child;
	session.forks = forks_session(of->forks);
	session.heritage = of->heritage;
	/* Later programs, and children, may lack the functions of --alloc-fn. */
	session.given_optional = programs->tries > 1 || of->is_child;
	session.duration_ns = programs->left_ns;
	session.steered = steered_create();
	struct ht_err *err = session_run(&session, &report);
	steered_end(session.steered,
		err ? outcome_error_status(err) : outcome_status(programs->options, &report),
		outcome_end_text(err, programs->options, &report));
	launch->traces += report.trace_finished;
	program->has_trace = report.trace_finished;
	programs->execed = report.is_followed = report.ended == REC_END_TARGET_EXEC;
	if (err) {
		forget_program(&programs->program[--programs->count]);
		return err;
	}
	uint64_t left_ns = programs->left_ns;
	programs->left_ns = left_ns > report.capture_ns ? left_ns - report.capture_ns : 0;
	memcpy(programs->comm, report.comm, sizeof(programs->comm));
	return tell(programs, &report, launch, session.output);
}

static bool is_next(const struct programs *programs)
{
	const char *why = NULL;
	if (!programs->execed)
		return false;
	if (programs->options->duration_ns && !programs->left_ns)
		why = "the time of --duration has passed";
	else if (programs->tries > FOLLOW_MAX)
		why = "heaptap follows at most 16 further programs";
	else if (programs->of->is_child && !forks_take(programs->of->forks))
		why = "heaptap records at most 128 children";
	if (!programs->options->quiet && why)
		print_text(stderr,
			"heaptap: %s became another program, which is not recorded: %s\n",
			programs->comm, why);
	else if (!programs->options->quiet)
		print_text(stderr, "heaptap: %s became another program, which is recorded, too\n",
			programs->comm);
	return !why;
}

/* Prints why the next program is not recorded; the process goes on. */
static void tell_unrecorded(
	const struct programs *programs, struct launch *launch, struct ht_err *err)
{
	launch_leave(launch);
	launch_look(launch);
	/* Children that are not recorded are counted. */
	bool counted = programs->of->is_child && programs->options->quiet &&
		       (err->code == HT_ERR_REFUSED || err->code == HT_ERR_PERMISSION ||
			       err->code == HT_ERR_TARGET_GONE);
	if (!programs->execed && !counted)
		print_text(stderr,
			"heaptap: %s became another program, which is not recorded: %s\n",
			programs->comm, launch->ended ? "it has ended" : err->message);
	ht_err_free(err);
}

static uint64_t time_left(const struct forks_process *of)
{
	uint64_t now = clock_mono_ns();
	if (!of->end_ns)
		return of->options->duration_ns;
	/* 1, since 0 means no limit. */
	return of->end_ns > now ? of->end_ns - now : 1;
}

struct ht_err *programs_record(const struct forks_process *process, struct launch *launch)
{
	struct programs programs = {
		.of = process, .options = process->options, .left_ns = time_left(process)};
	struct ht_err *err = record(&programs, launch);

	/* If a child became another program before heaptap touched it, records that program. */
	while (err && programs.execed && process->is_child && programs.tries <= FOLLOW_MAX) {
		ht_err_free(err);
		programs.execed = false;
		err = record(&programs, launch);
	}
	while (!err && is_next(&programs)) {
		programs.execed = false;
		err = record(&programs, launch);
		if (err)
			tell_unrecorded(&programs, launch, err);
		err = NULL;
	}
	launch_leave(launch);
	write_pages(&programs);
	for (unsigned i = 0; i < programs.count; i++)
		forget_program(&programs.program[i]);
	return err;
}
