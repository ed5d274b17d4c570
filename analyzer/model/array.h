/* SPDX-License-Identifier: Apache-2.0
 *
 * Grows arrays that are stored as a pointer, a count and a capacity.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* Makes `*(void **)data` hold at least `wanted` elements; new ones are zero. The pointer and
 * `capacity` are unchanged on failure. `what` names the elements in the message. */
HT_MUST_CHECK
struct ht_err *array_reserve(
	void *data, size_t *capacity, size_t wanted, size_t element_bytes, const char *what);
