/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/tables.h"

#include <stdlib.h>

#include "format/array.h"

#define NO_SITE UINT32_MAX

void page_tables_deinit(struct page_tables *tables)
{
	free(tables->site);
	free(tables->cell);
	free(tables->survivor);
	*tables = (struct page_tables){0};
}

/* --- sites -------------------------------------------------------------------------------------
 */

struct numbered {
	struct page_site site;
	uint32_t index; /* index of the cube's site */
};

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	if (x->site.node != y->site.node)
		return x->site.node < y->site.node ? -1 : 1;
	if (x->site.key != y->site.key)
		return x->site.key < y->site.key ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static size_t list_sites(const struct view *view, const struct fold *fold, struct numbered *list)
{
	const struct cube *cube = &view->analysis->cube;
	size_t count = 0;
	for (uint32_t i = 0; i < cube->site_count; i++) {
		const struct cube_site *site = &cube->site[i];
		if (view->row_of_site[i] != UINT32_MAX)
			list[count++] =
				(struct numbered){{fold->page_of[fold_node(view, i)], site->key,
							  site->peak_bytes, site->variance},
					i};
	}
	return count;
}

static void add_site(struct page_site *to, const struct page_site *more)
{
	to->peak_bytes += more->peak_bytes;
	to->variance.bytes += more->variance.bytes;
	to->variance.blocks += more->variance.blocks;
}

/* Joins sites with the same node and key. Sets number[SITE], for a site of the cube, to the index
 * in tables->site. */
static void join_sites(
	struct page_tables *tables, const struct numbered *list, size_t count, uint32_t *number)
{
	for (size_t i = 0; i < count; i++) {
		const bool is_same = i && list[i].site.node == list[i - 1].site.node &&
				     list[i].site.key == list[i - 1].site.key;
		if (is_same)
			add_site(&tables->site[tables->site_count - 1], &list[i].site);
		else
			tables->site[tables->site_count++] = list[i].site;
		number[list[i].index] = (uint32_t)tables->site_count - 1;
	}
}

static struct ht_err *make_sites(struct page_tables *tables, const struct view *view,
	const struct fold *fold, uint32_t *number)
{
	HT_FREED struct numbered *list =
		malloc((view->analysis->cube.site_count + 1) * sizeof(*list));
	if (!list)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for sites");
	const size_t count = list_sites(view, fold, list);
	qsort(list, count, sizeof(*list), compare_numbered);
	join_sites(tables, list, count, number);
	return NULL;
}

/* --- cells and survivors -----------------------------------------------------------------------
 */

static int compare_cells(const void *a, const void *b)
{
	const struct cube_cell *x = a, *y = b;
	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

static void add_counts(struct cube_counts *to, const struct cube_counts *more)
{
	to->samples += more->samples;
	to->allocations += more->allocations;
	to->allocated_bytes += more->allocated_bytes;
	to->frees += more->frees;
	to->freed_bytes += more->freed_bytes;
	to->temporary += more->temporary;
	to->lifetime_us += more->lifetime_us;
}

static void make_cells(struct page_tables *tables, const struct cube *cube, const uint32_t *number)
{
	struct cube_cell *cell = tables->cell;
	size_t count = 0, joined = 0;
	for (size_t i = 0; i < cube->cell_count; i++) {
		const uint32_t site = number[cube->cell[i].site];
		if (site == NO_SITE)
			continue;
		cell[count] = cube->cell[i];
		cell[count++].site = site;
	}
	qsort(cell, count, sizeof(*cell), compare_cells);
	for (size_t i = 0; i < count; i++)
		if (joined && compare_cells(&cell[joined - 1], &cell[i]) == 0)
			add_counts(&cell[joined - 1].counts, &cell[i].counts);
		else
			cell[joined++] = cell[i];
	tables->cell_count = joined;
}

static int compare_survivors(const void *a, const void *b)
{
	const struct cube_survivor *x = a, *y = b;
	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	if (x->birth != y->birth)
		return x->birth < y->birth ? -1 : 1;
	return (x->death > y->death) - (x->death < y->death);
}

static void add_survivor(struct cube_survivor *to, const struct cube_survivor *more)
{
	to->blocks += more->blocks;
	to->bytes += more->bytes;
	to->temporary += more->temporary;
	to->lifetime_us += more->lifetime_us;
}

static void make_survivors(
	struct page_tables *tables, const struct cube *cube, const uint32_t *number)
{
	struct cube_survivor *survivor = tables->survivor;
	size_t count = 0, joined = 0;
	for (size_t i = 0; i < cube->survivor_count; i++) {
		const uint32_t site = number[cube->survivor[i].site];
		if (site == NO_SITE)
			continue;
		survivor[count] = cube->survivor[i];
		if (survivor[count].death == CUBE_SETTLED)
			survivor[count].death = (uint16_t)cube->timeline.count;
		survivor[count++].site = site;
	}
	qsort(survivor, count, sizeof(*survivor), compare_survivors);
	for (size_t i = 0; i < count; i++)
		if (joined && compare_survivors(&survivor[joined - 1], &survivor[i]) == 0)
			add_survivor(&survivor[joined - 1], &survivor[i]);
		else
			survivor[joined++] = survivor[i];
	tables->survivor_count = joined;
}

struct ht_err *page_tables_init(
	struct page_tables *tables, const struct view *view, const struct fold *fold)
{
	const struct cube *cube = &view->analysis->cube;
	HT_FREED uint32_t *number = malloc((cube->site_count + 1) * sizeof(*number));
	*tables = (struct page_tables){
		.site = malloc((cube->site_count + 1) * sizeof(*tables->site)),
		.cell = malloc((cube->cell_count + 1) * sizeof(*tables->cell)),
		.survivor = malloc((cube->survivor_count + 1) * sizeof(*tables->survivor)),
	};
	if (!number || !tables->site || !tables->cell || !tables->survivor)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the tables of the page");
	for (size_t i = 0; i < cube->site_count; i++)
		number[i] = NO_SITE;
	HT_TRY(make_sites(tables, view, fold, number));
	make_cells(tables, cube, number);
	make_survivors(tables, cube, number);
	return NULL;
}
