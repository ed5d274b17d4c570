/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the process of a name, a unit or a container by running `heaptap find`, so that only that
 * program decides which process is meant.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

/* A process must match all members that are not NULL. */
struct seek_query {
	const char *name, *unit, *container;
};

/* HT_ERR_REFUSED: no process, or several, which are printed. */
HT_MUST_CHECK
struct ht_err *seek_process(const struct seek_query *query, pid_t *ret);
