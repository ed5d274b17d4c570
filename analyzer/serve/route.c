/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/route.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS(...) ((const char *const[]){"schema", "window", __VA_ARGS__, NULL})
/* Some members of the report; `option`: an option that is always given, or NULL. */
#define REPORT(name, option, ...)                                                                  \
	{                                                                                          \
		.path = (name), .kind = ROUTE_COMMAND, .command = "report", .fixed = (option),     \
		.member = MEMBERS(__VA_ARGS__)                                                     \
	}

/* clang-format off: a table */
const struct route route_table[] = {
	{.path = "", .kind = ROUTE_PAGE},
	{.path = "page", .kind = ROUTE_DATA, .command = "html", .base = OPTION_DIFF},
	{.path = "traces", .kind = ROUTE_TRACES},
	{.path = "events", .kind = ROUTE_EVENTS},
	{.path = "report", .kind = ROUTE_COMMAND, .command = "report"},
	REPORT("summary", NULL, "target", "capture", "totals", "rss", "memory", "heap", "marks",
		"pauses", "settle", "warnings"),
	REPORT("timeline", NULL, "timeline", "marks", "pauses", "settle"),
	REPORT("sites", NULL, "stacks_total", "stacks", "frames"),
	REPORT("suspects", NULL, "suspects", "frames"),
	REPORT("sizes", NULL, "sizes"),
	REPORT("threads", NULL, "threads"),
	REPORT("lifetimes", "--by=lifetime", "breakdown"),
	REPORT("modules", "--by=module", "breakdown"),
	{.path = "tree", .kind = ROUTE_COMMAND, .command = "tree"},
	{.path = "callers", .kind = ROUTE_COMMAND, .command = "callers", .operand = "name"},
	{.path = "diff", .kind = ROUTE_COMMAND, .command = "diff", .traces = ROUTE_TWO},
	{.path = "trend", .kind = ROUTE_COMMAND, .command = "trend", .traces = ROUTE_ALL},
	{.path = "export",
		.kind = ROUTE_COMMAND,
		.command = "export",
		.needs = OPTION_FORMAT,
		.traces = ROUTE_ONE_OR_TWO},
	{.path = "mark", .kind = ROUTE_CONTROL},
	{.path = "pause", .kind = ROUTE_CONTROL},
	{.path = "resume", .kind = ROUTE_CONTROL},
	{.path = "stop", .kind = ROUTE_CONTROL},
};
/* clang-format on */
const size_t route_count = HT_ARRAY_SIZE(route_table);

const struct route *route_find(const char *path, const char **ret_rest)
{
	static const char prefix[] = ROUTE_PREFIX;
	*ret_rest = "";
	if (strcmp(path, "/") == 0)
		return &route_table[0];
	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0)
		return NULL;
	path += sizeof(prefix) - 1;
	for (size_t i = 1; i < route_count; i++) {
		const struct route *route = &route_table[i];
		const size_t length = strlen(route->path);
		if (strncmp(path, route->path, length) != 0)
			continue;
		if (!path[length] && route->needs == OPTION_NONE)
			return route;
		if (path[length] == '/' && path[length + 1] && route->needs != OPTION_NONE) {
			*ret_rest = path + length + 1;
			return route;
		}
	}
	return NULL;
}

/* --- words ----------------------------------------------------------------------------------- */

HT_PRINTF(2, 3)
static struct ht_err *add(struct route_words *words, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int length = -1;
	if (words->count < (int)ROUTE_WORDS_MAX - 1)
		length = vasprintf(&words->word[words->count], fmt, args);
	va_end(args);
	if (length < 0)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a request");
	words->count++;
	return NULL;
}

/* Input of the conversion of a request to a command line, and the command line so far (`words`). */
struct making {
	const struct option_table *table;
	const struct option_command *command;
	const struct route *route;
	const struct request *request;
	const char *const *path; /* of the traces */
	size_t path_count;
	struct route_words *words;
};

/* Whether the server itself reads this parameter: it selects traces, is the token, or is an
 * operand. */
static bool is_own(const struct route *route, const char *name)
{
	const bool has_base = route->traces == ROUTE_TWO || route->traces == ROUTE_ONE_OR_TWO ||
			      route->base != OPTION_NONE;
	return strcmp(name, "token") == 0 ||
	       (route->traces != ROUTE_ALL && strcmp(name, "trace") == 0) ||
	       (has_base && strcmp(name, "base") == 0) ||
	       (route->operand && strcmp(name, route->operand) == 0);
}

static const struct option_row *find_row(
	const struct making *making, const char *name, enum option_id *ret_id)
{
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &making->table->option[id];
		*ret_id = id;
		if (row->name && option_is_of(making->table, making->command, id) &&
			(strcmp(row->name, name) == 0 ||
				(row->alias && strcmp(row->alias, name) == 0)))
			return row;
	}
	return NULL;
}

