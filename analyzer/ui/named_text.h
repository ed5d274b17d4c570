/* SPDX-License-Identifier: Apache-2.0
 *
 * Text output about a trace's names: a line for each module, and remarks about missing names.
 */
#pragma once

#include "analyzer/ui/text.h"
#include "analyzer/views/named.h"

void named_text_write(
	const struct text *text, const struct analysis *analysis, const struct named *named);
