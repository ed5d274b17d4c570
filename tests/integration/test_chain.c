/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks are right: every event has exactly the chain of calls that the target wrote down itself
 * (tests/targets/chain.h), frame by frame, for every compiler and optimisation; and the report
 * gives these chains their names.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/hookedcode.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS  60000
#define CHAIN_GAP  1u /* as in chain.h */
#define CHAIN_SIZE 5000u
/* Frames of the C library outside of the program's outermost function: the start of a thread or of
 * main. */
#define START_FRAMES 4u

/* The chains that the target recorded itself, and the address range of its own code. */
struct books {
	uint64_t *word;
	size_t word_count;
	uint64_t *record; /* by size - CHAIN_SIZE: index into `word` of the chain's size, depth and
			     addresses; UINT64_MAX: no chain */
	size_t record_count;
	uint64_t text_lo, text_hi;
	bool is_static;
};

static void read_books(const char *path, size_t events, struct books *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ck_assert(fd >= 0 && !fstat(fd, &st));
	ret->word_count = (size_t)st.st_size / 8;
	ret->word = malloc((size_t)st.st_size);
	ck_assert_int_eq(read(fd, ret->word, (size_t)st.st_size), st.st_size);
	close(fd);
	ret->record_count = events;
	ret->record = malloc(events * 8);
	memset(ret->record, 0xff, events * 8);
	size_t records = 0;
	for (size_t at = 0; at < ret->word_count; at += 2 + ret->word[at + 1], records++) {
		ck_assert_uint_lt(ret->word[at] - CHAIN_SIZE, events);
		ret->record[ret->word[at] - CHAIN_SIZE] = at;
	}
	ck_assert_uint_eq(records, events);
}

static void find_text(pid_t pid, const char *program, struct books *ret)
{
	char line[4400];
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	uint64_t lo, hi;
	ret->text_lo = UINT64_MAX;
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, program) || sscanf(line, "%lx-%lx", &lo, &hi) != 2)
			continue;
		ret->text_lo = lo < ret->text_lo ? lo : ret->text_lo;
		ret->text_hi = hi;
	}
	fclose(maps);
	ck_assert_uint_lt(ret->text_lo, ret->text_hi);
}

/* A static program contains the C library, so the functions that record chains have their own
 * section. */
static void find_section(const char *program, struct books *ret)
{
	HT_FREED char *text;
	uint64_t bytes;
	ck_assert_int_eq(run_program((const char *[]){"readelf", "-SW", program, NULL}, ANSWER_MS,
				 &text, NULL),
		0);
	const char *line = strstr(text, "chain_text");
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(sscanf(line, "%*s %*s %lx %*x %lx", &ret->text_lo, &bytes), 2);
	ret->text_hi = ret->text_lo + bytes;
}

struct walk {
	const struct books *books;
	const struct tracefile *file;
	uint32_t node;
	unsigned depth;
};

static bool in_program(const struct walk *walk)
{
	uint64_t pc = walk->node ? walk->file->node[walk->node].pc : 0;
	return pc >= walk->books->text_lo && pc < walk->books->text_hi;
}

static void up(struct walk *walk)
{
	walk->node = walk->file->node[walk->node].parent;
	walk->depth++;
}

static bool skip_gap(struct walk *walk)
{
	while (walk->node && !in_program(walk))
		up(walk);
	if (!walk->node)
		return false;
	up(walk);
	return true;
}

/* Does the event's stack equal the chain that the target recorded? `ret_depth` gets how many frames
 * were compared: if a frame is wrong, its index from the innermost. */
static bool is_booked(const struct books *books, const struct tracefile *file,
	const struct event *event, unsigned *ret_depth)
{
	struct walk walk = {.books = books, .file = file, .node = event->stack};
	uint64_t at = books->record[event->size - CHAIN_SIZE];
	uint64_t depth = books->word[at + 1];
	bool right = skip_gap(&walk);
	for (uint64_t i = 0; right && i < depth; i++) {
		uint64_t address = books->word[at + 2 + i];
		if (address == CHAIN_GAP) {
			right = skip_gap(&walk);
		} else {
			right = walk.node && file->node[walk.node].pc == address;
			if (right)
				up(&walk);
		}
	}
	unsigned own_depth = walk.depth;
	while (right && walk.node && walk.depth < own_depth + START_FRAMES)
		up(&walk);
	*ret_depth = walk.depth;
	return right && !walk.node;
}

