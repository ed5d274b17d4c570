/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of dynamic symbols (DT_VERSYM and the tables beside it), and whether the dynamic linker
 * takes a definition for a reference, as glibc's do_lookup_x decides it.
 */
#pragma once

#include "attach/elf/dynamic.h"

#define VERSION_NAME_BYTES 64u

/* The version of one symbol. */
struct version {
	bool told; /* the module gives its symbols versions */
	bool hidden;
	uint16_t index; /* in the module's tables; below 2: no version of its own */
	uint32_t hash;	/* 0: no version */
	char name[VERSION_NAME_BYTES];
};

/* Of symbol `index` of the module. What its tables do not hold is taken as no version. */
HT_MUST_CHECK
struct ht_err *version_read(const struct proc *proc, const struct dynamic *dynamic, uint32_t index,
	struct budget *budget, struct version *ret);

enum version_match {
	VERSION_OTHER,
	VERSION_SAME,
	VERSION_UNSURE, /* a reference without a version: it depends on what else is defined */
};

enum version_match version_match(const struct version *wanted, const struct version *defined);
