/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "analyzer/symbols/namespace.h"
#include "analyzer/symbols/wrapper.h"
#include "analyzer/views/frames.h"

/* Gives equal things the same number, and different things different numbers. Interned strings are
 * compared by address. */
struct numbering {
	struct map by_pointer, by_pair, by_place, by_module;
	uint32_t next; /* from 1: 0 stands for no file and no module */
	struct groups *groups;
	const struct frames *frames;
	struct analysis *analysis;
};

void groups_deinit(struct groups *groups)
{
	free(groups->group);
	free(groups->of_frame);
	*groups = (struct groups){0};
}

static struct ht_err *number_of(
	struct numbering *numbering, struct map *map, uint64_t key, uint32_t *ret)
{
	if (map_get(map, key, ret))
		return NULL;
	*ret = numbering->next++;
	return map_put(map, key, *ret);
}

static struct ht_err *number_pointer(struct numbering *numbering, const char *string, uint32_t *ret)
{
	return number_of(numbering, &numbering->by_pointer, (uint64_t)(uintptr_t)string, ret);
}

static struct ht_err *number_pair(
	struct numbering *numbering, uint32_t a, uint32_t b, uint32_t *ret)
{
	return number_of(numbering, &numbering->by_pair, (uint64_t)a << 32 | b, ret);
}

/* A library gets a new module number each time it is loaded: treat modules with the same path and
 * build-id as one. */
static struct ht_err *find_module(
	struct numbering *numbering, const struct frame *frame, uint32_t *ret)
{
	uint32_t path, build_id, first;
	*ret = frame->module;
	if (frame->module == MODULES_NONE)
		return NULL;
	const struct module *module = &numbering->analysis->model.modules.module[frame->module];
	if (!module->build_id || !module->build_id[0])
		return NULL;
	HT_TRY(number_pointer(numbering, module->path, &path));
	HT_TRY(number_pointer(numbering, module->build_id, &build_id));
	const uint64_t key = (uint64_t)path << 32 | build_id;
	if (map_get(&numbering->by_module, key, &first)) {
		*ret = first;
		return NULL;
	}
	return map_put(&numbering->by_module, key, frame->module);
}

/* Numbers by function and file. Without a file, the module's path distinguishes functions of one
 * name; not the module, because a file may be mapped twice, as V8 does with its builtins. */
static struct ht_err *number_function(
	struct numbering *numbering, const struct frame *frame, uint32_t *ret)
{
	const char *place = frame->file;
	uint32_t function, file = 0;
	struct ht_err *err = number_pointer(numbering, frame->function, &function);
	if (!place)
		place = modules_path(&numbering->analysis->model.modules, frame->module);
	if (!err && place)
		err = number_pointer(numbering, place, &file);
	return err ? err : number_pair(numbering, function, file, ret);
}

static struct ht_err *number_address(
	struct numbering *numbering, const struct frame *frame, uint32_t *ret)
{
	struct place place = {frame->module, frame->offset, frame->interpreted};
	uint64_t key;
	HT_TRY(find_module(numbering, frame, &place.module));
	if (place_key(place, &key))
		return number_of(numbering, &numbering->by_place, key, ret);
	*ret = numbering->next++;
	return NULL;
}

/* One address has several frames if functions are inlined there: the function distinguishes them.
 */
static struct ht_err *number_exactly(
	struct numbering *numbering, const struct frame *frame, uint32_t *ret)
{
	uint32_t address, function;
	HT_TRY(number_address(numbering, frame, &address));
	HT_TRY(number_pointer(numbering, frame->function, &function));
	return number_pair(numbering, address, function, ret);
}

static const char *module_name(const struct numbering *numbering, const struct frame *frame)
{
	if (frame->module == MODULES_NONE)
		return frame->function ? "(code made at run time)" : "(no module)";
	return strings_base_name(modules_path(&numbering->analysis->model.modules, frame->module));
}

static struct ht_err *find_name(
	struct numbering *numbering, const struct frame *frame, const char **ret)
{
	char space[NAMESPACE_BYTES];
	const char *name = module_name(numbering, frame);
	if (numbering->groups->grouping == GROUPING_NAMESPACE &&
		namespace_of(frame->function, frame->file, space))
		name = space;
	return strings_intern(&numbering->analysis->model.strings,
		(struct rec_string){.data = name, .length = strlen(name)}, ret);
}

static struct ht_err *number_frame(struct numbering *numbering, const struct frame *frame,
	const char **ret_name, uint32_t *ret)
{
	uint32_t function;
	*ret_name = NULL;
	switch (numbering->groups->grouping) {
	case GROUPING_MODULE:
	case GROUPING_NAMESPACE:
		HT_TRY(find_name(numbering, frame, ret_name));
		return number_pointer(numbering, *ret_name, ret);
	case GROUPING_ADDRESS:
		return number_exactly(numbering, frame, ret);
	case GROUPING_FUNCTION:
		return frame->function ? number_function(numbering, frame, ret)
				       : number_address(numbering, frame, ret);
	case GROUPING_LINE:
	case GROUPING_COUNT:
		break;
	}
	if (!frame->function)
		return number_address(numbering, frame, ret);
	HT_TRY(number_function(numbering, frame, &function));
	return number_pair(numbering, function, frame->line, ret);
}

/* The frame in libstdc++ that calls a thread's function has no symbol:
 * execute_native_thread_routine is not exported. */
static bool is_plumbing(const struct numbering *numbering, const struct frame *frame)
{
	static const char library[] = "libstdc++.so";
	if (frame->function || frame->module == MODULES_NONE)
		return wrapper_is_plumbing(frame->function);
	return strncmp(module_name(numbering, frame), library, sizeof(library) - 1) == 0;
}

static struct ht_err *add_group(
	struct numbering *numbering, uint32_t at, const struct frame *frame, const char *name)
{
	struct groups *groups = numbering->groups;
	HT_TRY(array_reserve(&groups->group, &groups->capacity, groups->count + 1,
		sizeof(*groups->group), "functions"));
	groups->group[groups->count++] = (struct group){
		.frame = at,
		.name = name,
		.is_wrapper = wrapper_is(frame->function),
		.is_plumbing = is_plumbing(numbering, frame),
	};
	return NULL;
}

struct ht_err *groups_init(struct groups *groups, enum grouping grouping,
	const struct frames *frames, struct analysis *analysis)
{
	struct numbering numbering = {
		.next = 1, .groups = groups, .frames = frames, .analysis = analysis};
	struct map by_number = {0};
	struct ht_err *err = NULL;
	*groups = (struct groups){.grouping = grouping};
	groups->of_frame = calloc(frames->count + 1, sizeof(*groups->of_frame));
	if (!groups->of_frame)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", frames->count);
	for (uint32_t i = 0; i < frames->count && !err; i++) {
		const char *name;
		uint32_t number;
		err = number_frame(&numbering, &frames->frame[i], &name, &number);
		if (err || map_get(&by_number, number, &groups->of_frame[i]))
			continue;
		groups->of_frame[i] = (uint32_t)groups->count;
		err = add_group(&numbering, i, &frames->frame[i], name);
		HT_THEN(err, map_put(&by_number, number, groups->of_frame[i]));
	}
	map_deinit(&by_number);
	map_deinit(&numbering.by_pointer);
	map_deinit(&numbering.by_pair);
	map_deinit(&numbering.by_place);
	map_deinit(&numbering.by_module);
	if (err)
		groups_deinit(groups);
	return err;
}
