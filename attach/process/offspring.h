/* SPDX-License-Identifier: Apache-2.0
 *
 * The children of a process, as the kernel lists them.
 */
#pragma once

#include "attach/proc/proc.h"

/* Puts the first `max` into `ret`; their number. One that comes or goes meanwhile may be missing,
 * and others beside it: who is to be found is looked for again. */
size_t offspring_list(const struct proc *proc, pid_t *ret, size_t max);
