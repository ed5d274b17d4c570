/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/help.h"
#include "analyzer/cmd.h"
#include "analyzer/command_options.h"
#include "analyzer/export/export.h"

#define TRACE                                                                                      \
	{                                                                                          \
		"FILE", "trace file", OPTION_KIND_FILE, true                                       \
	}

/* The sentence about one format in the description of export. */
#define FORMAT_AND_PURPOSE(name, write, purpose, sums, traits) " " name " is for " purpose "."

#define CALLS_GROUPS OPTIONS_FILTER | OPTIONS_NAMES
#define CALLS_OPTIONS                                                                              \
	OPTION_CLASS, OPTION_METRIC, OPTION_SORT, OPTION_SHOW_WRAPPERS, OPTION_WIDE, OPTION_BYTES, \
		OPTION_UTC, OPTION_COLOR, OPTION_NO_PAGER, OPTION_JSON, OPTION_CSV
#define COMPARE_OPTIONS                                                                            \
	OPTION_METRIC, OPTION_LIMIT, OPTION_SHOW_WRAPPERS, OPTION_UTC, OPTION_WIDE, OPTION_COLOR,  \
		OPTION_NO_PAGER, OPTION_JSON, OPTION_CSV

/* The operands of most commands. */
#define ONE_TRACE .operand = {TRACE}, .least = 1, .most = 1
#define ONE_FUNCTION                                                                               \
	.operand = {TRACE, {"FUNCTION", "function", OPTION_KIND_TEXT, false}}, .least = 2, .most = 2

