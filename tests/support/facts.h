/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of facts about a process, each with a key and a value, and the difference of two lists.
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
/* The value of the first fact with this key; NULL: there is none. */
const char *facts_find(const struct facts *facts, const char *key);

/* Writes a line that begins with `what` for each difference. `may_go`: facts may be missing from
 * `after`. `may_come`: `after` may have new facts, if facts_are_clean accepts their values. */
void facts_diff(FILE *out, const char *what, const struct facts *before, const struct facts *after,
	bool may_go, bool may_come);

/* How the names of heaptap's memfds begin. */
#define FACTS_OURS "memfd:heaptap-"
/* True if a value names nothing of heaptap and no traced or stopped thread. */
bool facts_are_clean(const char *value);
