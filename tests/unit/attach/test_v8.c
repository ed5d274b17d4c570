/* SPDX-License-Identifier: Apache-2.0
 *
 * A heap of this test's own making, laid out as V8's, is read in this very process.
 */
#include "attach/v8/bytecode.h"
#include "attach/v8/code.h"
#include "attach/v8/function.h"
#include "attach/v8/names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"
#include "tests/unit/attach/v8plan.h"

#define HEAP_BYTES (256u << 10)
#define CODE_BYTES (16u << 10)
#define SMI(value) ((uint64_t)(value) << 32)

/* The same in every version; of what is not, the plan says the type. */
enum {
	TYPE_TWO_BYTE = 32,
	TYPE_CONS = 33,
	TYPE_EXTERNAL = 42,
	TYPE_SLICED = 35,
	TYPE_THIN = 37,
	TYPE_ONE_BYTE = 40,
	TYPE_CLOSURE = 2066,
};

static const struct v8_layout *plan;
static struct proc self;
static struct v8_heap heap;
static uint64_t *memory, *code_memory;
static size_t used;
static uint64_t meta;

static uint64_t allocate(size_t words)
{
	uint64_t object = (uint64_t)(uintptr_t)&memory[used] + 1;
	ck_assert_uint_le((used += words) * 8, HEAP_BYTES);
	return object;
}

static void set(uint64_t object, int32_t offset, uint64_t word)
{
	memcpy((uint8_t *)(uintptr_t)(object - 1) + offset, &word, sizeof(word));
}

static uint64_t map_of(int32_t type)
{
	uint64_t map = allocate(4);
	set(map, 0, meta);
	set(map, 8, SMI((uint32_t)type));
	return map;
}

static uint64_t object_of(int32_t type, size_t words)
{
	uint64_t map = map_of(type), object = allocate(words);
	set(object, 0, map);
	return object;
}

static void setup_as(enum v8plan version)
{
	plan = &v8plan[version];
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	/* As V8's pages lie. */
	memory = aligned_alloc(HEAP_BYTES, HEAP_BYTES);
	code_memory =
		mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(memory && code_memory != MAP_FAILED);
	memset(memory, 0, HEAP_BYTES);
	used = 0;
	meta = allocate(4);
	set(meta, 0, meta);
	set(meta, 8, SMI((uint32_t)plan->type_map));
	heap = (struct v8_heap){.proc = &self, .layout = *plan};
}

static void setup(void)
{
	setup_as(V8PLAN_11_3);
}

/* --- strings --- */

static uint64_t string_of(int32_t type, uint32_t length)
{
	uint64_t string = object_of(type, 4 + length / 4);
	set(string, 8, SMI(length));
	return string;
}

static uint64_t one_byte(const char *text)
{
	uint64_t string = string_of(TYPE_ONE_BYTE, (uint32_t)strlen(text));
	memcpy((char *)(uintptr_t)(string - 1) + 16, text, strlen(text));
	return string;
}

static uint64_t cons(uint64_t first, uint64_t second, uint32_t length)
{
	uint64_t string = string_of(TYPE_CONS, length);
	set(string, 16, first);
	set(string, 24, second);
	return string;
}

static void check_text(uint64_t string, const char *expected)
{
	char text[64];
	ck_assert(v8_text(&heap, string, text, sizeof(text)));
	ck_assert_str_eq(text, expected);
}

