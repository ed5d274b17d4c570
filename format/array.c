/* SPDX-License-Identifier: Apache-2.0 */
#include "format/array.h"

#include <stdlib.h>
#include <string.h>

struct ht_err *array_reserve(
	void *data, size_t *capacity, size_t wanted, size_t element_bytes, const char *what)
{
	if (wanted <= *capacity)
		return NULL;
	size_t grown = *capacity ? *capacity : 16;
	while (grown < wanted && grown <= SIZE_MAX / 2)
		grown *= 2;
	void *old = NULL;
	memcpy(&old, data, sizeof(old));
	uint8_t *new = grown < wanted ? NULL : reallocarray(old, grown, element_bytes);
	if (!new)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu %s", wanted, what);
	memset(new + *capacity *element_bytes, 0, (grown - *capacity) * element_bytes);
	memcpy(data, &new, sizeof(new));
	*capacity = grown;
	return NULL;
}
