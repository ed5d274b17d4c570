/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up heap in this process, laid out as V8's. Included once by a test program.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "attach/v8/heap.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/v8plan.h"

#define HEAP_BYTES (256u << 10)
#define CODE_BYTES (16u << 10)
#define SMI(value) ((uint64_t)(value) << 32)

/* Instance types that are the same in every version; the plan has the others. */
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

HT_UNUSED
static uint64_t allocate(size_t words)
{
	uint64_t object = (uint64_t)(uintptr_t)&memory[used] + 1;
	ck_assert_uint_le((used += words) * 8, HEAP_BYTES);
	return object;
}

HT_UNUSED
static void set(uint64_t object, int32_t offset, uint64_t word)
{
	memcpy((uint8_t *)(uintptr_t)(object - 1) + offset, &word, sizeof(word));
}

HT_UNUSED
static uint64_t map_of(int32_t type)
{
	uint64_t map = allocate(4);
	set(map, 0, meta);
	set(map, 8, SMI((uint32_t)type));
	return map;
}

HT_UNUSED
static uint64_t object_of(int32_t type, size_t words)
{
	uint64_t map = map_of(type), object = allocate(words);
	set(object, 0, map);
	return object;
}

HT_UNUSED
static void setup_as(enum v8plan version)
{
	plan = &v8plan[version];
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	/* Aligned as V8's pages are. */
	uint8_t *twice = mmap(
		NULL, 2 * HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory = (uint64_t *)ht_align_up((uintptr_t)twice, HEAP_BYTES);
	code_memory =
		mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(twice != MAP_FAILED && code_memory != MAP_FAILED);
	used = 0;
	meta = allocate(4);
	set(meta, 0, meta);
	set(meta, 8, SMI((uint32_t)plan->type_map));
	heap = (struct v8_heap){.proc = &self, .layout = *plan};
}

HT_UNUSED
static void setup(void)
{
	setup_as(V8PLAN_11_3);
}

HT_UNUSED
static uint64_t string_of(int32_t type, uint32_t length)
{
	uint64_t string = object_of(type, 4 + length / 4);
	set(string, 8, SMI(length));
	return string;
}

HT_UNUSED
static uint64_t one_byte(const char *text)
{
	uint64_t string = string_of(TYPE_ONE_BYTE, (uint32_t)strlen(text));
	memcpy((char *)(uintptr_t)(string - 1) + 16, text, strlen(text));
	return string;
}

HT_UNUSED
static uint64_t script_of(const char *source)
{
	uint64_t script = object_of(plan->type_script, 16);
	set(script, plan->script_source, one_byte(source));
	set(script, plan->script_name, one_byte("/a/b.js"));
	return script;
}

HT_UNUSED
static uint64_t function_of(uint64_t name, uint64_t script)
{
	uint64_t function = object_of(plan->type_function, 8);
	set(function, plan->function_name, name);
	set(function, plan->function_script, script);
	return function;
}

#define HAS_NAME     (1u << 12)
#define HAS_INFERRED (1u << 14)

HT_UNUSED
static void set_position(uint64_t scope, int32_t at, uint32_t start)
{
	set(scope, at, SMI(start));
	set(scope, at + 8, SMI(start + 10));
}

HT_UNUSED
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

struct made {
	uint64_t code, function, closure;
	raddr_t lo;
};

/* Makes the deoptimization data of optimized code, which names the function of the code. */
HT_UNUSED
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

/* Makes code of 100 bytes `at` bytes into code_memory, with its function and closure. */
HT_UNUSED
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
