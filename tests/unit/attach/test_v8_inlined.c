/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions inlined at a call are found through the deoptimization data of optimized code.
 */
#include "attach/v8/inlined.h"

#include "tests/unit/attach/v8heap.h"

/* How each version begins a translation, and a frame of a function. */
static const struct {
	uint8_t begin, function, operands;
} opcodes[V8PLAN_COUNT] = {{2, 24, 3}, {12, 1, 3}, {14, 1, 4}};

#define ENTRIES	   3
#define LITERALS   4
#define CALL	   40 /* where the call of the second entry returns to */
#define TRAMPOLINE 90

struct scene {
	struct made made;
	struct v8_code code;
	uint64_t data, literals, other[2];
	uint8_t *bytes;
};

static uint64_t array_of(int32_t type, uint32_t length, size_t words)
{
	const uint64_t array = object_of(type, 2 + words);
	set(array, plan->array_length, SMI(length));
	return array;
}

static void set_element(uint64_t array, int32_t index, uint64_t word)
{
	set(array, plan->array_elements + 8 * index, word);
}

static uint8_t *put_translation(
	uint8_t *at, enum v8plan version, const uint8_t *literal, size_t count)
{
	*at++ = opcodes[version].begin;
	*at++ = 0;
	*at++ = (uint8_t)(2 * count);
	*at++ = (uint8_t)(2 * count);
	for (size_t i = 0; i < count; i++) {
		*at++ = opcodes[version].function;
		for (uint8_t k = 0; k < opcodes[version].operands; k++)
			*at++ = k == 1 ? (uint8_t)(2 * literal[i]) : 8;
	}
	return at;
}

/* Makes optimized code with a call in other[1], which is inlined into other[0], which is inlined
 * into the code's function. */
static void make_scene(enum v8plan version, struct scene *scene)
{
	setup_as(version);
	*scene = (struct scene){.made = make_code(64, true)};
	const uint32_t words = (uint32_t)plan->deoptimization_entries + 3 * ENTRIES;
	const uint64_t bytes = array_of(plan->type_bytes, 64, 8);
	uint64_t old;
	ck_assert(v8_load(&heap, scene->made.code, plan->code_deoptimization, &old));
	scene->data = array_of(plan->type_deoptimization, words, words);
	ck_assert(v8_load(
		&heap, old, plan->array_elements + 8 * plan->deoptimization_function, &old));
	set_element(scene->data, plan->deoptimization_function, old);
	set(scene->made.code, plan->code_deoptimization, scene->data);
	scene->literals = array_of(plan->type_literals, LITERALS, LITERALS);
	for (int i = 0; i < 2; i++)
		scene->other[i] = function_of(one_byte(i ? "inner" : "outer"), SMI(0));
	set_element(scene->literals, 0, scene->other[0] | 2); /* weak */
	set_element(scene->literals, 1, SMI(77));
	set_element(scene->literals, 2, scene->other[1]);
	set_element(scene->literals, 3, scene->made.function | 2);
	set_element(scene->data, 0, bytes);
	set_element(scene->data, plan->deoptimization_literals, scene->literals);
	scene->bytes = (uint8_t *)(uintptr_t)(bytes - 1) + plan->array_elements;
	uint8_t *second = put_translation(scene->bytes, version, (const uint8_t[]){3}, 1);
	const uint8_t *end = put_translation(second, version, (const uint8_t[]){3, 0, 2}, 3);
	set(bytes, plan->array_length, SMI(end - scene->bytes));
	for (int i = 0; i < ENTRIES; i++) {
		const int32_t at = plan->deoptimization_entries + 3 * i;
		set_element(scene->data, at, SMI(5));
		set_element(scene->data, at + 1, i == 1 ? SMI(second - scene->bytes) : 0);
		set_element(scene->data, at + 2, i == 1 ? SMI(CALL) : SMI(UINT32_MAX));
	}
	ck_assert(v8_code_find(&heap, (raddr_t)(uintptr_t)code_memory, scene->made.lo + CALL - 1, 0,
		&scene->code));
}

static unsigned find(const struct scene *scene, struct v8_inlined *ret)
{
	v8_inlined_find(&heap, &scene->code, scene->made.lo + CALL - 1, ret);
	return ret->count;
}

static void check_both(const struct scene *scene)
{
	struct v8_inlined found;
	ck_assert_uint_eq(find(scene, &found), 2);
	ck_assert_uint_eq(found.function[0], scene->other[1]);
	ck_assert_uint_eq(found.function[1], scene->other[0]);
}

HT_TEST(a_call_names_what_is_inlined_there)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++) {
		struct scene scene;
		struct v8_inlined found;
		make_scene(version, &scene);
		check_both(&scene);
		v8_inlined_find(&heap, &scene.code, scene.made.lo + CALL, &found);
		ck_assert_uint_eq(found.count, 0);
	}
}

/* Maglev's code: an entry holds the trampoline to which the call returns after a deoptimization,
 * and a table behind the code leads from the call's return address to that trampoline. */
HT_TEST(a_table_behind_the_code_leads_to_the_entry)
{
	static const uint8_t rows[] = {20, 1, TRAMPOLINE - 5, 0, CALL, 2, TRAMPOLINE + 1, 0};
	struct scene scene;
	struct v8_inlined found;
	make_scene(V8PLAN_13_6, &scene);
	set_element(scene.data, plan->deoptimization_entries + 5, SMI(TRAMPOLINE));
	ck_assert_uint_eq(find(&scene, &found), 0);
	uint8_t *table = (uint8_t *)(uintptr_t)scene.code.hi;
	const uint32_t header[] = {3, 2, 1 | 1 << 4 | 1 << 7, 0};
	memcpy(table, header, sizeof(header));
	memcpy(table + sizeof(header), rows, sizeof(rows));
	check_both(&scene);
	set_element(scene.data, plan->deoptimization_entries + 5, SMI(TRAMPOLINE + 1));
	ck_assert_uint_eq(find(&scene, &found), 0);
}

/* Contradictory deoptimization data yields no inlined functions. */
HT_TEST(contradictions_name_nothing)
{
	struct scene scene;
	struct v8_inlined found;
	make_scene(V8PLAN_11_3, &scene);
	set_element(scene.literals, 3, scene.other[1]); /* the outermost is another function */
	ck_assert_uint_eq(find(&scene, &found), 0);
	make_scene(V8PLAN_11_3, &scene);
	set_element(scene.literals, 2, SMI(1));
	ck_assert_uint_eq(find(&scene, &found), 0);
	make_scene(V8PLAN_11_3, &scene);
	set(scene.literals, plan->array_length, SMI(2));
	ck_assert_uint_eq(find(&scene, &found), 0);
	make_scene(V8PLAN_11_3, &scene);
	scene.bytes[0] = 0;
	ck_assert_uint_eq(find(&scene, &found), 2); /* the first translation is not read */
	set_element(scene.data, plan->deoptimization_entries + 4, 0);
	ck_assert_uint_eq(find(&scene, &found), 0);
	make_scene(V8PLAN_11_3, &scene);
	scene.code.deoptimization = 0;
	ck_assert_uint_eq(find(&scene, &found), 0);
}

HT_SUITE("attach/v8/inlined")
