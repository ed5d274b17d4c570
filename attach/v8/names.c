/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/names.h"

#include <stdlib.h>
#include <string.h>

#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/v8/code.h"
#include "attach/v8/inlined.h"

#define PLACES_BITS 16u
#define PLACES	    (1u << PLACES_BITS)
#define PLACES_MAX  (PLACES / 4 * 3)
#define PROBES_MAX  256u /* the target may choose addresses that collide */

struct place {
	raddr_t pc; /* or the address of a BytecodeArray; 0: free */
	uint64_t closure;
	bool waits, is_named;
};

struct table {
	struct place place[PLACES]; /* open addressing */
	uint32_t used;
	/* Indices of waiting places, each once. */
	uint32_t queue[PLACES];
	uint32_t queue_first, queue_count;
};

/* One thread: the functions seen in it, and V8's count of collections. */
struct interpreted {
	struct table table;
	struct v8_collections collections;
	uint32_t collected;  /* the count in this generation */
	uint32_t next;	     /* the count for the next generation */
	uint64_t generation; /* 0: none */
};

struct v8_names {
	struct v8_names_options options;
	struct v8_heap heap;
	struct v8_names_counts counts;
	struct table compiled;
	struct interpreted *interpreted[V8_NAMES_THREADS]; /* NULL: not followed */
	unsigned turn;
	const struct interpreted *last; /* whose heap was used last */
	struct v8_functions found;	/* by the last lookup */
	struct v8_page page[V8_PAGES_KEPT];
};

struct ht_err *v8_names_create(const struct v8_names_options *options,
	const struct v8_layout *layout, struct v8_names **ret)
{
	struct v8_names *names = calloc(1, sizeof(*names));
	if (!names)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the names of JavaScript functions");
	names->options = *options;
	names->heap = (struct v8_heap){.proc = options->proc,
		.maps = options->maps,
		.page = names->page,
		.layout = *layout};
	*ret = names;
	return NULL;
}

void v8_names_destroy(struct v8_names *names)
{
	for (unsigned i = 0; names && i < V8_NAMES_THREADS; i++)
		free(names->interpreted[i]);
	free(names);
}

struct v8_names_counts v8_names_counts(const struct v8_names *names)
{
	return names->counts;
}

/* Finds or makes the place of `pc`; NULL: no room. */
static struct place *find_place(struct v8_names *names, struct table *table, raddr_t pc)
{
	size_t i = (size_t)(pc * 0x9e3779b97f4a7c15ull >> (64 - PLACES_BITS));
	unsigned probes = 0;
	while (table->place[i].pc && table->place[i].pc != pc && ++probes < PROBES_MAX)
		i = (i + 1) % PLACES;
	struct place *place = &table->place[i];
	if (place->pc == pc)
		return place;
	if (place->pc || table->used == PLACES_MAX) {
		names->counts.dropped++;
		return NULL;
	}
	names->counts.seen++;
	table->used++;
	place->pc = pc;
	return place;
}

/* Returns the executable mapping without a file that contains `pc`; NULL: none. */
static const struct proc_map *find_map(const struct v8_names *names, raddr_t pc)
{
	const struct proc_map *map = proc_maps_find(names->options.maps, pc);
	return map && map->exec && map->inode == 0 ? map : NULL;
}

static void record(struct table *table, struct place *place, uint64_t closure)
{
	if (place->is_named)
		return;
	place->closure = closure;
	if (place->waits)
		return;
	place->waits = true;
	table->queue[(table->queue_first + table->queue_count++) % PLACES] =
		(uint32_t)(place - table->place);
}

void v8_names_see(struct v8_names *names, raddr_t pc, uint64_t closure)
{
	struct place *place = find_map(names, pc) ? find_place(names, &names->compiled, pc) : NULL;
	if (place)
		record(&names->compiled, place, closure);
}

/* --- interpreted functions -----------------------------------------------------------------------
 */

