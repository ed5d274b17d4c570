/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the report as JSON or CSV: which parts are written, and their order.
 */
#pragma once

#include "analyzer/views/breakdown.h"
#include "analyzer/views/suspects.h"

struct report_options {
	size_t limit;	   /* of stacks (JSON) or sites (CSV), and of a table's rows; 0: all */
	enum metric order; /* of the same */
	bool has_class;	   /* only suspects, stacks and sites of one class */
	enum suspect_class of_class;
	bool has_by; /* JSON: also write a table, "breakdown"; CSV: write it instead of sites */
	enum breakdown_by by;
	/* JSON: names of the members to write, ended by NULL; their contents do not depend on this
	 * list. NULL: all members. */
	const char *const *member;
};
