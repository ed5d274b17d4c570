/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads how much gperftools' tcmalloc (2.10) has handed out: the blocks of all spans without those
 * in the caches of threads and in the lists between them.
 */
#pragma once

#include "attach/heap/view/reader.h"

extern const struct reader tcmalloc_reader;
