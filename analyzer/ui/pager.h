/* SPDX-License-Identifier: Apache-2.0
 *
 * Output that is longer than the screen, in a pager.
 */
#pragma once

#include <stdio.h>

#include "analyzer/ui/terminal.h"
#include "format/err.h"

struct pager {
	FILE *out; /* write to this */
	struct terminal terminal;
	char *data; /* what was written, if `out` is in memory */
	size_t length;
};

/* Begins output for standard output, which is `terminal`. Unless `is_wanted` on a terminal, `out`
 * is stdout itself. pager_close ends it. */
HT_MUST_CHECK
struct ht_err *pager_open(bool is_wanted, const struct terminal *terminal, struct pager *ret);
/* Shows what was written: with PAGER, or `less -R -F -X` if that is unset, if it is longer than the
 * screen and PAGER is neither empty nor cat; else, and if the pager cannot run, directly. The user
 * may end the pager early. Errors of writing to stdout are left to it. */
HT_MUST_CHECK
struct ht_err *pager_close(struct pager *pager);
