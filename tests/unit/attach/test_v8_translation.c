/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a translation are read in each version's form, and no bytes do harm.
 */
#include "attach/v8/translation.h"

#include <stdlib.h>

#include "tests/support/ht_check.h"
#include "tests/support/random.h"

/* The opcodes that the tests write. */
static const struct opcodes {
	uint8_t begin, function, function_operands, literal, nothing, count;
} opcodes[V8_TRANSLATION_FORMS] = {
	[V8_TRANSLATION_11_3] = {2, 24, 3, 29, 28, 36},
	[V8_TRANSLATION_12_4] = {12, 1, 3, 33, 32, 40},
	[V8_TRANSLATION_13_6] = {14, 1, 4, 38, 37, 45},
};

static uint8_t bytes[256];
static size_t length;
static const struct opcodes *op;

static void put_number(uint32_t number)
{
	for (; number > 0x7f; number >>= 7)
		bytes[length++] = (uint8_t)(number | 0x80);
	bytes[length++] = (uint8_t)number;
}

/* Returns where the translation begins. */
static size_t put_begin(uint32_t back)
{
	const size_t at = length;
	bytes[length++] = op->begin;
	put_number(back);
	put_number(4);
	put_number(4);
	return at;
}

/* A frame with a constant and an unknown value. */
static void put_function(uint32_t literal)
{
	bytes[length++] = op->function;
	put_number(1000);
	put_number(literal << 1);
	for (unsigned i = 2; i < op->function_operands; i++)
		put_number(300);
	bytes[length++] = op->literal;
	put_number(200);
	bytes[length++] = op->nothing;
}

static void check_functions(
	enum v8_translation_form form, size_t at, unsigned count, const uint32_t *literal)
{
	struct v8_translation found;
	ck_assert(v8_translation_read(bytes, length, at, form, &found));
	ck_assert_uint_eq(found.count, count);
	for (unsigned i = 0; i < count; i++)
		ck_assert_uint_eq(found.literal[i], literal[i]);
}

static void start(enum v8_translation_form form)
{
	op = &opcodes[form];
	length = 0;
}

HT_TEST(functions_come_in_order_outermost_first)
{
	for (enum v8_translation_form form = V8_TRANSLATION_11_3; form < V8_TRANSLATION_FORMS;
		form++) {
		start(form);
		put_begin(0);
		put_function(3);
		const size_t at = put_begin(0);
		put_function(70);
		put_function(1000);
		put_function(0);
		check_functions(form, 0, 1, (const uint32_t[]){3});
		check_functions(form, at, 3, (const uint32_t[]){70, 1000, 0});
	}
}

/* A byte above the last opcode tells how many opcodes of an earlier translation are repeated; after
 * the last opcode that number follows. Each opcode between skips one of the earlier translation. */
HT_TEST(opcodes_of_an_earlier_translation_are_repeated)
{
	for (enum v8_translation_form form = V8_TRANSLATION_11_3; form < V8_TRANSLATION_FORMS;
		form++) {
		start(form);
		const size_t first = put_begin(0);
		put_function(5);
		put_function(6);
		put_function(7);
		const size_t few = put_begin((uint32_t)(length - first));
		bytes[length++] = (uint8_t)(op->count + 3); /* repeats the frame of 5 */
		put_function(60);
		bytes[length++] = (uint8_t)(op->count + 3); /* repeats the frame of 7 */
		const size_t many = put_begin((uint32_t)(length - first));
		bytes[length++] = (uint8_t)(op->count - 1);
		put_number(9);
		put_function(8);
		check_functions(form, few, 3, (const uint32_t[]){5, 60, 7});
		check_functions(form, many, 4, (const uint32_t[]){5, 6, 7, 8});
	}
}

HT_TEST(malformed_translations_are_refused)
{
	struct v8_translation found;
	for (enum v8_translation_form form = V8_TRANSLATION_11_3; form < V8_TRANSLATION_FORMS;
		form++) {
		start(form);
		put_begin(0);
		put_function(5);
		ck_assert(!v8_translation_read(bytes, length, 1, form, &found));
		ck_assert(!v8_translation_read(bytes, length, length, form, &found));
		ck_assert(!v8_translation_read(bytes, length, 0, V8_TRANSLATION_NONE, &found));
		bytes[length++] = (uint8_t)(op->count + 1); /* there is nothing to repeat */
		ck_assert(!v8_translation_read(bytes, length, 0, form, &found));
		start(form);
		put_begin(0);
		put_begin(100); /* before the first byte */
		put_function(5);
		ck_assert(!v8_translation_read(bytes, length, 4, form, &found));
		start(form);
		put_begin(0);
		for (unsigned i = 0; i < V8_INLINED_MAX; i++)
			put_function(1);
		ck_assert(v8_translation_read(bytes, length, 0, form, &found));
		put_function(1);
		ck_assert(!v8_translation_read(bytes, length, 0, form, &found));
	}
}

/* A translation that is cut within an opcode yields no functions. Random bytes are never read past
 * their end, which is the end of an allocation. */
HT_TEST(bytes_of_a_hostile_target_do_no_harm)
{
	uint64_t random = 7;
	struct v8_translation found;
	unsigned read = 0;
	for (unsigned round = 0; round < 60000; round++) {
		const enum v8_translation_form form = (enum v8_translation_form)(1 + round % 3);
		const size_t noise = 1 + random_next(&random) % 64;
		uint8_t *copy = malloc(noise);
		for (size_t i = 0; i < noise; i++)
			copy[i] = (uint8_t)(random_next(&random) % 3 ? random_next(&random) % 48
								     : random_next(&random));
		copy[0] = opcodes[form].begin;
		read += v8_translation_read(copy, noise, 0, form, &found);
		ck_assert_uint_le(found.count, V8_INLINED_MAX);
		free(copy);
	}
	ck_assert_uint_gt(read, 0);
}

HT_SUITE("attach/v8/translation")