START_TEST(strings_of_every_form)
{
	setup();
	static const char outside[] = "outside";
	static const char *const resource[] = {NULL};
	const uint16_t wide[] = {'a', 0xe9, 0x20ac, 0xd83d, 0xde00, 0xd800};
	uint64_t abc = one_byte("abcdef"), empty = one_byte(""), string;
	check_text(abc, "abcdef");
	check_text(empty, "");
	string = string_of(TYPE_TWO_BYTE, 6);
	memcpy((char *)(uintptr_t)(string - 1) + 16, wide, sizeof(wide));
	check_text(string, "a\303\251\342\202\254\360\237\230\200\xef\xbf\xbd");
	check_text(
		cons(abc, string, 12), "abcdefa\303\251\342\202\254\360\237\230\200\xef\xbf\xbd");
	check_text(cons(cons(one_byte("x"), abc, 7), empty, 7), "xabcdef");
	string = string_of(TYPE_SLICED, 3);
	set(string, 16, abc);
	set(string, 24, SMI(2));
	check_text(string, "cde");
	string = string_of(TYPE_THIN, 6);
	set(string, 16, abc);
	check_text(string, "abcdef");
	string = string_of(TYPE_EXTERNAL, 7);
	set(string, 16, (uint64_t)(uintptr_t)resource);
	set(string, 24, (uint64_t)(uintptr_t)outside);
	check_text(string, "outside");
	char small[8];
	ck_assert(v8_text(&heap, abc, small, sizeof(small)));
	ck_assert_str_eq(small, "abcd");
}
END_TEST

START_TEST(strings_that_have_no_end)
{
	setup();
	char text[64];
	uint64_t abc = one_byte("abc"), string = cons(abc, abc, 6);
	set(string, 24, string);
	ck_assert(!v8_text(&heap, string, text, sizeof(text)));
	set(string, 16, string);
	ck_assert(!v8_text(&heap, string, text, sizeof(text)));
	string = string_of(TYPE_THIN, 3);
	set(string, 16, string);
	ck_assert(!v8_text(&heap, string, text, sizeof(text)));
	string = string_of(TYPE_SLICED, 3);
	set(string, 16, abc);
	set(string, 24, SMI(1)); /* more than its parent has */
	ck_assert(!v8_text(&heap, string, text, sizeof(text)));
	ck_assert(!v8_text(&heap, meta, text, sizeof(text)));
	ck_assert(!v8_text(&heap, SMI(5), text, sizeof(text)));
	ck_assert(!v8_text(&heap, 1, text, sizeof(text)));
	ck_assert(!v8_text(&heap, (1ull << 47) + 1, text, sizeof(text)));
}
END_TEST

/* --- functions --- */

static uint64_t script_of(const char *source)
{
	uint64_t script = object_of(plan->type_script, 16);
	set(script, plan->script_source, one_byte(source));
	set(script, plan->script_name, one_byte("/a/b.js"));
	return script;
}

static uint64_t function_of(uint64_t name, uint64_t script)
{
	uint64_t function = object_of(plan->type_function, 8);
	set(function, plan->function_name, name);
	set(function, plan->function_script, script);
	return function;
}

#define HAS_NAME     (1u << 12)
#define HAS_INFERRED (1u << 14)

static void set_position(uint64_t scope, int32_t at, uint32_t start)
{
	set(scope, at, SMI(start));
	set(scope, at + 8, SMI(start + 10));
}

static uint64_t scope_of(uint32_t flags, uint32_t start)
{
	uint64_t scope = object_of(plan->type_scope, 20);
	int32_t at = 8 + plan->scope_names_index * 8;
	set(scope, 8, (uint64_t)flags << plan->scope_flags_shift);
	set(scope, 24, SMI(2)); /* locals */
	if ((int32_t)(flags & 15) == plan->scope_module) {
		set(scope, at, SMI(9));
		at += 8;
	}
	at += 2 * 2 * 8;
	if (flags & HAS_NAME) {
		set(scope, at, one_byte("named"));
		at += 16;
	}
	if (flags & HAS_INFERRED) {
		set(scope, at, one_byte("inferred"));
		at += 8;
	}
	set_position(scope, plan->scope_names_index == 3 ? at : 32, start);
	return scope;
}

