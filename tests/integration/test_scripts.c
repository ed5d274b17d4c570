/* SPDX-License-Identifier: Apache-2.0
 *
 * The report names JavaScript functions of a Node.js without any options for that. The names are
 * compared with V8's own map of its code, and with what a script knows of its functions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/compile.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/scripts.h"
#include "tests/support/tap.h"
#include "tests/support/victim.h"

#define LOAD_MS	    90000
#define SCRIPT	    "tests/targets/named.js"
#define INTERPRETED "tests/targets/interpreted.js"
#define INLINED	    "tests/targets/inlined.js"
#define RECYCLED    "tests/targets/recycled.js"

/* A frame of a report. */
struct frame {
	const char *function, *file;
	uint64_t line, address;
	bool is_made, is_interpreted; /* is_made: generated code, in no module; is_interpreted: an
					 interpreted function, without an address */
	bool is_inlined;
};

typedef void frame_visitor(void *context, const struct frame *frame);

static void visit_frames(const char *trace, frame_visitor *visit, void *context)
{
	json_t *report = report_load(trace), *stack, *frame;
	size_t index, at;
	ck_assert_uint_gt(report_u64(report, "totals.allocations"), 0);
	json_array_foreach(report_at(report, "stacks"), index, stack)
		json_array_foreach(report_at(stack, "frames"), at, frame)
	{
		const char *function = json_string_value(json_object_get(frame, "function"));
		const char *file = json_string_value(json_object_get(frame, "file"));
		const json_t *offset = json_object_get(frame, "offset");
		visit(context,
			&(struct frame){.function = function ? function : "",
				.file = file ? file : "",
				.line = (uint64_t)json_integer_value(
					json_object_get(frame, "line")),
				.address = (uint64_t)json_integer_value(offset),
				.is_made = json_is_null(json_object_get(frame, "module")),
				.is_interpreted = json_is_null(offset),
				.is_inlined = json_is_true(json_object_get(frame, "inlined"))});
	}
	json_decref(report);
}

static char *read_text(const char *path)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = fopen(path, "r");
	ck_assert_msg(file != NULL, "cannot open %s", path);
	ck_assert_int_ge(getdelim(&text, &bytes, '\0', file), 0);
	fclose(file);
	return text;
}

static void capture(struct victim *victim, struct tap *tap, unsigned changes, uint64_t rounds)
{
	tap_start_changing(tap, victim->pid, changes, NULL);
	tap_wait_any(tap);
	scripts_work(victim, rounds);
	tap_check_clean(tap_stop(tap, 0));
	victim_prove_alive(victim);
}

/* --- functions that the test knows --- */

struct known {
	const char *function, *source; /* source: its beginning in the script */
	uint64_t line;
	bool found;
};

static uint64_t line_of(const char *text, const char *source)
{
	const char *at = strstr(text, source);
	uint64_t line = 1;
	ck_assert_msg(at != NULL, "%s is not in the script", source);
	while (text < at)
		line += *text++ == '\n';
	return line;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), part = strlen(end);
	return length >= part && !strcmp(text + length - part, end);
}

static void look_for_known(void *context, const struct frame *frame)
{
	for (struct known *known = context; known->function; known++)
		if (frame->is_made && frame->file[0] && !strcmp(frame->function, known->function)) {
			ck_assert_msg(ends_with(frame->file, SCRIPT) ||
					      ends_with(frame->file, INTERPRETED),
				"%s is in %s", frame->function, frame->file);
			ck_assert_uint_eq(frame->line, known->line);
			known->found = true;
		}
}

/* `turn_runs_compiled`: "turn", which only one timer calls, must be found, too. When V8 compiles it
 * is V8's decision. */
static void check_names(const char *node, bool turn_runs_compiled)
{
	struct known known[] = {{"makeBuffer", "function makeBuffer", 0, false},
		{"keepOne", "keepOne(bytes) {", 0, false},
		{"digestKept", "const digestKept", 0, false},
		{"gr\xc3\xb6\xc3\x9f"
		 "e",
			"const gr\\u00f6", 0, false},
		{"turn", "function turn", 0, false}, {0}};
	struct victim victim;
	struct tap tap;
	HT_FREED char *text = read_text(SCRIPT);
	for (struct known *one = known; one->function; one++)
		one->line = line_of(text, one->source);
	victim_start(&victim, (const char *[]){node, SCRIPT, NULL});
	scripts_work(&victim, 300);
	capture(&victim, &tap, PROCSNAP_NODE, 30);
	victim_stop(&victim);
	visit_frames(tap.trace, look_for_known, known);
	for (struct known *one = known; one->function; one++)
		ck_assert_msg(one->found || (!turn_runs_compiled && !strcmp(one->function, "turn")),
			"no frame of %s", one->function);
}

