/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on standard error, and a time limit for printing them.
 */
#pragma once

#include "attach/series/outcome.h"

/* Prints the error, frees it, and returns the exit status for it. */
enum exit_status words_complain(struct ht_err *err);

/* Ends heaptap with exit status `status` after 5 s, unless words_unbound is called before: the
 * reader of the output may be the target, which waits for heaptap's end. */
void words_bound(enum exit_status status);
/* Ends the time limit of words_bound. */
void words_unbound(void);
