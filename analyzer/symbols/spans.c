/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/spans.h"

#include <stdlib.h>

#include "format/array.h"

#define SPANS_MAX (1u << 22)
/* number of spans that spans_next examines, from the last that starts before the address */
#define LOOK_BACK 16u

void spans_deinit(struct spans *spans)
{
	free(spans->span);
	*spans = (struct spans){0};
}

struct ht_err *spans_add(struct spans *spans, uint64_t from, uint64_t to, uint32_t index)
{
	if (from >= to || spans->count == SPANS_MAX)
		return NULL;
	HT_TRY(ARRAY_RESERVE(spans->span, spans->capacity, spans->count + 1, "ranges of code"));
	spans->span[spans->count++] = (struct span){from, to, index};
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

void spans_sort(struct spans *spans)
{
	if (spans->count)
		qsort(spans->span, spans->count, sizeof(*spans->span), compare);
}

const struct span *spans_next(const struct spans *spans, uint64_t address, size_t *at)
{
	size_t count = array_from(spans->span, spans->count, sizeof(*spans->span), address + 1);
	while (*at < count && *at < LOOK_BACK) {
		const struct span *span = &spans->span[count - ++*at];
		if (address < span->to)
			return span;
	}
	return NULL;
}

bool spans_hold(const struct spans *spans, uint64_t from, uint64_t to)
{
	size_t at = 0;
	const struct span *span;
	while ((span = spans_next(spans, from, &at)))
		if (to <= span->to)
			return true;
	return false;
}
