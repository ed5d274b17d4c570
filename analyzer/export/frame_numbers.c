/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/frame_numbers.h"

#include <stdlib.h>

#include "analyzer/export/names.h"

struct ht_err *frame_numbers_init(struct frame_numbers *numbers, const struct view *view)
{
	const size_t count = view->frames.count;
	*numbers = (struct frame_numbers){.view = view, .slot_count = 2};
	while (numbers->slot_count < 2 * count)
		numbers->slot_count *= 2;
	numbers->number_of = calloc(count + 1, sizeof(*numbers->number_of));
	numbers->met = calloc(count + 1, sizeof(*numbers->met));
	numbers->slot = calloc(numbers->slot_count, sizeof(*numbers->slot));
	if (numbers->number_of && numbers->met && numbers->slot)
		return NULL;
	frame_numbers_deinit(numbers);
	return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", count);
}

void frame_numbers_deinit(struct frame_numbers *numbers)
{
	free(numbers->number_of);
	free(numbers->met);
	free(numbers->slot);
	*numbers = (struct frame_numbers){0};
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

/* `offset` of an interpreted function is an arbitrary number: do not compare it. */
static uint64_t offset_of(const struct frame *frame)
{
	return frame->interpreted ? 0 : frame->offset;
}

/* Strings are interned: equal ones have one address. */
static uint64_t hash_of(const struct view *view, const struct frame *frame)
{
	const struct module *module = names_module_of(view, frame->module);
	uint64_t hash = mix(offset_of(frame), frame->line);
	hash = mix(hash, (uintptr_t)frame->function);
	hash = mix(hash, (uintptr_t)frame->file);
	return mix(hash, module ? (uintptr_t)module->path : 0);
}

static bool are_equal(const struct view *view, const struct frame *a, const struct frame *b)
{
	const struct module *x = names_module_of(view, a->module);
	const struct module *y = names_module_of(view, b->module);
	if (!x != !y || (x && (x->path != y->path || x->build_id != y->build_id)))
		return false;
	return a->function == b->function && a->file == b->file && a->line == b->line &&
	       offset_of(a) == offset_of(b) && a->interpreted == b->interpreted &&
	       a->inlined == b->inlined && a->line_is_first == b->line_is_first;
}

uint32_t frame_numbers_get(struct frame_numbers *numbers, uint32_t frame)
{
	const struct frame *frames = numbers->view->frames.frame;
	if (numbers->number_of[frame])
		return numbers->number_of[frame] - 1;
	size_t at = hash_of(numbers->view, &frames[frame]) & (numbers->slot_count - 1);
	while (numbers->slot[at] && !are_equal(numbers->view, &frames[frame],
					    &frames[numbers->met[numbers->slot[at] - 1]]))
		at = (at + 1) & (numbers->slot_count - 1);
	if (!numbers->slot[at]) {
		numbers->met[numbers->count] = frame;
		numbers->slot[at] = ++numbers->count;
	}
	numbers->number_of[frame] = numbers->slot[at];
	return numbers->slot[at] - 1;
}
