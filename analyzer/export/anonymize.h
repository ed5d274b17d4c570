/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a trace that may be posted. Names become pseudonyms; addresses, lines, threads and
 * clocks are counted anew; build-ids are random; host, user and control group are left out. What
 * was allocated, where, when and how long it lived stays: the copy has the report of the original,
 * but for names.
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
/* Writes the anonymous version of a record, if it has one. */
HT_MUST_CHECK
struct ht_err *anonymizer_put(
	struct anonymizer *anonymizer, const struct rec *rec, struct trace_writer *writer);
