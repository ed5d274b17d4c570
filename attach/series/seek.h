/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process is meant: -n, -u, --container, --wait-for.
 */
#pragma once

#include "attach/cli/options.h"

/*
 * Sets the PID of a command that names its process in another way; with --wait-for, waits until
 * there is one that has begun to run. Others see it meanwhile (standby.h), signals end the program,
 * and where `heaptap stop` ends the wait, `*ret_is_stopped` is set and nothing is to be done. Of
 * several, a command that steers takes the only one with a capture. HT_ERR_REFUSED: no process, or
 * several, which are printed.
 */
HT_MUST_CHECK
struct ht_err *seek_process(struct options *options, bool *ret_is_stopped);
