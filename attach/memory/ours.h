/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of what a heaptap maps into its target, by which any other heaptap knows it.
 */
#pragma once

#include <string.h>

#include "format/base.h"

/* Of the memfd, before the number of the heaptap's process. */
#define OURS_FILE "heaptap-"
/* The same, as /proc/PID/maps and the links in /proc/PID/fd begin. */
#define OURS_NAME "/memfd:" OURS_FILE

/* Is that the name of a mapping, or what a descriptor leads to, of a heaptap's memory? */
static inline bool ours_is(const char *name)
{
	return strncmp(name, OURS_NAME, strlen(OURS_NAME)) == 0;
}
