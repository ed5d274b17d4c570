/* SPDX-License-Identifier: Apache-2.0
 *
 * What heaptap printed to a file, as an error of this program.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/*
 * Reads what a heaptap that ended with `status` printed to `fd` (-1: nothing), and prints it to
 * standard error. If heaptap failed, its last line becomes the error instead. Lost events (7) are
 * no failure: the trace shows them.
 */
HT_MUST_CHECK
struct ht_err *told_error(int fd, int status);