static void check_chains(const struct books *books, const char *trace)
{
	struct tracefile file;
	tracefile_load(trace, &file);
	uint64_t seen = 0, wrong = 0;
	for (size_t i = 0; i < file.event_count; i++) {
		const struct event *event = &file.event[i];
		if (event->kind != ABI_EVENT_ALLOC || event->size < CHAIN_SIZE ||
			event->size - CHAIN_SIZE >= books->record_count ||
			books->record[event->size - CHAIN_SIZE] == UINT64_MAX)
			continue;
		unsigned depth;
		seen++;
		if (is_booked(books, &file, event, &depth))
			continue;
		if (wrong++ < 5)
			fprintf(stderr, "event of size %lu: wrong at frame %u, booked depth %lu\n",
				event->size, depth,
				books->word[books->record[event->size - CHAIN_SIZE] + 1]);
	}
	ck_assert_msg(wrong == 0, "%lu of %lu stacks are wrong", wrong, seen);
	ck_assert_uint_eq(seen, books->record_count);
	/* NO_RULE is left out: a coroutine's stack ends where no unwind table reaches. */
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_DEPTH], 0);
	/* In a static program a coroutine's stack ends in the padding before __start_context, which
	 * the unwind table counts as the function before the padding. */
	if (!books->is_static)
		ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_STACK], 0);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_NODES], 0);
	tracefile_deinit(&file);
}

/* Returns how many unwind tables came from the cache. */
static uint64_t compare_chains(const char *program, const char *hook)
{
	char name[64];
	snprintf(name, sizeof(name), "tests/targets/%s", program);
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built(name), NULL});
	struct procsnap *before = procsnap_take(victim.pid, PROCSNAP_MODULES_GROW);
	struct tap tap;
	if (hook) {
		struct hookedcode code;
		hookedcode_watch(&code, victim.pid, run_built(name),
			(const char *[]){"malloc", "free", NULL});
		tap_start(&tap, victim.pid, (const char *[]){"--hook", hook, NULL});
		hookedcode_wait(&code, &tap);
		close(code.memory);
	} else {
		tap_start(&tap, victim.pid, NULL);
		tap_wait_on(&tap, program);
	}
	char *done = victim_ask(&victim, "go", ANSWER_MS);
	size_t events;
	ck_assert_int_eq(sscanf(done, "done %zu", &events), 1);
	struct books books = {0};
	find_text(victim.pid, name, &books);
	books.is_static = strstr(program, "static");
	if (books.is_static)
		find_section(run_built(name), &books);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	char *path = tmpdir_path("books"), command[4200];
	snprintf(command, sizeof(command), "save %s", path);
	free(victim_ask(&victim, command, ANSWER_MS));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	read_books(path, events, &books);
	check_chains(&books, tap.trace);
	return report_u64(attach, "tables_cached");
}

/* Compares once with tables that heaptap compiles, and once with tables from its cache. */
static void compare_kept(const char *program)
{
	HT_FREED char *books = tmpdir_path("books");
	ck_assert_uint_eq(compare_chains(program, NULL), 0);
	ck_assert_int_eq(unlink(books), 0);
	ck_assert_uint_ge(compare_chains(program, NULL), 2);
}

/* Does `frames` of the report, without inlined ones and those of other modules, equal `expected`?
 * A part that the compiler moved away from its function (".cold") counts as the function. */
