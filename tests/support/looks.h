/* SPDX-License-Identifier: Apache-2.0
 *
 * Which snapshots a test holds, so that whoever would take one of the same process knows, and so
 * that none is taken and then forgotten: a test whose process ends with exit(3) fails if there was
 * one that was compared with nothing.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"

/* Registers a snapshot of process `pid`. `snap` is only an identity: it is compared, never read. */
void looks_add(const void *snap, pid_t pid);
void looks_remove(const void *snap);
/* It was compared, or need not be. */
void looks_compared(const void *snap);
/* Is there one of it? */
bool looks_has(pid_t pid);
