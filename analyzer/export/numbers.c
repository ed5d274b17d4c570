/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/numbers.h"

#include <stdlib.h>

struct ht_err *numbers_init(struct numbers *numbers, size_t size, const char *what)
{
	*numbers = (struct numbers){.number_of = calloc(size + 1, sizeof(*numbers->number_of)),
		.index = calloc(size + 1, sizeof(*numbers->index))};
	return numbers->number_of && numbers->index
		       ? NULL
		       : ht_err_new(HT_ERR_NOMEM, "out of memory for %zu %s", size, what);
}

void numbers_deinit(struct numbers *numbers)
{
	free(numbers->number_of);
	free(numbers->index);
	*numbers = (struct numbers){0};
}

uint32_t numbers_get(struct numbers *numbers, uint32_t index)
{
	if (!numbers->number_of[index]) {
		numbers->index[numbers->count] = index;
		numbers->number_of[index] = ++numbers->count;
	}
	return numbers->number_of[index] - 1;
}
