/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/marklog.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "attach/cli/logspec.h"
#include "attach/proc/clock.h"
#include "attach/run/logfile.h"
#include "format/control_client.h"
#include "format/foreign.h"
#include "format/helper.h"

#define PAUSE_NS      (50 * CLOCK_NS_PER_MS)
#define PAUSE_PART    4u /* pauses take this many times as long as reading */
#define LOOK_NS	      CLOCK_NS_PER_S
#define PATIENCE_NS   (2 * CLOCK_NS_PER_S)
#define MARKS_PER_S   20u
#define MARKS_AT_ONCE 100u
#define NICE	      10

struct follower {
	const struct control_client *client;
	struct logspec spec[OPTIONS_LOGS_MAX];
	struct logfile file[OPTIONS_LOGS_MAX];
	unsigned count, current;
	uint64_t budget, budget_ns; /* marks that may be sent now; when it was filled last */
	uint64_t dropped[OPTIONS_LOGS_MAX]; /* lines that matched, but had no budget */
	uint64_t skipped[OPTIONS_LOGS_MAX]; /* of logfile.skipped_bytes, the part that a mark has
					       reported */
	uint64_t elapsed_ns, next_look_ns;
	bool is_over;
};

/* --- marks ----------------------------------------------------------------------------------- */

static void ask(struct follower *follower, const struct control_request *request)
{
	enum control_client_state state = CONTROL_CLIENT_DIED;
	struct control_reply reply;
	struct ht_err *err =
		control_client_ask(follower->client, request, PATIENCE_NS, &state, &reply);
	/* A capture that does not answer is busy. If its elapsed time is smaller than before, this
	 * is another window. */
	bool is_same = !err && state == CONTROL_CLIENT_ANSWERED && reply.ok &&
		       reply.phase == CONTROL_RECORDING && reply.elapsed_ns >= follower->elapsed_ns;
	follower->is_over = !is_same && !(!err && state == CONTROL_CLIENT_SILENT);
	if (is_same)
		follower->elapsed_ns = reply.elapsed_ns;
	ht_err_free(err);
}

static void send_mark(struct follower *follower, const char *text)
{
	struct control_request request = {.verb = CONTROL_MARK};
	char clean[CONTROL_MARK_MAX + 1];
	foreign_copy(clean, sizeof(clean), text);
	request.text_length = strlen(clean);
	memcpy(request.text, clean, request.text_length);
	if (request.text_length)
		ask(follower, &request);
}

static void fill_budget(struct follower *follower, uint64_t now_ns)
{
	uint64_t more = (now_ns - follower->budget_ns) * MARKS_PER_S / CLOCK_NS_PER_S;
	if (!more)
		return;
	follower->budget_ns = now_ns;
	follower->budget =
		follower->budget + more < MARKS_AT_ONCE ? follower->budget + more : MARKS_AT_ONCE;
}

static void see_line(void *context, const char *line)
{
	struct follower *follower = context;
	const unsigned current = follower->current;
	if (follower->is_over || regexec(&follower->spec[current].regex, line, 0, NULL, 0) != 0)
		return;
	if (follower->budget == 0) {
		follower->dropped[current]++;
		return;
	}
	follower->budget--;
	send_mark(follower, line);
}

/* One mark reports all lines that were dropped or skipped. */
static void tell_dropped(struct follower *follower, unsigned i)
{
	char text[CONTROL_MARK_MAX];
	uint64_t skipped = follower->file[i].skipped_bytes - follower->skipped[i];
	if (follower->budget == 0 || !(follower->dropped[i] || skipped))
		return;
	snprintf(text, sizeof(text), "heaptap: %llu more lines of %.600s matched%s",
		(unsigned long long)follower->dropped[i], follower->spec[i].path,
		skipped ? ", and some were not read" : "");
	follower->dropped[i] = 0;
	follower->skipped[i] += skipped;
	follower->budget--;
	send_mark(follower, text);
}

/* --- the process ----------------------------------------------------------------------------- */

static void pass(struct follower *follower)
{
	static const struct control_request status = {.verb = CONTROL_STATUS};
	const uint64_t begin_ns = clock_mono_ns();
	fill_budget(follower, begin_ns);
	for (unsigned i = 0; i < follower->count && !follower->is_over; i++) {
		follower->current = i;
		if (!logfile_read(&follower->file[i], see_line, follower) && !follower->is_over)
			tell_dropped(follower, i);
	}
	if (!follower->is_over && begin_ns >= follower->next_look_ns) {
		follower->next_look_ns = begin_ns + LOOK_NS;
		ask(follower, &status);
	}
	const uint64_t pause_ns = PAUSE_PART * (clock_mono_ns() - begin_ns);
	if (!follower->is_over)
		clock_sleep_ns(pause_ns > PAUSE_NS ? pause_ns : PAUSE_NS);
}

struct ht_err *marklog_run(const struct options *options)
{
	static struct follower follower;
	struct control_client client;
	struct ht_err *err = control_client_find(options->pid, &client);
	follower.client = &client;
	follower.budget = MARKS_AT_ONCE;
	follower.budget_ns = clock_mono_ns();
	for (unsigned i = 0; i < options->log_count && !err; i++) {
		err = logspec_parse(options->logs[i], &follower.spec[i]);
		if (err)
			break;
		follower.count++;
		logfile_open(&follower.file[i], follower.spec[i].path);
	}
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	while (!err && !follower.is_over)
		pass(&follower);
	for (unsigned i = 0; i < follower.count; i++) {
		logfile_close(&follower.file[i]);
		regfree(&follower.spec[i].regex);
	}
	return err;
}

/* The process that marklog_start has started; 0: none. */
static pid_t started;

void marklog_stop(void)
{
	if (!started)
		return;
	kill(started, SIGKILL);
	(void)helper_wait(started);
	started = 0;
}

void marklog_start(const struct options *options)
{
	char program[] = "heaptap", command[] = "mark", process[] = "-p", quiet[] = "-q";
	char option[] = "--mark-log", number[16];
	char *argv[2 * OPTIONS_LOGS_MAX + 6] = {program, command, quiet, process, number};
	size_t at = 5;
	marklog_stop();
	if (!options->log_count)
		return;
	snprintf(number, sizeof(number), "%d", (int)options->pid);
	for (unsigned i = 0; i < options->log_count; i++) {
		argv[at++] = option;
		argv[at++] = (char *)options->logs[i];
	}
	started = helper_spawn_self(argv, true);
}
