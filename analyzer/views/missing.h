/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules whose functions lack names, or whose debug information was not read: which of them the
 * window's allocations pass through, why, and what the user can do.
 */
#pragma once

#include "analyzer/cube/analysis.h"

#define MISSING_SHOWN_MAX 5u

struct missing_module {
	uint32_t module;      /* index; MODULES_NONE: code in no file */
	uint64_t allocations; /* allocations that lack names of this module */
};

struct missing {
	struct missing_module shown[MISSING_SHOWN_MAX]; /* the most allocations first */
	size_t shown_count, others;
};

HT_MUST_CHECK
struct ht_err *missing_find(const struct analysis *analysis, struct missing *ret);
/* A remark on a module's missing names and the remedy; malloc'd. NULL: nothing is missing, or no
 * memory. */
char *missing_remark(const struct analysis *analysis, uint32_t module);
/* A sentence that names the module, the reason and the remedy. malloc'd; NULL: no memory. */
char *missing_sentence(const struct analysis *analysis, const struct missing_module *of);
