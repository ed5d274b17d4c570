/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/commands.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/help.h"
#include "analyzer/cmd.h"
#include "analyzer/export/export.h"
#include "analyzer/query/metric.h"
#include "analyzer/top/listing.h"

/* --- options -----------------------------------------------------------------------------------
 */

const char *const commands_metric[] = {
#define X(id, name, unit, is_signed, value, title) name,
	METRICS(X)
#undef X
		NULL,
};
static const char *const class_words[] = {
	"growing", "survivor", "plateau", "spike", "periodic", "churn", "unclear", NULL};
static const char *const by_words[] = {
	"function", "line", "address", "module", "namespace", "thread", "size", "lifetime", NULL};
static const char *const by_frame_words[] = {
	"function", "line", "address", "module", "namespace", NULL};
static const char *const color_words[] = {
	[TERMINAL_COLOR_AUTO] = "auto",
	[TERMINAL_COLOR_ALWAYS] = "always",
	[TERMINAL_COLOR_NEVER] = "never",
	NULL,
};

#define FLAG(groups_, name_, help_)                                                                \
	{                                                                                          \
		.groups = (groups_), .name = (name_), .kind = OPTION_KIND_FLAG, .help = (help_)    \
	}
#define VALUE(groups_, kind_, name_, value_, help_)                                                \
	{                                                                                          \
		.groups = (groups_), .kind = OPTION_KIND_##kind_, .name = (name_),                 \
		.value = (value_), .help = (help_)                                                 \
	}
#define CHOICE(groups_, name_, value_, choices_, help_)                                            \
	{                                                                                          \
		.groups = (groups_), .kind = OPTION_KIND_CHOICE, .name = (name_),                  \
		.value = (value_), .choices = (choices_), .help = (help_)                          \
	}
#define MANY(groups_, kind_, name_, value_, help_)                                                 \
	{                                                                                          \
		.groups = (groups_), .kind = OPTION_KIND_##kind_, .name = (name_),                 \
		.value = (value_), .help = (help_), .is_repeatable = true                          \
	}

