/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up directory in place of /proc/PID: that of a process which lives, and of which only what
 * a test writes there is known. One for each test.
 */
#pragma once

#include "attach/proc/proc.h"

/* From now on `proc`, which is open, is looked at there. */
void procstage_init(struct proc *proc);
/* The file `name`, such as "status" or "task/7/status"; the folder it is in is made. */
void procstage_file(const char *name, const char *text);
/* The folder `name`. Nothing happens if there is one. */
void procstage_folder(const char *name);
