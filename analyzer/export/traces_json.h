/* SPDX-License-Identifier: Apache-2.0
 *
 * A summary of several traces: "schema":"heaptap.traces/1".
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/view.h"

/* An entry for each of `count` views of whole windows; `path` names them. */
HT_MUST_CHECK
struct ht_err *traces_json_write(
	FILE *out, const struct view *const *view, const char *const *path, size_t count);
