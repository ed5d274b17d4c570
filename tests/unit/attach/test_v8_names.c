/* SPDX-License-Identifier: Apache-2.0
 *
 * When V8 functions are looked up by name, and how long the addresses of interpreted functions stay
 * valid.
 */
#include "attach/memory/proc_map.h"
#include "attach/v8/names.h"

#include "tests/unit/attach/v8heap.h"

static struct ht_err *count_name(
	void *context, bool interpreted, uint64_t pc, const struct v8_functions *functions)
{
	unsigned *count = context;
	ck_assert(!interpreted);
	ck_assert_uint_ne(pc, 0);
	ck_assert_uint_eq(functions->count, 1);
	ck_assert_str_eq(functions->function[0].name, "named");
	++*count;
	return NULL;
}

/* The end of a capture waits for one lookup at most, however long that takes. */
HT_TEST(names_are_looked_up_until_a_deadline)
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

struct noted {
	unsigned count;
	uint64_t number;
	struct v8_function function;
};

static struct ht_err *note_name(
	void *context, bool interpreted, uint64_t number, const struct v8_functions *functions)
{
	struct noted *noted = context;
	ck_assert(interpreted);
	*noted = (struct noted){noted->count + 1, number, functions->function[0]};
	return NULL;
}

/* A made-up isolate, and a thread's variables. Offsets: in the isolate's heap, the count of
 * collections and the state of the collector; in the variables, the address of the isolate. */
#define COUNT_PLACE 0x240
#define STATE_PLACE 0x228
#define TLS_BYTES   64u
#define TLS_ISOLATE 16u

static uint64_t isolate[0x2000], variables[TLS_BYTES / 8 + 1];

static raddr_t set_isolate(struct v8_layout *layout, enum v8plan version)
{
	setup_as(version);
	*layout = *plan;
	layout->tls_bytes = TLS_BYTES;
	layout->code = (struct natives_v8){.has_isolate = true, .isolate = TLS_ISOLATE};
	memset(isolate, 0, sizeof(isolate));
	variables[TLS_ISOLATE / 8] = (uint64_t)(uintptr_t)isolate;
	raddr_t chunk = (raddr_t)(uintptr_t)memory, header = chunk;
	used = 16;
	if (layout->chunk_header >= 0) {
		header = allocate(16) - 1;
		set(chunk + 1, layout->chunk_header, header);
	}
	set(header + 1, layout->chunk_heap,
		(uint64_t)(uintptr_t)isolate + (uint64_t)layout->isolate_heap);
	meta = allocate(4);
	set(meta, 0, meta);
	set(meta, 8, SMI((uint32_t)plan->type_map));
	return (raddr_t)(uintptr_t)variables + TLS_BYTES;
}

static uint32_t *heap_word(const struct v8_layout *layout, int32_t place)
{
	return (uint32_t *)((uint8_t *)isolate + layout->isolate_heap + place);
}

static void collect(const struct v8_layout *layout)
{
	++*heap_word(layout, COUNT_PLACE);
}

static struct v8_names *make_names(
	const struct v8_layout *layout, const struct proc_maps *maps, struct noted *noted)
{
	struct v8_names *names;
	ck_no_err(v8_names_create(&(struct v8_names_options){.proc = &self,
					  .maps = maps,
					  .places = {COUNT_PLACE, STATE_PLACE},
					  .sink = note_name,
					  .context = noted},
		layout, &names));
	return names;
}

