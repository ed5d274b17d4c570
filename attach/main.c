/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap: arguments to command, result to exit status. The only place that ends the process.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/lock.h"
#include "attach/naming.h"
#include "attach/options.h"
#include "attach/print.h"
#include "attach/print_care.h"
#include "attach/parent.h"
#include "attach/session.h"
#include "attach/start.h"
#include "attach/survey.h"
#include "attach/symbols.h"
#include "attach/target/clock.h"

#define WAIT_NS		   (300 * CLOCK_NS_PER_MS)
#define DETACH_DEADLINE_NS (10 * CLOCK_NS_PER_S)
#define WORDS_S		   5
#define FOLLOW_MAX	   16u /* programs behind the first: a trace each */

_Static_assert((int)OPTIONS_HOOK_SLOT == (int)ENTRIES_SLOT &&
		       (int)OPTIONS_HOOK_AUTO == (int)ENTRIES_AUTO &&
		       (int)OPTIONS_HOOK_ENTRY == (int)ENTRIES_ALL,
	"run_attach takes the one for the other");

enum exit_status {
	EXIT_DONE = 0,
	EXIT_INTERNAL = 1,
	EXIT_USAGE = 2,
	EXIT_REFUSED = 3,
	EXIT_PERMISSION = 4,
	EXIT_TARGET_ENDED = 5,
	EXIT_INCOMPLETE_DETACH = 6,
	EXIT_INCOMPLETE_TRACE = 7,
	EXIT_NOT_A_TRACE = 9,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

static enum exit_status status_of(const struct ht_err *err)
{
	switch (err->code) {
	case HT_ERR_SYS:
	case HT_ERR_INTERNAL:
	case HT_ERR_NOMEM:
		return EXIT_INTERNAL;
	case HT_ERR_USAGE:
		return EXIT_USAGE;
	case HT_ERR_REFUSED:
		return EXIT_REFUSED;
	case HT_ERR_PERMISSION:
		return EXIT_PERMISSION;
	case HT_ERR_TARGET_GONE:
		return EXIT_TARGET_ENDED;
	case HT_ERR_INCOMPLETE:
		return EXIT_INCOMPLETE_DETACH;
	case HT_ERR_FORMAT:
		return EXIT_NOT_A_TRACE;
	}
	return EXIT_INTERNAL;
}

static volatile sig_atomic_t final_status;

static void leave_unsaid(int signal)
{
	(void)signal;
	_exit(final_status);
}

/* Who reads what is printed may be the target, and wait for our end: what the pipe does not take
 * in time is not said. */
static void bound_words(enum exit_status status)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	final_status = (sig_atomic_t)status;
	signal(SIGALRM, leave_unsaid);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(WORDS_S);
}

static enum exit_status complain(struct ht_err *err)
{
	enum exit_status status = status_of(err);
	print_text(stderr, "heaptap: %s\n", err->message);
	ht_err_free(err);
	return status;
}

/* A terminal that was stopped (^S) must not keep us in the target. */
static void show_progress(const char *line)
{
	struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};
	if (poll(&terminal, 1, 0) == 1 && terminal.revents & POLLOUT)
		print_text(stderr, "heaptap: %s\n", line);
}

/* Where two apply, the one nearer to the target's safety wins. */
static enum exit_status session_status(const struct session_report *report)
{
	if (report->detached && (report->level >= DETACH_TOMBSTONE || !report->verify.equal))
		return EXIT_INCOMPLETE_DETACH;
	if (report->children.left || report->guardian_left)
		return EXIT_INCOMPLETE_DETACH;
	if (report->dropped_events || report->damage || report->sink_state != STORE_OK)
		return EXIT_INCOMPLETE_TRACE;
	if (report->ended == REC_END_TARGET_EXIT || report->ended == REC_END_TARGET_EXEC ||
		report->ended == REC_END_FORBIDDEN)
		return EXIT_TARGET_ENDED;
	return EXIT_DONE;
}

/* What is not as it should be is said in any case. */
static bool is_to_be_said(const struct options *options, const struct session_report *report)
{
	enum exit_status status = session_status(report);
	return !options->quiet || (status != EXIT_DONE && status != EXIT_TARGET_ENDED);
}

static struct ht_err *name_output(struct options *options, pid_t pid)
{
	char *name;
	struct ht_err *err = naming_expand(options->output, pid, &name);
	if (err)
		return err;
	free(options->output);
	options->output = name;
	return NULL;
}