HT_TEST(functions_have_names_without_a_flag)
{
	check_names("/usr/bin/node", true);
}

/* --- functions that are inlined --- */

/* Do the frames contain all functions of `name`, each next to the one before it? */
static bool is_chain(const json_t *frames, const char *const name[])
{
	size_t at, next = 0;
	json_t *frame;
	json_array_foreach(frames, at, frame)
	{
		const char *function = json_string_value(json_object_get(frame, "function"));
		if (function && !strcmp(function, name[next]) && !name[++next])
			return true;
		else if (next && (!function || strcmp(function, name[next - 1]) != 0))
			next = 0;
	}
	return false;
}

static bool is_inlined(const json_t *frames, const char *name)
{
	size_t at;
	json_t *frame;
	json_array_foreach(frames, at, frame)
	{
		const char *function = json_string_value(json_object_get(frame, "function"));
		if (function && !strcmp(function, name))
			return json_is_true(json_object_get(frame, "inlined"));
	}
	return false;
}

/* V8 decides when it inlines hold into take or serve. From then on each stack with an inlined frame
 * must have all three functions. */
static void check_inlined(const char *node)
{
	static const char *const chain[] = {"hold", "take", "serve", NULL};
	struct victim victim;
	struct tap tap;
	json_t *stack;
	size_t index;
	int64_t count = 0;
	victim_start(&victim, (const char *[]){node, INLINED, NULL});
	scripts_work(&victim, 400);
	capture(&victim, &tap, PROCSNAP_NODE, 200);
	victim_stop(&victim);
	json_t *report = report_load(tap.trace);
	json_array_foreach(report_at(report, "stacks"), index, stack)
	{
		const json_t *frames = json_object_get(stack, "frames");
		if (!is_inlined(frames, chain[0]))
			continue;
		ck_assert(is_chain(frames, chain));
		count += json_integer_value(json_object_get(stack, "allocations"));
	}
	json_decref(report);
	ck_assert_int_gt(count, 1000);
}

HT_TEST(inlined_functions_have_names)
{
	check_inlined("/usr/bin/node");
}

/* --- functions that are interpreted --- */

/* The number N of a function called `name`N; -1: it has another name. */
static long number_behind(const json_t *frame, const char *name)
{
	const char *function = json_string_value(json_object_get(frame, "function"));
	char *end;
	if (!function || strncmp(function, name, strlen(name)) != 0)
		return -1;
	long number = strtol(function + strlen(name), &end, 10);
	return *end || end == function + strlen(name) ? -1 : number;
}

/* made7 is the only caller of within7. */
static uint64_t check_chain(const json_t *frames)
{
	uint64_t right = 0;
	long inner = -1;
	size_t at;
	json_t *frame;
	json_array_foreach(frames, at, frame)
	{
		long within = number_behind(frame, "within"), made = number_behind(frame, "made");
		if (within >= 0)
			inner = within;
		if (made < 0)
			continue;
		if (inner >= 0)
			ck_assert_int_eq(made, inner);
		right += inner >= 0;
		inner = -1;
	}
	return right;
}

static uint64_t check_chains(const char *trace)
{
	json_t *report = report_load(trace), *stack;
	uint64_t right = 0;
	size_t index;
	json_array_foreach(report_at(report, "stacks"), index, stack) right +=
		check_chain(report_at(stack, "frames"));
	json_decref(report);
	return right;
}