static void check_generations(enum v8plan version)
{
	struct v8_layout layout;
	const raddr_t thread = set_isolate(&layout, version);
	struct made made = make_code(64, false);
	struct noted noted = {0};
	struct proc_maps maps = {0};
	uint64_t array, number;
	ck_assert(v8_load(&heap, made.code, plan->code_deoptimization, &array));
	struct v8_names *names = make_names(&layout, &maps, &noted);
	ck_assert(!v8_names_find_isolate(names, 0, thread - 8, NULL));
	ck_assert_uint_eq(v8_names_see_interpreted(names, 1, array - 1, made.closure), 0);
	ck_assert(v8_names_find_isolate(names, 0, thread, NULL));
	v8_names_begin(names, 0, 1);
	number = v8_names_see_interpreted(names, 1, array - 1, made.closure);
	ck_assert_uint_eq(number >> V8_NUMBER_BITS, 1);
	ck_assert_uint_eq(v8_names_see_interpreted(names, 1, array - 1, 0), number);
	ck_assert_uint_ne(v8_names_see_interpreted(names, 1, 0x7000, made.closure), number);
	ck_assert_uint_eq(v8_names_see_interpreted(names, 2, array - 1, made.closure), 0);
	ck_no_err(v8_names_look_up(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 0); /* with the closure that was seen last */
	v8_names_see_interpreted(names, 1, array - 1, made.closure);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_HOLD);
	ck_no_err(v8_names_look_up(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);
	ck_assert_uint_eq(noted.number, number);
	ck_assert_str_eq(noted.function.name, "named");
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);

	/* After a collection the array may belong to another function. */
	v8_names_begin(names, 0, 2);
	number = v8_names_see_interpreted(names, 2, array - 1, made.closure);
	ck_assert_uint_eq(number >> V8_NUMBER_BITS, 2);
	collect(&layout);
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_MOVED);
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX)); /* as at a last look */
	ck_assert_uint_eq(noted.count, 1);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_MOVED);
	v8_names_begin(names, 0, 3);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_HOLD);
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);

	/* No generation begins during a collection: objects seen then may still move. */
	v8_names_see_interpreted(names, 3, array - 1, made.closure);
	*heap_word(&layout, STATE_PLACE) = 2;
	ck_assert(v8_names_check(names, 0) == V8_NAMES_HOLD); /* no object has moved yet */
	collect(&layout);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_MOVES);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_MOVES);
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);
	ck_assert(!v8_names_find_isolate(names, 0, thread, NULL));
	*heap_word(&layout, STATE_PLACE) = 0;
	ck_assert(v8_names_find_isolate(names, 0, thread, NULL));
	v8_names_begin(names, 0, 3);
	*heap_word(&layout, STATE_PLACE) = 2;
	collect(&layout);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_MOVES);
	*heap_word(&layout, STATE_PLACE) = 0;
	ck_assert(v8_names_check(names, 0) == V8_NAMES_MOVED);
	v8_names_begin(names, 0, 3);
	ck_assert(v8_names_check(names, 0) == V8_NAMES_HOLD);

	/* Functions that lie in another isolate's heap are lost. */
	v8_names_see_interpreted(names, 3, array - 1, made.closure);
	variables[TLS_ISOLATE / 8] += 64;
	ck_assert(v8_names_check(names, 0) == V8_NAMES_LOST);
	ck_assert(v8_names_find_isolate(names, 0, thread, NULL));
	v8_names_begin(names, 0, 4);
	v8_names_see_interpreted(names, 4, array - 1, made.closure);
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);
	variables[TLS_ISOLATE / 8] = 0;
	ck_assert(v8_names_check(names, 0) == V8_NAMES_LOST);
	ck_assert(!v8_names_find_isolate(names, 0, thread, NULL));
	v8_names_destroy(names);
}

HT_TEST(interpreted_functions_have_names_in_their_generation)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++)
		check_generations(version);
}

/* A new thread with the pointer of one that has ended, its isolate in the same place, and the same
 * number of collections. */
