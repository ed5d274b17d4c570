/* SPDX-License-Identifier: Apache-2.0
 *
 * What keeps a whole process from running, for whoever waits for it.
 */
#pragma once

#include "attach/proc/proc.h"

/* Why none of its threads gets on, and what helps, in words; NULL: they do, or each has a reason of
 * its own, or that could not be read. May take 0.1 s: to be asked when something has failed. */
const char *standstill_reason(const struct proc *proc);
