/* SPDX-License-Identifier: Apache-2.0
 *
 * The snapshots that a test holds. tap.h asks whether the test has its own snapshot of a process. A
 * test whose process ends with exit(3) fails if it took a snapshot and never compared it.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

/* Registers a snapshot of process `pid`. The pointer `snap` identifies the snapshot and is never
 * dereferenced. */
void looks_add(const void *snap, pid_t pid);
void looks_remove(const void *snap);
/* Marks the snapshot as compared, or as needing no comparison. */
void looks_compared(const void *snap);
/* Does the test hold a snapshot of process `pid`? */
bool looks_has(pid_t pid);
