/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a copy of a trace that can be published. Names become pseudonyms; addresses, lines,
 * threads and clocks get new numbers; build-ids are replaced by keyed hashes; host, user and
 * control group are left out. Sizes, stacks, times and lifetimes of blocks stay, so the copy's
 * report has the same figures of blocks.
 */
#pragma once

#include "analyzer/model/model.h"
#include "format/writer.h"

struct anonymizer;

/* `model`: the whole trace, already read (borrowed). `keeps_system`: keeps names of the C and C++
 * libraries, without the types in them. */
HT_MUST_CHECK
struct ht_err *anonymizer_create(struct model *model, bool keeps_system, struct anonymizer **ret);
void anonymizer_destroy(struct anonymizer *anonymizer);
/* Writes the anonymous version of a record; nothing for records that are left out. */
HT_MUST_CHECK
struct ht_err *anonymizer_put(
	struct anonymizer *anonymizer, const struct rec *rec, struct trace_writer *writer);
