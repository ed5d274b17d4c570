/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the messages that a heaptap process printed to a file into an error of this program.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/*
 * Reads the messages that a heaptap process with exit status `status` printed to `fd` (-1: none),
 * and prints them to standard error. If heaptap failed, the last line becomes the error instead, or
 * `silent` if it printed nothing. The exit statuses 1 to 6 are failures. Status 7 (lost events) is
 * none: the trace shows the loss.
 */
HT_MUST_CHECK
struct ht_err *told_error(int fd, int status, const char *silent);