/* clang-format off: a table */
static const struct option_row option[OPTION_COUNT] = {
	[OPTION_FROM] = VALUE(OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "from", "TIME",
		"start of the time that counts: +10s, 14:02:30 or a mark"),
	[OPTION_TO] = VALUE(
		OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "to", "TIME", "end of the time that counts"),
	[OPTION_ALIVE_AT] = VALUE(OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "alive-at", "TIME",
		"only blocks that are live at that time"),
	[OPTION_THREAD] = MANY(OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "thread", "NAME|TID",
		"only allocations of this thread; repeatable"),
	[OPTION_MODULE] = MANY(OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "module", "NAME",
		"only stacks with code of this module; repeatable"),
	[OPTION_FUNCTION] = MANY(OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "function", "TEXT",
		"only stacks with a function whose name contains TEXT; repeatable"),
	[OPTION_EXCLUDE] = MANY(OPTIONS_QUERY | OPTIONS_FILTER, TEXT, "exclude", "TEXT",
		"no stacks with a function whose name contains TEXT; repeatable"),
	[OPTION_SUPPRESSIONS] = MANY(OPTIONS_QUERY | OPTIONS_FILTER, FILE, "suppressions", "FILE",
		"no stacks that this suppression file of LeakSanitizer names; repeatable"),
	[OPTION_MIN_SIZE] = VALUE(OPTIONS_QUERY | OPTIONS_FILTER, BYTES, "min-size", "BYTES",
		"only blocks of this size and larger: 64k 1M"),
	[OPTION_MAX_SIZE] = VALUE(OPTIONS_QUERY | OPTIONS_FILTER, BYTES, "max-size", "BYTES",
		"only blocks of this size and smaller"),
	[OPTION_MIN_AGE] = VALUE(OPTIONS_QUERY | OPTIONS_FILTER, DURATION, "min-age", "TIME",
		"only blocks of this age and older: 0.5s 5m 1h"),
	[OPTION_MAX_AGE] = VALUE(OPTIONS_QUERY | OPTIONS_FILTER, DURATION, "max-age", "TIME",
		"only blocks of this age and younger"),
	[OPTION_CLASS] =
		CHOICE(OPTIONS_QUERY, "class", "CLASS", class_words, "only sites of this class"),
	[OPTION_METRIC] = CHOICE(
		OPTIONS_QUERY, "metric", "METRIC", commands_metric, "the figure that counts"),
	[OPTION_SORT] = CHOICE(OPTIONS_QUERY, "sort", "METRIC", commands_metric,
		"the figure that decides the order"),
	[OPTION_LIMIT] = {.groups = OPTIONS_QUERY,
		.kind = OPTION_KIND_NUMBER,
		.name = "limit",
		.letter = 'n',
		.value = "N",
		.most = INT_MAX,
		.help = "entries of each list; 0: all (default: 10; JSON 20; CSV all)"},

	[OPTION_BY] = CHOICE(OPTIONS_SHOW, "by", "GROUP", by_words, "what an entry stands for"),
	[OPTION_STACKS] = FLAG(OPTIONS_SHOW, "stacks", "print the call chain of each entry"),
	[OPTION_SHOW_WRAPPERS] = {.groups = OPTIONS_SHOW,
		.kind = OPTION_KIND_FLAG,
		.name = "show-wrappers",
		.alias = "full-stacks",
		.help = "also print frames that only pass the allocation on (operator new, std::, "
			"alloc::)"},
	[OPTION_BRIEF] = FLAG(OPTIONS_SHOW, "brief", "print the first screen only"),
	[OPTION_WIDE] = FLAG(OPTIONS_SHOW, "wide", "do not shorten lines to the terminal's width"),
	[OPTION_BYTES] = FLAG(OPTIONS_SHOW, "bytes", "print sizes in bytes, without KiB and MiB"),
	[OPTION_UTC] = FLAG(OPTIONS_SHOW, "utc", "print clock times in UTC"),
	[OPTION_COLOR] = CHOICE(OPTIONS_SHOW, "color", "WHEN", color_words, "colour the output"),
	[OPTION_NO_PAGER] = FLAG(OPTIONS_SHOW, "no-pager", "do not start a pager for long output"),
	[OPTION_JSON] = FLAG(OPTIONS_SHOW, "json", "print one JSON object"),
	[OPTION_CSV] = FLAG(OPTIONS_SHOW, "csv", "print comma-separated values"),

	[OPTION_SYSROOT] = VALUE(OPTIONS_NAMES, DIRECTORY, "sysroot", "DIR",
		"look for files of modules below DIR before this machine's own"),
	[OPTION_DEBUG_DIR] = MANY(OPTIONS_NAMES, DIRECTORY, "debug-dir", "DIR",
		"look for debug files, .dwo and .dwp in DIR; repeatable"),
	[OPTION_PERF_MAP] = VALUE(OPTIONS_NAMES, FILE, "perf-map", "MAP",
		"names of JIT code: /tmp/perf-PID.map or a jitdump"),

	[OPTION_SOURCE_DIR] = MANY(0, DIRECTORY, "source-dir", "DIR",
		"look for source files below DIR, by the end of their path; repeatable"),
	[OPTION_BOTTOM_UP] =
		FLAG(0, "bottom-up", "begin with the functions that allocate, callers below them"),
	/* Options of these commands that mean something else than in report. */
	[OPTION_BY_FRAME] = CHOICE(
		0, "by", "GROUP", by_frame_words, "what an entry stands for (default: function)"),
	[OPTION_CALLEES] = {.kind = OPTION_KIND_NUMBER,
		.name = "limit",
		.letter = 'n',
		.value = "N",
		.most = INT_MAX,
		.help = "entries below each entry; 0: all (tree without it: those of 1 %)"},
	[OPTION_CALLERS] = {.kind = OPTION_KIND_NUMBER,
		.name = "limit",
		.letter = 'n',
		.value = "N",
		.most = INT_MAX,
		.help = "callers and callees; 0: all (default: 20; JSON and CSV all)"},
	[OPTION_LINES] = {.kind = OPTION_KIND_NUMBER,
		.name = "limit",
		.letter = 'n',
		.value = "N",
		.most = INT_MAX,
		.help = "lines with the most; 0: all (default: all)"},
	[OPTION_SVG] = {.kind = OPTION_KIND_FILE,
		.name = "output",
		.letter = 'o',
		.value = "OUT",
		.help = "write an SVG to the file OUT; -: to standard output"},
	[OPTION_TOP_DOWN] =
		FLAG(0, "top-down", "outermost functions at the top, not at the bottom"),

	[OPTION_FORMAT] = CHOICE(0, "format", "FORMAT", export_names, "the format to write"),
	[OPTION_OUTPUT] = {.kind = OPTION_KIND_FILE,
		.name = "output",
		.letter = 'o',
		.value = "OUT",
		.help = "write to the file OUT (default: standard output)"},
	[OPTION_FORCE] = {.kind = OPTION_KIND_FLAG,
		.name = "force",
		.letter = 'f',
		.help = "replace OUT if it exists"},
	[OPTION_DIFF] = VALUE(0, FILE, "diff", "OLD", "also show what changed since the trace OLD"),
	[OPTION_EMBED_SOURCE] = FLAG(0, "embed-source",
		"also write the text of source lines that allocate, at most 1 MiB"),
	[OPTION_STATS] =
		FLAG(0, "stats", "print the totals that heaptrack computes to standard error"),
	[OPTION_EMIT] = FLAG(0, "emit", "write symbol records as they stand in a trace"),
	[OPTION_FD] = {.kind = OPTION_KIND_NUMBER,
		.name = "fd",
		.value = "N",
		.most = INT_MAX,
		.help = "read the trace from descriptor N, from its current offset"},
	[OPTION_FILES] = {.kind = OPTION_KIND_NUMBER,
		.name = "files",
		.value = "N",
		.most = INT_MAX,
		.help = "receive open files of modules on socket N"},
	[OPTION_OWN_MAP] = VALUE(
		0, FILE, "own-map", "MAP", "as --perf-map; ignored if it is older than --since"),
	[OPTION_SINCE] = {.kind = OPTION_KIND_NUMBER,
		.name = "since",
		.value = "SECONDS",
		.most = LONG_MAX,
		.help = "time since the epoch at which the process started"},
	[OPTION_BASELINE] =
		VALUE(0, FILE, "baseline", "OLD", "the trace that --max-increase compares with"),
	[OPTION_MAX_GROWTH] = VALUE(0, TEXT, "max-growth", "RATE",
		"of each growing site, and of all together: 1M/min 64k/s"),
	[OPTION_MAX_OUTSTANDING] = VALUE(
		0, BYTES, "max-outstanding", "SIZE", "not freed by the end of the window: 50M"),
	[OPTION_MAX_INCREASE] = VALUE(
		0, TEXT, "max-increase", "PERCENT", "of outstanding bytes against --baseline: 5%"),
	[OPTION_RESOLVE] = FLAG(0, "resolve", "write a copy with names that are found now to OUT"),
	[OPTION_KEEP_SYSTEM] = FLAG(
		0, "keep-system", "keep names of the C and C++ libraries, without types in them"),
	[OPTION_PORT] = {.kind = OPTION_KIND_NUMBER,
		.name = "port",
		.value = "N",
		.most = UINT16_MAX,
		.help = "listen on 127.0.0.1:N (default: any port that is free)"},
	[OPTION_PID] = {.kind = OPTION_KIND_NUMBER,
		.name = "pid",
		.letter = 'p',
		.value = "PID",
		.most = INT_MAX,
		.help = "show the capture of this process while it runs; without one, start it"},
	[OPTION_BATCH] = {.kind = OPTION_KIND_FLAG,
		.name = "batch",
		.letter = 'b',
		.help = "print tables as plain text, one after the other"},
	[OPTION_DELAY] = {.kind = OPTION_KIND_DURATION,
		.name = "delay",
		.letter = 'd',
		.value = "TIME",
		.help = "time between two tables: 5 or 0.5s (default: 2s)"},
	[OPTION_TABLES] = {.kind = OPTION_KIND_NUMBER,
		.name = "limit",
		.letter = 'n',
		.value = "N",
		.help = "with -b: print N tables, then end (default: until the capture ends)"},
	[OPTION_ROWS] =
		VALUE(0, NUMBER, "rows", "N", "with -b: rows of a table; 0: all (default: 20)"),
	[OPTION_ORDER] = CHOICE(
		0, "sort", "COLUMN", listing_sort_names, "the column that decides the order"),
	[OPTION_FILTER] = VALUE(0, TEXT, "filter", "TEXT",
		"show only stacks with TEXT in a function, file or module"),
	[OPTION_JSON_LINES] = FLAG(0, "json", "with -b: print each table as a line of JSON"),
	[OPTION_HELP] = {.groups = OPTIONS_ALL,
		.kind = OPTION_KIND_FLAG,
		.name = "help",
		.letter = 'h',
		.help = "print this"},
};
/* clang-format on */

