/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the filter.
 */
#pragma once

#include "format/record.h"

struct cull_options {
	uint64_t cull_ns; /* at least 1 */
	/* Receives each record, and the number of counted events that the record represents. The
	 * views in `rec` are valid only during the call. */
	struct ht_err *(*put)(void *context, const struct rec *rec, uint64_t events);
	void *context;
};
