/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the process that the options -n, -u, --container and --wait-for describe.
 */
#pragma once

#include "attach/cli/options.h"

/*
 * If the command line describes its process by these options, finds the process and sets
 * options->pid. With --wait-for, if there is no such process yet, waits until there is one:
 * meanwhile `heaptap list` and `status` show the wait (standby.h), and a signal of
 * inherited_ending_signals ends this program. Then waits up to 3 s, no longer shown, until its
 * libraries are loaded. If `heaptap stop` ends the wait, sets `*ret_is_stopped`: the caller then
 * does nothing. If there are several processes, a command that sends a request to a capture takes
 * the only one that is being recorded. HT_ERR_REFUSED: no process (without --wait-for), or several,
 * which are printed.
 */
HT_MUST_CHECK
struct ht_err *seek_process(struct options *options, bool *ret_is_stopped);
