/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/series/seek.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/cli/print.h"
#include "attach/cli/print_found.h"
#include "attach/plan/survey.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "attach/series/outcome.h"
#include "attach/series/waiting.h"
#include "format/control_client.h"

#define PROC	       "/proc"
#define BEGIN_NS       (3 * CLOCK_NS_PER_S) /* longest wait for a program to be loaded */
#define BEGIN_PAUSE_NS (5 * CLOCK_NS_PER_MS)
#define WHAT_BYTES     512u

/* Writes the conditions of a query, such as " named x in container 12ab". */
static const char *describe(const struct find_query *query, char ret[WHAT_BYTES])
{
	int at = 0;
	*ret = '\0';
	if (query->name)
		at = snprintf(ret, WHAT_BYTES, " named %.100s", query->name);
	if (query->unit)
		at += snprintf(ret + at, WHAT_BYTES - (size_t)at, " of unit %.150s", query->unit);
	if (query->container)
		snprintf(ret + at, WHAT_BYTES - (size_t)at, " in container %.100s",
			query->container);
	return ret;
}

static struct ht_err *refuse_none(const struct find_query *query)
{
	char what[WHAT_BYTES];
	return ht_err_new(HT_ERR_REFUSED, "no process%s is running%s", describe(query, what),
		query->name ? "; --wait-for waits for one" : "");
}

static struct ht_err *refuse_several(const struct find_query *query, const struct found_list *list)
{
	char what[WHAT_BYTES];
	print_found(list);
	return ht_err_new(HT_ERR_REFUSED, "%zu processes%s; choose one with -p PID", list->count,
		describe(query, what));
}

static bool has_capture(const struct control_clients *clients, const struct found *found)
{
	for (size_t i = 0; i < clients->count; i++)
		if (clients->client[i].pid == found->pid &&
			clients->client[i].start_ticks == found->start_ticks)
			return true;
	return false;
}

/* Keeps only the processes that are being recorded, if there are any. */
static struct ht_err *keep_recorded(struct found_list *list)
{
	struct control_clients clients;
	size_t count = 0;
	HT_TRY(control_client_list(&clients));
	for (size_t i = 0; i < list->count; i++)
		if (has_capture(&clients, &list->process[i]))
			list->process[count++] = list->process[i];
	if (count)
		list->count = count;
	control_clients_deinit(&clients);
	return NULL;
}

/* `*ret_pid`: 0 if there is no such process. */
static struct ht_err *seek_once(const struct options *options, pid_t *ret_pid)
{
	struct found_list list;
	struct ht_err *err = find_processes(PROC, &options->find, &list);
	*ret_pid = 0;
	if (!err && list.count > 1 && OPTION_IN(options->command) & OPTION_IN_STEER)
		err = keep_recorded(&list);
	if (!err && list.count > 1)
		err = refuse_several(&options->find, &list);
	else if (!err && list.count == 1)
		*ret_pid = list.process[0].pid;
	found_list_deinit(&list);
	return err;
}

/* Just after an exec a process has its name, but no library yet, and is refused. If it is still
 * refused after BEGIN_NS, the command itself says so. */
static void await_begin(pid_t pid)
{
	const uint64_t end_ns = clock_mono_ns() + BEGIN_NS;
	bool is_refused = true;
	while (is_refused && clock_mono_ns() < end_ns) {
		struct survey survey;
		struct ht_err *err = survey_take(pid, &survey);
		is_refused = err && err->code == HT_ERR_REFUSED;
		if (!err)
			survey_deinit(&survey);
		ht_err_free(err);
		if (is_refused)
			clock_sleep_ns(BEGIN_PAUSE_NS);
	}
}

/* Until there is a process, clients see heaptap's own PID in its place. */
static void open_standby(const struct options *options, struct standby *standby)
{
	char what[WHAT_BYTES], waits_for[WHAT_BYTES + 32];
	struct proc self = {0};
	*standby = STANDBY_NONE;
	snprintf(waits_for, sizeof(waits_for), "a process%s runs", describe(&options->find, what));
	struct ht_err *err = proc_open(getpid(), &self);
	HT_THEN(err, standby_open(standby, &self,
			     &(struct standby_wait){.window = 1, .waits_for = waits_for}));
	if (err && options->verbose && !options->quiet)
		print_text(stderr, "heaptap: %s\n", err->message);
	ht_err_free(err);
	proc_close(&self);
}

/* Looks until there is a process, or a signal or a client ends the wait. */
static struct ht_err *look_on(
	struct options *options, struct waiting *waiting, enum waiting_end *ret)
{
	struct ht_err *err = NULL;
	*ret = WAITING_DUE;
	while (!err && !options->pid && *ret == WAITING_DUE) {
		const uint64_t before_ns = clock_mono_ns();
		err = seek_once(options, &options->pid);
		if (!err && !options->pid)
			*ret = waiting_until(waiting,
				waiting_now_ns() + find_pause_ns(clock_mono_ns() - before_ns));
	}
	return err;
}

/* Ends this program by signal `number`, as if the signal had not been blocked. */
static void end_by(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	signal(number, SIG_DFL);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static struct ht_err *await_process(struct options *options, bool *ret_is_stopped)
{
	struct standby standby;
	struct waiting waiting = {.standby = &standby};
	enum waiting_end end;
	sigset_t set, before;
	struct ht_err *err = seek_once(options, &options->pid);
	char what[WHAT_BYTES];
	if (err || options->pid)
		return err;
	if (!options->quiet)
		print_text(stderr, "heaptap: waiting for a process%s\n",
			describe(&options->find, what));
	inherited_ending_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	open_standby(options, &standby);
	err = look_on(options, &waiting, &end);
	*ret_is_stopped = standby_close(&standby);
	standby_end(&standby, EXIT_DONE, "nothing was recorded");
	if (end == WAITING_SIGNALLED)
		end_by(waiting.signal);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!err && !*ret_is_stopped)
		await_begin(options->pid);
	return err;
}

struct ht_err *seek_process(struct options *options, bool *ret_is_stopped)
{
	const struct find_query *query = &options->find;
	*ret_is_stopped = false;
	if (!query->name && !query->unit && !query->container)
		return NULL;
	if (options->wait_for)
		return await_process(options, ret_is_stopped);
	struct ht_err *err = seek_once(options, &options->pid);
	return err || options->pid ? err : refuse_none(query);
}
