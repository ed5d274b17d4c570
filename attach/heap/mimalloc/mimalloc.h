/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads how much mimalloc (2.0.9 to 2.4.1 and 3.x, release builds) has handed out: the blocks of
 * all pages without those that other threads have freed and their own thread has not taken back
 * yet.
 */
#pragma once

#include "attach/heap/view/reader.h"

extern const struct reader mimalloc_reader;
