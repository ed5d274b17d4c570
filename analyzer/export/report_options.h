/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a report that are written as JSON, and their order.
 */
#pragma once

#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"

struct report_json_options {
	size_t limit;	   /* of stacks, and of a table's rows; 0: all */
	enum metric order; /* of stacks, and of a table's rows */
	bool has_class;	   /* only suspects and stacks of one class */
	enum suspect_class of_class;
	bool has_by; /* one table more: "breakdown" */
	enum breakdown_by by;
	/* Members that are written, ended by NULL; they are the same as among the others. NULL:
	 * all. */
	const char *const *member;
};
