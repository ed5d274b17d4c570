/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap attach: one capture of a running process, or a series of them.
 */
#pragma once

#include "attach/series/outcome.h"

/* Runs the command; returns its exit status, of several captures that of the worst. */
int attach_run(const struct options *options);