static bool has_frames(const json_t *frames, const json_t *expected, const char *program)
{
	size_t index, at = 0;
	json_t *frame;
	json_array_foreach(frames, index, frame)
	{
		const char *module = json_string_value(json_object_get(frame, "module"));
		const char *function = json_string_value(json_object_get(frame, "function"));
		if (!module || !function || !strstr(module, program) ||
			json_is_true(json_object_get(frame, "inlined")))
			continue;
		const char *wanted = json_string_value(json_array_get(expected, at));
		if (!wanted)
			return !strcmp(function, "_start");
		size_t length = strlen(wanted);
		if (strncmp(function, wanted, length) ||
			(function[length] && !strstr(function + length, "cold")))
			return false;
		at++;
	}
	return at == json_array_size(expected);
}

static uint64_t calls_by_chain(const json_t *report, const json_t *chain, const char *program)
{
	uint64_t size = report_u64(chain, "size"), calls = 0;
	size_t index;
	json_t *stack;
	json_array_foreach(report_at(report, "stacks"), index, stack)
	{
		uint64_t allocations = report_u64(stack, "allocations");
		if (!allocations || report_u64(stack, "allocated_bytes") != allocations * size)
			continue;
		if (has_frames(report_at(stack, "frames"), report_at(chain, "frames"), program))
			calls += allocations;
	}
	return calls;
}

static void compare_names(const char *program)
{
	char name[64];
	snprintf(name, sizeof(name), "tests/targets/%s", program);
	struct victim victim;
	victim_start(&victim, (const char *[]){run_built(name), NULL});
	struct tap tap;
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, program);
	char *answer = victim_ask(&victim, "names", ANSWER_MS);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	json_auto_t *report = report_load(tap.trace);
	size_t index;
	json_t *chain;
	json_array_foreach(report_at(report_parse(answer), "chains"), index, chain)
	{
		uint64_t calls = calls_by_chain(report, chain, program);
		if (calls != report_u64(chain, "count"))
			ck_abort_msg("%lu calls by chain %s; the report has %s", calls,
				json_dumps(chain, JSON_COMPACT),
				json_dumps(report_at(report, "stacks"), JSON_INDENT(1)));
	}
}

#define CHAIN_TEST(name, program)                                                                  \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		compare_chains(program, NULL);                                                     \
	}

#define NAMES_TEST(name, program)                                                                  \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		compare_names(program);                                                            \
	}

HT_TEST(kept_tables)
{
	compare_kept("chain-gcc-O2");
}

HT_TEST(kept_tables_cxx)
{
	compare_kept("chainxx-clang-O2");
}

/* The program's allocator is linked in, and has entry hooks. */
HT_TEST(direct)
{
	compare_chains("chain-direct", "auto");
}

/* A static program at fixed addresses; its program headers name no unwind table. */
HT_TEST(linked_statically)
{
	compare_chains("chain-static", "auto");
}

CHAIN_TEST(gcc_O0, "chain-gcc-O0")
CHAIN_TEST(gcc_O1, "chain-gcc-O1")
CHAIN_TEST(gcc_O2, "chain-gcc-O2")
CHAIN_TEST(gcc_O3, "chain-gcc-O3")
CHAIN_TEST(gcc_O2_fp, "chain-gcc-O2-fp")
CHAIN_TEST(clang_O0, "chain-clang-O0")
CHAIN_TEST(clang_O1, "chain-clang-O1")
CHAIN_TEST(clang_O2, "chain-clang-O2")
CHAIN_TEST(clang_O3, "chain-clang-O3")
CHAIN_TEST(clang_O2_fp, "chain-clang-O2-fp")
CHAIN_TEST(gxx_O0, "chainxx-gcc-O0")
CHAIN_TEST(gxx_O2, "chainxx-gcc-O2")
CHAIN_TEST(gxx_O3, "chainxx-gcc-O3")
CHAIN_TEST(clangxx_O0, "chainxx-clang-O0")
CHAIN_TEST(clangxx_O2, "chainxx-clang-O2")
CHAIN_TEST(clangxx_O3, "chainxx-clang-O3")
NAMES_TEST(names_gcc_O2, "chain-gcc-O2")
NAMES_TEST(names_clang_O3, "chain-clang-O3")
NAMES_TEST(names_gxx_O2, "chainxx-gcc-O2")
NAMES_TEST(names_clangxx_O2, "chainxx-clang-O2")

HT_SUITE("integration/chain")