/* Whether requests must not set an option: it decides the form of the output, which the path
 * decides here, or it names or embeds files of this machine. */
static bool is_closed(enum option_id id, enum option_kind kind)
{
	static const enum option_id closed[] = {OPTION_JSON, OPTION_CSV, OPTION_FORMAT,
		OPTION_FORCE, OPTION_STATS, OPTION_HELP, OPTION_COLOR, OPTION_NO_PAGER, OPTION_WIDE,
		OPTION_BYTES, OPTION_STACKS, OPTION_EMBED_SOURCE};
	for (size_t i = 0; i < HT_ARRAY_SIZE(closed); i++)
		if (closed[i] == id)
			return true;
	return kind == OPTION_KIND_FILE || kind == OPTION_KIND_DIRECTORY;
}

static struct ht_err *add_parameter(
	const struct making *making, const struct request_parameter *parameter)
{
	const char *name = parameter->name, *path = making->route->path;
	enum option_id id;
	const struct option_row *row = find_row(making, name, &id);
	if (name[0] == '\0' || strspn(name, "abcdefghijklmnopqrstuvwxyz-") != strlen(name))
		return ht_err_new(
			HT_ERR_USAGE, "%s: \"%.40s\" is no name of a parameter", path, name);
	if (row && is_closed(id, row->kind))
		return ht_err_new(HT_ERR_USAGE, "%s: %s is not for requests", path, name);
	/* Unknown options are passed on: the option parser refuses them. */
	if (row && row->kind == OPTION_KIND_FLAG && !*parameter->value)
		return add(making->words, "--%s", name);
	return add(making->words, "--%s=%s", name, parameter->value);
}

/* Adds the trace that a parameter selects; `otherwise`: its index if the parameter is missing. */
static struct ht_err *add_trace(const struct making *making, const char *name, size_t otherwise)
{
	size_t index = 0;
	HT_TRY(request_index(making->request, name, making->path_count, otherwise, &index));
	return add(making->words, "%s", making->path[index]);
}

static struct ht_err *add_traces(const struct making *making)
{
	const enum route_traces traces = making->route->traces;
	for (size_t i = 0; traces == ROUTE_ALL && i < making->path_count; i++)
		HT_TRY(add(making->words, "%s", making->path[i]));
	if (traces == ROUTE_ALL)
		return NULL;
	if (traces == ROUTE_TWO ||
		(traces == ROUTE_ONE_OR_TWO && request_value(making->request, "base")))
		HT_TRY(add_trace(making, "base", 0));
	return add_trace(making, "trace", traces == ROUTE_TWO);
}

/* The option of a page that names the trace to compare with. */
static struct ht_err *add_base(const struct making *making)
{
	const enum option_id base = making->route->base;
	size_t index = 0;
	if (base == OPTION_NONE || !request_value(making->request, "base"))
		return NULL;
	HT_TRY(request_index(making->request, "base", making->path_count, 0, &index));
	return add(making->words, "--%s=%s", making->table->option[base].name, making->path[index]);
}

static struct ht_err *add_operands(const struct making *making)
{
	const struct route *route = making->route;
	HT_TRY(add(making->words, "--"));
	HT_TRY(add_traces(making));
	if (!route->operand)
		return NULL;
	const char *value = request_value(making->request, route->operand);
	if (!value || !*value)
		return ht_err_new(
			HT_ERR_USAGE, "%s: parameter %s is missing", route->path, route->operand);
	return add(making->words, "%s", value);
}

struct ht_err *route_words(const struct option_table *table, const struct route *route,
	const char *rest, const struct request *request, const char *const *path, size_t path_count,
	struct route_words *ret)
{
	const struct option_command *command = option_find_command(table, route->command);
	const struct making making = {table, command, route, request, path, path_count, ret};
	*ret = (struct route_words){0};
	if (option_is_of(table, command, OPTION_JSON))
		HT_TRY(add(ret, "--json"));
	if (route->fixed)
		HT_TRY(add(ret, "%s", route->fixed));
	if (route->needs != OPTION_NONE)
		HT_TRY(add(ret, "--%s=%s", table->option[route->needs].name, rest));
	HT_TRY(add_base(&making));
	for (size_t i = 0; i < request->count; i++)
		if (!is_own(route, request->parameter[i].name))
			HT_TRY(add_parameter(&making, &request->parameter[i]));
	return add_operands(&making);
}

void route_words_deinit(struct route_words *words)
{
	for (int i = 0; i < words->count; i++)
		free(words->word[i]);
	*words = (struct route_words){0};
}
