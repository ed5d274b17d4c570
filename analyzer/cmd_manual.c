/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze version; and man pages and completion, which the build makes from the tables of
 * commands and options.
 */
#include "analyzer/cli/completion.h"
#include "analyzer/cli/man.h"
#include "analyzer/cmd.h"
#include "analyzer/commands.h"
#include "analyzer/page/page.h"
#include "analyzer/serve/serve.h"
#include "analyzer/top/display.h"

struct ht_err *cmd_version(const struct option_values *values)
{
	(void)values;
	printf("heaptap-analyze %s\n", HEAPTAP_VERSION);
	if (!page_is_built())
		puts("without html and serve: libjs-dygraphs was missing");
	else if (!serve_is_built())
		puts("without serve: libmicrohttpd-dev was missing");
	if (!display_is_built())
		puts("without the interactive top (-b works): libncurses-dev was missing");
	return NULL;
}

static void print_names(void)
{
	for (size_t i = 0; i < commands_table.command_count; i++)
		if (man_has_page(&commands_table.command[i]))
			puts(commands_table.command[i].name);
}

struct ht_err *cmd_man(const struct option_values *values)
{
	const char *name = values->operand[0];
	if (!name) {
		print_names();
		return NULL;
	}
	const struct option_command *command = option_find_command(&commands_table, name);
	if (!command || !man_has_page(command))
		return ht_err_new(HT_ERR_USAGE, "man: there is no page of %s", name);
	man_print(stdout, &commands_table, command, HEAPTAP_VERSION);
	return NULL;
}

struct ht_err *cmd_completion(const struct option_values *values)
{
	(void)values;
	completion_print(stdout, &commands_table);
	return NULL;
}