static void check_function(uint64_t function, const char *name, const char *file, uint32_t line)
{
	struct v8_function found;
	ck_assert(v8_function_read(&heap, function, &found));
	ck_assert_str_eq(found.name, name);
	ck_assert_str_eq(found.file, file);
	ck_assert_uint_eq(found.line, line);
}

static void check_functions(enum v8plan version)
{
	setup_as(version);
	uint64_t script = script_of("one\ntwo\r\nthree\rfour"), ends;
	check_function(function_of(one_byte("whole"), script), "whole", "/a/b.js", 0);
	check_function(function_of(scope_of(HAS_NAME, 0), script), "named", "/a/b.js", 1);
	check_function(
		function_of(scope_of(HAS_NAME | HAS_INFERRED, 4), script), "named", "/a/b.js", 2);
	check_function(function_of(scope_of(HAS_INFERRED, 9), script), "inferred", "/a/b.js", 3);
	check_function(function_of(scope_of(0, 17), script), "", "/a/b.js", 4);
	check_function(function_of(scope_of(0, 500), script), "", "/a/b.js", 0);
	check_function(function_of(scope_of(HAS_NAME, 4), SMI(0)), "named", "", 0);
	ends = object_of(plan->type_array, 8);
	set(ends, 8, SMI(3));
	for (uint32_t i = 0; i < 3; i++)
		set(ends, 16 + 8 * (int32_t)i, SMI(100 * i + 50));
	set(script, plan->script_line_ends, ends);
	check_function(function_of(scope_of(HAS_NAME, 50), script), "named", "/a/b.js", 1);
	check_function(function_of(scope_of(HAS_NAME, 51), script), "named", "/a/b.js", 2);
	check_function(function_of(scope_of(HAS_NAME, 250), script), "named", "/a/b.js", 3);
}

START_TEST(functions_have_name_file_and_line)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_functions(version);
}
END_TEST

START_TEST(modules_have_a_scope_of_their_own)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++) {
		setup_as(version);
		uint64_t script = script_of("one\ntwo"), scope;
		uint32_t module = plan->scope_module < 0 ? 3 : (uint32_t)plan->scope_module;
		check_function(
			function_of(scope_of(module | HAS_NAME, 4), script), "named", "/a/b.js", 2);
		scope = scope_of(module | HAS_NAME, 4);
		if (plan->scope_module < 0)
			continue;
		set(scope, 8 + plan->scope_names_index * 8, scope);
		struct v8_function found;
		ck_assert(!v8_function_read(&heap, function_of(scope, script), &found));
	}
}
END_TEST

/* Where something else is than a name, or than flags, this is no scope that is understood. */
START_TEST(scopes_of_another_layout)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++) {
		setup_as(version);
		struct v8_function found;
		uint64_t script = script_of("one"), scope = scope_of(HAS_NAME, 0);
		const int32_t name = 8 + 8 * (plan->scope_names_index + 2 * 2);
		set(scope, name, SMI(0));
		check_function(function_of(scope, script), "", "/a/b.js", 1);
		set(scope, name, 0x1234567);
		ck_assert(!v8_function_read(&heap, function_of(scope, script), &found));
		scope = scope_of(HAS_NAME, 0);
		set(scope, 8, 1ull << 40 | HAS_NAME);
		ck_assert(!v8_function_read(&heap, function_of(scope, script), &found));
	}
}
END_TEST

/* It is read in parts of 32 KiB, of which the first ends between CR and LF. */
START_TEST(lines_of_a_long_source)
{
	static char source[40001];
	setup();
	for (size_t i = 0; i < sizeof(source) - 1; i++)
		source[i] = i % 100 == 99 ? '\n' : 'x';
	uint64_t script = script_of(source);
	check_function(function_of(scope_of(HAS_NAME, 39999), script), "named", "/a/b.js", 400);
	check_function(function_of(scope_of(HAS_NAME, 40000), script), "named", "/a/b.js", 401);
	memcpy(source + 32767, "\r\n", 2);
	script = script_of(source);
	check_function(function_of(scope_of(HAS_NAME, 39999), script), "named", "/a/b.js", 401);
}
END_TEST

