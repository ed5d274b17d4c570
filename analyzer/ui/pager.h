/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows output in a pager if it is longer than the screen.
 */
#pragma once

#include <stdio.h>

#include "analyzer/ui/terminal.h"
#include "format/err.h"

struct pager {
	FILE *out; /* write to this */
	struct terminal terminal;
	char *data; /* the output so far, if `out` is in memory */
	size_t length;
};

/* Begins output for standard output, which is `terminal`. Unless `is_wanted` on a terminal, `out`
 * is stdout itself. pager_close ends it. */
HT_MUST_CHECK
struct ht_err *pager_open(bool is_wanted, const struct terminal *terminal, struct pager *ret);
/* Shows the output: in a pager if it is longer than the screen and PAGER is neither empty nor cat;
 * otherwise, or if the pager cannot run, directly. The pager is PAGER, or `less -R -F -X` if PAGER
 * is unset. The user may end the pager early. Errors of writing to stdout stay in the stream for
 * the caller to check. */
HT_MUST_CHECK
struct ht_err *pager_close(struct pager *pager);
