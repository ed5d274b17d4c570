/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze serve: the page and the reports of traces over HTTP, on this machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd.h"
#include "analyzer/cmd_process.h"
#include "analyzer/commands.h"
#include "analyzer/export/traces_json.h"
#include "analyzer/live/tail.h"
#include "analyzer/page/page.h"
#include "analyzer/serve/privilege.h"
#include "analyzer/serve/serve.h"
#include "format/array.h"

/* limit of the page's data; if exceeded, chains are folded */
#define DATA_BYTES_MAX (64u << 20)

struct serve {
	const struct option_values *values;
	struct serve_traces traces;
	struct analysis *analysis[SERVE_TRACES_MAX];
	char *page, *policy;
	/* With -p: the only trace is that of `capture`, and analysis[0] belongs to the tail. */
	bool is_live;
	struct capture capture;
	struct tail tail;
};

/* --- answers, each in a process of its own --------------------------------------------------- */

static struct ht_err *write_data(const struct option_values *values)
{
	struct cmd_view view;
	struct page_more more = {0};
	struct page_result result = {0};
	struct ht_err *err = cmd_view_open(values, values->operand[0], false, &view);
	HT_THEN(err, cmd_page_diff(values, view.view, &more));
	HT_THEN(err, page_write_data(stdout, view.view, &more, DATA_BYTES_MAX, &result));
	json_decref(more.diff);
	cmd_view_close(&view);
	return err;
}

static struct ht_err *write_traces(struct serve *serve)
{
	struct view *view[SERVE_TRACES_MAX] = {0};
	struct query query;
	struct ht_err *err = NULL;
	query_init(&query);
	for (size_t i = 0; i < serve->traces.count && !err; i++)
		err = view_create(serve->analysis[i], &query, false, &view[i]);
	HT_THEN(err, traces_json_write(stdout, (const struct view *const *)view,
			     (const char *const *)serve->traces.path, serve->traces.count));
	for (size_t i = 0; i < serve->traces.count; i++)
		view_destroy(view[i]);
	return err;
}

/* Ends the analysis of the growing trace at the bytes read so far. Only for a child process that
 * answers one request. */
static struct ht_err *end_growing(struct serve *serve)
{
	struct resolve_files files = cmd_files(serve->values);
	files.uses_cache = true;
	if (!serve->analysis[0])
		return ht_err_new(HT_ERR_REFUSED, "the trace has not begun; try again");
	struct ht_err *err = analysis_end(serve->analysis[0]);
	/* The trace has no record yet: a later request may succeed, so this is no damage. */
	if (err && err->code == HT_ERR_FORMAT)
		err->code = HT_ERR_REFUSED;
	return err ? err : analysis_resolve(serve->analysis[0], &files);
}

static struct ht_err *answer(void *context, const struct serve_question *question)
{
	struct serve *serve = context;
	HT_TRY(serve->is_live ? end_growing(serve) : NULL);
	for (size_t i = 0; i < serve->traces.count; i++)
		cmd_hold(serve->traces.path[i], serve->traces.fd[i], serve->analysis[i]);
	if (question->kind == ROUTE_TRACES)
		return write_traces(serve);
	if (question->kind == ROUTE_DATA)
		return write_data(&question->values);
	if (question->member)
		return cmd_report_members(&question->values, question->member);
	return question->command->run(&question->values);
}

/* --- a capture that runs --------------------------------------------------------------------- */

static struct ht_err *read_on(void *context, uint64_t most, bool *ret_has_more, uint64_t *ret_read)
{
	struct serve *serve = context;
	struct ht_err *err = tail_read_on(&serve->tail, most);
	serve->analysis[0] = serve->tail.analysis;
	*ret_has_more = serve->tail.has_more;
	*ret_read = serve->tail.read_bytes;
	return err;
}

static struct ht_err *open_capture(struct serve *serve)
{
	char heaptap[PATH_MAX];
	const struct capture_start start = {.heaptap = heaptap, .trace = -1, .log = -1};
	pid_t pid;
	HT_TRY(cmd_process_find(serve->values, &pid));
	HT_TRY(capture_find_program(heaptap));
	HT_TRY(capture_open(&serve->capture, pid, &start));
	HT_TRY(serve_traces_add(&serve->traces, serve->capture.trace));
	return tail_open(&serve->tail, serve->capture.trace, false);
}

