/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a program a function belongs to, by its readable name and its file: a namespace of
 * C++, a crate of Rust, a package of npm.
 */
#pragma once

#include "format/base.h"

#define NAMESPACE_BYTES 128u

/* False where neither name nor file tells: C, or a name that is not known. Both may be NULL. */
bool namespace_of(const char *function, const char *file, char ret[NAMESPACE_BYTES]);
