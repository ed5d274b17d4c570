/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/alike.h"

#include <stdlib.h>

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

struct ht_err *alike_find(const struct view *view, uint32_t *row, size_t count, bool apart,
	struct alike **ret, size_t *ret_count)
{
	struct callers_key *key = NULL;
	if (!apart)
		HT_TRY(callers_keys(view, &key));
	struct by_key by = {view, key};
	struct alike *site = calloc(count + 1, sizeof(*site));
	if (!site) {
		free(key);
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", count);
	}
	if (key && count)
		qsort_r(row, count, sizeof(*row), compare_rows, &by);
	*ret = site;
	*ret_count = 0;
	for (size_t i = 0; i < count; i++) {
		*ret_count += apart || !i || compare_keys(&by, row[i - 1], row[i]) != 0;
		add_row(&site[*ret_count - 1], view, row[i]);
	}
	free(key);
	if (count)
		qsort(site, *ret_count, sizeof(*site), compare_sites);
	return NULL;
}

static int compare_values(const void *a, const void *b, void *context)
{
	const struct alike *x = a, *y = b;
	const int order = metric_compare(*(const enum metric *)context, &x->sums, &y->sums);
	return order ? order : compare_sites(a, b);
}

void alike_sort(struct alike *site, size_t count, enum metric metric)
{
	if (count)
		qsort_r(site, count, sizeof(*site), compare_values, &metric);
}
