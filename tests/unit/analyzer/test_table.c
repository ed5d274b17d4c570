/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols of a trace by place; and the interned strings and the map under them.
 */
#include "analyzer/symbols/table.h"

#include <stdio.h>
#include <string.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"

static struct symbols symbols;
static struct strings strings;

static void add(uint32_t module, uint64_t offset, const char *function)
{
	const struct rec_frame frame[] = {
		{.function = {function, strlen(function)}, .line = 3},
		{.function = {"outer", 5}},
	};
	struct place place = {module, offset, false};
	ck_no_err(symbols_add(&symbols, &strings, place, frame, 2));
}

static void end(void)
{
	symbols_deinit(&symbols);
	strings_deinit(&strings);
}

HT_TEST(places_are_distinguished)
{
	uint32_t count;
	add(0, 0x10, "a");
	add(1, 0x10, "b");
	add(MODULES_NONE, 0x10, "c");
	add(0, 0x10, "again");
	ck_assert_str_eq(
		symbols_find(&symbols, (struct place){0, 0x10, false}, &count)->function, "a");
	ck_assert_uint_eq(count, 2);
	ck_assert_str_eq(symbols_find(&symbols, (struct place){1, 0x10, false}, &count)[1].function,
		"outer");
	ck_assert_str_eq(
		symbols_find(&symbols, (struct place){MODULES_NONE, 0x10, false}, &count)->function,
		"c");
	ck_assert_ptr_null(symbols_find(&symbols, (struct place){0, 0x11, false}, &count));
	ck_assert_uint_eq(count, 0);
	end();
}

/* The number of an interpreted function is not shown as an address. A function without a name gets
 * the name of the interpreter. */
HT_TEST(interpreted_functions_have_numbers)
{
	const struct node node = {
		.pc = 0x100000002, .flags = ABI_NODE_EXACT | ABI_NODE_INTERPRETED};
	struct modules modules = {0};
	struct place place;
	uint32_t count;
	ck_no_err(place_of_node(&modules, &node, &place));
	ck_assert(place.interpreted);
	ck_assert_uint_eq(place.module, MODULES_NONE);
	ck_assert_uint_eq(place.offset, 0x100000002);
	add(MODULES_NONE, 0x100000002, "at an address");
	ck_assert_str_eq(symbols_find(&symbols, place, &count)->function,
		"Builtins_InterpreterEntryTrampoline");
	ck_assert_uint_eq(count, 1);
	struct rec_symbol rec = {.module_id = TRACE_MODULE_SCRIPTS,
		.offset = 0x100000002,
		.frame_count = 1,
		.frame = {{.function = {"named", 5}, .line = 7}}};
	ck_no_err(symbols_take(&symbols, &strings, &modules, &rec));
	ck_assert_str_eq(symbols_find(&symbols, place, &count)->function, "named");
	place.interpreted = false;
	ck_assert_str_eq(symbols_find(&symbols, place, &count)->function, "at an address");
	end();
}

HT_TEST(empty_and_impossible_symbols_are_left_out)
{
	uint32_t count;
	ck_no_err(symbols_add(&symbols, &strings, (struct place){0, 1, false}, NULL, 0));
	add(0, UINT64_MAX, "nowhere");
	ck_assert_uint_eq(symbols.count, 0);
	add(0, 5, "");
	ck_assert_ptr_null(symbols_find(&symbols, (struct place){0, 5, false}, &count)->function);
	end();
}

HT_TEST(symbols_of_unknown_modules_are_left_out)
{
	struct modules modules = {0};
	const struct rec_symbol rec = {.module_id = 9, .offset = 1, .frame_count = 1};
	ck_no_err(symbols_take(&symbols, &strings, &modules, &rec));
	ck_assert_uint_eq(symbols.count, 0);
	end();
}

HT_TEST(many_symbols_are_found_again)
{
	for (uint32_t i = 0; i < 20000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i % 500);
		add(i % 7, i, name);
	}
	for (uint32_t i = 0; i < 20000; i++) {
		char name[16];
		uint32_t count;
		snprintf(name, sizeof(name), "f%u", i % 500);
		ck_assert_str_eq(
			symbols_find(&symbols, (struct place){i % 7, i, false}, &count)->function,
			name);
	}
	ck_assert_uint_eq(strings.count, 501);
	end();
}

HT_TEST(equal_strings_are_one)
{
	const char *a, *b, *empty, *cut;
	ck_no_err(strings_intern(&strings, (struct rec_string){"abcd", 3}, &a));
	ck_no_err(strings_intern(&strings, (struct rec_string){"abc", 3}, &b));
	ck_no_err(strings_intern(&strings, (struct rec_string){NULL, 0}, &empty));
	ck_no_err(strings_intern(&strings, (struct rec_string){"abc\0d", 5}, &cut));
	ck_assert_ptr_eq(a, b);
	ck_assert_ptr_eq(a, cut);
	ck_assert_str_eq(a, "abc");
	ck_assert_str_eq(empty, "");
	end();
}

HT_SUITE("analyzer/table")
