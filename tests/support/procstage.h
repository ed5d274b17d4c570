/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake directory in place of /proc/PID of a live process. It contains a plausible "stat" and the
 * files that the test writes. One per test.
 */
#pragma once

#include "attach/proc/proc.h"

/* Makes the open `proc` read from the fake directory. */
void procstage_init(struct proc *proc);
/* Writes the file `name`, such as "status" or "task/7/status", and makes the folders above it. */
void procstage_file(const char *name, const char *text);
/* Makes the folder `name`. Does nothing if it exists. */
void procstage_folder(const char *name);
