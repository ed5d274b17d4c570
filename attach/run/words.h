/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on standard error that no reader can make heaptap wait for.
 */
#pragma once

#include "attach/series/outcome.h"

/* Prints the error, frees it and returns its exit status. */
enum exit_status words_complain(struct ht_err *err);

/* From here on heaptap ends with `status` when a reader takes nothing for some seconds: it may be
 * the target, which waits for heaptap to end. */
void words_bound(enum exit_status status);
/* Ends words_bound: what follows may take long. */
void words_unbound(void);