/* --- code --- */

struct made {
	uint64_t code, function, closure;
	raddr_t lo;
};

/* Optimized code names its function. */
static void set_function(const struct made *made)
{
	const int32_t at = plan->array_elements + 8 * plan->deoptimization_function;
	uint64_t array = object_of(plan->type_deoptimization, 12), word = made->function;
	if (plan->wrapper_function) {
		word = object_of(plan->type_wrapper, 2);
		set(word, plan->wrapper_function, made->function);
	}
	set(array, plan->array_length, SMI(8));
	set(array, at, word);
	set(made->code, plan->code_deoptimization, array);
}

/* Code of 100 bytes at that place. */
static struct made make_code(size_t at, bool optimized)
{
	struct made made = {.code = object_of(plan->type_code, 16),
		.function = function_of(scope_of(HAS_NAME, 4), script_of("one\ntwo"))};
	uint64_t stream = (uint64_t)(uintptr_t)code_memory + at + 1;
	set(stream, 0, map_of(plan->type_instructions));
	set(stream, 8, made.code);
	made.lo = stream - 1 + (uint64_t)plan->instructions;
	set(made.code, plan->code_start, made.lo);
	set(made.code, plan->code_size, 100);
	made.closure = object_of(TYPE_CLOSURE, 8);
	set(made.closure, plan->closure_function, made.function);
	if (optimized) {
		set_function(&made);
	} else {
		set(made.code, plan->code_deoptimization, object_of(plan->type_bytecode, 12));
		set(made.function, plan->function_data, made.code);
	}
	return made;
}

static bool finds(raddr_t pc, uint64_t closure, const struct made *made)
{
	struct v8_code code;
	v8_forget(&heap);
	if (!v8_code_find(&heap, (raddr_t)(uintptr_t)code_memory, pc, closure, &code))
		return false;
	ck_assert_uint_eq(code.lo, made->lo);
	ck_assert_uint_eq(code.hi, made->lo + 100);
	ck_assert_uint_eq(code.code, made->code);
	ck_assert_uint_eq(code.function, made->function);
	return true;
}

static void check_code(enum v8plan version)
{
	setup_as(version);
	struct made first = make_code(64, true), second = make_code(8192, false);
	for (raddr_t pc = 0; pc < 100; pc++) {
		ck_assert(finds(first.lo + pc, 0, &first));
		ck_assert(finds(second.lo + pc, second.closure, &second));
	}
	ck_assert(!finds(first.lo - 1, 0, &first));
	ck_assert(!finds(first.lo + 100, 0, &first));
	ck_assert(!finds(second.lo + 100, second.closure, &second));
	/* Only its own function knows unoptimized code. */
	ck_assert(!finds(second.lo, 0, &second));
	ck_assert(!finds(second.lo, first.closure, &second));
	ck_assert(!finds(second.lo, second.function, &second));
	/* Books that do not agree. */
	set(first.code, plan->code_start, first.lo + 8);
	ck_assert(!finds(first.lo, 0, &first));
}

START_TEST(code_leads_to_its_function)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_code(version);
}
END_TEST

/* The closure may be anything by the time it is looked at: then the function is looked for, near
 * the array. */
static void check_bytecode(enum v8plan version)
{
	setup_as(version);
	struct made made = make_code(64, false), other = make_code(8192, false);
	uint64_t array, found = 0, anything = object_of(TYPE_CLOSURE, 8);
	ck_assert(v8_load(&heap, made.code, plan->code_deoptimization, &array));
	const uint64_t closures[] = {made.closure, other.closure, anything, 0, SMI(7)};
	for (size_t i = 0; i < HT_ARRAY_SIZE(closures); i++)
		ck_assert(v8_bytecode_find(&heap, array, closures[i], &found) == (i == 0));
	set(made.function, plan->function_data, array); /* without baseline code */
	for (size_t i = 0; i < HT_ARRAY_SIZE(closures); i++) {
		ck_assert(v8_bytecode_find(&heap, array, closures[i], &found));
		ck_assert_uint_eq(found, made.function);
	}
	set(made.function, plan->function_data, other.code);
	ck_assert(!v8_bytecode_find(&heap, array, made.closure, &found));
}

