/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names a trace has, for programs: one JSON object, "heaptap.symbols/1".
 */
#pragma once

#include <stdio.h>

#include "analyzer/views/named.h"

HT_MUST_CHECK
struct ht_err *named_json_write(
	FILE *out, const struct analysis *analysis, const struct named *named);
