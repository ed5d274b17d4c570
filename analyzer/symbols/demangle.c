/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <stddef.h>
#include <string.h>

/* Longer names come from nobody's compiler; the work may grow much faster than the name. */
#define MANGLED_MAX 65536u

char *demangle(const char *name)
{
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
		strnlen(name, MANGLED_MAX) == MANGLED_MAX)
		return NULL;
	return cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
}