static struct session_options session_options_of(const struct options *options, pid_t pid)
{
	return (struct session_options){.pid = pid,
		.output = options->output,
		.replace = options->replace,
		.duration_ns = options->duration_ns,
		.hook = (enum entries_mode)options->hook,
		.lossless = options->lossless,
		.sample_bytes = options->sample_bytes,
		.mappings = options->mappings,
		.full_unwind = options->full_unwind,
		.cache = !options->no_cache,
		.symbolize = !options->symbolize_later,
		.wait_ns = WAIT_NS,
		.detach_deadline_ns = DETACH_DEADLINE_NS};
}

static enum exit_status run_attach(struct options *options)
{
	struct session_report report;
	struct ht_err *err;

	start_signals();
	err = start_check_room();
	if (!err)
		err = name_output(options, options->pid);
	if (err)
		return complain(err);
	struct session_options session = session_options_of(options, options->pid);
	session.progress = !options->quiet && isatty(2) ? show_progress : NULL;
	err = session_run(&session, &report);
	bound_words(err ? status_of(err) : session_status(&report));
	if (err)
		return complain(err);
	if (is_to_be_said(options, &report))
		print_session(&report, options->output);
	if (options->json && strcmp(options->output, "-") != 0)
		err = print_session_json(&report, options->pid, options->output);
	return err ? complain(err) : session_status(&report);
}

/* --- run
 * ------------------------------------------------------------------------------------------------
 */

static enum exit_status complain_of_command(const char *name, int sys)
{
	print_text(stderr, "heaptap: cannot run %s: %s\n", name, strerror(sys));
	return sys == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* The command's status is ours: what is not as it should be is said. */
static struct ht_err *tell(const struct options *options, const struct session_report *report,
	const struct launch *launch, const char *output)
{
	if (options->json)
		return print_session_json(report, launch->pid, output);
	if (launch->late && !options->quiet)
		print_text(stderr,
			"heaptap: %s had begun to run before it was tapped: what it did first is "
			"not in the trace\n",
			report->comm);
	if (is_to_be_said(options, report))
		print_session(report, output);
	return NULL;
}

/* The programs that the command's process has become, one by one. */
struct programs {
	unsigned tries;		      /* to record one */
	unsigned count;		      /* of those that were */
	char *output[FOLLOW_MAX + 1]; /* of each */
	uint64_t left_ns;	      /* of the time that was asked for */
	char comm[64];		      /* the last one that was recorded */
	bool execed;		      /* it has become another */
};

static bool has_output(const struct programs *programs, const char *name)
{
	for (unsigned i = 0; i < programs->count; i++)
		if (!strcmp(programs->output[i], name))
			return true;
	return false;
}

/* A name that no program before has had; nor a file, where none is to be replaced. */
static struct ht_err *name_program(
	const struct options *options, pid_t pid, struct programs *programs)
{
	char *name, *first;
	struct ht_err *err = naming_expand(options->output, pid, &first);
	if (err)
		return err;
	name = strdup(first);
	bool is_taken = name && has_output(programs, name);
	for (unsigned number = 2; is_taken && name; number++) {
		free(name);
		name = naming_number(first, number);
		is_taken = name && (has_output(programs, name) ||
					   (!options->replace && access(name, F_OK) == 0));
	}
	free(first);
	if (!name)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the name of the trace");
	programs->output[programs->count++] = name;
	return NULL;
}

static struct ht_err *record(
	const struct options *options, struct launch *launch, struct programs *programs)
{
	const struct session_child child = parent_child(launch, programs->tries++ < FOLLOW_MAX);
	struct session_options session = session_options_of(options, launch->pid);
	struct session_report report;
	struct ht_err *err = name_program(options, launch->pid, programs);
	if (err)
		return err;
	session.output = programs->output[programs->count - 1];
	session.child = &child;
	/* What a program becomes may be one without them. */
	session.given_optional = programs->tries > 1;
	session.duration_ns = programs->left_ns;
	err = session_run(&session, &report);
	programs->execed = report.ended == REC_END_TARGET_EXEC;
	if (err) {
		free(programs->output[--programs->count]);
		return err;
	}
	uint64_t left_ns = programs->left_ns;
	programs->left_ns = left_ns > report.capture_ns ? left_ns - report.capture_ns : 0;
	memcpy(programs->comm, report.comm, sizeof(programs->comm));
	return tell(options, &report, launch, session.output);
}

static bool is_next(const struct options *options, const struct programs *programs)
{
	const char *why = NULL;
	if (!programs->execed)
		return false;
	if (options->duration_ns && !programs->left_ns)
		why = "the time is over";
	else if (programs->tries > FOLLOW_MAX)
		why = "so many in a row are enough";
	if (!options->quiet && why)
		print_text(stderr,
			"heaptap: %s became another program, which is not recorded: %s\n",
			programs->comm, why);
	else if (!options->quiet)
		print_text(stderr, "heaptap: %s became another program, which is recorded, too\n",
			programs->comm);
	return !why;
}

/* Whatever the reason, the command goes on. */
static void tell_unrecorded(const struct options *options, struct launch *launch,
	const struct programs *programs, struct ht_err *err)
{
	launch_leave(launch);
	launch_look(launch);
	bool expected = err->code == HT_ERR_REFUSED || err->code == HT_ERR_PERMISSION ||
			err->code == HT_ERR_TARGET_GONE;
	if (!programs->execed && !(options->quiet && expected))
		print_text(stderr,
			"heaptap: %s became another program, which is not recorded: %s\n",
			programs->comm, launch->ended ? "it has ended" : err->message);
	ht_err_free(err);
}

static struct ht_err *record_all(const struct options *options, struct launch *launch)
{
	struct programs programs = {.left_ns = options->duration_ns};
	struct ht_err *err = record(options, launch, &programs);

