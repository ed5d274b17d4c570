/* SPDX-License-Identifier: Apache-2.0
 *
 * Pseudonyms for names of a trace, made by a keyed hash: a name has one pseudonym within a copy,
 * and another one in each further copy.
 */
#pragma once

#include "format/err.h"
#include "format/record.h"

#define PSEUDONYM_BYTES 4200u /* room for a name of TRACE_STRING_MAX bytes */

struct pseudonyms {
	uint64_t key[2];
};

/* Sets a random key. */
HT_MUST_CHECK
struct ht_err *pseudonyms_init(struct pseudonyms *pseudonyms);
/* SipHash-2-4 of the text. */
uint64_t pseudonym_hash(const struct pseudonyms *pseudonyms, struct rec_string text);
/* `prefix` and a number, as "m_48..."; an empty text stays empty. Returns `ret`. */
struct rec_string pseudonym_of(const struct pseudonyms *pseudonyms, const char *prefix,
	struct rec_string text, char ret[PSEUDONYM_BYTES]);
/* A function's pseudonym. It is a wrapper, or plumbing, if the name is one (symbols/wrapper.h), so
 * that views leave out the same frames. */
struct rec_string pseudonym_of_function(
	const struct pseudonyms *pseudonyms, struct rec_string text, char ret[PSEUDONYM_BYTES]);
/* Whether a path is that of a part of the C or C++ library, of the dynamic linker, or the kernel's
 * [vdso]. */
bool pseudonym_is_system(struct rec_string path);
/* A function name of a system library without the types in <> and (), which may be types of the
 * program. Returns `ret`. */
struct rec_string pseudonym_bare(struct rec_string text, char ret[PSEUDONYM_BYTES]);