/* Captures from the program's start, when no function is compiled yet. */
static void check_interpreted(const char *const argv[], const char *const options[], uint64_t least)
{
	struct known known[] = {{"allocate", "function allocate", 0, false},
		{"put", "put(bytes) {", 0, false}, {"get top", "top() {", 0, false},
		{"series", "function* series", 0, false},
		{"later", "async function later", 0, false}, {"turn", "function turn", 0, false},
		{0}};
	struct victim victim;
	struct tap tap;
	HT_FREED char *text = read_text(INTERPRETED);
	for (struct known *one = known; one->function; one++)
		one->line = line_of(text, one->source);
	victim_start(&victim, argv);
	tap_start_changing(&tap, victim.pid, PROCSNAP_NODE, options);
	tap_wait_any(&tap);
	scripts_work(&victim, 60);
	tap_check_clean(tap_stop(&tap, 0));
	victim_prove_alive(&victim);
	victim_stop(&victim);
	visit_frames(tap.trace, look_for_known, known);
	for (struct known *one = known; one->function; one++)
		ck_assert_msg(one->found || !least, "no frame of %s", one->function);
	ck_assert_uint_ge(check_chains(tap.trace), least);
}

HT_TEST(interpreted_functions_have_names)
{
	check_interpreted((const char *[]){"/usr/bin/node", INTERPRETED, NULL}, NULL, 20);
}

HT_TEST(interpreted_functions_of_sums)
{
	check_interpreted((const char *[]){"/usr/bin/node", INTERPRETED, NULL},
		(const char *[]){"--cull", "1h", NULL}, 20);
}

/* --unwind=full selects the agent's walk that reads the whole stack each time. */
HT_TEST(interpreted_functions_by_the_plain_walk)
{
	check_interpreted((const char *[]){"/usr/bin/node", INTERPRETED, NULL},
		(const char *[]){"--unwind=full", NULL}, 20);
}

/* V8 drops the bytecode of functions, compiles it again and moves it all the time, so that heaptap
 * finds few names. */
HT_TEST(bytecode_that_is_flushed_and_moved)
{
	check_interpreted((const char *[]){"/usr/bin/node", "--expose-gc", "--stress-flush-code",
				  "--stress-compaction", INTERPRETED, NULL},
		NULL, 0);
}

/* V8 replaces interpreted functions by baseline code after a few calls. */
HT_TEST(functions_that_become_baseline_code)
{
	check_interpreted(
		(const char *[]){"/usr/bin/node", "--sparkplug",
			"--interrupt-budget-for-feedback-allocation=50", INTERPRETED, NULL},
		NULL, 20);
}

#define SIZE_BASE 100000

/* Function N allocates blocks of 100,000 + N bytes, so the sizes show whether a name is right.
 * Returns the number of calls if the stack has such a function, else 0. */
static uint64_t check_sizes(const json_t *stack)
{
	const uint64_t calls = report_u64(stack, "allocations");
	const uint64_t bytes = report_u64(stack, "allocated_bytes");
	uint64_t named = 0;
	size_t at;
	json_t *frame;
	if (!calls || bytes / calls < SIZE_BASE)
		return 0;
	json_array_foreach(report_at(stack, "frames"), at, frame)
	{
		long within = number_behind(frame, "within"), made = number_behind(frame, "made");
		long number = within >= 0 ? within : made;
		if (number < 0)
			continue;
		ck_assert_msg(bytes == calls * (SIZE_BASE + (uint64_t)number),
			"%lu calls of %s%ld allocated %lu bytes", calls,
			within >= 0 ? "within" : "made", number, bytes);
		named = calls;
	}
	return named;
}

/* V8 places new functions at once where dropped ones were. Some functions must have names, and each
 * name must be right; how many have one depends on the machine's load. */
static void check_recycled(const char *node)
{
	struct victim victim;
	struct tap tap;
	uint64_t named = 0;
	size_t index;
	json_t *stack;
	victim_start(&victim, (const char *[]){node, "--expose-gc", RECYCLED, NULL});
	capture(&victim, &tap, PROCSNAP_NODE, 4000);
	victim_stop(&victim);
	json_t *report = report_load(tap.trace);
	json_array_foreach(report_at(report, "stacks"), index, stack) named += check_sizes(stack);
	json_decref(report);
	ck_assert_uint_gt(named, 0);
}

HT_TEST(code_in_a_functions_place_has_another_name)
{
	check_recycled("/usr/bin/node");
}

/* --- V8's own map --- */

struct oracle {
	const char *map;
	uint64_t compared, unnamed;
};

/* The function's name in the last line of the map that covers the address, without the tier's mark;
 * "" if the line is not of a JavaScript function. */
