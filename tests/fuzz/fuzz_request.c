/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer entry (make fuzz): the input is the address of a request, its Host and its Origin, one
 * line each. The server's code turns it into the words of a command, which are parsed.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/commands.h"
#include "analyzer/serve/access.h"
#include "analyzer/serve/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const path[] = {"a.htap", "b.htap"};

static bool is_trace(const char *text)
{
	return strcmp(text, path[0]) == 0 || strcmp(text, path[1]) == 0;
}

static void check(struct ht_err *err)
{
	if (err && err->code != HT_ERR_USAGE && err->code != HT_ERR_PERMISSION)
		abort();
	ht_err_free(err);
}

static void parse(const struct route *route, struct route_words *words)
{
	const struct option_command *command = option_find_command(&commands_table, route->command);
	struct option_values values;
	struct ht_err *err =
		option_parse(&commands_table, command, words->count, words->word, &values);
	if (!err)
		for (size_t i = 0; i < values.count; i++) {
			enum option_kind kind = commands_table.option[values.value[i].id].kind;
			if ((kind == OPTION_KIND_FILE || kind == OPTION_KIND_DIRECTORY) &&
				!is_trace(values.value[i].text))
				abort();
		}
	if (!err)
		option_values_deinit(&values);
	check(err);
}

static void find(const struct request *request)
{
	struct route_words words;
	const char *rest;
	const struct route *route = route_find(request->path, &rest);
	if (!route || !route->command)
		return;
	struct ht_err *err = route_words(
		&commands_table, route, rest, request, path, HT_ARRAY_SIZE(path), &words);
	if (!err)
		parse(route, &words);
	check(err);
	route_words_deinit(&words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct access access = {.port = 8123, .token = "0123456789abcdef0123456789abcdef"};
	char *text = malloc(size + 1), *rest = text;
	struct request request;
	size_t index;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	const char *target = strsep(&rest, "\n");
	const char *host = strsep(&rest, "\n"), *origin = strsep(&rest, "\n");
	struct ht_err *err = request_parse(target, &request);
	if (!err) {
		const struct access_claim claim = {host, origin, request_value(&request, "x"),
			request_value(&request, "token"), size % 2};
		check(access_check(&access, &claim));
		check(request_index(&request, "trace", 3, 0, &index));
		find(&request);
		request_deinit(&request);
	}
	check(err);
	free(text);
	return 0;
}
