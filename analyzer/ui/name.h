/* SPDX-License-Identifier: Apache-2.0
 *
 * Readable names of functions that have to fit into a few columns.
 */
#pragma once

#include "format/base.h"

#define NAME_BYTES 1024u

/* Shortens a function's name to `columns` if possible, by dropping in this order: return type,
 * parameters, template arguments, outer namespaces. The caller elides a name that is still too
 * wide. Names of more than NAME_BYTES keep their beginning and end. */
void name_shorten(const char *function, size_t columns, char ret[NAME_BYTES]);