static void look_up(const char *map, uint64_t address, char *ret, size_t bytes)
{
	uint64_t from, size;
	char kind[32];
	int at;
	ret[0] = '\0';
	for (const char *line = map; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%lx %lx %31[A-Za-z]:%n", &from, &size, kind, &at) != 3 ||
			address < from || address >= from + size)
			continue;
		const char *name = line + at;
		if (strcmp(kind, "JS") != 0 || !strchr("~^+*", *name)) {
			ret[0] = '\0';
			continue;
		}
		name += name[1] == '\'' ? 2 : 1; /* "*'": optimized for one closure */
		snprintf(ret, bytes, "%.*s", (int)strcspn(name, "\n"), name);
	}
}

static void compare(void *context, const struct frame *frame)
{
	struct oracle *oracle = context;
	char expected[2048], ours[2048];
	if (!frame->is_made || frame->is_interpreted || frame->is_inlined)
		return;
	look_up(oracle->map, frame->address, expected, sizeof(expected));
	if (!expected[0]) {
		ck_assert_str_eq(frame->function, "");
		return;
	}
	if (!frame->function[0]) {
		oracle->unnamed++;
		return;
	}
	snprintf(ours, sizeof(ours),
		"%s %s:%lu:", strcmp(frame->function, "(anonymous)") ? frame->function : "",
		frame->file, frame->line);
	ck_assert_msg(!strncmp(expected, ours, strlen(ours)), "%s is called %s", expected, ours);
	oracle->compared++;
}

static void compare_names(const char *node, uint64_t least)
{
	struct victim victim;
	struct tap tap;
	char path[64];
	/* Node 24 writes a log too, by default into this directory, and with + into a file without
	 * a name. */
	victim_start(&victim, (const char *[]){node, "--perf-basic-prof-only-functions",
				      "--logfile=+", "--no-logfile-per-isolate", SCRIPT, NULL});
	scripts_work(&victim, 300);
	capture(&victim, &tap, PROCSNAP_NODE | PROCSNAP_FILES_MOVE, 30);
	victim_stop(&victim);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", victim.pid);
	HT_FREED char *map = read_text(path);
	unlink(path);
	struct oracle oracle = {.map = map};
	visit_frames(tap.trace, compare, &oracle);
	ck_assert_uint_gt(oracle.compared, least);
	ck_assert_uint_eq(oracle.unnamed, 0);
}

HT_TEST(names_are_those_of_v8)
{
	compare_names("/usr/bin/node", 20);
}

/* --- other versions ---
 *
 * The tests above use /usr/bin/node. Another version is tried if a variable names its program. */

static void try_version(const char *variable, uint64_t least)
{
	const char *node = run_named("scripts", variable);
	if (!node)
		return;
	check_names(node, false);
	compare_names(node, least);
	check_interpreted((const char *[]){node, INTERPRETED, NULL}, NULL, 20);
	check_recycled(node);
	check_inlined(node);
}

HT_TEST(node_22)
{
	try_version("HEAPTAP_NODE22", 20);
}

HT_TEST(node_24)
{
	try_version("HEAPTAP_NODE24", 5); /* node 24 optimizes sooner and inlines more */
}

/* --- what is no V8 that we know --- */

HT_TEST(reports_an_unknown_v8_and_leaves_it_alone)
{
	char *program = compile((const char *[]){"gcc", "-rdynamic", NULL},
		"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include "
		"<unistd.h>\n"
		"int v8dbg_HeapObjectTag = 1;\nint v8dbg_TaggedSize = 4;\nvoid *volatile last;\n"
		"int main(void)\n{\n\tchar line[64];\n\tprintf(\"ready %d\\n\", getpid());\n"
		"\tfflush(stdout);\n\twhile (fgets(line, sizeof(line), stdin)) {\n"
		"\t\tif (!strncmp(line, \"stop\", 4))\n\t\t\treturn 0;\n"
		"\t\tfree(last);\n\t\tlast = malloc(10);\n\t\tputs(\"pong\");\n"
		"\t\tfflush(stdout);\n\t}\n}\n",
		NULL);
	struct victim victim;
	struct tap tap;
	ck_assert_ptr_nonnull(program);
	victim_start(&victim, (const char *[]){program, NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	victim_prove_alive(&victim);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	ck_assert_str_eq(report_text(attach, "scripts_problem"),
		"JavaScript functions have no names: heaptap does not know this V8 (TaggedSize has "
		"an "
		"unknown value)");
	victim_stop(&victim);
	free(program);
}

HT_SUITE("integration/scripts")
