/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze: finds the subcommand, prints its error, turns it into an exit code. Users type
 * heaptap, which executes this program; so all messages name heaptap.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd.h"
#include "format/foreign.h"

#ifndef HEAPTAP_VERSION
#define HEAPTAP_VERSION "unknown"
#endif

static struct ht_err *cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("heaptap-analyze %s\n", HEAPTAP_VERSION);
	return NULL;
}

static const struct cmd command[] = {
	{"report", "FILE [--json] [--limit N] [--show-wrappers] [NAMES]",
		"totals and call chains of a window", cmd_report},
	{"export",
		"FILE --format collapsed|heaptrack [-o OUT] [-f] [--metric M]\n"
		"           [--show-wrappers] [NAMES]",
		"the trace for other programs", cmd_export},
	{"symbols", "--emit [NAMES] [--own-map MAP --since SECONDS] FILE | --fd N [--files N]",
		"symbol records for the addresses of a trace, on stdout", cmd_symbols},
	{"info", "FILE", "what a trace holds: target, modules, threads, losses", cmd_info},
	{"dump", "FILE", "every record and event, one line each", cmd_dump},
	{"version", "", "the version", cmd_version},
};

static void print_command(const struct cmd *cmd)
{
	printf("  %-8s %s%s%s\n", cmd->name, cmd->synopsis, cmd->synopsis[0] ? "\n           " : "",
		cmd->summary);
}

/* Of one command, or of all. */
static struct ht_err *print_help(const struct cmd *cmd)
{
	if (cmd) {
		printf("usage: heaptap %s %s\n\n%s\n", cmd->name, cmd->synopsis, cmd->summary);
	} else {
		puts("usage: heaptap COMMAND ...      heaptap FILE is heaptap report FILE\n");
		for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++)
			print_command(&command[i]);
	}
	puts("\nFILE may be - for standard input. N is the number of stacks, 0 for all (default: "
	     "20 "
	     "in JSON,\n5 in each list of the text). M is outstanding, peak, allocated, calls or "
	     "temporary.\nChains begin with the code that called operator new, std::, alloc:: and "
	     "the like; --show-wrappers\nshows those, too. NAMES are options for names and "
	     "lines that the trace lacks:\n"
	     "  --sysroot DIR    files of modules below it, before this machine's\n"
	     "  --debug-dir DIR  debug files, .dwo and .dwp; may be given 16 times\n"
	     "  --perf-map MAP   of JIT code: /tmp/perf-PID.map, or a jitdump");
	return NULL;
}

static const struct cmd *find_command(const char *name)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(command); i++)
		if (strcmp(command[i].name, name) == 0)
			return &command[i];
	return NULL;
}

static struct ht_err *run(int argc, char **argv)
{
	if (argc < 2)
		return ht_err_new(
			HT_ERR_USAGE, "a command or a trace is missing; see heaptap --help");
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return print_help(find_command(argv[1]));
	if (strcmp(argv[1], "--version") == 0)
		return cmd_version(argc, argv);
	const struct cmd *cmd = find_command(argv[1]);
	if (cmd)
		return cmd->run(argc - 1, argv + 1);
	if (argv[1][0] == '-' && argv[1][1])
		return ht_err_new(HT_ERR_USAGE,
			"option %s needs a command before it; see heaptap --help", argv[1]);
	if (access(argv[1], F_OK) != 0 && !strpbrk(argv[1], "./"))
		return ht_err_new(HT_ERR_USAGE,
			"%s is neither a command nor a file; see heaptap --help", argv[1]);
	return cmd_report(argc, argv);
}

static int exit_code(const struct ht_err *err)
{
	switch (err->code) {
	case HT_ERR_USAGE:
		return 2;
	case HT_ERR_FORMAT:
		return 9;
	case HT_ERR_REFUSED:
		return 3;
	case HT_ERR_PERMISSION:
		return 4;
	case HT_ERR_TARGET_GONE:
		return 5;
	case HT_ERR_INCOMPLETE:
		return 6;
	case HT_ERR_SYS:
	case HT_ERR_INTERNAL:
	case HT_ERR_NOMEM:
		break;
	}
	return 1;
}

int main(int argc, char **argv)
{
	opterr = 0;
	struct ht_err *err = run(argc, argv);
	err = ht_err_first(err, cmd_flush(stdout, "standard output"));
	if (!err)
		return cmd_has_read_part() ? CMD_EXIT_PART : 0;
	/* Names of the trace may be among it. */
	foreign_copy(err->message, strlen(err->message) + 1, err->message);
	fprintf(stderr, "heaptap: %s\n", err->message);
	int code = exit_code(err);
	ht_err_free(err);
	return code;
}