START_TEST(bytecode_leads_to_its_function)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_bytecode(version);
}
END_TEST

/* Code that is no function's has an array without entries, behind which may lie anything. */
START_TEST(an_array_that_is_too_short)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++) {
		setup_as(version);
		struct made made = make_code(64, true);
		uint64_t array;
		ck_assert(finds(made.lo, 0, &made));
		ck_assert(v8_load(&heap, made.code, plan->code_deoptimization, &array));
		set(array, plan->array_length, SMI((uint32_t)plan->deoptimization_function));
		ck_assert(!finds(made.lo, 0, &made));
	}
}
END_TEST

/* Whatever lies there, and changes, looking ends and harms nobody. */
static void look_at_any_bytes(enum v8plan version)
{
	setup_as(version);
	struct made made = make_code(64, true);
	uint64_t random = 20;
	struct v8_code code;
	struct v8_function function;
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t *at = random_below(&random, 4) ? &memory[random_below(&random, used)]
							: &code_memory[random_below(&random, 64)];
		uint64_t old = *at;
		*at = random_below(&random, 3)
			      ? (uint64_t)(uintptr_t)&memory[random_below(&random, used)] + 1
			      : random_next(&random) >> random_below(&random, 64);
		v8_forget(&heap);
		if (v8_code_find(&heap, (raddr_t)(uintptr_t)code_memory,
			    made.lo + random_below(&random, 200), made.closure, &code))
			(void)v8_function_read(&heap, code.function, &function);
		(void)v8_function_read(&heap, made.function, &function);
		(void)v8_bytecode_find(&heap,
			(uint64_t)(uintptr_t)&memory[random_below(&random, used)] + 1, made.closure,
			&code.function);
		if (random_below(&random, 8))
			*at = old;
	}
}

START_TEST(any_bytes_are_looked_at_in_vain)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		look_at_any_bytes(version);
}
END_TEST

/* No file is asked for a page, not even where a read that began in memory goes on into one. */
START_TEST(files_are_not_read)
{
	setup();
	const raddr_t lo = (raddr_t)(uintptr_t)memory, middle = lo + HEAP_BYTES / 2;
	struct proc_map map[] = {
		{.lo = lo, .hi = middle}, {.lo = middle, .hi = lo + HEAP_BYTES, .inode = 7}};
	struct proc_maps maps = {.map = map, .count = HT_ARRAY_SIZE(map)};
	uint8_t bytes[64];
	heap.maps = &maps;
	ck_assert(v8_read(&heap, middle - 64, bytes, 64));
	ck_assert(!v8_read(&heap, middle - 63, bytes, 64));
	ck_assert(!v8_read(&heap, middle, bytes, 64));
	ck_assert(!v8_read(&heap, lo + HEAP_BYTES - 1, bytes, 64));
	heap.layout.module_lo = middle;
	heap.layout.module_hi = lo + HEAP_BYTES;
	ck_assert(v8_read(&heap, middle - 63, bytes, 64));
}
END_TEST

/* --- names ---------------------------------------------------------------------------------------
 */

static struct ht_err *count_name(void *context, raddr_t pc, const struct v8_function *function)
{
	unsigned *count = context;
	ck_assert_uint_ne(pc, 0);
	ck_assert_str_eq(function->name, "named");
	++*count;
	return NULL;
}

