/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/parts.h"

#include <stdlib.h>

static uint32_t key_of(const struct cube_site *site, enum parts_by by)
{
	return by == PARTS_THREAD     ? cube_site_thread(site)
	       : by == PARTS_FUNCTION ? cube_site_hook(site)
				      : cube_site_size_class(site);
}

struct ht_err *parts_find(
	const struct view *view, enum parts_by by, struct part **ret, size_t *ret_count)
{
	const struct cube *cube = &view->analysis->cube;
	const size_t keys = by == PARTS_THREAD	   ? view->analysis->model.threads.count + 1
			    : by == PARTS_FUNCTION ? REPLAY_HOOKS
						   : CUBE_SIZE_CLASSES;
	struct part *part = calloc(keys + 1, sizeof(*part));
	if (!part)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a list of %zu parts", keys);
	for (size_t i = 0; i < cube->site_count; i++) {
		const struct cube_site *site = &cube->site[i];
		const size_t key = site->node == CUBE_OTHER ? keys : key_of(site, by);
		if (key <= keys)
			sums_add(&part[key].sums, &view->sums[i]);
	}
	*ret_count = 0;
	for (uint32_t key = 0; key <= keys; key++)
		if (!sums_are_zero(&part[key].sums))
			part[(*ret_count)++] =
				(struct part){key < keys ? key : PARTS_FOLDED, part[key].sums};
	*ret = part;
	return NULL;
}

static int compare(const void *a, const void *b, void *context)
{
	const enum metric metric = *(const enum metric *)context;
	const struct part *x = a, *y = b;
	const int64_t vx = metric_value(&x->sums, metric), vy = metric_value(&y->sums, metric);
	if (vx != vy)
		return vx > vy ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

void parts_sort(struct part *part, size_t count, enum metric metric)
{
	qsort_r(part, count, sizeof(*part), compare, &metric);
}

uint64_t parts_size_from(uint32_t size_class)
{
	return size_class ? 1ull << (size_class - 1) : 0;
}

uint64_t parts_size_to(uint32_t size_class)
{
	return size_class ? parts_size_from(size_class) * 2 - 1 : 0;
}
