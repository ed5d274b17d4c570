/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/command_options.h"

#include <limits.h>

#include "analyzer/export/export.h"
#include "analyzer/query/metric.h"
#include "analyzer/top/listing.h"
#include "analyzer/ui/terminal.h"

static const char *const metric_words[] = {
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

/* As VALUE, with a short form; `value_` of a flag is NULL. */
#define SHORT(groups_, letter_, kind_, name_, value_, help_)                                       \
	{                                                                                          \
		.groups = (groups_), .letter = (letter_), .kind = OPTION_KIND_##kind_,             \
		.name = (name_), .value = (value_), .help = (help_)                                \
	}
/* `letter_` 0: no short form; `most_`: the largest number, 0: UINT64_MAX. */
#define NUMBER(groups_, letter_, name_, value_, most_, help_)                                      \
	{                                                                                          \
		.groups = (groups_), .letter = (letter_), .kind = OPTION_KIND_NUMBER,              \
		.name = (name_), .value = (value_), .most = (most_), .help = (help_)               \
	}

/* clang-format off: a table */
const struct option_row command_options[OPTION_COUNT] = {
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
		"no stacks with a function or module whose name contains TEXT; repeatable"),
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
	[OPTION_METRIC] =
		CHOICE(OPTIONS_QUERY, "metric", "METRIC", metric_words, "the figure that counts"),
	[OPTION_SORT] = CHOICE(
		OPTIONS_QUERY, "sort", "METRIC", metric_words, "the figure that decides the order"),
	[OPTION_LIMIT] = NUMBER(OPTIONS_QUERY, 'n', "limit", "N", INT_MAX,
		"entries of each list; 0: all (default: 10; JSON 20; CSV all)"),

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
	/* Options of tree, callers, flame and source whose values differ from those in report. */
	[OPTION_BY_FRAME] = CHOICE(
		0, "by", "GROUP", by_frame_words, "what an entry stands for (default: function)"),
	[OPTION_CALLEES] = NUMBER(0, 'n', "limit", "N", INT_MAX,
		"entries below each entry; 0: all (tree without it: those of 1 %)"),
	[OPTION_CALLERS] = NUMBER(0, 'n', "limit", "N", INT_MAX,
		"callers and callees; 0: all (default: 20; JSON and CSV all)"),
	[OPTION_LINES] =
		NUMBER(0, 'n', "limit", "N", INT_MAX, "lines with the most; 0: all (default: all)"),
	[OPTION_SVG] = SHORT(0, 'o', FILE, "output", "OUT",
		"write an SVG to the file OUT; -: to standard output"),
	[OPTION_TOP_DOWN] =
		FLAG(0, "top-down", "outermost functions at the top, not at the bottom"),

	[OPTION_FORMAT] = CHOICE(0, "format", "FORMAT", export_names, "the format to write"),
	[OPTION_OUTPUT] = SHORT(
		0, 'o', FILE, "output", "OUT", "write to the file OUT (default: standard output)"),
	[OPTION_FORCE] = SHORT(0, 'f', FLAG, "force", NULL, "replace OUT if it exists"),
	[OPTION_DIFF] = VALUE(0, FILE, "diff", "OLD", "also show what changed since the trace OLD"),
	[OPTION_EMBED_SOURCE] = FLAG(0, "embed-source",
		"also write the text of source lines that allocate, at most 1 MiB"),
	[OPTION_STATS] =
		FLAG(0, "stats", "print the totals that heaptrack computes to standard error"),
	[OPTION_EMIT] = FLAG(0, "emit", "write symbol records as they stand in a trace"),
	[OPTION_FD] = NUMBER(0, 0, "fd", "N", INT_MAX,
		"read the trace from descriptor N, from its current offset"),
	[OPTION_FILES] =
		NUMBER(0, 0, "files", "N", INT_MAX, "receive open files of modules on socket N"),
	[OPTION_OWN_MAP] = VALUE(
		0, FILE, "own-map", "MAP", "as --perf-map; ignored if it is older than --since"),
	[OPTION_SINCE] = NUMBER(0, 0, "since", "SECONDS", LONG_MAX,
		"time since the epoch at which the process started"),
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
	[OPTION_PORT] = NUMBER(0, 0, "port", "N", UINT16_MAX,
		"listen on 127.0.0.1:N (default: any port that is free)"),
	[OPTION_PID] = NUMBER(0, 'p', "pid", "PID", INT_MAX,
		"show the capture of this process while it runs; without one, start it"),
	/* No letter: -n is --limit in each command. */
	[OPTION_NAME] = VALUE(0, TEXT, "name", "NAME",
		"instead of -p: the process of this name, if only one has it"),
	[OPTION_UNIT] = SHORT(0, 'u', TEXT, "unit", "UNIT",
		"the main process of a systemd unit; with --name: in it"),
	[OPTION_CONTAINER] = VALUE(
		0, TEXT, "container", "ID", "the first process of a container; with --name: in it"),
	[OPTION_BATCH] = SHORT(
		0, 'b', FLAG, "batch", NULL, "print tables as plain text, one after the other"),
	[OPTION_DELAY] = SHORT(0, 'd', DURATION, "delay", "TIME",
		"time between two tables: 5 or 0.5s (default: 2s)"),
	[OPTION_TABLES] = NUMBER(0, 'n', "limit", "N", 0,
		"with -b: print N tables, then end (default: until the capture ends)"),
	[OPTION_ROWS] =
		VALUE(0, NUMBER, "rows", "N", "with -b: rows of a table; 0: all (default: 20)"),
	[OPTION_ORDER] = CHOICE(
		0, "sort", "COLUMN", listing_sort_names, "the column that decides the order"),
	[OPTION_FILTER] = VALUE(0, TEXT, "filter", "TEXT",
		"show only stacks with TEXT in a function, file or module"),
	[OPTION_JSON_LINES] = FLAG(0, "json", "with -b: print each table as a line of JSON"),
	[OPTION_ADDRESS] = MANY(0, TEXT, "to", "URL",
		"pyroscope+http://HOST:4040 or clickhouse+http://HOST:8123; @FILE: its first line"),
	[OPTION_SERVICE] = VALUE(
		0, TEXT, "service", "NAME", "what the program is called there (default: its name)"),
	[OPTION_HOST] =
		VALUE(0, TEXT, "host", "NAME", "where it ran (default: this machine's name)"),
	[OPTION_SPOOL] = VALUE(0, DIRECTORY, "spool", "DIR",
		"keep what is not taken in DIR (default: /var/lib/heaptap/push or your own)"),
	[OPTION_SPOOL_MAX] = VALUE(0, BYTES, "spool-max", "SIZE",
		"drop the oldest windows beyond this size for each URL (default: 256M)"),
	[OPTION_TIMEOUT] = VALUE(0, DURATION, "timeout", "TIME", "of each request (default: 30s)"),
	[OPTION_QUIET] = SHORT(0, 'q', FLAG, "quiet", NULL, "print errors only"),
	[OPTION_HELP] = SHORT(OPTIONS_ALL, 'h', FLAG, "help", NULL, "print this"),
};
/* clang-format on */
