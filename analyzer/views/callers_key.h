/* SPDX-License-Identifier: Apache-2.0
 *
 * The key of a site.
 */
#pragma once

#include "format/base.h"

/* Key of a site: two nodes are of one site if they are the same function at the same line, called
 * by the same function or from the same line of a script. */
struct callers_key {
	uint32_t group, script; /* the node's group, and that of callers_script; UINT32_MAX: none */
	const char *function, *file; /* of the caller (callers_next), without a script; or NULL */
	uint32_t caller; /* the group of a caller without a name, without a script; or UINT32_MAX */
};
