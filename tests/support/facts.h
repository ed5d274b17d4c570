/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of what was seen of a process: each fact says about what (its key), and what (its value);
 * and how two such lists differ.
 */
#pragma once

#include <stdio.h>

#include "format/base.h"

struct fact {
	char *key, *value;
};

/* In the order in which they were added. {0} is empty. */
struct facts {
	struct fact *fact;
	size_t count;
};

void facts_add(struct facts *facts, const char *key, const char *value);
void facts_deinit(struct facts *facts);
/* The value of the first with this key, or NULL. */
const char *facts_find(const struct facts *facts, const char *key);

/* Says of each difference in one line that begins with `what`. Facts of `before` may be missing
 * from `after` where they `may_go`, and new ones be there where they `may_come`: none of heaptap's.
 */
void facts_diff(FILE *out, const char *what, const struct facts *before, const struct facts *after,
	bool may_go, bool may_come);

/* What bears heaptap's name. */
#define FACTS_OURS "memfd:heaptap-"
/* Whether a value tells of nothing of heaptap's, nor of a thread that is traced or stopped. */
bool facts_are_clean(const char *value);