	while (!err && is_next(options, &programs)) {
		programs.execed = false;
		err = record(options, launch, &programs);
		if (err)
			tell_unrecorded(options, launch, &programs, err);
		err = NULL;
	}
	launch_leave(launch);
	for (unsigned i = 0; i < programs.count; i++)
		free(programs.output[i]);
	return err;
}

/* The command's end is ours. */
static int end_as(struct launch *launch, struct ht_err *err)
{
	if (err)
		(void)complain(err);
	parent_wait(launch);
	fflush(stdout);
	parent_end_alike(launch);
	return parent_status(launch);
}

static int run_run(struct options *options)
{
	struct launch launch;
	struct ht_err *err = parent_fork(options->words, &launch);
	if (!err)
		err = start_check_room();
	if (!err)
		err = launch_exec(&launch);
	bool started = !err && !launch.exec_errno;
	if (launch.waits)
		err = record_all(options, &launch);
	/* A signal may have ended it where it waited. */
	launch_look(&launch);
	bool ran = started && !launch.failed && (launch.ended || !launch.waits);
	launch_deinit(&launch);
	if (!ran && !err && !launch.exec_errno)
		err = ht_err_new(HT_ERR_INTERNAL, "the command was not let go, and has not run");
	if (launch.exec_errno)
		return complain_of_command(options->words[0], launch.exec_errno);
	return ran ? end_as(&launch, err) : (int)complain(err);
}

/* A static program is recorded by entries, or not at all. */
static struct ht_err *plan_entries(struct survey *survey)
{
	struct entries entries;
	if (!survey->is_static)
		return NULL;
	struct ht_err *err = entries_plan(survey, ENTRIES_AUTO, &entries);
	if (err)
		return err;
	err = entries_check(survey, ENTRIES_AUTO, &entries);
	entries_deinit(&entries);
	return err;
}

static enum exit_status run_doctor(const struct options *options)
{
	struct survey survey;
	struct ht_err *err = survey_take(options->pid, &survey);
	if (err)
		return complain(err);
	err = plan_entries(&survey);
	if (err) {
		survey_deinit(&survey);
		return complain(err);
	}
	if (options->json)
		err = print_survey_json(&survey);
	else if (!options->quiet)
		print_survey(&survey);
	survey_deinit(&survey);
	return err ? complain(err) : EXIT_DONE;
}

static struct ht_err *open_readable(pid_t pid, struct proc *proc)
{
	struct ht_err *err = proc_open(pid, proc);
	if (err)
		return err;
	err = proc_open_mem(proc);
	if (!err)
		err = survey_check_files(proc);
	if (err)
		proc_close(proc);
	return err;
}

static enum exit_status run_verify(const struct options *options)
{
	struct verify_report report = {0};
	struct proc proc;
	struct ht_err *err = open_readable(options->pid, &proc);
	if (err)
		return complain(err);
	err = verify_run(&proc, &report);
	proc_close(&proc);
	enum exit_status status = report.state == VERIFY_CLEAN ? EXIT_DONE : EXIT_INCOMPLETE_DETACH;
	if (!err && options->json)
		err = print_verify_json(&report, options->pid);
	else if (!err && (!options->quiet || status != EXIT_DONE))
		print_verify(&report, options->pid);
	return err ? complain(err) : status;
}

/* Opens a process to change it: nobody else may meanwhile. */
static struct ht_err *open_locked(pid_t pid, struct proc *proc, struct lock *lock)
{
	*lock = LOCK_NONE;
	struct ht_err *err = open_readable(pid, proc);
	if (err)
		return err;
	err = lock_take(proc, lock);
	if (err)
		proc_close(proc);
	return err;
}

static void close_locked(struct proc *proc, struct lock *lock)
{
	lock_release(lock);
	proc_close(proc);
}

static enum exit_status run_recover(const struct options *options)
{
	struct recover_report report = {0};
	struct proc proc;
	struct lock lock;
	struct ht_err *err = open_locked(options->pid, &proc, &lock);
	if (err)
		return complain(err);
	err = recover_run(&proc, &(struct recover_options){.memfd = -1}, &report);
	close_locked(&proc, &lock);
	enum exit_status status =
		report.outcome >= RECOVER_TOMBSTONE ? EXIT_INCOMPLETE_DETACH : EXIT_DONE;
	if (!err && options->json)
		err = print_recover_json(&report, options->pid);
	else if (!err && (!options->quiet || status != EXIT_DONE))
		print_recover(&report, options->pid);
	return err ? complain(err) : status;
}

static enum exit_status run_cleanup(const struct options *options)
{
	struct cleanup_report report = {0};
	struct proc proc;
	struct lock lock;
	struct ht_err *err = open_locked(options->pid, &proc, &lock);
	if (err)
		return complain(err);
	err = cleanup_run(&proc, &report);
	close_locked(&proc, &lock);
	enum exit_status status =
		report.outcome == CLEANUP_NOTHING || report.outcome == CLEANUP_REMOVED
			? EXIT_DONE
			: EXIT_INCOMPLETE_DETACH;
	if (!err && options->json)
		err = print_cleanup_json(&report, options->pid);
	else if (!err && (!options->quiet || status != EXIT_DONE))
		print_cleanup(&report, options->pid);
	return err ? complain(err) : status;
}

static enum exit_status run_analyze(char **argv)
{
	char path[4200];
	int fd = symbols_open_analyzer(path, sizeof(path));