static uint64_t number_of(const struct interpreted *interpreted, const struct place *place)
{
	return interpreted->generation << V8_NUMBER_BITS |
	       (uint64_t)(place - interpreted->table.place + 1);
}

uint64_t v8_names_see_interpreted(
	struct v8_names *names, uint64_t generation, raddr_t array, uint64_t closure)
{
	struct interpreted *interpreted = NULL;
	for (unsigned i = 0; i < V8_NAMES_THREADS && !interpreted; i++)
		if (names->interpreted[i] && names->interpreted[i]->generation == generation)
			interpreted = names->interpreted[i];
	if (!generation || !interpreted || !array)
		return 0;
	struct place *place = find_place(names, &interpreted->table, array);
	if (!place)
		return 0;
	record(&interpreted->table, place, closure);
	return number_of(interpreted, place);
}

void v8_names_drop(struct v8_names *names, unsigned thread)
{
	free(names->interpreted[thread]);
	names->interpreted[thread] = NULL;
}

bool v8_names_find_isolate(struct v8_names *names, unsigned thread, raddr_t thread_pointer,
	const struct same_thread *same)
{
	struct v8_collections of;
	uint32_t count;
	v8_names_drop(names, thread);
	if (!v8_collections_find(&names->heap, thread_pointer, same, &names->options.places, &of) ||
		!v8_collections_count(&names->heap, &of, &count) ||
		!v8_collections_are_over(&names->heap, &of))
		return false;
	struct interpreted *interpreted = calloc(1, sizeof(*interpreted));
	if (!interpreted)
		return false;
	interpreted->collections = of;
	interpreted->next = count;
	names->interpreted[thread] = interpreted;
	return true;
}

raddr_t v8_names_isolate(const struct v8_names *names, raddr_t thread_pointer)
{
	struct v8_collections of;
	bool found = v8_collections_find(
		&names->heap, thread_pointer, NULL, &names->options.places, &of);
	return found ? of.isolate : 0;
}

enum v8_names_check v8_names_check(struct v8_names *names, unsigned thread)
{
	struct interpreted *interpreted = names->interpreted[thread];
	uint32_t count;
	if (!interpreted || !v8_collections_count(&names->heap, &interpreted->collections, &count))
		return V8_NAMES_LOST;
	if (count == interpreted->collected)
		return V8_NAMES_HOLD;
	if (!v8_collections_are_over(&names->heap, &interpreted->collections))
		return V8_NAMES_MOVES;
	interpreted->next = count;
	return V8_NAMES_MOVED;
}

void v8_names_begin(struct v8_names *names, unsigned thread, uint64_t generation)
{
	struct interpreted *interpreted = names->interpreted[thread];
	if (!interpreted)
		return;
	if (interpreted->table.used)
		memset(&interpreted->table, 0, sizeof(interpreted->table));
	interpreted->generation = generation;
	interpreted->collected = interpreted->next;
}

/* --- looking up ----------------------------------------------------------------------------------
 */

/* The reads describe the time when the frame existed: V8 has not collected since, and an array in
 * use stays until the next collection, or until its heap is freed, which takes the chunk with
 * it. */
static bool find_interpreted(
	struct v8_names *names, const struct interpreted *interpreted, const struct place *place)
{
	const uint64_t array = place->pc + 1;
	uint64_t function;
	uint32_t count;
	names->found.count = 1;
	return v8_collections_own(&names->heap, &interpreted->collections, array) &&
	       v8_bytecode_find(&names->heap, array, place->closure, &function) &&
	       v8_function_read(&names->heap, function, &names->found.function[0]) &&
	       v8_collections_own(&names->heap, &interpreted->collections, array) &&
	       v8_collections_count(&names->heap, &interpreted->collections, &count) &&
	       count == interpreted->collected;
}

static bool read_functions(
	struct v8_names *names, const struct v8_code *code, const struct v8_inlined *inlined)
{
	struct v8_functions *found = &names->found;
	found->count = 0;
	for (unsigned i = 0; i < inlined->count; i++)
		if (!v8_function_read(
			    &names->heap, inlined->function[i], &found->function[found->count++]))
			return false;
	return v8_function_read(&names->heap, code->function, &found->function[found->count++]);
}

