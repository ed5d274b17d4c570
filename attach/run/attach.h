/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap attach: one capture of a running process, or a series of them.
 */
#pragma once

#include "attach/series/outcome.h"

/* Runs the command. Returns its exit status; for a series, the most important of the windows'
 * statuses (outcome_worse). */
int attach_run(const struct options *options);
