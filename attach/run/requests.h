/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that ask a running capture: status, list, stop, pause, resume, mark, snapshot.
 * The recorded process is not touched.
 */
#pragma once

#include "attach/cli/options.h"
#include "attach/series/outcome.h"

/* Carries out one of these commands and prints its result. `*ret`: the exit status, with --wait
 * that of the capture. HT_ERR_REFUSED: the process is not being recorded, or the capture refuses
 * the request; HT_ERR_SYS: the capture does not answer. */
HT_MUST_CHECK
struct ht_err *requests_run(const struct options *options, enum exit_status *ret);