static bool find_compiled(struct v8_names *names, const struct place *place)
{
	const struct proc_map *map = find_map(names, place->pc);
	struct v8_code code, again;
	struct v8_inlined inlined, inlined_again;
	if (!map || !v8_code_find(&names->heap, map->lo, place->pc, place->closure, &code))
		return false;
	v8_inlined_find(&names->heap, &code, place->pc, &inlined);
	if (!read_functions(names, &code, &inlined))
		return false;
	v8_renew(&names->heap);
	if (!v8_code_find(&names->heap, map->lo, place->pc, place->closure, &again) ||
		again.lo != code.lo || again.code != code.code || again.function != code.function)
		return false;
	v8_inlined_find(&names->heap, &again, place->pc, &inlined_again);
	return memcmp(&inlined, &inlined_again, sizeof(inlined)) == 0;
}

/* `interpreted` NULL: compiled code. */
static struct ht_err *look_up(
	struct v8_names *names, const struct interpreted *interpreted, struct place *place)
{
	v8_renew(&names->heap);
	/* Another heap may reuse addresses. */
	if (names->last != interpreted)
		v8_forget(&names->heap);
	names->last = interpreted;
	if (place->is_named || !(interpreted ? find_interpreted(names, interpreted, place)
					     : find_compiled(names, place)))
		return NULL;
	place->is_named = true;
	names->counts.named++;
	return names->options.sink(names->options.context, interpreted != NULL,
		interpreted ? number_of(interpreted, place) : place->pc, &names->found);
}

static struct place *next_waiting(struct table *table)
{
	if (table->queue_count == 0)
		return NULL;
	uint32_t index = table->queue[table->queue_first];
	table->queue_first = (table->queue_first + 1) % PLACES;
	table->queue_count--;
	return &table->place[index];
}

/* Takes the threads in turn; NULL: nothing waits. */
static struct place *next_interpreted(
	struct v8_names *names, const struct interpreted **ret_interpreted)
{
	struct place *place = NULL;
	for (unsigned i = 0; i < V8_NAMES_THREADS && !place; i++) {
		struct interpreted *interpreted =
			names->interpreted[names->turn++ % V8_NAMES_THREADS];
		*ret_interpreted = interpreted;
		place = interpreted ? next_waiting(&interpreted->table) : NULL;
	}
	return place;
}

struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	bool is_late = false;
	v8_forget(&names->heap);
	/* Take compiled and interpreted places in turn: compiled code moves and dies at any time,
	 * and so do closures of interpreted functions. */
	for (unsigned turn = 0; !is_late && !err; is_late = clock_mono_ns() >= deadline_ns) {
		const struct interpreted *interpreted = NULL;
		struct place *place = turn++ % 2 ? next_waiting(&names->compiled) : NULL;
		if (!place)
			place = next_interpreted(names, &interpreted);
		if (!place) {
			interpreted = NULL;
			place = next_waiting(&names->compiled);
		}
		if (!place)
			break;
		place->waits = false;
		err = look_up(names, interpreted, place);
	}
	return err;
}

static struct ht_err *look_up_all(struct v8_names *names, struct table *table,
	const struct interpreted *interpreted, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < PLACES && !err && clock_mono_ns() < deadline_ns; i++)
		if (table->place[i].pc)
			err = look_up(names, interpreted, &table->place[i]);
	return err;
}

struct ht_err *v8_names_look_up_rest(struct v8_names *names, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	v8_forget(&names->heap);
	for (unsigned i = 0; i < V8_NAMES_THREADS && !err; i++) {
		struct interpreted *interpreted = names->interpreted[i];
		if (interpreted)
			err = look_up_all(names, &interpreted->table, interpreted, deadline_ns);
	}
	return err ? err : look_up_all(names, &names->compiled, NULL, deadline_ns);
}
