/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/option_table.h"

#include <string.h>

#include "format/base.h"

#define IN	   OPTION_IN
#define IN_CAPTURE (IN(COMMAND_ATTACH) | IN(COMMAND_RUN))
#define IN_SURVEY  (IN_CAPTURE | IN(COMMAND_DOCTOR))
#define IN_PROCESS OPTION_IN_PROCESS
#define IN_STEER   OPTION_IN_STEER
#define IN_ALL	   OPTION_IN_ALL

const struct command_row option_table_commands[] = {
	{"attach", COMMAND_ATTACH, "-p PID [OPTION...] [-- CMD [ARG...]]",
		"record the allocations of a running process, then leave it",
		"heaptap attach -p 1234 -d 30s -o my.htap"},
	{"run", COMMAND_RUN, "[OPTION...] [--] CMD [ARG...]",
		"start a command and record it from its first allocation to its end",
		"heaptap run -o my.htap -- ./server --port 8080"},
	{"doctor", COMMAND_DOCTOR, "-p PID [OPTION...]",
		"print what attach would do to a process; touch nothing", "heaptap doctor -p 1234"},
	{"status", COMMAND_STATUS, "[-p PID] [OPTION...]",
		"print how a running capture is, or all of them", "heaptap status"},
	{"list", COMMAND_LIST, "[OPTION...]",
		"print running captures and those that wait, a line each", NULL},
	{"stop", COMMAND_STOP, "-p PID [OPTION...]", "end a running capture, as Ctrl-C does",
		"heaptap stop -p 1234 --wait"},
	{"pause", COMMAND_PAUSE, "-p PID [OPTION...]",
		"record no new allocations until resume; frees are recorded",
		"heaptap pause -p 1234"},
	{"resume", COMMAND_RESUME, "-p PID [OPTION...]", "record new allocations again", NULL},
	{"mark", COMMAND_MARK, "-p PID TEXT", "put a mark with the present time into the trace",
		"heaptap mark -p 1234 'cache cleared'"},
	{"snapshot", COMMAND_SNAPSHOT, "-p PID [OPTION...]",
		"write the trace up to now as a whole trace; the capture goes on",
		"heaptap snapshot -p 1234 -o now.htap"},
	{"verify", COMMAND_VERIFY, "-p PID [OPTION...]",
		"check whether anything of heaptap is in a process", "heaptap verify -p 1234"},
	{"recover", COMMAND_RECOVER, "-p PID [OPTION...]",
		"remove what a killed heaptap left in a process", "heaptap recover -p 1234"},
	{"cleanup", COMMAND_CLEANUP, "-p PID [OPTION...]",
		"remove the page that a capture had to leave", "heaptap cleanup -p 1234"},
	{"find", COMMAND_FIND, "-n NAME [OPTION...]",
		"print the PID of the process that a name, unit or container means",
		"heaptap find -u nginx"},
	{"report", COMMAND_ANALYZE, "", "print what grows in a trace, and which code allocated it",
		NULL},
	{"tree", COMMAND_ANALYZE, "", "print the call tree of a trace", NULL},
	{"callers", COMMAND_ANALYZE, "", "print callers, callees and lines of a function", NULL},
	{"flame", COMMAND_ANALYZE, "", "draw a flame graph, as SVG or as text", NULL},
	{"source", COMMAND_ANALYZE, "", "print what each line of a function allocates", NULL},
	{"diff", COMMAND_ANALYZE, "", "print what changed from one trace to another", NULL},
	{"trend", COMMAND_ANALYZE, "", "print one line a site over several traces", NULL},
	{"check", COMMAND_ANALYZE, "",
		"compare a trace with thresholds, for continuous integration", NULL},
	{"export", COMMAND_ANALYZE, "", "write a trace in another tool's format", NULL},
	{"html", COMMAND_ANALYZE, "", "write a trace as one HTML page", NULL},
	{"serve", COMMAND_ANALYZE, "", "show traces in a browser, and answer scripts, over HTTP",
		NULL},
	{"top", COMMAND_ANALYZE, "", "show live what a process allocates and holds", NULL},
	{"push", COMMAND_ANALYZE, "", "send traces to Pyroscope or ClickHouse", NULL},
	{"info", COMMAND_ANALYZE, "", "print what a trace holds", NULL},
	{"dump", COMMAND_ANALYZE, "", "print each record of a trace", NULL},
	{"symbols", COMMAND_ANALYZE, "", "print which names a trace has, or add some", NULL},
	{"anonymize", COMMAND_ANALYZE, "", "write a copy of a trace that may be posted", NULL},
	{"version", COMMAND_VERSION, "", "print the version", NULL},
	{"help", COMMAND_HELP, "[COMMAND]", "print this, or the options of a command", NULL},
	{"completion", COMMAND_COMPLETION, "", NULL, NULL},
};
const size_t option_table_command_count = HT_ARRAY_SIZE(option_table_commands);

