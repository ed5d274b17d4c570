/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a copy of a trace in the file of -o; the file appears under its name only when it is
 * complete.
 */
#pragma once

#include "analyzer/cmd.h"
#include "analyzer/cmd_file.h"
#include "format/writer.h"

struct cmd_copy {
	int in; /* -1: not open */
	struct cmd_file out;
	struct model model;
	struct trace_writer *writer;
};

/* Opens the trace `values->operand[0]` and the file of -o, which must be given; reads the trace
 * into copy->model with `observer`, and warns if only a part was read. Call cmd_copy_close also
 * after an error. */
HT_MUST_CHECK
struct ht_err *cmd_copy_open(const struct option_values *values,
	const struct model_observer *observer, struct cmd_copy *ret);
/* Reads the trace again and passes each record to `sink`. */
HT_MUST_CHECK
struct ht_err *cmd_copy_each(struct cmd_copy *copy,
	struct ht_err *(*sink)(void *context, const struct rec *rec), void *context);
/* Ends the copy (with a footer if the trace was complete) and gives it its name. If `err` is not
 * NULL, removes the copy and returns `err`. */
HT_MUST_CHECK
struct ht_err *cmd_copy_close(struct cmd_copy *copy, struct ht_err *err);
