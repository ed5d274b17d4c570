/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs in other languages that call C: Go by cgo, Java by JNI, Python by an extension module
 * (tests/targets/foreign.h), with collectors, signals and JIT at work all the time. What their C
 * has allocated is recorded to the last call and byte, beside whatever their runtimes allocate;
 * stacks are the booked ones up to the border of the runtime; they work and look as before.
 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"

#define ANSWER_MS    60000
#define CHAIN_SIZE   5000u /* as in chain.h */
#define JAVA	     "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
#define TARGET(name) strdup(run_built("tests/targets/" name))

struct range {
	uint64_t lo, hi;
};

/* The frame behind those that C has booked. */
enum border {
	BORDER_SWITCH, /* where Go goes to a stack of the system's; nothing lies behind it */
	BORDER_CODE,   /* code that the JVM has made */
	BORDER_MODULE, /* the program's own */
};

struct runtime {
	const char *argv[8];
	const char *module; /* with our C in it */
	enum border border;
	bool whole;    /* each of our stacks goes down to the start of its thread */
	unsigned look; /* procsnap */
};

#define LOOK (PROCSNAP_MASKS_CHANGE | PROCSNAP_THREADS_CHANGE)

static struct runtime go(void)
{
	return (struct runtime){.argv = {TARGET("foreign-go")},
		.module = TARGET("foreign-go"),
		.border = BORDER_SWITCH,
		.look = LOOK};
}

/* With its interpreter alone, or its compilers. */
static struct runtime java(const char *option, bool whole)
{
	return (struct runtime){.argv = {JAVA, option, "-Xmx64m", "-cp", TARGET("java"), "Foreign",
					TARGET("libforeign-jni.so")},
		.module = TARGET("libforeign-jni.so"),
		.border = BORDER_CODE,
		.whole = whole,
		.look = LOOK | PROCSNAP_JIT};
}

static struct runtime python(void)
{
	return (struct runtime){
		.argv = {"/usr/bin/python3", "tests/targets/foreign.py", TARGET("foreign-py.so")},
		.module = TARGET("foreign-py.so"),
		.border = BORDER_MODULE,
		.whole = true,
		.look = LOOK};
}

/* --- where code lies --- */

struct code {
	struct range ours;     /* chain_text */
	struct range switched; /* runtime.asmcgocall */
	struct range *mapped;  /* executable, of no file if `anonymous` */
	bool *anonymous;
	size_t mapped_count;
	struct range program, libc;
};

static void add_mapping(struct code *code, const char *line, const char *program)
{
	char perms[8], path[4100] = "";
	struct range range;
	ck_assert_int_ge(
		sscanf(line, "%lx-%lx %7s %*s %*s %*s %4099s", &range.lo, &range.hi, perms, path),
		3);
	if (perms[2] != 'x')
		return;
	size_t count = code->mapped_count++;
	code->mapped = realloc(code->mapped, (count + 1) * sizeof(*code->mapped));
	code->anonymous = realloc(code->anonymous, (count + 1) * sizeof(*code->anonymous));
	code->mapped[count] = range;
	code->anonymous[count] = !path[0];
	if (!strcmp(path, program))
		code->program = range;
	if (strstr(path, "/libc.so.6"))
		code->libc = range;
}

static void find_mappings(pid_t pid, struct code *code)
{
	char line[4400], program[4100], link[64];
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	ssize_t length = readlink(link, program, sizeof(program) - 1);
	ck_assert_int_gt(length, 0);
	program[length] = '\0';
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		add_mapping(code, line, program);
	fclose(maps);
}

/* The address range in the line of readelf's output that names `name`, read by `format`. */
static struct range find_line(
	const char *option, const char *file, const char *name, const char *format)
{
	char *text;
	struct range range = {0};
	int status = run_program(
		(const char *[]){"readelf", option, file, NULL}, ANSWER_MS, &text, NULL);
	ck_assert_int_eq(status, 0);
	char *found = strstr(text, name);
	ck_assert_msg(found != NULL, "no %s in %s", name, file);
	while (found > text && found[-1] != '\n')
		found--;
	ck_assert_int_eq(sscanf(found, format, &range.lo, &range.hi), 2);
	free(text);
	range.hi += range.lo;
	return range;
}

