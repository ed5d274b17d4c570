/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names a trace has, for a person: a line for each module, and what is missing of it.
 */
#pragma once

#include "analyzer/ui/text.h"
#include "analyzer/views/named.h"

void named_text_write(
	const struct text *text, const struct analysis *analysis, const struct named *named);
