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

/* `model` is the whole trace, read before (borrowed). `keeps_system`: names of the C and C++
 * libraries stay, without the types in them. */
HT_MUST_CHECK
struct ht_err *anonymizer_create(struct model *model, bool keeps_system, struct anonymizer **ret);
void anonymizer_destroy(struct anonymizer *anonymizer);
/* Writes what stands for one record of the trace, if anything does. */
HT_MUST_CHECK
struct ht_err *anonymizer_put(
	struct anonymizer *anonymizer, const struct rec *rec, struct trace_writer *writer);