HT_TEST(a_new_thread_with_the_same_pointer_has_its_own_functions)
{
	struct v8_layout layout;
	const raddr_t pointer = set_isolate(&layout, 0);
	struct made made = make_code(64, false);
	struct noted noted = {0};
	struct proc_maps maps = {0};
	struct same_thread same;
	static uint32_t word;
	const uint32_t tid = word = (uint32_t)gettid();
	const raddr_t word_at = (raddr_t)(uintptr_t)&word;
	uint64_t array;
	ck_assert(v8_load(&heap, made.code, plan->code_deoptimization, &array));
	struct v8_names *names = make_names(&layout, &maps, &noted);
	ck_assert(same_thread_open(&same, &self, &maps, tid, word_at));
	ck_assert(v8_names_find_isolate(names, 3, pointer, &same));
	v8_names_begin(names, 3, 7);
	ck_assert_uint_ne(v8_names_see_interpreted(names, 7, array - 1, made.closure), 0);
	word = tid + 1;
	ck_no_err(v8_names_look_up(names, UINT64_MAX));
	ck_no_err(v8_names_look_up_rest(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 0);
	ck_assert(v8_names_check(names, 3) == V8_NAMES_LOST);
	ck_assert(!v8_names_find_isolate(names, 3, pointer, &same));
	ck_assert_uint_eq(v8_names_see_interpreted(names, 7, array - 1, made.closure), 0);

	/* The functions of two threads are looked up independently. */
	word = tid;
	ck_assert(v8_names_find_isolate(names, 3, pointer, &same));
	v8_names_begin(names, 3, 8);
	ck_assert(v8_names_find_isolate(names, 0, pointer, NULL));
	v8_names_begin(names, 0, 9);
	for (uint64_t generation = 8; generation <= 9; generation++)
		ck_assert_uint_eq(
			v8_names_see_interpreted(names, generation, array - 1, made.closure) >>
				V8_NUMBER_BITS,
			generation);
	v8_names_drop(names, 3);
	ck_no_err(v8_names_look_up(names, UINT64_MAX));
	ck_assert_uint_eq(noted.count, 1);
	ck_assert_uint_eq(noted.number >> V8_NUMBER_BITS, 9);
	ck_assert_uint_eq(v8_names_see_interpreted(names, 8, array - 1, made.closure), 0);
	v8_names_destroy(names);
	same_thread_close(&same);
}

/* The collector's code adds one to the count in a single place, behind the store that says that the
 * collector is at work. */
HT_TEST(the_count_is_found_in_the_collector)
{
#define AT_WORK 0xc7, 0x87, 0x28, 2, 0, 0, 2, 0, 0, 0
#define SETTER	0x89, 0xb7, 0x28, 2, 0, 0, 0xc3
	static const struct {
		uint8_t code[32], setter[8];
		int32_t count;
	} codes[] = {
		{{AT_WORK, 0x83, 0x83, 0x38, 2, 0, 0, 1, 0xc3}, {SETTER}, 0x238},
		{{AT_WORK, 0x41, 0x83, 0x84, 0x24, 0xb0, 1, 0, 0, 1, 0xc3}, {SETTER}, 0x1b0},
		{{0x41, 0xc7, 0x84, 0x24, 0x28, 2, 0, 0, 2, 0, 0, 0, 0x83, 0x83, 0x38, 2, 0, 0, 1},
			{SETTER}, 0x238},
		{{AT_WORK, 0x49, 0x83, 0x84, 0x24, 0x20, 2, 0, 0, 1, 0xc3}, {SETTER},
			-1},						       /* 8 bytes */
		{{AT_WORK, 0x83, 0x83, 0x38, 2, 0, 0, 2, 0xc3}, {SETTER}, -1}, /* adds 2 */
		{{AT_WORK, 0x83, 0xab, 0x38, 2, 0, 0, 1, 0xc3}, {SETTER}, -1}, /* subtracts */
		{{AT_WORK, 0x83, 0x83, 0x38, 2, 0, 0, 1, 0x83, 0x83, 0x3c, 2, 0, 0, 1}, {SETTER},
			-1},
		{{AT_WORK, 0xc3}, {SETTER}, -1},
		/* The store of the state comes later, stores another value, goes elsewhere, has 8
		 * bytes, is missing. */
		{{0x83, 0x83, 0x38, 2, 0, 0, 1, AT_WORK}, {SETTER}, -1},
		{{0xc7, 0x87, 0x28, 2, 0, 0, 1, 0, 0, 0, 0x83, 0x83, 0x38, 2, 0, 0, 1}, {SETTER},
			-1},
		{{0xc7, 0x87, 0x2c, 2, 0, 0, 2, 0, 0, 0, 0x83, 0x83, 0x38, 2, 0, 0, 1}, {SETTER},
			-1},
		{{0x48, AT_WORK, 0x83, 0x83, 0x38, 2, 0, 0, 1}, {SETTER}, -1},
		{{0x83, 0x83, 0x38, 2, 0, 0, 1, 0xc3}, {SETTER}, -1},
		/* The function that sets the state does something else. */
		{{AT_WORK, 0x83, 0x83, 0x38, 2, 0, 0, 1}, {0x89, 0xb7, 0x28, 2, 0, 0, 0x90}, -1},
		{{AT_WORK, 0x83, 0x83, 0x38, 2, 0, 0, 1}, {0x89, 0xbe, 0x28, 2, 0, 0, 0xc3}, -1},
	};
	setup();
	for (size_t i = 0; i < HT_ARRAY_SIZE(codes); i++) {
		struct natives_v8 code = {.collector = (raddr_t)(uintptr_t)codes[i].code,
			.collector_bytes = sizeof(codes[i].code),
			.setter = (raddr_t)(uintptr_t)codes[i].setter,
			.setter_bytes = 7};
		struct v8_places places;
		bool found;
		ck_no_err(v8_collections_places(&self, &code, &places, &found));
		ck_assert_msg(found == (codes[i].count >= 0), "code %zu", i);
		if (found) {
			ck_assert_int_eq(places.count, codes[i].count);
			ck_assert_int_eq(places.state, 0x228);
		}
		code.setter_bytes = 8;
		ck_no_err(v8_collections_places(&self, &code, &places, &found));
		ck_assert(!found);
		code.setter_bytes = 7;
		code.collector_bytes = 0;
		ck_no_err(v8_collections_places(&self, &code, &places, &found));
		ck_assert(!found);
	}
}

/* A target may choose addresses that collide: each of them must not cost a long search. */
HT_TEST(addresses_that_collide_are_given_up)
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

HT_SUITE("attach/v8/names")
