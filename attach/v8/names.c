/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/names.h"

#include <stdlib.h>

#include "attach/target/clock.h"
#include "attach/v8/code.h"

#define PLACES_BITS 16u
#define PLACES	    (1u << PLACES_BITS)
#define PLACES_MAX  (PLACES / 4 * 3)
#define PROBES_MAX  256u /* addresses are the target's: it may choose them to collide */

struct place {
	raddr_t pc; /* 0: free */
	uint64_t closure;
	bool waits, is_named;
};

struct v8_names {
	struct v8_names_options options;
	struct v8_heap heap;
	struct v8_names_counts counts;
	struct place place[PLACES]; /* open addressing */
	uint32_t queue[PLACES];	    /* indices of those that wait: each once */
	uint32_t queue_first, queue_count;
	struct v8_function function; /* the last that was found */
};

struct ht_err *v8_names_create(const struct v8_names_options *options,
	const struct v8_layout *layout, struct v8_names **ret)
{
	struct v8_names *names = calloc(1, sizeof(*names));
	if (!names)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the names of JavaScript functions");
	names->options = *options;
	names->heap =
		(struct v8_heap){.proc = options->proc, .maps = options->maps, .layout = *layout};
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

void v8_names_see(struct v8_names *names, raddr_t pc, uint64_t closure)
{
	struct place *place = find_map(names, pc) ? find_place(names, pc) : NULL;
	if (!place || place->is_named)
		return;
	place->closure = closure;
	if (place->waits)
		return;
	place->waits = true;
	names->queue[(names->queue_first + names->queue_count++) % PLACES] =
		(uint32_t)(place - names->place);
}

/* --- looking up ----------------------------------------------------------------------------------
 */

static bool find_function(struct v8_names *names, const struct place *place)
{
	const struct proc_map *map = find_map(names, place->pc);
	struct v8_code code, again;
	struct v8_function function;
	if (!map || !v8_code_find(&names->heap, map->lo, place->pc, place->closure, &code) ||
		!v8_function_read(&names->heap, code.function, &function) ||
		!v8_code_find(&names->heap, map->lo, place->pc, place->closure, &again) ||
		again.lo != code.lo || again.code != code.code || again.function != code.function)
		return false;
	names->function = function;
	return true;
}

static struct ht_err *look_up(struct v8_names *names, struct place *place)
{
	if (place->is_named || !find_function(names, place))
		return NULL;
	place->is_named = true;
	names->counts.named++;
	return names->options.sink(names->options.context, place->pc, &names->function);
}

struct ht_err *v8_names_look_up(struct v8_names *names, uint64_t deadline_ns)
{
	struct ht_err *err = NULL;
	bool is_late = false;
	v8_forget(&names->heap);
	for (; !is_late && names->queue_count > 0 && !err;
		is_late = clock_mono_ns() >= deadline_ns) {
		struct place *place = &names->place[names->queue[names->queue_first]];
		names->queue_first = (names->queue_first + 1) % PLACES;
		names->queue_count--;
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
