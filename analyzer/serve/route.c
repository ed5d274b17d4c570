/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/route.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS(...) ((const char *const[]){"schema", "window", __VA_ARGS__, NULL})

/* clang-format off: a table */
const struct route route_table[] = {
	{.path = "", .kind = ROUTE_PAGE},
	{.path = "page", .kind = ROUTE_DATA, .command = "html", .base = OPTION_DIFF},
	{.path = "traces", .kind = ROUTE_TRACES},
	{.path = "events", .kind = ROUTE_EVENTS},
	{.path = "report", .kind = ROUTE_COMMAND, .command = "report"},
	{.path = "summary",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.member = MEMBERS("target", "capture", "totals", "rss", "memory", "heap", "marks",
			"pauses", "settle", "warnings")},
	{.path = "timeline",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.member = MEMBERS("timeline", "marks", "pauses", "settle")},
	{.path = "sites",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.member = MEMBERS("stacks_total", "stacks", "frames")},
	{.path = "suspects",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.member = MEMBERS("suspects", "frames")},
	{.path = "sizes", .kind = ROUTE_COMMAND, .command = "report", .member = MEMBERS("sizes")},
	{.path = "threads",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.member = MEMBERS("threads")},
	{.path = "lifetimes",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.fixed = "--by=lifetime",
		.member = MEMBERS("breakdown")},
	{.path = "modules",
		.kind = ROUTE_COMMAND,
		.command = "report",
		.fixed = "--by=module",
		.member = MEMBERS("breakdown")},
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

static bool has_base(const struct route *route)
{
	return route->traces == ROUTE_TWO || route->traces == ROUTE_ONE_OR_TWO ||
	       route->base != OPTION_NONE;
}

/* Whether the server itself reads this parameter: it selects traces, is the token, or is an
 * operand. */
static bool is_own(const struct route *route, const char *name)
{
	return strcmp(name, "token") == 0 ||
	       (route->traces != ROUTE_ALL && strcmp(name, "trace") == 0) ||
	       (has_base(route) && strcmp(name, "base") == 0) ||
	       (route->operand && strcmp(name, route->operand) == 0);
}

static const struct option_row *find_row(const struct option_table *table,
	const struct option_command *command, const char *name, enum option_id *ret_id)
{
	for (enum option_id id = 1; id < OPTION_COUNT; id++) {
		const struct option_row *row = &table->option[id];
		*ret_id = id;
		if (row->name && option_is_of(table, command, id) &&
			(strcmp(row->name, name) == 0 ||
				(row->alias && strcmp(row->alias, name) == 0)))
			return row;
	}
	return NULL;
}

/* Whether requests must not set an option: it decides the output format, which the path decides
 * here, or it names a file of this machine. */
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

static struct ht_err *add_parameter(const struct option_table *table,
	const struct option_command *command, const struct route *route,
	const struct request_parameter *parameter, struct route_words *words)
{
	const char *name = parameter->name;
	enum option_id id;
	const struct option_row *row = find_row(table, command, name, &id);
	if (name[0] == '\0' || strspn(name, "abcdefghijklmnopqrstuvwxyz-") != strlen(name))
		return ht_err_new(
			HT_ERR_USAGE, "%s: \"%.40s\" is no name of a parameter", route->path, name);
	if (row && is_closed(id, row->kind))
		return ht_err_new(HT_ERR_USAGE, "%s: %s is not for requests", route->path, name);
	/* Unknown options are passed on: the option parser refuses them. */
	if (row && row->kind == OPTION_KIND_FLAG && !*parameter->value)
		return add(words, "--%s", name);
	return add(words, "--%s=%s", name, parameter->value);
}

/* --- traces ---------------------------------------------------------------------------------- */

static struct ht_err *add_trace(const struct request *request, const char *name,
	const char *const *path, size_t path_count, size_t otherwise, struct route_words *words)
{
	size_t index = 0;
	struct ht_err *err = request_index(request, name, path_count, otherwise, &index);
	return err ? err : add(words, "%s", path[index]);
}

static struct ht_err *add_traces(const struct route *route, const struct request *request,
	const char *const *path, size_t path_count, struct route_words *words)
{
	struct ht_err *err = NULL;
	switch (route->traces) {
	case ROUTE_ONE_OR_TWO:
		if (request_value(request, "base"))
			err = add_trace(request, "base", path, path_count, 0, words);
		return err ? err : add_trace(request, "trace", path, path_count, 0, words);
	case ROUTE_ONE:
		return add_trace(request, "trace", path, path_count, 0, words);
	case ROUTE_TWO:
		err = add_trace(request, "base", path, path_count, 0, words);
		return err ? err : add_trace(request, "trace", path, path_count, 1, words);
	case ROUTE_ALL:
		for (size_t i = 0; i < path_count && !err; i++)
			err = add(words, "%s", path[i]);
	}
	return err;
}

/* The option of a page that names the trace to compare with. */
static struct ht_err *add_base(const struct option_table *table, const struct route *route,
	const struct request *request, const char *const *path, size_t path_count,
	struct route_words *words)
{
	size_t index = 0;
	if (route->base == OPTION_NONE || !request_value(request, "base"))
		return NULL;
	struct ht_err *err = request_index(request, "base", path_count, 0, &index);
	return err ? err : add(words, "--%s=%s", table->option[route->base].name, path[index]);
}

static struct ht_err *add_operands(const struct route *route, const struct request *request,
	const char *const *path, size_t path_count, struct route_words *words)
{
	struct ht_err *err = add(words, "--");
	HT_THEN(err, add_traces(route, request, path, path_count, words));
	if (err || !route->operand)
		return err;
	const char *value = request_value(request, route->operand);
	if (!value || !*value)
		return ht_err_new(
			HT_ERR_USAGE, "%s: parameter %s is missing", route->path, route->operand);
	return add(words, "%s", value);
}

static struct ht_err *add_fixed(const struct option_table *table,
	const struct option_command *command, const struct route *route, const char *rest,
	struct route_words *words)
{
	struct ht_err *err = NULL;
	if (option_is_of(table, command, OPTION_JSON))
		err = add(words, "--json");
	if (!err && route->fixed)
		err = add(words, "%s", route->fixed);
	if (!err && route->needs != OPTION_NONE)
		err = add(words, "--%s=%s", table->option[route->needs].name, rest);
	return err;
}

struct ht_err *route_words(const struct option_table *table, const struct route *route,
	const char *rest, const struct request *request, const char *const *path, size_t path_count,
	struct route_words *ret)
{
	const struct option_command *command = option_find_command(table, route->command);
	*ret = (struct route_words){0};
	struct ht_err *err = add_fixed(table, command, route, rest, ret);
	HT_THEN(err, add_base(table, route, request, path, path_count, ret));
	for (size_t i = 0; i < request->count && !err; i++)
		if (!is_own(route, request->parameter[i].name))
			err = add_parameter(table, command, route, &request->parameter[i], ret);
	return err ? err : add_operands(route, request, path, path_count, ret);
}

void route_words_deinit(struct route_words *words)
{
	for (int i = 0; i < words->count; i++)
		free(words->word[i]);
	*words = (struct route_words){0};
}