static const struct option_command command[] = {
	{
		.name = "report",
		.summary = "print what grows in a trace, and which code allocated it",
		.description = "The first screen has target, window, heap, RSS, the five sites "
			       "that grow, and warnings. Lists of sites, totals, sizes and threads "
			       "follow. heaptap FILE is the same.",
		ONE_TRACE,
		.groups = OPTIONS_QUERY | OPTIONS_SHOW | OPTIONS_NAMES,
		.example = {"heaptap report my.htap",
			"heaptap report my.htap --from +10s --to +20s --by module",
			"heaptap report --json --limit 0 my.htap | jq .totals"},
		.run = cmd_report,
	},
	{
		.name = "diff",
		.summary = "print what changed from one trace to another",
		.description = "Matches sites by the functions and files of their call chains, and "
			       "prints what changed, per minute: new, grown, shrunk, gone. Of "
			       "memory that is held, a change counts if its amount and its rate "
			       "agree, or if windows of one length have it. Below the figures of a "
			       "sample stand their bounds at 95 %.",
		.operand = {{"OLD", "trace file", OPTION_KIND_FILE, true},
			{"NEW", "trace file", OPTION_KIND_FILE, true}},
		.least = 2,
		.most = 2,
		.groups = OPTIONS_NAMES | OPTIONS_FILTER,
		.own = {COMPARE_OPTIONS},
		.example = {"heaptap diff monday.htap friday.htap",
			"heaptap diff old.htap new.htap --metric calls --json"},
		.run = cmd_diff,
	},
	{
		.name = "trend",
		.summary = "print one line a site over several traces",
		.description = "Matches sites as diff does. Each line has a sparkline of all "
			       "traces, the first and the last figure per minute; the sites that "
			       "increased most come first.",
		.operand = {TRACE},
		.least = 2,
		.most = 64,
		.groups = OPTIONS_NAMES | OPTIONS_FILTER,
		.own = {COMPARE_OPTIONS},
		.example = {"heaptap trend mon.htap tue.htap wed.htap"},
		.run = cmd_trend,
	},
	{
		.name = "check",
		.summary = "compare a trace with thresholds, for continuous integration",
		.description =
			"Prints one line for each exceeded threshold, and exits with 8. "
			"Outstanding is the lowest total of the last tenth of the window. Growth "
			"counts sites that are classified as growing. An increase is from the "
			"highest total of the baseline's last tenth to the lowest of FILE's, and "
			"counts from 64 KiB. In a sample a figure must exceed its threshold by "
			"more than its bound at 95 %. A warning says if growth cannot be judged, "
			"as "
			"in a short window.",
		ONE_TRACE,
		.groups = OPTIONS_NAMES | OPTIONS_FILTER,
		.own = {OPTION_BASELINE, OPTION_MAX_GROWTH, OPTION_MAX_OUTSTANDING,
			OPTION_MAX_INCREASE, OPTION_JSON, OPTION_UTC, OPTION_SHOW_WRAPPERS},
		.example = {"heaptap check my.htap --max-growth 1M/min --max-outstanding 50M",
			"heaptap check new.htap --baseline old.htap --max-increase 5%"},
		.run = cmd_check,
	},
	{
		.name = "tree",
		.summary = "print the call tree of a trace",
		.description =
			"Prints what each function and its callees account for. What is below 1 % "
			"of the whole is summed up; --limit N shows N callees of each function "
			"instead, --limit 0 all.",
		ONE_TRACE,
		.groups = CALLS_GROUPS,
		.own = {OPTION_BOTTOM_UP, OPTION_BY_FRAME, OPTION_CALLEES, CALLS_OPTIONS},
		.example = {"heaptap tree my.htap", "heaptap tree my.htap --metric allocated",
			"heaptap tree --bottom-up my.htap"},
		.run = cmd_tree,
	},
	{
		.name = "callers",
		.summary = "print callers, callees and lines of a function",
		.description =
			"FUNCTION is a part of the function's name. If it fits several functions, "
			"they are listed. Recursive calls count once.",
		ONE_FUNCTION,
		.groups = CALLS_GROUPS,
		.own = {OPTION_CALLERS, CALLS_OPTIONS},
		.example = {"heaptap callers my.htap zmalloc"},
		.run = cmd_callers,
	},
	{
		.name = "flame",
		.summary = "draw a flame graph, as SVG or as text",
		.description =
			"Without -o, prints a flame graph as text. -o OUT.svg writes one for a "
			"browser: a click zooms, / searches, Escape resets.",
		ONE_TRACE,
		.groups = CALLS_GROUPS,
		.own = {OPTION_SVG, OPTION_FORCE, OPTION_TOP_DOWN, OPTION_BY_FRAME, OPTION_CALLEES,
			CALLS_OPTIONS},
		.example = {"heaptap flame my.htap", "heaptap flame my.htap -o my.svg",
			"heaptap flame my.htap --metric allocated -o - > my.svg"},
		.run = cmd_flame,
	},
	{
		.name = "source",
		.summary = "print what each line of a function allocates",
		.description =
			"Prints the function's source lines with what they and their callees "
			"account for. FUNCTION is as for callers. Without the source file, prints "
			"the lines' numbers.",
		ONE_FUNCTION,
		.groups = CALLS_GROUPS,
		.own = {OPTION_SOURCE_DIR, OPTION_LINES, CALLS_OPTIONS},
		.example = {"heaptap source my.htap parse --source-dir ~/src/server"},
		.run = cmd_source,
	},
	{
		.name = "export",
		.summary = "write a trace in another tool's format",
		.description =
			"Writes a trace for another program, or the difference of two." EXPORTS(
				FORMAT_AND_PURPOSE) " --metric is for collapsed and difffolded, "
						    "--stats is for heaptrack.",
		.needs = "--format FORMAT",
		.operand = {TRACE, {"NEW", "newer trace", OPTION_KIND_FILE, true}},
		.least = 1,
		.most = 2,
		.groups = OPTIONS_NAMES | OPTIONS_FILTER,
		.own = {OPTION_FORMAT, OPTION_OUTPUT, OPTION_FORCE, OPTION_METRIC,
			OPTION_SHOW_WRAPPERS, OPTION_STATS, OPTION_UTC},
		.example = {"heaptap export my.htap --format pprof -o my.pb && go tool pprof my.pb",
			"heaptap export my.htap --format collapsed | flamegraph.pl > my.svg",
			"heaptap export a.htap b.htap --format difffolded | flamegraph.pl > d.svg"},
		.run = cmd_export,
	},
	{
		.name = "html",
		.summary = "write a trace as one HTML page",
		.description =
			"Writes a page that opens in a browser without a network: timeline, what "
			"grows, flame graph, call tree, callers, lifetimes and more. A part of the "
			"timeline that is selected counts for all of them. Pages of more "
			"than 5 MiB are made smaller: small frames are counted in their "
			"callers.",
		ONE_TRACE,
		.groups = OPTIONS_NAMES,
		.own = {OPTION_OUTPUT, OPTION_FORCE, OPTION_DIFF, OPTION_EMBED_SOURCE,
			OPTION_SOURCE_DIR, OPTION_SHOW_WRAPPERS},
		.example = {"heaptap html my.htap -o my.html",
			"heaptap html new.htap --diff old.htap -o new.html"},
		.run = cmd_html,
	},
	{
		.name = "serve",
		.summary = "show traces in a browser, and answer scripts, over HTTP",
		.description =
			"Prints an address that opens in a browser of this machine; its token "
			"keeps out all others. DIR stands for the .htap files in it. "
			"-p shows a running process, which is then also steered from the page; "
			"when the server ends, so does a capture that it started. "
			"/api/v1/summary and so on answer with the JSON of report, tree, callers, "
			"diff, trend and export; their options are parameters: from=+10s.",
		.operand = {{"FILE|DIR", "trace file", OPTION_KIND_FILE, true}},
		.most = 64,
		.groups = OPTIONS_NAMES,
		.own = {OPTION_PID, OPTION_NAME, OPTION_UNIT, OPTION_CONTAINER, OPTION_PORT},
		.example = {"heaptap serve my.htap", "heaptap serve -p 4711",
			"heaptap serve windows/ --port 8080"},
		.run = cmd_serve,
	},
	{
		.name = "top",
		.summary = "show live what a process allocates and holds",
		.description =
			"Shows a table of allocating functions, what grows first: outstanding "
			"bytes, their change within a minute, bytes and calls a second, share of "
			"temporary blocks, age of the oldest block, and trend. Of a sample, a "
			"bound "
			"at 95 % replaces the share of temporary blocks. Joins the capture "
			"of the process; without one, starts one with a private trace and ends it "
			"with the table. ? lists the keys.",
		.needs = "-p PID",
		.groups = OPTIONS_NAMES,
		.own = {OPTION_PID, OPTION_NAME, OPTION_UNIT, OPTION_CONTAINER, OPTION_DELAY,
			OPTION_BATCH, OPTION_TABLES, OPTION_ROWS, OPTION_JSON_LINES, OPTION_ORDER,
			OPTION_FILTER, OPTION_BOTTOM_UP, OPTION_SHOW_WRAPPERS, OPTION_WIDE,
			OPTION_COLOR},
		.example = {"heaptap top -p 4711", "heaptap top -u nginx -b -d 5 -n 12",
			"heaptap top -p 4711 -b --json | jq .outstanding_bytes"},
		.run = cmd_top,
	},
	{
		.name = "push",
		.summary = "send traces to Pyroscope or ClickHouse",
		.description =
			"Sends each trace as a profile to Pyroscope (host and build are labels), "
			"or as rows to ClickHouse (fleet.sql, among the examples of a "
			"package and in scripts of the source, has the table and questions). "
			"What an endpoint does not take waits in the spool, and goes first "
			"the next time; without FILE, push sends what waits. A window is sent "
			"once. "
			"A URL may have USER:PASSWORD@, ?tenant=ID (Pyroscope), "
			"?database=NAME&table=NAME (ClickHouse). curl sends.",
		.needs = "--to URL",
		.operand = {TRACE},
		.most = 64,
		.groups = OPTIONS_NAMES,
		.own = {OPTION_ADDRESS, OPTION_SERVICE, OPTION_HOST, OPTION_SPOOL, OPTION_SPOOL_MAX,
			OPTION_TIMEOUT, OPTION_QUIET, OPTION_SHOW_WRAPPERS},
		.example = {"heaptap push my.htap --to pyroscope+http://pyroscope:4040",
			"heaptap push *.htap --to @/etc/heaptap/clickhouse --service validator"},
		.run = cmd_push,
	},
	{
		.name = "info",
		.summary = "print what a trace holds",
		.description = "Prints target, modules, threads and losses of a trace, without "
			       "adding up its events.",
		ONE_TRACE,
		.own = {OPTION_COLOR, OPTION_NO_PAGER},
		.example = {"heaptap info my.htap"},
		.run = cmd_info,
	},
	{
		.name = "dump",
		.summary = "print each record of a trace",
		.description = "Prints every record and event, one line each, in the order of the "
			       "file.",
		ONE_TRACE,
		.example = {"heaptap dump my.htap | grep '^mark'"},
		.run = cmd_dump,
	},
	{
		.name = "symbols",
		.summary = "print which names a trace has, or add some",
		.description =
			"Prints for each module how many addresses and functions have names "
			"and lines, what is missing, and what helps. --resolve writes a copy "
			"with the names that are found now, in this machine's files, "
			"--sysroot and --debug-dir; a second run takes them from "
			"$XDG_CACHE_HOME/heaptap/symbols. --emit writes symbol records; "
			"heaptap runs it at the end of a capture.",
		.operand = {TRACE},
		.most = 1,
		.groups = OPTIONS_NAMES,
		.own = {OPTION_RESOLVE, OPTION_OUTPUT, OPTION_FORCE, OPTION_JSON, OPTION_EMIT,
			OPTION_FD, OPTION_FILES, OPTION_OWN_MAP, OPTION_SINCE, OPTION_COLOR,
			OPTION_NO_PAGER, OPTION_WIDE},
		.example = {"heaptap symbols my.htap",
			"heaptap symbols old.htap --resolve --debug-dir /srv/debug -o named.htap"},
		.run = cmd_symbols,
	},
	{
		.name = "anonymize",
		.summary = "write a copy of a trace that may be posted",
		.description =
			"Replaces names of functions, files, modules, threads and marks by "
			"pseudonyms, other ones in each copy, and build-ids, addresses, lines "
			"and clocks by numbers that say nothing; leaves out host, user and "
			"control group. Sizes, stacks, times and lives of blocks stay.",
		.needs = "-o OUT",
		ONE_TRACE,
		.own = {OPTION_OUTPUT, OPTION_FORCE, OPTION_KEEP_SYSTEM},
		.example = {"heaptap anonymize my.htap -o public.htap"},
		.run = cmd_anonymize,
	},
	{
		.name = "version",
		.summary = "print the version",
		.description = "Prints the version of heaptap-analyze.",
		.run = cmd_version,
	},
	{
		.name = "man",
		.summary = "print the man page of a command, or the commands that have one",
		.description = "Prints a man page in roff. The build runs it.",
		.operand = {{"COMMAND", "command", OPTION_KIND_TEXT, false}},
		.most = 1,
		.is_hidden = true,
		.run = cmd_man,
	},
	{
		.name = "completion",
		.summary = "print what bash completion offers",
		.description = "Prints assignments for bash. The build runs it.",
		.is_hidden = true,
		.run = cmd_completion,
	},
};

