/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/memory_json.h"

#include "analyzer/export/json.h"
#include "analyzer/views/rss.h"

static json_t *parts_json(const struct rss_parts *parts)
{
	bool known = parts->known, books = known && parts->free_known;
	if (!known)
		return json_null();
	return json_pack("{so so so so so so so so so so so sb}", "anonymous_bytes",
		json_integer(parts->anonymous_bytes), "heap_bytes",
		json_signed_or_null(parts->heap_known, parts->heap_bytes), "allocator_free_bytes",
		json_signed_or_null(books, parts->free_bytes), "other_anonymous_bytes",
		json_integer(parts->other_bytes), "file_bytes", json_integer(parts->file_bytes),
		"shared_bytes", json_integer(parts->shared_bytes), "swapped_bytes",
		json_integer(parts->swapped_bytes), "heaptap_bytes", json_number(parts->own_bytes),
		"allocator_free_end_bytes", json_number_or_null(books, parts->free_end_bytes),
		"allocator_free_resident_bytes",
		json_number_or_null(books, parts->free_resident_bytes), "heap_by",
		json_string(books ? "books" : "events"), "allocator_free_resident_exact",
		books && parts->free_resident_exact);
}

json_t *memory_json_rss(const struct analysis *analysis)
{
	const struct model *model = &analysis->model;
	const struct rss_growth rss = rss_growth_of(analysis);
	/* A sample does not record frees of older blocks. */
	bool is_explained = rss.known && model_is_exact(model);
	return json_pack("{so so so so so so so so sb}", "first_bytes",
		json_number(rss.first_bytes), "last_bytes", json_number(rss.last_bytes),
		"max_bytes", json_number(model->rss_max_bytes), "growth_bytes",
		json_signed_or_null(rss.known, rss.growth_bytes), "explained_bytes",
		json_signed_or_null(is_explained, rss.explained_bytes), "explicable_bytes",
		json_number(rss.explicable_bytes), "growth", parts_json(&rss.parts),
		"unexplained_bytes", json_number_or_null(rss.known, rss.unexplained_bytes),
		"is_unexplained", rss.known && rss.is_unexplained);
}

/* A control group without a limit has no figure. */
static bool is_figure(const struct memory *memory, enum memory_kind kind)
{
	return memory->is_known[kind] &&
	       !(kind == MEMORY_CGROUP_LIMIT && memory->number[kind] == MEMORY_NO_LIMIT);
}

/* The figures of all kinds that this build knows; null: unknown. */
static json_t *figures_json(const struct model_memory *memory, bool at_end)
{
	const struct memory *figures = at_end ? &memory->last : &memory->first;
	json_t *object = json_object();
	for (unsigned i = 0; i < MEMORY_KIND_COUNT && object; i++) {
		enum memory_kind kind = (enum memory_kind)i;
		const char *name = memory_kind_name(kind);
		/* Allocators are read only at the window's start and end. If there is one reading,
		 * it is that of the start. */
		bool known = is_figure(figures, kind) &&
			     !(at_end && kind >= MEMORY_ALLOCATORS && memory->count[kind] < 2);
		if (!name || json_object_set_new(object, name,
				     json_number_or_null(known, figures->number[i])) == 0)
			continue;
		json_decref(object);
		object = NULL;
	}
	return object;
}

json_t *memory_json_figures(const struct analysis *analysis)
{
	const struct model_memory *memory = &analysis->model.memory;
	return json_pack("{so so so}", "samples", json_number(memory->count[MEMORY_RSS]), "start",
		figures_json(memory, false), "end", figures_json(memory, true));
}