/* --- the server ------------------------------------------------------------------------------ */

/* Leaves out a file of a directory that is no trace, or a trace without a record yet, so that the
 * other traces are served. */
static struct ht_err *leave_out(struct serve *serve, size_t index, struct ht_err *err)
{
	if (err->code != HT_ERR_FORMAT || !serve->traces.is_found[index] ||
		serve->traces.count == 1)
		return err;
	fprintf(stderr, "heaptap: warning: left out: %s\n", err->message);
	ht_err_free(err);
	serve_traces_remove(&serve->traces, index);
	return NULL;
}

static struct ht_err *read_traces(struct serve *serve)
{
	size_t i = 0;
	while (i < serve->traces.count) {
		struct ht_err *err = cmd_analyse(serve->values, serve->traces.fd[i],
			serve->traces.path[i], NULL, false, &serve->analysis[i]);
		if (!err)
			i++;
		else if ((err = leave_out(serve, i, err)))
			return err;
	}
	return NULL;
}

static struct ht_err *ready(void *context, const char *address, uint16_t port)
{
	const struct serve *serve = context;
	HT_TRY(privilege_drop());
	printf("%s\n", address);
	struct ht_err *err = cmd_flush(stdout, "the address");
	fprintf(stderr,
		"heaptap: open this address in a browser; Ctrl-C ends the server%s\n"
		"heaptap: from another machine: ssh -L %u:127.0.0.1:%u HOST, then the same "
		"address\n",
		serve->is_live && serve->capture.started ? " and its capture" : "", port, port);
	return err;
}

static struct ht_err *run(struct serve *serve)
{
	const struct follow_config live = {
		.capture = &serve->capture, .read_on = read_on, .context = serve};
	const struct serve_config config = {
		.table = &commands_table,
		.traces = &serve->traces,
		.port = (uint16_t)option_number(serve->values, OPTION_PORT, 0),
		.page = serve->page,
		.policy = serve->policy,
		.answer = answer,
		.ready = ready,
		.live = serve->is_live ? &live : NULL,
		.context = serve,
	};
	return serve_run(&config);
}

static struct ht_err *open_and_run(struct serve *serve)
{
	const struct option_values *values = serve->values;
	struct ht_err *err;
	if (serve->is_live)
		err = open_capture(serve);
	else
		err = serve_traces_open(&serve->traces, values->operand, values->operand_count);
	if (!err && !serve->is_live)
		err = read_traces(serve);
	HT_THEN(err, page_for_server(serve->is_live, &serve->page, &serve->policy));
	return err ? err : run(serve);
}

static struct ht_err *check(const struct option_values *values)
{
	const bool is_live = cmd_process_is_given(values);
	if (is_live == (values->operand_count > 0))
		return ht_err_new(
			HT_ERR_USAGE, is_live ? "serve takes a process or traces, not both"
					      : "serve: a trace file or -p PID is missing");
	if (!serve_is_built())
		return ht_err_new(HT_ERR_REFUSED,
			"serve is not in this build: run apt-get install libmicrohttpd-dev, then "
			"make");
	if (!page_is_built())
		return ht_err_new(HT_ERR_REFUSED, "serve is not in this build: install "
						  "libjs-dygraphs and build heaptap again");
	return NULL;
}

struct ht_err *cmd_serve(const struct option_values *values)
{
	HT_TRY(check(values));
	HT_FREED struct serve *serve = calloc(1, sizeof(*serve));
	if (!serve)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the server");
	serve->values = values;
	serve->is_live = cmd_process_is_given(values);
	serve->capture.socket = serve->tail.fd = -1;
	struct ht_err *err = open_and_run(serve);
	for (size_t i = serve->is_live; i < SERVE_TRACES_MAX; i++)
		analysis_destroy(serve->analysis[i]);
	serve_traces_deinit(&serve->traces);
	tail_close(&serve->tail);
	/* Ignore the exit status: a capture that this program started has printed how it ended. */
	if (serve->is_live)
		(void)capture_close(&serve->capture);
	free(serve->page);
	free(serve->policy);
	return err;
}