const struct option_row option_table[] = {
	{OPTION_PID, 'p', "pid", "PID", NULL, "the process", IN_PROCESS | IN_STEER},
	{OPTION_NAME, 'n', "name", "NAME", NULL,
		"instead of -p: the process of this name, if only\none has it",
		IN_PROCESS | IN_STEER},
	{OPTION_UNIT, 'u', "unit", "UNIT", NULL,
		"the main process of a systemd unit; with -n: in it", IN_PROCESS | IN_STEER},
	{OPTION_CONTAINER, 0, "container", "ID", NULL,
		"the first process of a container; with -n: in it", IN_PROCESS | IN_STEER},
	{OPTION_WAIT_FOR, 0, "wait-for", "NAME", NULL, "as -n; waits until there is such a process",
		IN(COMMAND_ATTACH)},
	{OPTION_DURATION, 'd', "duration", "TIME", NULL,
		"time to record: 0.5s 30s 5m 1.5h\n(default: until Ctrl-C, or the end)",
		IN_CAPTURE},
	{OPTION_SETTLE, 0, "settle", "TIME", NULL,
		"after -d, record only frees for TIME: what is held\nthen are survivors",
		IN_CAPTURE},
	{OPTION_OUTPUT, 'o', "output", "FILE", NULL,
		"the trace; - is stdout\n(default: heaptap.%c.%p.%t.htap)",
		IN_CAPTURE | IN(COMMAND_SNAPSHOT)},
	{OPTION_BACKGROUND, 'b', "background", NULL, NULL,
		"return when recording has begun; heaptap stop ends it", IN(COMMAND_ATTACH)},
	{OPTION_FORCE, 'f', "force", NULL, NULL,
		"replace FILE; record a process that profiles its own\nheap",
		IN_CAPTURE | IN(COMMAND_SNAPSHOT)},
	{OPTION_HTML, 0, "html", "[=PAGE]", NULL,
		"also write the trace as one HTML page, PAGE\n(default: FILE, with .html at its "
		"end)",
		IN_CAPTURE},
	{OPTION_DELAY, 0, "delay", "TIME", NULL, "wait before the first window",
		IN(COMMAND_ATTACH)},
	{OPTION_EVERY, 0, "every", "TIME", NULL,
		"one window each TIME, a trace for each; detached\nbetween them",
		IN(COMMAND_ATTACH)},
	{OPTION_COUNT, 0, "count", "N", NULL, "end after N windows", IN(COMMAND_ATTACH)},
	{OPTION_KEEP, 0, "keep", "N", NULL, "keep the last N traces of this series",
		IN(COMMAND_ATTACH)},
	{OPTION_TRIGGER_RSS, 0, "trigger-rss", "SIZE", NULL,
		"wait, without touching the process, until its RSS\nis SIZE: 12G",
		IN(COMMAND_ATTACH)},
	{OPTION_TRIGGER_GROWTH, 0, "trigger-growth", "SIZE[/TIME]", NULL,
		"the same until RSS has grown: 2G, or 100M/min", IN(COMMAND_ATTACH)},
	{OPTION_UNTIL_RSS, 0, "until-rss", "SIZE", NULL, "end the window when RSS is SIZE",
		IN(COMMAND_ATTACH)},
	{OPTION_UNTIL_GROWTH, 0, "until-growth", "SIZE[/TIME]", NULL,
		"end the window when RSS has grown: 2G, or 100M/min", IN(COMMAND_ATTACH)},
	{OPTION_MAX_SIZE, 0, "max-size", "SIZE", NULL,
		"end the window when the trace has SIZE, names come\non top: 100M; at least 16K",
		IN(COMMAND_ATTACH)},
	{OPTION_ON_FULL, 0, "on-full", "WHAT", "stop rotate",
		"after --max-size: stop (default), or rotate: the\nnext window begins; the last "
		"two traces "
		"stay, or\n--keep N",
		IN(COMMAND_ATTACH)},
	{OPTION_EXEC, 0, "exec", "CMD", NULL,
		"run CMD for each finished trace, whose name is\nadded; CMD is split at spaces, no "
		"shell",
		IN(COMMAND_ATTACH)},
	{OPTION_PUSH, 0, "push", "URL", NULL,
		"send each finished trace: pyroscope+http://HOST:4040\nor "
		"clickhouse+http://HOST:8123; @FILE: its first\nline; repeatable",
		IN(COMMAND_ATTACH)},
	{OPTION_QUIET, 'q', "quiet", NULL, NULL, "print errors only", IN_ALL},
	{OPTION_VERBOSE, 'v', "verbose", NULL, NULL, "also print each check, times and counts",
		IN_SURVEY},
	{OPTION_JSON, 0, "json", NULL, NULL, "print the result as one JSON object", IN_ALL},
	{OPTION_LOSSLESS, 0, "lossless", NULL, NULL,
		"make the process wait when the disk is slow,\ninstead of losing events",
		IN_CAPTURE},
	{OPTION_HOOK, 0, "hook", "WAY", "slot entry auto",
		"linked-in allocators: slot (default), entry,\nauto (entry where needed)",
		IN_CAPTURE},
	{OPTION_ALLOC_FN, 0, "alloc-fn", "NAME=KIND", NULL,
		"NAME is the program's own malloc, free, ... (KIND);\nrepeatable", IN_SURVEY},
	{OPTION_SAMPLE, 0, "sample", "BYTES", NULL,
		"record a sample: one allocation in BYTES bytes,\nat random: 64k 512K", IN_CAPTURE},
	{OPTION_CULL, 0, "cull", "TIME", NULL,
		"for captures of days, small traces: of blocks that\nlive less than TIME only sums "
		"are written: 10s",
		IN_CAPTURE},
	{OPTION_MAX_OVERHEAD, 0, "max-overhead", "PERCENT", NULL,
		"pause while recording costs more of the process's\nCPU time, and resume: 5%",
		IN_CAPTURE},
	{OPTION_MMAP, 0, "mmap", NULL, NULL,
		"also record mmap, munmap, mremap, mprotect and\nmadvise", IN_CAPTURE},
	{OPTION_UNWIND, 0, "unwind", "full", "full",
		"walk every stack from the start: slower,\nfor comparison", IN_CAPTURE},
	{OPTION_SYMBOLIZE, 0, "symbolize", "later", "later", "do not store names in the trace",
		IN_CAPTURE},
	{OPTION_NO_CACHE, 0, "no-cache", NULL, NULL, "do not use or keep unwind tables on disk",
		IN_CAPTURE},
	{OPTION_STRICT, 0, "strict", NULL, NULL,
		"exit status 6 also if only one harmless page is left", IN_CAPTURE},
	{OPTION_LINGER, 0, "linger", "TIME", NULL,
		"how long the guardian tries to remove such a page\n(default: 30s; 0: never)",
		IN_CAPTURE},
	{OPTION_FOLLOW_FORKS, 0, "follow-forks", NULL, NULL,
		"also record child processes: a trace for each", IN(COMMAND_RUN)},
	{OPTION_WAIT, 0, "wait", NULL, NULL,
		"return when the process is left and the trace whole,\nwith the capture's exit "
		"status",
		IN(COMMAND_STOP)},
	{OPTION_MARK_LOG, 0, "mark-log", "FILE=REGEX", NULL,
		"each line appended to FILE that matches becomes a\nmark; repeatable",
		IN(COMMAND_ATTACH) | IN(COMMAND_MARK)},
	{OPTION_METRICS, 0, "metrics", NULL, NULL, "print the text format that Prometheus reads",
		IN(COMMAND_STATUS)},
	{OPTION_VERSION, 0, "version", NULL, NULL, "print the version", IN_ALL},
	{OPTION_HELP, 'h', "help", NULL, NULL, "print this", IN_ALL},
};
const size_t option_table_row_count = HT_ARRAY_SIZE(option_table);

bool option_needs_value(const struct option_row *row)
{
	return row->argument && row->argument[0] != '[';
}

const struct command_row *option_table_find(const char *name)
{
	for (size_t i = 0; i < option_table_command_count; i++)
		if (strcmp(option_table_commands[i].name, name) == 0)
			return &option_table_commands[i];
	return NULL;
}
