/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze serve: the page and the reports of traces over HTTP, on this machine.
 */
#include <stdlib.h>
#include <unistd.h>

#include "analyzer/cmd.h"
#include "analyzer/commands.h"
#include "analyzer/export/traces_json.h"
#include "analyzer/page/page.h"
#include "analyzer/serve/privilege.h"
#include "analyzer/serve/serve.h"

#define DATA_BYTES_MAX (64u << 20) /* of the page; what is more is folded */

struct serve {
	const struct option_values *values;
	struct serve_traces traces;
	struct analysis *analysis[SERVE_TRACES_MAX];
	char *page, *policy;
};

/* --- answers, each in a process of its own --------------------------------------------------- */

static struct ht_err *write_data(const struct option_values *values)
{
	struct cmd_view view = {0};
	struct page_result result = {0};
	struct ht_err *err = cmd_view_open(values, values->operand[0], false, &view);
	if (!err)
		err = page_write_data(stdout, view.view, DATA_BYTES_MAX, &result);
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
	if (!err)
		err = traces_json_write(stdout, (const struct view *const *)view,
			(const char *const *)serve->traces.path, serve->traces.count);
	for (size_t i = 0; i < serve->traces.count; i++)
		view_destroy(view[i]);
	return err;
}

static struct ht_err *answer(void *context, const struct serve_question *question)
{
	struct serve *serve = context;
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

/* --- the server ------------------------------------------------------------------------------ */

static struct ht_err *read_traces(struct serve *serve)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < serve->traces.count && !err; i++)
		err = cmd_analyse(serve->values, serve->traces.fd[i], serve->traces.path[i], NULL,
			false, &serve->analysis[i]);
	return err;
}

static struct ht_err *ready(void *context, const char *address, uint16_t port)
{
	(void)context;
	struct ht_err *err = privilege_drop();
	if (err)
		return err;
	printf("%s\n", address);
	err = cmd_flush(stdout, "the address");
	fprintf(stderr,
		"heaptap: open this address in a browser; Ctrl-C ends the server\n"
		"heaptap: from another machine: ssh -L %u:127.0.0.1:%u HOST, then the same "
		"address\n",
		port, port);
	return err;
}

static struct ht_err *run(struct serve *serve)
{
	const struct serve_config config = {
		.table = &commands_table,
		.traces = &serve->traces,
		.port = (uint16_t)option_number(serve->values, OPTION_PORT, 0),
		.page = serve->page,
		.policy = serve->policy,
		.answer = answer,
		.ready = ready,
		.context = serve,
	};
	return serve_run(&config);
}

static struct ht_err *open_and_run(struct serve *serve)
{
	const struct option_values *values = serve->values;
	struct ht_err *err =
		serve_traces_open(&serve->traces, values->operand, values->operand_count);
	if (!err)
		err = read_traces(serve);
	if (!err)
		err = page_for_server(&serve->page, &serve->policy);
	return err ? err : run(serve);
}

static struct ht_err *check(void)
{
	if (!serve_is_built())
		return ht_err_new(HT_ERR_REFUSED,
			"serve is not in this build: install libmicrohttpd-dev and build heaptap "
			"again");
	if (!page_is_built())
		return ht_err_new(HT_ERR_REFUSED, "serve is not in this build: install "
						  "libjs-dygraphs and build heaptap again");
	return NULL;
}

struct ht_err *cmd_serve(const struct option_values *values)
{
	struct ht_err *err = check();
	if (err)
		return err;
	struct serve *serve = calloc(1, sizeof(*serve));
	if (!serve)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the server");
	serve->values = values;
	err = open_and_run(serve);
	for (size_t i = 0; i < SERVE_TRACES_MAX; i++)
		analysis_destroy(serve->analysis[i]);
	serve_traces_deinit(&serve->traces);
	free(serve->page);
	free(serve->policy);
	free(serve);
	return err;
}
