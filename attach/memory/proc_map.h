/* SPDX-License-Identifier: Apache-2.0
 *
 * The mappings of a process as a list.
 */
#pragma once

#include "format/base.h"

struct proc_map {
	raddr_t lo, hi;
	uint64_t offset;
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	bool read, write, exec, shared;
	const char *name; /* as the kernel prints it, with \012 for a newline; "": anonymous; NULL:
			     not looked up */
};

struct proc_maps {
	struct proc_map *map;
	size_t count;
	char *text; /* the names point into it */
};
