/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads how much jemalloc (5.1 to 5.3) has handed out: the blocks of all extents without those in
 * the caches of threads. Its own counters are up to date only after a call that updates them.
 */
#pragma once

#include "attach/heap/view/reader.h"

extern const struct reader jemalloc_reader;
