/* SPDX-License-Identifier: Apache-2.0
 *
 * Readable names of functions that have to fit into a few columns.
 */
#pragma once

#include "format/base.h"

#define NAME_BYTES 1024u

/* Shortens a function's name to `columns` if it can by leaving out what tells least: the return
 * type, the parameters, the arguments of templates, outer namespaces. What is still too wide is the
 * caller's to elide. Names of more than NAME_BYTES keep their beginning and end. */
void name_shorten(const char *function, size_t columns, char ret[NAME_BYTES]);
