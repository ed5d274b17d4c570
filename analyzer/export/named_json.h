/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes which names a trace has as one JSON object, "heaptap.symbols/1".
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/named.h"

HT_MUST_CHECK
struct ht_err *named_json_write(
	FILE *out, const struct analysis *analysis, const struct named *named);
