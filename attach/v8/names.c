/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/names.h"

#include <stdlib.h>
#include <string.h>

#include "attach/target/clock.h"
#include "attach/v8/bytecode.h"
#include "attach/v8/code.h"

#define PLACES_BITS 16u
#define PLACES	    (1u << PLACES_BITS)
#define PLACES_MAX  (PLACES / 4 * 3)
#define PROBES_MAX  256u /* addresses are the target's: it may choose them to collide */

struct place {
	raddr_t pc; /* or of a BytecodeArray; 0: free */
	uint64_t closure;
	bool waits, is_named;
};

struct table {
	struct place place[PLACES]; /* open addressing */
	uint32_t used;
	/* Indices of places that wait: each once. */
	uint32_t queue[PLACES];
	uint32_t queue_first, queue_count;
};

struct v8_names {
	struct v8_names_options options;
	struct v8_heap heap;
	struct v8_names_counts counts;
	struct table compiled, interpreted;
	/* Of those that are interpreted: what they were seen in, and V8's count all the time. */
	struct v8_collections collections;
	uint32_t collected;
	uint64_t generation;	     /* 0: none is looked up */
	struct v8_function function; /* the last that was found */
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
	free(names);
}

struct v8_names_counts v8_names_counts(const struct v8_names *names)
{
	return names->counts;
}

/* The place of `pc`, found or made; NULL: there is no room. */
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

/* Code that no file holds. */
static const struct proc_map *find_map(const struct v8_names *names, raddr_t pc)
{
	const struct proc_map *map = proc_maps_find(names->options.maps, pc);
	return map && map->exec && map->inode == 0 ? map : NULL;
}

static void see(struct table *table, struct place *place, uint64_t closure)
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
		see(&names->compiled, place, closure);
}

/* --- interpreted functions -----------------------------------------------------------------------
 */

static uint64_t number_of(const struct v8_names *names, const struct place *place)
{
	return names->generation << V8_NUMBER_BITS |
	       (uint64_t)(place - names->interpreted.place + 1);
}

uint64_t v8_names_see_interpreted(
	struct v8_names *names, uint64_t generation, raddr_t array, uint64_t closure)
{
	struct place *place;
	if (!generation || generation != names->generation || !array)
		return 0;
	place = find_place(names, &names->interpreted, array);
	if (!place)
		return 0;
	see(&names->interpreted, place, closure);
	return number_of(names, place);
}

static void begin_generation(struct v8_names *names, uint64_t generation)
{
	memset(&names->interpreted, 0, sizeof(names->interpreted));
	names->generation = generation;
}

bool v8_names_find_isolate(struct v8_names *names, raddr_t thread_pointer)
{
	begin_generation(names, 0);
	return v8_collections_find(
		       &names->heap, thread_pointer, &names->options.places, &names->collections) &&
	       v8_collections_count(&names->heap, &names->collections, &names->collected) &&
	       v8_collections_are_over(&names->heap, &names->collections);
}

enum v8_names_check v8_names_check(struct v8_names *names)
{
	uint32_t count;
	if (!v8_collections_count(&names->heap, &names->collections, &count))
		return V8_NAMES_LOST;
	if (count == names->collected)
		return V8_NAMES_HOLD;
	if (!v8_collections_are_over(&names->heap, &names->collections))
		return V8_NAMES_MOVES;
	names->collected = count;
	return V8_NAMES_MOVED;
}

void v8_names_begin(struct v8_names *names, uint64_t generation)
{
	begin_generation(names, generation);
}

/* --- looking up ----------------------------------------------------------------------------------
 */

/* What was read is of the time when the frame was there: V8 has not collected since, and an array
 * that was in use stays until it does. */
static bool find_interpreted(struct v8_names *names, const struct place *place)
{
	const uint64_t array = place->pc + 1;
	uint64_t function;
	uint32_t count;
	return v8_collections_own(&names->heap, &names->collections, array) &&
	       v8_bytecode_find(&names->heap, array, place->closure, &function) &&
	       v8_function_read(&names->heap, function, &names->function) &&
	       v8_collections_count(&names->heap, &names->collections, &count) &&
	       count == names->collected;
}

static bool find_compiled(struct v8_names *names, const struct place *place)
{
	const struct proc_map *map = find_map(names, place->pc);
	struct v8_code code, again;
	struct v8_function function;
	if (!map || !v8_code_find(&names->heap, map->lo, place->pc, place->closure, &code) ||
		!v8_function_read(&names->heap, code.function, &function))
		return false;
	v8_renew(&names->heap);
	if (!v8_code_find(&names->heap, map->lo, place->pc, place->closure, &again) ||
		again.lo != code.lo || again.code != code.code || again.function != code.function)
		return false;
	names->function = function;
	return true;
}

static struct ht_err *look_up(
	struct v8_names *names, const struct table *table, struct place *place)
{
	const bool interpreted = table == &names->interpreted;
	v8_renew(&names->heap);
	if (place->is_named ||
		!(interpreted ? find_interpreted(names, place) : find_compiled(names, place)))
		return NULL;
	place->is_named = true;
	names->counts.named++;
	return names->options.sink(names->options.context, interpreted,
		interpreted ? number_of(names, place) : place->pc, &names->function);
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

struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	bool is_late = false;
	v8_forget(&names->heap);
	/* In turn: code is moved and freed at any time, and closures of what is interpreted are. */
	for (unsigned turn = 0; !is_late && !err; is_late = clock_mono_ns() >= deadline_ns) {
		struct table *table = turn++ % 2 ? &names->compiled : &names->interpreted;
		struct place *place = next_waiting(table);
		if (!place) {
			table = table == &names->compiled ? &names->interpreted : &names->compiled;
			place = next_waiting(table);
		}
		if (!place)
			break;
		place->waits = false;
		err = look_up(names, table, place);
	}
	return err;
}

static struct ht_err *look_up_all(struct v8_names *names, struct table *table, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < PLACES && !err && clock_mono_ns() < deadline_ns; i++)
		if (table->place[i].pc)
			err = look_up(names, table, &table->place[i]);
	return err;
}

struct ht_err *v8_names_look_up_rest(struct v8_names *names, uint64_t deadline_ns)
{
	v8_forget(&names->heap);
	struct ht_err *err = look_up_all(names, &names->interpreted, deadline_ns);
	return err ? err : look_up_all(names, &names->compiled, deadline_ns);
}
