/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/requests.h"

#include <stdlib.h>
#include <string.h>

#include "attach/trace/snapshot.h"
#include "attach/helper/inherited.h"
#include "attach/cli/naming.h"
#include "attach/cli/print_control.h"
#include "attach/proc/clock.h"
#include "attach/run/marklog.h"
#include "format/control_client.h"
#include "format/quantity.h"

#define PATIENCE_NS	 (5 * CLOCK_NS_PER_S)
#define SNAPSHOT_NAME	 "heaptap.%c.%p.%t.snapshot.htap"
#define LIST_PATIENCE_NS CLOCK_NS_PER_S /* for an answer of one capture among several */

static const enum control_verb verb_of[] = {
	[COMMAND_STATUS] = CONTROL_STATUS,
	[COMMAND_STOP] = CONTROL_STOP,
	[COMMAND_PAUSE] = CONTROL_PAUSE,
	[COMMAND_RESUME] = CONTROL_RESUME,
	[COMMAND_MARK] = CONTROL_MARK,
	[COMMAND_SNAPSHOT] = CONTROL_SNAPSHOT,
};

static struct control_request request_of(const struct options *options)
{
	struct control_request request = {.verb = verb_of[options->command], .wait = options->wait};
	if (options->text) {
		request.text_length = strlen(options->text);
		memcpy(request.text, options->text, request.text_length);
	}
	return request;
}

/* The error for an answer that did not come. */
static struct ht_err *explain(const struct options *options, enum control_client_state state)
{
	int pid = (int)options->pid;
	if (state == CONTROL_CLIENT_SILENT)
		return ht_err_new(HT_ERR_SYS,
			"the capture of process %d does not answer: heaptap is attaching, is "
			"writing the end of the trace, or is stopped",
			pid);
	if (state == CONTROL_CLIENT_DIED && options->wait)
		return ht_err_new(HT_ERR_SYS,
			"heaptap ended before the capture was complete; 'heaptap verify -p %d' "
			"says whether the process is clean",
			pid);
	return ht_err_new(HT_ERR_REFUSED, "the capture of process %d has just ended", pid);
}

static enum ht_err_code code_of(uint64_t exit_status)
{
	return exit_status == EXIT_PERMISSION ? HT_ERR_PERMISSION
	       : exit_status == EXIT_REFUSED  ? HT_ERR_REFUSED
					      : HT_ERR_SYS;
}

/* --- stop --wait ----------------------------------------------------------------------------- */

struct waiting {
	const struct options *options;
	const struct control_client *client;
	uint64_t phase; /* the phase that was printed last */
};

/* Prints what the capture does at its end, once for each phase. */
static void print_phase(void *context)
{
	static const struct control_request request = {.verb = CONTROL_STATUS};
	struct waiting *waiting = context;
	enum control_client_state state;
	struct control_reply reply;
	struct ht_err *err =
		control_client_ask(waiting->client, &request, LIST_PATIENCE_NS, &state, &reply);
	if (!err && state == CONTROL_CLIENT_ANSWERED && reply.ok && reply.phase != waiting->phase) {
		waiting->phase = reply.phase;
		print_control_phase(waiting->options, &reply);
	}
	ht_err_free(err);
}

static struct ht_err *ask_one(const struct options *options, struct control_reply *ret)
{
	const struct control_request request = request_of(options);
	enum control_client_state state;
	struct control_client client;
	struct waiting waiting = {options, &client, CONTROL_RECORDING};
	HT_TRY(control_client_find_any(options->pid, &client));
	HT_TRY(request.wait ? control_client_await(
				      &client, &request, print_phase, &waiting, &state, ret)
			    : control_client_ask(&client, &request, PATIENCE_NS, &state, ret));
	if (state != CONTROL_CLIENT_ANSWERED)
		return explain(options, state);
	ret->user = client.user;
	return ret->ok ? NULL : ht_err_new(code_of(ret->exit_status), "%s", ret->message);
}

/* Prints the status of all captures, also of those that do not answer. */
static struct ht_err *ask_all(const struct options *options)
{
	static const struct control_request request = {.verb = CONTROL_STATUS};
	struct print_control print = {.options = options};
	struct control_clients clients;
	struct ht_err *err = control_client_list(&clients);
	if (err)
		return err;
	print_control_begin(&print);
	for (size_t i = 0; i < clients.count && !err; i++) {
		enum control_client_state state;
		struct control_reply reply;
		err = control_client_ask(
			&clients.client[i], &request, LIST_PATIENCE_NS, &state, &reply);
		/* Take the user from the socket's directory: a capture may claim to be another
		 * user's. */
		reply.user = clients.client[i].user;
		bool is_stale = !err && state == CONTROL_CLIENT_STALE;
		if (!err && state == CONTROL_CLIENT_ANSWERED && reply.ok)
			print_control_capture(&print, &reply);
		else if (!is_stale)
			print_control_silent(&print, &clients.client[i]);
		/* A wrong answer of one capture must not hide the others. */
		if (err && err->code != HT_ERR_NOMEM) {
			ht_err_free(err);
			err = NULL;
		}
	}
	control_clients_deinit(&clients);
	return ht_err_first(err, print_control_end(&print));
}

/* --- snapshot -------------------------------------------------------------------------------- */

static struct ht_err *write_snapshot(
	const struct options *options, const struct control_reply *capture, char *output)
{
	struct snapshot_report report;
	const struct snapshot_options snapshot = {.pid = options->pid,
		.start_ticks = capture->start_ticks,
		.trace = *capture->partial ? capture->partial : capture->trace,
		.output = output,
		.replace = options->replace};
	if (strcmp(capture->trace, "-") == 0 || !*capture->trace)
		return ht_err_new(HT_ERR_REFUSED,
			"the capture of process %d writes to its standard output, which cannot be "
			"read back",
			(int)options->pid);
	struct ht_err *err = snapshot_write(&snapshot, &report);
	return err ? err : print_control_snapshot(options, output, report.bytes, report.problem);
}

static struct ht_err *take_snapshot(
	const struct options *options, const struct control_reply *capture)
{
	char *output = NULL;
	char late[QUANTITY_TEXT_BYTES];
	inherited_signals();
	if (capture->cull_ns && !options->quiet)
		print_text(stderr,
			"heaptap: the capture has --cull: its trace is %s late, and the snapshot "
			"waits for it\n",
			quantity_duration_text(capture->cull_ns, late));
	struct ht_err *err = naming_expand(
		options->output ? options->output : SNAPSHOT_NAME, options->pid, &output);
	HT_THEN(err, write_snapshot(options, capture, output));
	free(output);
	return err;
}

struct ht_err *requests_run(const struct options *options, enum exit_status *ret)
{
	struct control_reply reply;
	*ret = EXIT_DONE;
	if (options->log_count)
		return marklog_run(options);
	if (!options->pid)
		return ask_all(options);
	HT_TRY(ask_one(options, &reply));
	if (options->command == COMMAND_STATUS) {
		struct print_control print = {.options = options};
		print_control_begin(&print);
		print_control_capture(&print, &reply);
		return print_control_end(&print);
	}
	if (options->command == COMMAND_SNAPSHOT)
		return take_snapshot(options, &reply);
	if (options->wait)
		*ret = (enum exit_status)(reply.exit_status & 0xff);
	return print_control_done(options, &reply);
}