static uint64_t bias_of(pid_t pid, const char *module)
{
	char line[4400];
	uint64_t lo = 0;
	Elf64_Ehdr ehdr;
	int fd = open(module, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(read(fd, &ehdr, sizeof(ehdr)), sizeof(ehdr));
	close(fd);
	if (ehdr.e_type == ET_EXEC)
		return 0;
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	while (!lo && fgets(line, sizeof(line), maps))
		if (strstr(line, module))
			ck_assert_int_eq(sscanf(line, "%lx", &lo), 1);
	fclose(maps);
	ck_assert_uint_ne(lo, 0);
	return lo;
}

static void code_find(const struct runtime *runtime, pid_t pid, struct code *ret)
{
	*ret = (struct code){0};
	ret->ours =
		find_line("-SW", runtime->module, " chain_text ", "%*[^]]] %*s %*s %lx %*x %lx");
	uint64_t bias = bias_of(pid, runtime->module);
	ret->ours.lo += bias;
	ret->ours.hi += bias;
	if (runtime->border == BORDER_SWITCH)
		ret->switched = find_line(
			"-sW", runtime->module, " runtime.asmcgocall.abi0\n", "%*s %lx %lu");
	find_mappings(pid, ret);
}

static bool contains(const struct range *range, uint64_t pc)
{
	return pc >= range->lo && pc < range->hi;
}

/* --- stacks --- */

/* The books: { size, depth, address[depth] } ... */
struct books {
	uint64_t *word;
	size_t words, records;
	uint64_t **record; /* by size - CHAIN_SIZE */
	size_t room;
};

static void books_read(const char *path, struct books *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ck_assert(fd >= 0 && !fstat(fd, &st) && st.st_size);
	*ret = (struct books){.words = (size_t)st.st_size / 8, .word = malloc((size_t)st.st_size)};
	ck_assert_int_eq(read(fd, ret->word, (size_t)st.st_size), st.st_size);
	close(fd);
	for (size_t at = 0; at < ret->words; at += 2 + ret->word[at + 1]) {
		size_t size = ret->word[at] - CHAIN_SIZE;
		if (size >= ret->room) {
			ret->record = realloc(ret->record, 2 * (size + 1) * sizeof(*ret->record));
			for (size_t i = ret->room; i < 2 * (size + 1); i++)
				ret->record[i] = NULL;
			ret->room = 2 * (size + 1);
		}
		ret->record[size] = &ret->word[at + 1];
		ret->records++;
	}
}

struct stacks {
	const struct runtime *runtime;
	const struct code *code;
	const struct tracefile *file;
	const struct books *books;
	uint64_t seen, whole, wrong;
};

static bool is_border(const struct stacks *stacks, uint64_t pc)
{
	const struct code *code = stacks->code;
	if (stacks->runtime->border == BORDER_SWITCH)
		return contains(&code->switched, pc);
	if (stacks->runtime->border == BORDER_MODULE)
		return contains(&code->program, pc);
	for (size_t i = 0; i < code->mapped_count; i++)
		if (contains(&code->mapped[i], pc))
			return code->anonymous[i];
	return false;
}

static bool is_code(const struct code *code, uint64_t pc)
{
	for (size_t i = 0; i < code->mapped_count; i++)
		if (contains(&code->mapped[i], pc))
			return true;
	return false;
}

/* What lies behind the frame of our C that the runtime has called. */
static bool is_right_behind(const struct stacks *stacks, uint32_t id)
{
	const struct tracefile_node *node = stacks->file->node;
	if (!id || !is_border(stacks, node[id].pc))
		return false;
	if (stacks->runtime->border == BORDER_SWITCH)
		return !node[id].parent;
	for (; node[id].parent; id = node[id].parent)
		if (!is_code(stacks->code, node[id].pc))
			return false;
	return !stacks->runtime->whole || contains(&stacks->code->libc, node[id].pc);
}

/* The innermost frame is the allocation's own; then come those that are booked. The last of them is
 * what the language's tool, or the library, has around our C, or the border itself. */
static bool is_booked(const struct stacks *stacks, const uint64_t *record, uint32_t id)
{
	const struct tracefile_node *node = stacks->file->node;
	if (!contains(&stacks->code->ours, node[id].pc))
		return false;
	for (uint64_t i = 0; i < record[0]; i++) {
		id = node[id].parent;
		if (!id || node[id].pc != record[1 + i])
			return false;
	}
	return is_right_behind(stacks, is_border(stacks, node[id].pc) ? id : node[id].parent);
}

/* Where the agent must make no system call (a program that catches SIGSYS, as all of Go's do), it
 * knows the direct caller alone until it has been told where the thread's stack lies. */
static bool is_early(const struct stacks *stacks, uint32_t id)
{
	const struct tracefile_node *node = stacks->file->node;
	return stacks->runtime->border == BORDER_SWITCH && !node[id].parent &&
	       contains(&stacks->code->ours, node[id].pc);
}

static void look_at(struct stacks *stacks, const struct event *event)
{
	size_t at = event->size - CHAIN_SIZE;
	if (event->kind != ABI_EVENT_ALLOC || event->size < CHAIN_SIZE ||
		at >= stacks->books->room || !stacks->books->record[at] ||
		!contains(&stacks->code->ours, stacks->file->node[event->stack].pc))
		return;
	stacks->seen++;
	if (is_booked(stacks, stacks->books->record[at], event->stack))
		stacks->whole++;
	else if (!is_early(stacks, event->stack) && stacks->wrong++ < 5)
		fprintf(stderr, "event of size %lu: another stack than is booked\n", event->size);
}

static void check_stacks(const struct runtime *runtime, const struct code *code,
	const struct tracefile *file, const struct books *books)
{
	struct stacks stacks = {runtime, code, file, books, 0, 0, 0};
	for (size_t i = 0; i < file->event_count; i++)
		look_at(&stacks, &file->event[i]);
	ck_assert_msg(!stacks.wrong, "%lu of %lu stacks are wrong", stacks.wrong, stacks.seen);
	ck_assert_uint_eq(stacks.seen, books->records);
	ck_assert_uint_gt(stacks.whole, 0);
	if (runtime->border != BORDER_SWITCH)
		ck_assert_uint_eq(stacks.whole, stacks.seen);
}

/* heaptap does not forget a thread's stack: after one whole stack, none of the thread is cut. But
 * the first thread's stack grows, and heaptap learns of a new part only later (is_early). */
static void check_cut(const struct code *code, const struct tracefile *file, uint32_t first)
{
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i], *later = event + 1;
		if (!event->stack || event->tid == first ||
			!contains(&code->ours, file->node[event->stack].pc) ||
			!file->node[event->stack].parent)
			continue;
		while (later < file->event + file->event_count && !later->stack)
			later++;
		if (later < file->event + file->event_count && later->tid == event->tid &&
			contains(&code->ours, file->node[later->stack].pc))
			ck_assert_uint_ne(file->node[later->stack].parent, 0);
	}
}

