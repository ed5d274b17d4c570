/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/serve/server.h"

struct exchange *exchange_create(
	struct server *server, struct MHD_Connection *connection, const char *target)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));
	if (!exchange)
		return NULL;
	exchange->server = server;
	exchange->connection = connection;
	exchange->output = -1;
	exchange->target = strdup(target);
	if (exchange->target)
		return exchange;
	free(exchange);
	return NULL;
}

void exchange_destroy(struct exchange *exchange)
{
	ht_err_free(exchange->err);
	if (exchange->output >= 0)
		close(exchange->output);
	option_values_deinit(&exchange->question.values);
	route_words_deinit(&exchange->words);
	request_deinit(&exchange->request);
	free(exchange->target);
	free(exchange);
}

static const char *header(const struct exchange *exchange, const char *name)
{
	return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* --- what it asks for ------------------------------------------------------------------------ */

static struct ht_err *check_access(const struct exchange *exchange, bool changes)
{
	const struct access_claim claim = {
		.host = header(exchange, MHD_HTTP_HEADER_HOST),
		.origin = header(exchange, MHD_HTTP_HEADER_ORIGIN),
		.header = header(exchange, "X-Heaptap-Token"),
		.parameter = request_value(&exchange->request, "token"),
		.changes = changes,
	};
	return access_check(&exchange->server->access, &claim);
}

static bool reads_again(const struct option_values *values)
{
	static const enum option_id id[] = {
		OPTION_MIN_SIZE, OPTION_MAX_SIZE, OPTION_MIN_AGE, OPTION_MAX_AGE, OPTION_FORMAT};
	for (size_t i = 0; i < HT_ARRAY_SIZE(id); i++)
		if (option_is_given(values, id[i]))
			return true;
	return false;
}

static struct ht_err *read_question(struct exchange *exchange, const char *rest)
{
	const struct option_table *table = exchange->server->config->table;
	const struct route *route = exchange->route;
	const struct serve_traces *traces = exchange->server->config->traces;
	exchange->question.kind = route->kind;
	exchange->question.member = route->member;
	if (!route->command)
		return NULL;
	exchange->question.command = option_find_command(table, route->command);
	struct ht_err *err = route_words(table, route, rest, &exchange->request,
		(const char *const *)traces->path, traces->count, &exchange->words);
	if (!err)
		err = option_parse(table, exchange->question.command, exchange->words.count,
			exchange->words.word, &exchange->question.values);
	exchange->is_heavy = !err && reads_again(&exchange->question.values);
	if (*rest)
		snprintf(exchange->name, sizeof(exchange->name), "heaptap.%.40s", rest);
	return err;
}

/* --- whether it is known already ------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
	return hash;
}

/* The tag depends on the traces and the question: the path and all parameters but the token. */
static void set_etag(struct exchange *exchange)
{
	const struct server *server = exchange->server;
	const struct serve_traces *traces = server->config->traces;
	const struct request *request = &exchange->request;
	uint64_t of_traces = mix(0xcbf29ce484222325u, HEAPTAP_VERSION, sizeof(HEAPTAP_VERSION));
	uint64_t of_question = 0xcbf29ce484222325u;
	of_traces = mix(of_traces, traces->identity, traces->count * sizeof(traces->identity[0]));
	of_traces = mix(of_traces, &traces->read, sizeof(traces->read));
	of_question = mix(of_question, request->path, strlen(request->path) + 1);
	for (size_t i = 0; i < request->count; i++) {
		const struct request_parameter *parameter = &request->parameter[i];
		if (strcmp(parameter->name, "token") == 0)
			continue;
		of_question = mix(of_question, parameter->name, strlen(parameter->name) + 1);
		of_question = mix(of_question, parameter->value, strlen(parameter->value) + 1);
	}
	snprintf(exchange->etag, sizeof(exchange->etag), "\"%016" PRIx64 "%016" PRIx64 "\"",
		of_traces, of_question);
}

static bool is_known(const struct exchange *exchange)
{
	const char *known = header(exchange, MHD_HTTP_HEADER_IF_NONE_MATCH);
	return known && (strcmp(known, "*") == 0 || strstr(known, exchange->etag));
}

/* --- the answer ------------------------------------------------------------------------------ */

static enum MHD_Result wait_for_job(struct exchange *exchange)
{
	set_etag(exchange);
	if (is_known(exchange))
		return reply_unchanged(exchange->connection, exchange->etag);
	if (server_enqueue(exchange->server, exchange))
		return MHD_YES;
	return reply_error(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
		"too many requests wait already; try again");
}

static enum MHD_Result begin_route(struct exchange *exchange, const char *rest)
{
	const struct serve_config *config = exchange->server->config;
	struct ht_err *err = read_question(exchange, rest);
	if (err)
		return reply_failure(exchange->connection, err);
	switch (exchange->route->kind) {
	case ROUTE_PAGE:
		return reply_page(exchange->connection, config->page, config->policy);
	case ROUTE_DATA:
	case ROUTE_COMMAND:
	case ROUTE_TRACES:
		return wait_for_job(exchange);
	case ROUTE_EVENTS:
		if (config->capture)
			return follow_listen(&exchange->server->follow, exchange);
		break;
	case ROUTE_CONTROL:
		if (config->capture)
			return follow_control(&exchange->server->follow, exchange);
		break;
	}
	return reply_error(exchange->connection, MHD_HTTP_NOT_FOUND,
		"no capture runs: these traces were given as files");
}

enum MHD_Result exchange_begin(struct exchange *exchange, const char *method)
{
	struct MHD_Connection *connection = exchange->connection;
	const bool posts = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
	const char *rest = "";
	if (!posts && strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
		strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			"only GET, HEAD and POST are answered");
	struct ht_err *err = request_parse(exchange->target, &exchange->request);
	if (!err)
		err = check_access(exchange, posts);
	if (err)
		return reply_failure(connection, err);
	exchange->route = route_find(exchange->request.path, &rest);
	if (!exchange->route)
		return reply_error(connection, MHD_HTTP_NOT_FOUND, "there is nothing at this path");
	if (posts != (exchange->route->kind == ROUTE_CONTROL))
		return reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			posts ? "this is read with GET" : "this is done with POST");
	return begin_route(exchange, rest);
}

enum MHD_Result exchange_end(struct exchange *exchange)
{
	const bool is_data = exchange->route->kind == ROUTE_DATA;
	const bool is_lasting = exchange->route->kind != ROUTE_CONTROL;
	struct ht_err *err = exchange->err;
	exchange->err = NULL;
	if (err)
		return reply_failure(exchange->connection, err);
	const int output = exchange->output;
	exchange->output = -1;
	return reply_file(exchange->connection, output,
		is_data || *exchange->name ? "application/octet-stream" : "application/json",
		is_lasting ? exchange->etag : NULL, *exchange->name ? exchange->name : NULL);
}

struct ht_err *exchange_answer(void *context)
{
	const struct exchange *exchange = context;
	const struct serve_config *config = exchange->server->config;
	return config->answer(config->context, &exchange->question);
}
