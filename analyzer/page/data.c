/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the page: JSON with its length before it, then tables. A table is the number of its
 * rows and its columns, one after the other, of LEB128 numbers. Keys are stored as differences to
 * the row above, which are small because rows are sorted by key. Other columns are stored as
 * differences to an estimate from earlier columns, most often 0.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/page/facts.h"
#include "analyzer/page/page.h"
#include "analyzer/page/tables.h"
#include "format/array.h"

/* The largest integer that a double represents exactly: JavaScript computes with doubles. */
#define NUMBER_MAX ((1ull << 53) - 1)

/* Standard errors of samples are written in units of 1 / 1024 byte or block. */
#define ERROR_SCALE 1024

/* After an error, later writes do nothing, so callers check once. */
struct writer {
	struct bytes_out *out;
	struct ht_err *err;
};

static void put(struct writer *writer, uint64_t value)
{
	if (!writer->err)
		writer->err = bytes_out_uleb(writer->out, value < NUMBER_MAX ? value : NUMBER_MAX);
}

/* Zigzag encoding: numbers near 0 of either sign become small unsigned numbers. */
static void put_signed(struct writer *writer, int64_t value)
{
	put(writer, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

#define PUT_COLUMN(writer, count, i, value)                                                        \
	for (size_t i = 0; i < (count); i++)                                                       \
	put((writer), (value))

static void put_facts(struct writer *writer, const struct page_facts *facts)
{
	HT_FREED char *text = json_dumps(facts->object, JSON_COMPACT);
	if (!text)
		writer->err = ht_err_new(HT_ERR_NOMEM, "out of memory for the page");
	if (writer->err)
		return;
	put(writer, strlen(text));
	if (!writer->err)
		writer->err = bytes_out_put(writer->out, text, strlen(text));
}

static void put_frames(
	struct writer *writer, const struct view *view, const struct page_facts *facts)
{
	const size_t count = facts->frames.count;
	put(writer, count);
	PUT_COLUMN(writer, count, i, facts->name[i]);
	PUT_COLUMN(writer, count, i, facts->file[i]);
	for (size_t i = 0; i < count; i++)
		put(writer,
			view->frames.frame[view->groups.group[facts->frames.index[i]].frame].line);
	for (size_t i = 0; i < count; i++) {
		const struct frame *frame =
			&view->frames.frame[view->groups.group[facts->frames.index[i]].frame];
		put(writer, frame->module == MODULES_NONE ? 0 : (uint64_t)frame->module + 1);
	}
	PUT_COLUMN(writer, count, i, view->groups.group[facts->frames.index[i]].is_wrapper);
	PUT_COLUMN(writer, count, i, facts->space[i]);
}

static void put_tree(struct writer *writer, const struct view *view, const struct fold *fold,
	const struct page_facts *facts)
{
	HT_FREED uint32_t *depth = malloc(fold->count * sizeof(*depth));
	if (!depth && !writer->err)
		writer->err = ht_err_new(HT_ERR_NOMEM, "out of memory for the page");
	put(writer, fold->count);
	/* A caller is stored as the number of levels that it is above the node before. */
	for (uint32_t i = 0; depth && i < fold->count; i++) {
		const uint32_t caller = fold->page_of[view->tree.node[fold->node[i]].parent];
		depth[i] = i ? depth[caller] + 1 : 0;
		put(writer, i ? depth[i - 1] - depth[caller] : 0);
	}
	for (uint32_t i = 0; i < fold->count; i++) {
		const uint32_t group = view->tree.node[fold->node[i]].group;
		put(writer, group == UINT32_MAX ? 0 : facts->frames.number_of[group]);
	}
}

static void put_sites(struct writer *writer, const struct page_tables *tables)
{
	const struct page_site *site = tables->site;
	const size_t count = tables->site_count;
	put(writer, count);
	PUT_COLUMN(writer, count, i, site[i].node - (i ? site[i - 1].node : 0));
	PUT_COLUMN(writer, count, i, site[i].key >> 11);
	PUT_COLUMN(writer, count, i, site[i].key >> 7 & (REPLAY_HOOKS - 1));
	PUT_COLUMN(writer, count, i, site[i].key & 127);
	PUT_COLUMN(writer, count, i, site[i].peak_bytes);
	PUT_COLUMN(writer, count, i, (uint64_t)(ERROR_SCALE * sqrt(site[i].variance.bytes)));
	PUT_COLUMN(writer, count, i, (uint64_t)(ERROR_SCALE * sqrt(site[i].variance.blocks)));
}

/* The bytes of `count` blocks if their mean size is `bytes` / `blocks`; 0 if `blocks` is 0 or the
 * result exceeds NUMBER_MAX. */
static uint64_t expected_bytes(uint64_t count, uint64_t blocks, uint64_t bytes)
{
	uint64_t expected;
	if (!blocks || __builtin_mul_overflow(count, bytes / blocks, &expected))
		return 0;
	return expected > NUMBER_MAX ? 0 : expected;
}

static uint64_t expected_of_cell(const struct cube_cell *cell, size_t i)
{
	if (!i || cell[i].site != cell[i - 1].site)
		return 0;
	const struct cube_counts *before = &cell[i - 1].counts;
	return expected_bytes(
		cell[i].counts.allocations, before->allocations, before->allocated_bytes);
}

static uint64_t expected_of_survivor(const struct cube_survivor *survivor, size_t i)
{
	if (!i || survivor[i].site != survivor[i - 1].site)
		return 0;
	return expected_bytes(survivor[i].blocks, survivor[i - 1].blocks, survivor[i - 1].bytes);
}

/* The estimate of a survivor's total lifetime: each block lives from the middle of its birth bucket
 * to the middle of its death bucket. */
static uint64_t expected_us(const struct cube_survivor *survivor, uint64_t step_us)
{
	const uint64_t age = (uint64_t)(survivor->death - survivor->birth);
	return expected_bytes(survivor->blocks, 1, age * step_us);
}

#define PUT_DIFFERENCES(writer, count, i, value, expected)                                         \
	for (size_t i = 0; i < (count); i++)                                                       \
	put_signed((writer), (int64_t)(value) - (int64_t)(expected))

static void put_cells(struct writer *writer, const struct page_tables *tables)
{
	const struct cube_cell *cell = tables->cell;
	const size_t count = tables->cell_count;
	put(writer, count);
	PUT_COLUMN(writer, count, i, cell[i].site - (i ? cell[i - 1].site : 0));
	for (size_t i = 0; i < count; i++) {
		const bool is_first = !i || cell[i].site != cell[i - 1].site;
		put(writer, cell[i].bucket - (is_first ? 0 : cell[i - 1].bucket));
	}
	PUT_COLUMN(writer, count, i, cell[i].counts.allocations);
	PUT_DIFFERENCES(writer, count, i, cell[i].counts.samples, cell[i].counts.allocations);
	PUT_DIFFERENCES(
		writer, count, i, cell[i].counts.allocated_bytes, expected_of_cell(cell, i));
	PUT_DIFFERENCES(writer, count, i, cell[i].counts.frees, cell[i].counts.allocations);
	PUT_DIFFERENCES(writer, count, i, cell[i].counts.freed_bytes,
		expected_bytes(cell[i].counts.frees, cell[i].counts.allocations,
			cell[i].counts.allocated_bytes));
	PUT_COLUMN(writer, count, i, cell[i].counts.temporary);
	PUT_COLUMN(writer, count, i, cell[i].counts.lifetime_us);
}

static void put_survivors(struct writer *writer, const struct page_tables *tables, uint64_t step_us)
{
	const struct cube_survivor *survivor = tables->survivor;
	const size_t count = tables->survivor_count;
	put(writer, count);
	PUT_COLUMN(writer, count, i, survivor[i].site - (i ? survivor[i - 1].site : 0));
	for (size_t i = 0; i < count; i++) {
		const bool is_first = !i || survivor[i].site != survivor[i - 1].site;
		put(writer, (uint64_t)survivor[i].birth - (is_first ? 0 : survivor[i - 1].birth));
	}
	PUT_COLUMN(writer, count, i, (uint64_t)survivor[i].death - survivor[i].birth);
	PUT_COLUMN(writer, count, i, survivor[i].blocks);
	PUT_DIFFERENCES(writer, count, i, survivor[i].bytes, expected_of_survivor(survivor, i));
	PUT_COLUMN(writer, count, i, survivor[i].temporary);
	PUT_DIFFERENCES(
		writer, count, i, survivor[i].lifetime_us, expected_us(&survivor[i], step_us));
}

static uint64_t before_frees(const struct cube *cube, size_t bucket)
{
	uint64_t count = 0;
	for (unsigned class = 0; class < CUBE_SIZE_CLASSES; class ++)
		count += cube->before[class][bucket];
	return count;
}

static void put_heap(struct writer *writer, const struct analysis *analysis)
{
	const struct timeline *timeline = &analysis->cube.timeline;
	const bool is_known = analysis->heap.known && analysis->heap.has_curve;
	for (size_t i = 0; i < timeline->count; i++) {
		const struct timeline_step *step = &timeline->step[i];
		put(writer, is_known ? 1 + heap_bytes_at(&analysis->heap, step->live_bytes,
						   step->before_bytes)
				     : 0);
	}
}

/* Columns of the timeline, in the order of decode.js. */
static const enum memory_kind page_memory[] = {MEMORY_RSS, MEMORY_ANONYMOUS, MEMORY_FILE,
	MEMORY_SHARED, MEMORY_SWAP, MEMORY_MAJOR_FAULTS, MEMORY_CGROUP, MEMORY_CGROUP_LIMIT};

static uint64_t known_plus_one(const struct timeline_memory *memory, enum memory_kind kind)
{
	const bool is_known = memory->is_known[kind] && memory->number[kind] != MEMORY_NO_LIMIT;
	return is_known ? 1 + memory->number[kind] : 0;
}

/* Unknown figures are 0; known ones are stored plus 1. */
static void put_timeline(struct writer *writer, const struct analysis *analysis)
{
	const struct timeline_step *step = analysis->cube.timeline.step;
	const size_t count = analysis->cube.timeline.count;
	put(writer, count);
	PUT_COLUMN(writer, count, i, step[i].allocations);
	PUT_COLUMN(writer, count, i, step[i].allocated_bytes);
	for (size_t i = 0; i < count; i++)
		put_signed(
			writer, (int64_t)(step[i].live_bytes - (i ? step[i - 1].live_bytes : 0)));
	PUT_COLUMN(writer, count, i, step[i].live_max_bytes);
	put_heap(writer, analysis);
	for (size_t kind = 0; kind < HT_ARRAY_SIZE(page_memory); kind++)
		PUT_COLUMN(writer, count, i,
			known_plus_one(&analysis->cube.timeline.memory[i], page_memory[kind]));
	PUT_COLUMN(writer, count, i, before_frees(&analysis->cube, i));
}

struct ht_err *page_data(struct bytes_out *out, const struct view *view,
	const struct suspects *suspects, const struct page_more *more, uint64_t least_bytes,
	struct page_result *ret)
{
	struct fold fold;
	struct page_tables tables = {0};
	struct page_facts facts = {0};
	struct writer writer = {.out = out};
	struct ht_err *err = fold_init(&fold, view, suspects, least_bytes);
	HT_THEN(err, page_tables_init(&tables, view, &fold));
	HT_THEN(err, page_facts_init(&facts, view, &fold, suspects, more));
	if (!err) {
		put_facts(&writer, &facts);
		put_frames(&writer, view, &facts);
		put_tree(&writer, view, &fold, &facts);
		put_sites(&writer, &tables);
		put_cells(&writer, &tables);
		put_survivors(&writer, &tables, view->analysis->cube.step_ns / 1000);
		put_timeline(&writer, view->analysis);
		err = writer.err;
	}
	ret->folded = fold.folded;
	ret->kept = fold.count;
	ret->least_bytes = fold.least_bytes;
	page_facts_deinit(&facts);
	page_tables_deinit(&tables);
	fold_deinit(&fold);
	return err;
}
