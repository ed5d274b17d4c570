/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of heaptap's mappings in a target, by which any heaptap recognises them.
 */
#pragma once

#include <string.h>

#include "format/base.h"

/* Name of the memfd; the PID of heaptap follows. */
#define OURS_FILE "heaptap-"
/* The same name as /proc/PID/maps and the links in /proc/PID/fd show it. */
#define OURS_NAME "/memfd:" OURS_FILE

/* Does `name`, of a mapping or the target of a descriptor's link, belong to memory of a heaptap? */
static inline bool ours_is(const char *name)
{
	return strncmp(name, OURS_NAME, strlen(OURS_NAME)) == 0;
}
