/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph as lines of text: outermost functions first, each as wide as its share.
 */
#pragma once

#include "analyzer/ui/calls_text.h"
#include "analyzer/views/flame.h"

void flame_text_write(const struct calls_text *page, const struct flame *flame);
