/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/model/strings.h"

struct exchange *exchange_create(const struct serve_config *config, const struct access *access,
	struct MHD_Connection *connection, const char *target)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));
	if (!exchange)
		return NULL;
	exchange->config = config;
	exchange->access = access;
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

/* --- the question ----------------------------------------------------------------------------- */

static struct ht_err *check_access(const struct exchange *exchange, bool changes)
{
	const struct access_claim claim = {
		.host = header(exchange, MHD_HTTP_HEADER_HOST),
		.origin = header(exchange, MHD_HTTP_HEADER_ORIGIN),
		.header = header(exchange, "X-Heaptap-Token"),
		.parameter = request_value(&exchange->request, "token"),
		.changes = changes,
	};
	return access_check(exchange->access, &claim);
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
	const struct option_table *table = exchange->config->table;
	const struct route *route = exchange->route;
	const struct serve_traces *traces = exchange->config->traces;
	exchange->question.kind = route->kind;
	exchange->question.member = route->member;
	if (!route->command)
		return NULL;
	exchange->question.command = option_find_command(table, route->command);
	struct ht_err *err = route_words(table, route, rest, &exchange->request,
		(const char *const *)traces->path, traces->count, &exchange->words);
	HT_THEN(err, option_parse(table, exchange->question.command, exchange->words.count,
			     exchange->words.word, &exchange->question.values));
	exchange->is_heavy = !err && reads_again(&exchange->question.values);
	if (*rest)
		snprintf(exchange->name, sizeof(exchange->name), "heaptap.%.40s", rest);
	return err;
}

/* --- the ETag --------------------------------------------------------------------------------- */

/* Sets the ETag: a hash of heaptap's version, the traces' identities, the bytes read, the path, and
 * all parameters except the token. */
static void set_etag(struct exchange *exchange)
{
	const struct serve_traces *traces = exchange->config->traces;
	const struct request *request = &exchange->request;
	uint64_t of_traces = strings_hash(STRINGS_HASH, HEAPTAP_VERSION, sizeof(HEAPTAP_VERSION));
	uint64_t of_question = STRINGS_HASH;
	of_traces = strings_hash(
		of_traces, traces->identity, traces->count * sizeof(traces->identity[0]));
	of_traces = strings_hash(of_traces, &traces->read, sizeof(traces->read));
	of_question = strings_hash(of_question, request->path, strlen(request->path) + 1);
	for (size_t i = 0; i < request->count; i++) {
		const struct request_parameter *parameter = &request->parameter[i];
		if (strcmp(parameter->name, "token") == 0)
			continue;
		of_question =
			strings_hash(of_question, parameter->name, strlen(parameter->name) + 1);
		of_question =
			strings_hash(of_question, parameter->value, strlen(parameter->value) + 1);
	}
	snprintf(exchange->etag, sizeof(exchange->etag), "\"%016" PRIx64 "%016" PRIx64 "\"",
		of_traces, of_question);
}

bool exchange_is_known(struct exchange *exchange)
{
	const char *known = header(exchange, MHD_HTTP_HEADER_IF_NONE_MATCH);
	set_etag(exchange);
	return known && (strcmp(known, "*") == 0 || strstr(known, exchange->etag));
}

/* --- the request and the answer -------------------------------------------------------------- */

bool exchange_read(struct exchange *exchange, const char *method, enum MHD_Result *ret)
{
	const bool posts = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
	const char *rest = "";
	if (!posts && strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
		strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		*ret = reply_error(exchange->connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			"only GET, HEAD and POST are answered");
		return false;
	}
	struct ht_err *err = request_parse(exchange->target, &exchange->request);
	HT_THEN(err, check_access(exchange, posts));
	exchange->route = err ? NULL : route_find(exchange->request.path, &rest);
	if (!err && !exchange->route) {
		*ret = reply_error(
			exchange->connection, MHD_HTTP_NOT_FOUND, "there is nothing at this path");
		return false;
	}
	if (!err && posts != (exchange->route->kind == ROUTE_CONTROL)) {
		*ret = reply_error(exchange->connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			posts ? "this is read with GET" : "this is done with POST");
		return false;
	}
	HT_THEN(err, read_question(exchange, rest));
	if (err)
		*ret = reply_failure(exchange->connection, err);
	return !err;
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
	const struct serve_config *config = exchange->config;
	return config->answer(config->context, &exchange->question);
}