	if (fd < 0) {
		fprintf(stderr, "heaptap: heaptap-analyze is not beside heaptap; install both\n");
		return EXIT_INTERNAL;
	}
	close(fd);
	execv(path, argv);
	fprintf(stderr, "heaptap: cannot run %s: %s\n", path, strerror(errno));
	return EXIT_INTERNAL;
}

/* What was asked for is not done when nobody can read it. */
static int check_printed(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "heaptap: cannot write to standard output: %s\n", strerror(errno));
	return status == EXIT_DONE ? EXIT_INTERNAL : status;
}

int main(int argc, char **argv)
{
	struct options options;
	struct ht_err *err = start_descriptors();
	int status = EXIT_DONE;

	if (!err)
		err = options_parse(argc, argv, &options);
	if (err)
		return complain(err);
	given_use(&options.given);
	switch (options.command) {
	case COMMAND_ATTACH:
		status = run_attach(&options);
		break;
	case COMMAND_RUN:
		status = run_run(&options);
		break;
	case COMMAND_DOCTOR:
		status = run_doctor(&options);
		break;
	case COMMAND_RECOVER:
		status = run_recover(&options);
		break;
	case COMMAND_VERIFY:
		status = run_verify(&options);
		break;
	case COMMAND_CLEANUP:
		status = run_cleanup(&options);
		break;
	case COMMAND_VERSION:
		printf("heaptap %s\n", HEAPTAP_VERSION);
		break;
	case COMMAND_HELP:
		options_print_help();
		break;
	case COMMAND_ANALYZE:
		status = run_analyze(argv);
		break;
	}
	options_deinit(&options);
	return check_printed(status);
}
