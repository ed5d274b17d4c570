/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trace says, compared with what the target wrote down about itself
 * (tests/targets/ledger.c).
 */
#pragma once

#include <jansson.h>

#include "format/base.h"

/* Has the ledger count calls of `function`, which is the same as `into`, or nothing but a call of
 * it, as calls of that. */
void books_fold(json_t *ledger, const char *function, const char *into);
/* Fails the test unless trace and report of `path` equal the ledger's answer to "go", to the last
 * call and byte. `by_thread`: for each of its threads, too. `cut`: some stacks are: handlers run in
 * the middle of a hook, from where no table leads down, or the C library has no tables. */
void books_check(const char *path, const json_t *ledger, bool by_thread, bool cut);