/* However long one takes: whoever waits for a capture to end waits for one. */
START_TEST(names_are_looked_up_until_a_deadline)
{
	setup();
	struct made made = make_code(64, true);
	const raddr_t lo = (raddr_t)(uintptr_t)code_memory;
	struct proc_map map = {.lo = lo, .hi = lo + CODE_BYTES, .exec = true};
	struct proc_maps maps = {.map = &map, .count = 1};
	unsigned count = 0;
	struct v8_names *names;
	ck_no_err(v8_names_create(
		&(struct v8_names_options){
			.proc = &self, .maps = &maps, .sink = count_name, .context = &count},
		plan, &names));
	for (raddr_t pc = made.lo; pc < made.lo + 50; pc++)
		v8_names_see(names, pc, 0);
	for (unsigned i = 1; i <= 3; i++) {
		ck_no_err(v8_names_look_up(names, 0));
		ck_assert_uint_eq(count, i);
	}
	ck_no_err(v8_names_look_up_rest(names, 0));
	ck_assert_uint_eq(count, 3);
	ck_no_err(v8_names_look_up(names, UINT64_MAX));
	ck_assert_uint_eq(count, 50);
	v8_names_destroy(names);
}
END_TEST

static struct ht_err *note_name(void *context, raddr_t at, const struct v8_function *function)
{
	struct v8_function *names = context;
	names[at == 0x7000] = *function;
	return NULL;
}

/* Once each; what cannot be named is called as the code that ran it, at the end. */
START_TEST(interpreted_functions)
{
	setup();
	struct made made = make_code(64, false);
	struct v8_function noted[2] = {0};
	struct proc_maps maps = {0};
	struct v8_names *names;
	uint64_t array;
	ck_assert(v8_load(&heap, made.code, plan->code_deoptimization, &array));
	ck_no_err(v8_names_create(
		&(struct v8_names_options){
			.proc = &self, .maps = &maps, .sink = note_name, .context = noted},
		plan, &names));
	v8_names_see_interpreted(names, array - 1, made.closure);
	v8_names_see_interpreted(names, 0x7000, made.closure);
	ck_no_err(v8_names_look_up(names, UINT64_MAX));
	ck_assert_str_eq(noted[0].name, "named");
	memset(noted, 0, sizeof(noted));
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_no_err(v8_names_end(names));
	ck_assert_str_eq(noted[0].name, "");
	ck_assert_str_eq(noted[1].name, V8_INTERPRETER);
	v8_names_destroy(names);
}
END_TEST

/* A target that chooses its addresses for it does not make each of them a long search. */
START_TEST(addresses_that_collide_are_given_up)
{
	setup();
	struct proc_map map = {.lo = 0x1000, .hi = 1ull << 47, .exec = true};
	struct proc_maps maps = {.map = &map, .count = 1};
	struct v8_names *names;
	ck_no_err(v8_names_create(&(struct v8_names_options){.proc = &self, .maps = &maps},
		&v8plan[V8PLAN_11_3], &names));
	unsigned seen = 0;
	for (raddr_t pc = 0x1000; seen < 300; pc++) {
		if (pc * 0x9e3779b97f4a7c15ull >> 48 != 0x1234)
			continue;
		v8_names_see(names, pc, 0);
		seen++;
	}
	struct v8_names_counts counts = v8_names_counts(names);
	ck_assert_uint_eq(counts.seen, 256);
	ck_assert_uint_eq(counts.dropped, 300 - 256);
	v8_names_destroy(names);
}
END_TEST

HT_SUITE("attach/v8", strings_of_every_form, strings_that_have_no_end,
	functions_have_name_file_and_line, modules_have_a_scope_of_their_own,
	scopes_of_another_layout, lines_of_a_long_source, code_leads_to_its_function,
	bytecode_leads_to_its_function, interpreted_functions, an_array_that_is_too_short,
	any_bytes_are_looked_at_in_vain, files_are_not_read, names_are_looked_up_until_a_deadline,
	addresses_that_collide_are_given_up)