/* --- commands ----------------------------------------------------------------------------------
 */

#define TRACE                                                                                      \
	{                                                                                          \
		"FILE", "trace file", OPTION_KIND_FILE, true                                       \
	}

/* One sentence of the description of export. */
#define FORMAT_AND_PURPOSE(name, write, purpose, sums, traits) " " name " is for " purpose "."

#define CALLS_GROUPS OPTIONS_FILTER | OPTIONS_NAMES
#define CALLS_OPTIONS                                                                              \
	OPTION_CLASS, OPTION_METRIC, OPTION_SORT, OPTION_SHOW_WRAPPERS, OPTION_WIDE, OPTION_BYTES, \
		OPTION_UTC, OPTION_COLOR, OPTION_NO_PAGER, OPTION_JSON, OPTION_CSV
#define FUNCTION                                                                                   \
	{                                                                                          \
		"FUNCTION", "function", OPTION_KIND_TEXT, false                                    \
	}

static const struct option_command command[] = {
	{
		.name = "report",
		.summary = "print what grows in a trace, and which code allocated it",
		.description = "The first screen has target, window, heap, RSS, the five sites "
			       "that grow, and warnings. Lists of sites, totals, sizes and threads "
			       "follow. heaptap FILE is the same.",
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
			       "agree, or if windows of one length have it.",
		.operand = {{"OLD", "trace file", OPTION_KIND_FILE, true},
			{"NEW", "trace file", OPTION_KIND_FILE, true}},
		.least = 2,
		.most = 2,
		.groups = OPTIONS_NAMES | OPTIONS_FILTER,
		.own = {OPTION_METRIC, OPTION_LIMIT, OPTION_SHOW_WRAPPERS, OPTION_UTC, OPTION_WIDE,
			OPTION_COLOR, OPTION_NO_PAGER, OPTION_JSON, OPTION_CSV},
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
		.own = {OPTION_METRIC, OPTION_LIMIT, OPTION_SHOW_WRAPPERS, OPTION_UTC, OPTION_WIDE,
			OPTION_COLOR, OPTION_NO_PAGER, OPTION_JSON, OPTION_CSV},
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
			"counts from 64 KiB.",
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
		.operand = {TRACE, FUNCTION},
		.least = 2,
		.most = 2,
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
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
		.operand = {TRACE, FUNCTION},
		.least = 2,
		.most = 2,
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
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
		.own = {OPTION_PID, OPTION_PORT},
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
			"temporary blocks, age of the oldest block, and trend. Joins the capture "
			"of the process; without one, starts one with a private trace and ends it "
			"with the table. ? lists the keys.",
		.needs = "-p PID",
		.groups = OPTIONS_NAMES,
		.own = {OPTION_PID, OPTION_DELAY, OPTION_BATCH, OPTION_TABLES, OPTION_ROWS,
			OPTION_JSON_LINES, OPTION_ORDER, OPTION_FILTER, OPTION_BOTTOM_UP,
			OPTION_SHOW_WRAPPERS, OPTION_WIDE, OPTION_COLOR},
		.example = {"heaptap top -p 4711", "heaptap top -p 4711 -b -d 5 -n 12",
			"heaptap top -p 4711 -b --json | jq .outstanding_bytes"},
		.run = cmd_top,
	},
	{
		.name = "info",
		.summary = "print what a trace holds",
		.description = "Prints target, modules, threads and losses of a trace, without "
			       "adding up its events.",
		.operand = {TRACE},
		.least = 1,
		.most = 1,
		.own = {OPTION_COLOR, OPTION_NO_PAGER},
		.example = {"heaptap info my.htap"},
		.run = cmd_info,
	},
	{
		.name = "dump",
		.summary = "print each record of a trace",
		.description = "Prints every record and event, one line each, in the order of the "
			       "file.",
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
		.operand = {TRACE},
		.least = 1,
		.most = 1,
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
	.option = option,
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
