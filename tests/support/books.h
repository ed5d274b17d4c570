/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a trace and its report with the target's own ledger: the counts that
 * tests/targets/ledger.c keeps of its calls and bytes.
 */
#pragma once

#include <jansson.h>

#include "format/base.h"

/* Adds the ledger's counts of `function` to those of `into`, and sets the former to 0. For a
 * `function` that is an alias of `into` or only calls it, so that heaptap records its calls as
 * `into`. */
void books_fold(json_t *ledger, const char *function, const char *into);
/* Fails the test unless trace and report of `path` equal the ledger's answer to "go", to the last
 * call and byte. `by_thread`: also compares each thread. `cut`: allows cut stacks, which occur when
 * handlers run inside a hook, where no table leads further, or the C library has no tables. */
void books_check(const char *path, const json_t *ledger, bool by_thread, bool cut);
/* The part of books_check that compares only the report, for traces that hold sums instead of some
 * events (attach --cull). */
void books_check_report(const char *path, const json_t *ledger, bool cut);
