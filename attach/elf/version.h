/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of dynamic symbols (DT_VERSYM and its tables), and whether the dynamic linker accepts a
 * definition for a reference, as do_lookup_x of glibc decides.
 */
#pragma once

#include "attach/elf/dynamic.h"

#define VERSION_NAME_BYTES 64u

/* The version of one symbol. */
struct version {
	bool has_versions; /* of the module */
	bool hidden;
	uint16_t index; /* in the module's tables; below 2: no version of its own */
	uint32_t hash;	/* 0: no version */
	char name[VERSION_NAME_BYTES];
};

/* Reads the version of symbol `index` of the module's symbol table. A symbol that the tables lack
 * has no version. */
HT_MUST_CHECK
struct ht_err *version_read(const struct proc *proc, const struct dynamic *dynamic, uint32_t index,
	struct budget *budget, struct version *ret);

enum version_match {
	VERSION_OTHER,
	VERSION_SAME,
	VERSION_UNSURE, /* a reference without a version: depends on the other definitions */
};

enum version_match version_match(const struct version *wanted, const struct version *defined);
