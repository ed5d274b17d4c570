/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/names.h"

#include <stdlib.h>

#include "attach/target/clock.h"
#include "attach/v8/bytecode.h"
#include "attach/v8/code.h"

#define PLACES_BITS 16u
#define PLACES	    (1u << PLACES_BITS)
#define PLACES_MAX  (PLACES / 4 * 3)
#define PROBES_MAX  256u /* addresses are the target's: it may choose them to collide */

#define INTERPRETED (1ull << 63) /* in a place's address: that of a BytecodeArray */

struct place {
	raddr_t pc; /* 0: free */
	uint64_t closure;
	bool waits, is_named;
};

/* Indices of places that wait: each once. */
struct queue {
	uint32_t index[PLACES];
	uint32_t first, count;
};

struct v8_names {
	struct v8_names_options options;
	struct v8_heap heap;
	struct v8_names_counts counts;
	struct place place[PLACES]; /* open addressing */
	struct queue compiled, interpreted;
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
static struct place *find_place(struct v8_names *names, raddr_t pc)
{
	size_t i = (size_t)(pc * 0x9e3779b97f4a7c15ull >> (64 - PLACES_BITS));
	unsigned probes = 0;
	while (names->place[i].pc && names->place[i].pc != pc && ++probes < PROBES_MAX)
		i = (i + 1) % PLACES;
	struct place *place = &names->place[i];
	if (place->pc == pc)
		return place;
	if (place->pc || names->counts.seen == PLACES_MAX) {
		names->counts.dropped++;
		return NULL;
	}
	names->counts.seen++;
	place->pc = pc;
	return place;
}

/* Code that no file holds. */
static const struct proc_map *find_map(const struct v8_names *names, raddr_t pc)
{
	const struct proc_map *map = proc_maps_find(names->options.maps, pc);
	return map && map->exec && map->inode == 0 ? map : NULL;
}

static void see(struct v8_names *names, struct place *place, uint64_t closure)
{
	if (!place || place->is_named)
		return;
	place->closure = closure;
	if (place->waits)
		return;
	place->waits = true;
	struct queue *queue = place->pc & INTERPRETED ? &names->interpreted : &names->compiled;
	queue->index[(queue->first + queue->count++) % PLACES] = (uint32_t)(place - names->place);
}

void v8_names_see(struct v8_names *names, raddr_t pc, uint64_t closure)
{
	see(names, find_map(names, pc) ? find_place(names, pc) : NULL, closure);
}

void v8_names_see_interpreted(struct v8_names *names, raddr_t array, uint64_t closure)
{
	see(names, find_place(names, array | INTERPRETED), closure);
}

/* --- looking up ----------------------------------------------------------------------------------
 */

static bool find_interpreted(struct v8_names *names, const struct place *place)
{
	const uint64_t array = (place->pc & ~INTERPRETED) + 1;
	uint64_t function, again;
	struct v8_function read;
	if (!v8_bytecode_find(&names->heap, array, place->closure, &function) ||
		!v8_function_read(&names->heap, function, &read))
		return false;
	v8_renew(&names->heap);
	if (!v8_bytecode_find(&names->heap, array, place->closure, &again) || again != function)
		return false;
	names->function = read;
	return true;
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

static struct ht_err *look_up(struct v8_names *names, struct place *place)
{
	v8_renew(&names->heap);
	if (place->is_named || !(place->pc & INTERPRETED ? find_interpreted(names, place)
							 : find_compiled(names, place)))
		return NULL;
	place->is_named = true;
	names->counts.named++;
	return names->options.sink(
		names->options.context, place->pc & ~INTERPRETED, &names->function);
}

/* Code is moved and freed; what is interpreted stays as a rule until it is compiled, and can wait.
 */
static struct place *next_waiting(struct v8_names *names)
{
	struct queue *queue = names->compiled.count ? &names->compiled : &names->interpreted;
	if (queue->count == 0)
		return NULL;
	uint32_t index = queue->index[queue->first];
	queue->first = (queue->first + 1) % PLACES;
	queue->count--;
	return &names->place[index];
}

struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	bool is_late = false;
	v8_forget(&names->heap);
	for (; !is_late && !err; is_late = clock_mono_ns() >= deadline_ns) {
		struct place *place = next_waiting(names);
		if (!place)
			break;
		place->waits = false;
		err = look_up(names, place);
	}
	return err;
}

struct ht_err *v8_names_look_up_rest(struct v8_names *names, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	v8_forget(&names->heap);
	for (size_t i = 0; i < PLACES && !err && clock_mono_ns() < deadline_ns; i++)
		if (names->place[i].pc)
			err = look_up(names, &names->place[i]);
	return err;
}

struct ht_err *v8_names_end(struct v8_names *names)
{
	static const struct v8_function unknown = {.name = V8_INTERPRETER};
	struct ht_err *err = NULL;
	for (size_t i = 0; i < PLACES && !err; i++) {
		struct place *place = &names->place[i];
		if (!(place->pc & INTERPRETED) || place->is_named)
			continue;
		place->is_named = true;
		err = names->options.sink(
			names->options.context, place->pc & ~INTERPRETED, &unknown);
	}
	return err;
}
