/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up heap in this process, laid out as V8's, is read.
 */
#include "attach/v8/code.h"
#include "attach/v8/function.h"

#include <stdlib.h>
#include <string.h>

#include "attach/memory/proc_map.h"
#include "tests/support/ht_check.h"
#include "tests/support/random.h"
#include "tests/unit/attach/v8heap.h"

/* --- strings --- */

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

HT_TEST(strings_of_every_form)
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

/* heaptap reads at most 512 characters of a part; the text after a longer part is left out. */
HT_TEST(a_string_ends_with_a_part_that_is_cut)
{
	char name[600], text[700];
	setup();
	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	ck_assert(v8_text(&heap, cons(one_byte(name), one_byte(".js"), 602), text, sizeof(text)));
	ck_assert_uint_eq(strlen(text), 512);
	ck_assert_ptr_null(strchr(text, '.'));
}

HT_TEST(strings_that_have_no_end)
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

/* --- functions --- */

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

HT_TEST(functions_have_name_file_and_line)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_functions(version);
}

HT_TEST(modules_have_a_scope_of_their_own)
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

/* A scope is refused if another object stands in the place of its name or of its flags. */
HT_TEST(scopes_of_another_layout)
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

/* The source is read in parts of 32 KiB. The first part ends between CR and LF. */
HT_TEST(lines_of_a_long_source)
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

/* --- code --- */

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
	/* Unoptimized code is found only by the closure of its own function. */
	ck_assert(!finds(second.lo, 0, &second));
	ck_assert(!finds(second.lo, first.closure, &second));
	ck_assert(!finds(second.lo, second.function, &second));
	/* The code's start contradicts its range. */
	set(first.code, plan->code_start, first.lo + 8);
	ck_assert(!finds(first.lo, 0, &first));
}

HT_TEST(code_leads_to_its_function)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_code(version);
}

/* The closure may be anything by the time it is looked at. */
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
	for (size_t i = 0; i < HT_ARRAY_SIZE(closures); i++)
		ck_assert(v8_bytecode_find(&heap, array, closures[i], &found) == (i == 0));
	ck_assert(v8_bytecode_find(&heap, array, made.closure, &found));
	ck_assert_uint_eq(found, made.function);
	set(made.function, plan->function_data, other.code);
	ck_assert(!v8_bytecode_find(&heap, array, made.closure, &found));
}

HT_TEST(bytecode_leads_to_its_function)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_bytecode(version);
}

/* Code that belongs to no function has an empty array; any bytes may lie behind it. */
HT_TEST(an_array_that_is_too_short)
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

/* Lookups in arbitrary, changing bytes end, and do no harm. */
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

HT_TEST(arbitrary_bytes_do_no_harm)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		look_at_any_bytes(version);
}

/* A read never touches a file mapping, not even one that begins in anonymous memory. */
HT_TEST(files_are_not_read)
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

HT_SUITE("attach/v8")
