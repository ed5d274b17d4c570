/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/jobs/webpage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/trace/symbols.h"
#include "attach/cli/naming.h"
#include "format/helper.h"
#include "format/foreign.h"

#define PATH_BYTES 4200u
#define TRACE_END  ".htap"
#define PAGE_END   ".html"

static struct ht_err *name_after(const char *trace, char **ret)
{
	const size_t length = strlen(trace), end = strlen(TRACE_END);
	const bool has_end = length > end && strcmp(trace + length - end, TRACE_END) == 0;
	const int kept = (int)(has_end ? length - end : length);
	if (asprintf(ret, "%.*s" PAGE_END, kept, trace) >= 0)
		return NULL;
	*ret = NULL;
	return ht_err_new(HT_ERR_NOMEM, "no memory for the name of the page");
}

static struct ht_err *check(const char *page, const char *trace, bool replace)
{
	char name[PATH_BYTES];
	struct stat stat;
	HT_TRY(symbols_need_analyzer("--html"));
	foreign_copy(name, sizeof(name), page);
	if (strcmp(page, trace) == 0)
		return ht_err_new(
			HT_ERR_USAGE, "%s is the name of the trace; name another page", name);
	if (!replace && lstat(page, &stat) == 0)
		return ht_err_new(HT_ERR_SYS,
			"%s exists; replace it with -f or name another page: --html=PAGE", name);
	return NULL;
}

struct ht_err *webpage_name(
	const char *pattern, const char *trace, pid_t pid, bool replace, char **ret)
{
	char *page = NULL;
	struct ht_err *err =
		pattern ? naming_expand(pattern, pid, &page) : name_after(trace, &page);
	HT_THEN(err, check(page, trace, replace));
	*ret = err ? NULL : page;
	if (err)
		free(page);
	return err;
}

/* Waits for the end of child `pid`; returns its status as helper_wait does. */
static int attend(pid_t pid, const struct webpage_wait *wait)
{
	int status;
	if (!wait)
		return helper_wait(pid);
	while (!helper_has_ended(pid, &status))
		wait->pass(wait->context);
	return status;
}

/* Runs heaptap-analyze, which writes `what`, and returns its exit status. */
static int run(char *const argv[], const char *what, const struct webpage_wait *wait)
{
	int status = 0;
	fflush(stdout);
	const pid_t pid = fork();
	if (pid == 0) {
		/* heaptap blocks the signals that end a capture; they must end heaptap-analyze. */
		helper_reset_signals();
		/* A page above the limit on file sizes must give an error, not a signal. */
		signal(SIGXFSZ, SIG_IGN);
		symbols_become_analyzer(argv);
		_exit(127);
	}
	if (pid > 0)
		status = attend(pid, wait);
	if (status < 0)
		return 1;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 127)
		return WEXITSTATUS(status);
	fprintf(stderr, "heaptap: %s was not written: heaptap-analyze %s\n", what,
		pid > 0 && WIFSIGNALED(status) ? "was ended by a signal" : "cannot be run");
	return 1;
}

int webpage_write(
	const char *trace, const char *page, bool replace, const struct webpage_wait *wait)
{
	char program[] = "heaptap", command[] = "html", output[] = "-o", force[] = "-f";
	char end[] = "--";
	return run((char *[]){program, command, output, (char *)page, replace ? force : end,
			   replace ? end : (char *)trace, replace ? (char *)trace : NULL, NULL},
		"the page", wait);
}

int webpage_print_screen(const char *trace)
{
	char program[] = "heaptap", command[] = "report", brief[] = "--brief", end[] = "--";
	return run(
		(char *[]){program, command, brief, end, (char *)trace, NULL}, "the report", NULL);
}
