/* SPDX-License-Identifier: Apache-2.0
 *
 * Records a process from program to program: each that it becomes by exec has a trace of its own.
 */
#pragma once

#include "attach/run/forks.h"
#include "attach/run/launch.h"

/* A forks_record. The process goes on in any case. An error: not even the first program was
 * recorded; the caller reports it. */
HT_MUST_CHECK
struct ht_err *programs_record(const struct forks_process *process, struct launch *launch);
