/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the JSON report: which parts are written, and their order.
 */
#pragma once

#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"

struct report_json_options {
	size_t limit;	   /* of stacks, and of a table's rows; 0: all */
	enum metric order; /* of stacks, and of a table's rows */
	bool has_class;	   /* only suspects and stacks of one class */
	enum suspect_class of_class;
	bool has_by; /* also write a table: "breakdown" */
	enum breakdown_by by;
	/* Names of the members to write, ended by NULL; their contents do not depend on this list.
	 * NULL: all members. */
	const char *const *member;
};
