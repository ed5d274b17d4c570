/* SPDX-License-Identifier: Apache-2.0
 *
 * The program heaptap: runs the command that the arguments name, and makes the exit status from its
 * result.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/steer/steered.h"
#include "attach/trace/symbols.h"
#include "attach/cli/help.h"
#include "attach/cli/options.h"
#include "attach/cli/print.h"
#include "attach/cli/print_care.h"
#include "attach/cli/print_survey.h"
#include "attach/control/place.h"
#include "attach/memory/stalled.h"
#include "attach/plan/survey.h"
#include "attach/proc/clock.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"
#include "attach/run/attach.h"
#include "attach/jobs/command.h"
#include "attach/run/forks.h"
#include "attach/run/parent.h"
#include "attach/run/programs.h"
#include "attach/series/outcome.h"
#include "attach/series/seek.h"
#include "attach/series/several.h"
#include "attach/run/requests.h"
#include "attach/run/words.h"
#include "attach/undo/leftover.h"

#define TABLE_BYTES (1 << 20)
#define NO_TRACE    "there is no trace of %s"

/* --- run
 * ------------------------------------------------------------------------------------------------
 */

static enum exit_status complain_of_command(const char *name, int sys)
{
	(void)words_complain(command_explain(name, sys));
	return sys == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* The command ended before it could be recorded, and no step of heaptap failed. */
static struct ht_err *ended_early(const struct launch *launch)
{
	int status = parent_status(launch);
	if (WIFSIGNALED(launch->status))
		return ht_err_new(HT_ERR_TARGET_GONE,
			"signal %d (%s) ended the command before it ran; start it again",
			status - 128, strsignal(status - 128));
	return ht_err_new(HT_ERR_TARGET_GONE,
		"the command ended before it could be recorded, with status %d; start it without "
		"heaptap to see whether it runs (a library that is missing?)",
		status);
}

/* Waits for the command and for the recorders of its children; returns the command's status. */
static int end_as(struct launch *launch, struct forks *forks)
{
	parent_wait(launch);
	if (forks) {
		forks_end(forks);
		forks_tell(forks);
		forks_destroy(forks);
	}
	return parent_status(launch);
}

/* Ends a run whose command ran. Returns the command's exit status, or ends this process by the same
 * signal. A run without a trace prints an error and never exits with 0. `err`: of the recording;
 * NULL: none. */
static int end_run(const char *name, struct launch *launch, struct forks *forks, struct ht_err *err)
{
	bool has_trace = launch->traces > 0;
	/* Print the error at once: the command may run for long. */
	if (err)
		(void)words_complain(has_trace ? err : ht_err_wrap(err, NO_TRACE, name));
	int status = end_as(launch, forks);
	if (!err && !has_trace)
		(void)words_complain(ht_err_wrap(ended_early(launch), NO_TRACE, name));
	fflush(stdout);
	parent_end_alike(launch);
	return has_trace || status ? status : EXIT_INTERNAL;
}

static struct ht_err *record_command(
	const struct options *options, struct launch *launch, struct forks **ret)
{
	uint64_t end_ns = options->duration_ns ? clock_mono_ns() + options->duration_ns : 0;
	struct ht_err *err =
		options->follow_forks ? forks_create(options, end_ns, programs_record, ret) : NULL;
	return err ? err
		   : programs_record(
			     &(struct forks_process){.options = options, .forks = *ret}, launch);
}

static int run_run(struct options *options)
{
	struct launch launch;
	struct forks *forks = NULL;
	struct ht_err *err = parent_fork(options->words, &launch);
	HT_THEN(err, inherited_check_room());
	HT_THEN(err, launch_exec(&launch));
	bool started = !err && !launch.exec_errno;
	if (launch.waits)
		err = record_command(options, &launch, &forks);
	/* A signal may have ended the command while it waited. */
	launch_look(&launch);
	bool ran = started && !launch.failed && (launch.ended || !launch.waits);
	launch_deinit(&launch);
	if (!ran && !err && !launch.exec_errno)
		err = ht_err_new(HT_ERR_INTERNAL, "heaptap could not release it");
	if (launch.exec_errno)
		return complain_of_command(options->words[0], launch.exec_errno);
	if (!ran)
		return words_complain(ht_err_wrap(err, "%s was not started", options->words[0]));
	return end_run(options->words[0], &launch, forks, err);
}

/* In a static program no call of an allocator goes through a GOT slot: only entries can be
 * hooked. */
static struct ht_err *plan(struct survey *survey, struct entries *entries, struct taps *taps)
{
	enum entries_mode mode = survey->is_static ? ENTRIES_AUTO : ENTRIES_SLOT;
	HT_TRY(entries_plan(survey, mode, entries));
	HT_TRY(entries_check(survey, mode, entries));
	return taps_plan(survey, entries, (struct taps_follow){0}, taps);
}

static enum exit_status run_doctor(const struct options *options)
{
	struct ownprofile profile;
	struct survey survey;
	struct entries entries = {0};
	struct taps taps = {0};
	struct ht_err *err = survey_take(options->pid, &survey);
	if (err)
		return words_complain(err);
	err = plan(&survey, &entries, &taps);
	HT_THEN(err, ownprofile_find(&survey, false, &profile));
	if (!err && options->json)
		err = print_survey_json(&survey, &taps, &profile);
	else if (!err && !options->quiet)
		print_survey(&survey, &taps, &profile, options->verbose);
	taps_deinit(&taps);
	entries_deinit(&entries);
	survey_deinit(&survey);
	return err ? words_complain(err) : EXIT_DONE;
}

static struct ht_err *open_readable(pid_t pid, struct proc *proc)
{
	HT_TRY(proc_open(pid, proc));
	struct ht_err *err = proc_open_mem(proc);
	HT_THEN(err, stalled_check(proc));
	if (err)
		proc_close(proc);
	return err;
}

static bool is_printed(const struct options *options, enum exit_status status)
{
	return options->json || !options->quiet || status != EXIT_DONE;
}

static enum exit_status run_verify(const struct options *options)
{
	struct verify_report report = {0};
	struct proc proc;
	struct ht_err *err = open_readable(options->pid, &proc);
	if (err)
		return words_complain(err);
	err = verify_run(&proc, &report);
	proc_close(&proc);
	enum exit_status status = report.state == VERIFY_CLEAN ? EXIT_DONE : EXIT_INCOMPLETE_DETACH;
	if (!err && is_printed(options, status))
		err = print_verify(&report, options->pid, options->json);
	return err ? words_complain(err) : status;
}

/* Opens a process to change it, and locks out other heaptaps. */
static struct ht_err *open_locked(pid_t pid, struct proc *proc, struct lock *lock)
{
	*lock = LOCK_NONE;
	HT_TRY(inherited_check_room());
	HT_TRY(open_readable(pid, proc));
	struct ht_err *err = lock_take(proc, lock);
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
		return words_complain(err);
	err = recover_run(&proc, &(struct recover_options){.memfd = -1}, &report);
	HT_THEN(err, leftover_close(&proc, &report));
	if (!err)
		place_forget(proc.pid, proc.start_ticks);
	close_locked(&proc, &lock);
	enum exit_status status =
		report.outcome >= RECOVER_TOMBSTONE ? EXIT_INCOMPLETE_DETACH : EXIT_DONE;
	if (!err && is_printed(options, status))
		err = print_recover(&report, options->pid, options->json);
	return err ? words_complain(err) : status;
}

static enum exit_status run_cleanup(const struct options *options)
{
	struct cleanup_report report = {0};
	struct proc proc;
	struct lock lock;
	struct ht_err *err = open_locked(options->pid, &proc, &lock);
	if (err)
		return words_complain(err);
	err = cleanup_run(&proc, &report);
	close_locked(&proc, &lock);
	enum exit_status status =
		report.outcome == CLEANUP_NOTHING || report.outcome == CLEANUP_REMOVED
			? EXIT_DONE
			: EXIT_INCOMPLETE_DETACH;
	if (!err && is_printed(options, status))
		err = print_cleanup(&report, options->pid, options->json);
	return err ? words_complain(err) : status;
}

/* seek_process has found the process. */
static enum exit_status run_find(const struct options *options)
{
	struct ht_err *err = NULL;
	if (options->json)
		err = print_json(json_pack(
			"{s:s, s:i}", "schema", "heaptap.find/1", "pid", (int)options->pid));
	else
		printf("%d\n", (int)options->pid);
	return err ? words_complain(err) : EXIT_DONE;
}

static enum exit_status run_steer(const struct options *options)
{
	enum exit_status status;
	struct ht_err *err = requests_run(options, &status);
	return err ? words_complain(err) : status;
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

static enum exit_status run_help(const struct options *options)
{
	const struct command_row *row =
		options->help_of ? option_table_find(options->help_of) : NULL;
	if (row && row->command == COMMAND_ANALYZE) {
		char program[] = "heaptap", name[32], help[] = "--help";
		snprintf(name, sizeof(name), "%s", row->name);
		return run_analyze((char *[]){program, name, help, NULL});
	}
	if (row)
		help_print_command(row);
	else
		help_print_commands();
	return EXIT_DONE;
}

/* A result that could not be printed is an error. */
static int check_printed(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "heaptap: cannot write to standard output: %s\n", strerror(errno));
	return status == EXIT_DONE ? EXIT_INTERNAL : status;
}

/* For several processes heaptap forks a process for each capture. */
static int run_attach(struct options *options)
{
	int status;
	struct ht_err *err;
	if (!several_split(options, &status, &err))
		return attach_run(options);
	return err ? (int)words_complain(err) : status;
}

static int run_any(struct options *options, char **argv)
{
	switch (options->command) {
	case COMMAND_ATTACH:
		return run_attach(options);
	case COMMAND_RUN:
		return run_run(options);
	case COMMAND_DOCTOR:
		return run_doctor(options);
	case COMMAND_RECOVER:
		return run_recover(options);
	case COMMAND_VERIFY:
		return run_verify(options);
	case COMMAND_CLEANUP:
		return run_cleanup(options);
	case COMMAND_FIND:
		return run_find(options);
	case COMMAND_STATUS ... COMMAND_SNAPSHOT:
		return run_steer(options);
	case COMMAND_VERSION:
		printf("heaptap %s\n", HEAPTAP_VERSION);
		break;
	case COMMAND_HELP:
		return run_help(options);
	case COMMAND_COMPLETION:
		help_print_completion();
		break;
	case COMMAND_ANALYZE:
		return run_analyze(argv);
	}
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	struct options options;
	struct ht_err *err = inherited_descriptors();

	/* So that blocks of a MiB and more, such as the contents of files, go back to the system
	 * when they are freed. */
	mallopt(M_MMAP_THRESHOLD, TABLE_BYTES);
	HT_THEN(err, options_parse(argc, argv, &options));
	if (err)
		return words_complain(err);
	bool is_stopped;
	err = seek_process(&options, &is_stopped);
	if (err || is_stopped) {
		options_deinit(&options);
		return err ? words_complain(err) : EXIT_DONE;
	}
	given_use(&options.given);
	int status = run_any(&options, argv);
	options_deinit(&options);
	return check_printed(status);
}