/* --- counts --- */

static void check_functions(
	const struct code *code, const struct tracefile *file, const json_t *ledger)
{
	static const char *const name[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) [ABI_HOOK_##id] = #name,
		ABI_HOOKS(X)
#undef X
	};
	struct tracefile_count count[ABI_HOOK_COUNT] = {0};
	for (size_t i = 0; i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		if (!event->stack || !contains(&code->ours, file->node[event->stack].pc))
			continue;
		count[event->hook].calls++;
		count[event->hook].bytes += event->size;
	}
	json_t *functions = report_at(ledger, "functions");
	for (int hook = 0; hook < ABI_HOOK_COUNT; hook++) {
		const json_t *booked = json_object_get(functions, name[hook]);
		uint64_t calls = booked ? report_u64(booked, "calls") : 0;
		uint64_t bytes = booked ? report_u64(booked, "bytes") : 0;
		ck_assert_msg(count[hook].calls == calls && count[hook].bytes == bytes,
			"%s: %lu calls of %lu bytes, booked %lu of %lu", name[hook],
			count[hook].calls, count[hook].bytes, calls, bytes);
	}
}

static bool is_ours(const json_t *stack)
{
	const json_t *frame = json_array_get(report_at(stack, "frames"), 0);
	const char *function = json_string_value(json_object_get(frame, "function"));
	return function && !strncmp(function, "foreign_", 8);
}

/* Frees are booked by blocks that stay: those are of our stacks, all others of the runtime's. */
static void check_report(const char *trace, const json_t *ledger)
{
	static const char *const sum[] = {"allocations", "allocated_bytes", "outstanding_blocks",
		"outstanding_bytes", "frees"};
	json_t *report = report_load(trace), *stack;
	uint64_t found[HT_ARRAY_SIZE(sum)] = {0};
	size_t index;
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
	json_array_foreach(report_at(report, "stacks"), index, stack)
	{
		for (size_t i = 0; is_ours(stack) && i < HT_ARRAY_SIZE(sum); i++)
			found[i] += report_u64(stack, sum[i]);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(sum); i++)
		ck_assert_msg(found[i] == report_u64(ledger, sum[i]), "%s: %lu, booked %lu", sum[i],
			found[i], report_u64(ledger, sum[i]));
	json_decref(report);
}

/* --- programs --- */

static void save(struct victim *victim, const char *path)
{
	char command[4200];
	snprintf(command, sizeof(command), "save %s", path);
	HT_FREED char *answer = victim_ask(victim, command, ANSWER_MS);
	ck_assert_str_eq(answer, "saved");
}

