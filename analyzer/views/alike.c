/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/alike.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/views/callers.h"

struct by_key {
	const struct view *view;
	const struct callers_key *key; /* by node */
};

static int compare_keys(const struct by_key *by, uint32_t a, uint32_t b)
{
	return callers_compare(&by->key[by->view->row[a].node], &by->key[by->view->row[b].node]);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const int order = compare_keys(context, x, y);
	return order ? order : (x > y) - (x < y);
}

static int compare_sites(const void *a, const void *b)
{
	const struct alike *x = a, *y = b;
	return (x->row > y->row) - (x->row < y->row);
}

static void add_row(struct alike *site, const struct view *view, uint32_t row)
{
	const struct sums *sums = &view->row[row].sums;
	if (!site->chains || sums->allocated_bytes > view->row[site->row].sums.allocated_bytes)
		site->row = row;
	site->chains++;
	sums_add(&site->sums, sums);
}

/* Adds up neighbours with one key. */
static size_t add_up(const struct by_key *by, const uint32_t *row, size_t count, struct alike *site)
{
	size_t sites = 0;
	for (size_t i = 0; i < count; i++) {
		sites += !i || compare_keys(by, row[i - 1], row[i]) != 0;
		add_row(&site[sites - 1], by->view, row[i]);
	}
	return sites;
}

static struct ht_err *join(
	const struct view *view, uint32_t *row, size_t count, struct alike *site, size_t *ret_count)
{
	struct callers_key *key = NULL;
	HT_TRY(callers_keys(view, &key));
	struct by_key by = {view, key};
	qsort_r(row, count, sizeof(*row), compare_rows, &by);
	*ret_count = add_up(&by, row, count, site);
	if (*ret_count)
		qsort(site, *ret_count, sizeof(*site), compare_sites);
	free(key);
	return NULL;
}

struct ht_err *alike_find(const struct view *view, const uint32_t *row, size_t count, bool apart,
	struct alike **ret, size_t *ret_count)
{
	struct alike *site = calloc(count + 1, sizeof(*site));
	uint32_t *sorted = malloc((count + 1) * sizeof(*sorted));
	struct ht_err *err = NULL;
	*ret_count = count;
	if (!site || !sorted) {
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", count);
	} else if (apart) {
		for (size_t i = 0; i < count; i++)
			add_row(&site[i], view, row[i]);
	} else {
		if (count)
			memcpy(sorted, row, count * sizeof(*sorted));
		err = join(view, sorted, count, site, ret_count);
	}
	free(sorted);
	if (err) {
		free(site);
		return err;
	}
	*ret = site;
	return NULL;
}

static int compare_values(const void *a, const void *b, void *context)
{
	const enum metric metric = *(const enum metric *)context;
	const struct alike *x = a, *y = b;
	const int64_t vx = metric_value(&x->sums, metric), vy = metric_value(&y->sums, metric);
	if (vx != vy)
		return vx > vy ? -1 : 1;
	if (x->sums.allocated_bytes != y->sums.allocated_bytes)
		return x->sums.allocated_bytes > y->sums.allocated_bytes ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

void alike_sort(struct alike *site, size_t count, enum metric metric)
{
	if (count)
		qsort_r(site, count, sizeof(*site), compare_values, &metric);
}
