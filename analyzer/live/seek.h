/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the process that a name, a unit or a container means, by `heaptap find`: what means which
 * process is decided in one place.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* All that are not NULL must match. */
struct seek_query {
	const char *name, *unit, *container;
};

/* HT_ERR_REFUSED: no process, or several, which are printed. */
HT_MUST_CHECK
struct ht_err *seek_process(const struct seek_query *query, pid_t *ret);