/* Does the trace, as far as it is written, have a stack that goes beyond its first frame? */
static bool has_callers(const char *trace, const struct code *code)
{
	struct tracefile file;
	bool found = false;
	tracefile_load(trace, &file);
	for (size_t i = 0; i < file.event_count && !found; i++) {
		const struct tracefile_node *node = &file.node[file.event[i].stack];
		found = node->known && node->parent && contains(&code->ours, node->pc);
	}
	tracefile_deinit(&file);
	return found;
}

static void compare(const struct runtime *runtime)
{
	struct victim victim;
	struct tap tap;
	struct code code;
	struct books books;
	struct tracefile file;
	char *path = tmpdir_path("books");
	victim_start(&victim, runtime->argv);
	free(victim_ask(&victim, "go", ANSWER_MS));
	save(&victim, path);
	ck_assert_int_eq(unlink(path), 0);
	struct procsnap *before = procsnap_take(victim.pid, runtime->look);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_on(&tap, strrchr(runtime->module, '/'));
	char *answer = victim_ask(&victim, "go", ANSWER_MS);
	code_find(runtime, victim.pid, &code);
	for (uint64_t end = run_now_ms() + ANSWER_MS; !has_callers(tap.trace, &code);) {
		ck_assert_uint_lt(run_now_ms(), end);
		free(answer);
		answer = victim_ask(&victim, "more", ANSWER_MS);
	}
	code_find(runtime, victim.pid, &code);
	json_t *attach = tap_stop(&tap, 0), *ledger = report_parse(answer);
	tap_check_clean(attach);
	save(&victim, path);
	procsnap_verify(before, victim.pid);
	free(victim_ask(&victim, "go", ANSWER_MS));
	victim_stop(&victim);

	check_report(tap.trace, ledger);
	tracefile_load(tap.trace, &file);
	ck_assert(file.complete);
	books_read(path, &books);
	ck_assert_uint_eq(books.records, report_u64(ledger, "chained"));
	check_functions(&code, &file, ledger);
	check_stacks(runtime, &code, &file, &books);
	check_cut(&code, &file, (uint32_t)victim.pid);
}

/* Several captures in turn, the last one's heaptap killed, while C is at work. */
static void harry(const struct runtime *runtime)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, runtime->argv);
	free(victim_ask(&victim, "go", ANSWER_MS));
	struct procsnap *before = procsnap_take(victim.pid, runtime->look);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	victim_send(&victim, "go");
	for (int round = 0; round < 3; round++) {
		tap_start(&tap, victim.pid, NULL);
		tap_wait_on(&tap, strrchr(runtime->module, '/'));
		victim_send(&victim, "go");
		if (round < 2)
			tap_check_clean(tap_stop(&tap, 0));
		free(victim_line(&victim, ANSWER_MS));
	}
	kill(tap.run.pid, SIGKILL);
	ck_assert_int_eq(run_wait(&tap.run, ANSWER_MS), 128 + SIGKILL);
	run_deinit(&tap.run);
	free(victim_line(&victim, ANSWER_MS));
	procsnap_wait(before, victim.pid, ANSWER_MS);
	run_until(tap_guardian_is_done(victim.pid), ANSWER_MS);
	free(victim_ask(&victim, "go", ANSWER_MS));
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
}

#define RUNTIME_TEST(name, act, ...)                                                               \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		struct runtime runtime = __VA_ARGS__;                                              \
		act(&runtime);                                                                     \
	}

RUNTIME_TEST(go_with_cgo, compare, go())
RUNTIME_TEST(java_compiled, compare, java("-XX:+TieredCompilation", false))
RUNTIME_TEST(java_interpreted, compare, java("-Xint", true))
RUNTIME_TEST(python_extension, compare, python())
RUNTIME_TEST(go_again_and_killed, harry, go())
RUNTIME_TEST(java_again_and_killed, harry, java("-XX:+TieredCompilation", false))

/* The refusal names the allocator that the program uses. */
HT_TEST(go_without_cgo_is_refused)
{
	struct victim victim;
	char pid[16], *err;
	victim_start(&victim, (const char *[]){run_built("tests/targets/pure-go"), NULL});
	struct procsnap *before = procsnap_take(victim.pid, LOOK);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-o",
					 "/dev/null", NULL},
		RUN_REFUSAL_MS, NULL, &err);
	ck_assert_msg(status == 3 && strstr(err, "the Go runtime"), "%d: %s", status, err);
	free(err);
	procsnap_verify(before, victim.pid);
	victim_prove_alive(&victim);
	victim_stop(&victim);
}

HT_SUITE("integration/runtimes")
