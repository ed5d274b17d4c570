/* SPDX-License-Identifier: Apache-2.0
 *
 * Records a process through its execs: each program that it becomes gets a separate trace.
 */
#pragma once

#include "attach/run/forks.h"
#include "attach/run/launch.h"

/* A forks_record. The process goes on after any error. Returns an error, which the caller prints,
 * only if the first program was not recorded. */
HT_MUST_CHECK
struct ht_err *programs_record(const struct forks_process *process, struct launch *launch);