const struct option_table commands_table = {
	.option = command_options,
	.command = command,
	.command_count = HT_ARRAY_SIZE(command),
	.program = "heaptap",
};

static struct ht_err *run_command(const struct option_command *found, int count, char **word)
{
	struct option_values values;
	struct ht_err *err = option_parse(&commands_table, found, count, word, &values);
	if (err)
		return err;
	if (values.wants_help)
		help_print_command(stdout, &commands_table, found);
	else
		err = found->run(&values);
	option_values_deinit(&values);
	return err;
}

static struct ht_err *unknown_command(const char *word)
{
	const char *match = option_closest_command(&commands_table, word);
	if (word[0] == '-')
		return ht_err_new(HT_ERR_USAGE,
			"option %s needs a command before it; see heaptap --help", word);
	if (match)
		return ht_err_new(HT_ERR_USAGE,
			"%s is neither a command nor a file; did you mean heaptap %s?", word,
			match);
	return ht_err_new(
		HT_ERR_USAGE, "%s is neither a command nor a file; see heaptap --help", word);
}

struct ht_err *commands_run(int argc, char **argv)
{
	if (argc < 1)
		return ht_err_new(
			HT_ERR_USAGE, "a command or a trace is missing; see heaptap --help");
	const char *word = argv[0];
	const struct option_command *found = option_find_command(&commands_table, word);
	if (found)
		return run_command(found, argc - 1, argv + 1);
	if (strcmp(word, "--version") == 0)
		return run_command(option_find_command(&commands_table, "version"), 0, NULL);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
		help_print_commands(stdout, &commands_table);
		return NULL;
	}
	bool is_option = word[0] == '-' && word[1];
	if (is_option ||
		(!strpbrk(word, "./") && strcmp(word, "-") != 0 && access(word, F_OK) != 0))
		return unknown_command(word);
	return run_command(option_find_command(&commands_table, "report"), argc, argv);
}
