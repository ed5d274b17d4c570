/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the snapshot of a view for the process with the table.
 */
#pragma once

#include "analyzer/top/snapshot.h"
#include "analyzer/views/view.h"

/* Writes the snapshot of the whole view. */
HT_MUST_CHECK
struct ht_err *gather_write(FILE *out, const struct view *view);
