/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a program that a function belongs to, from its readable name and its file: a C++
 * namespace, a Rust crate, an npm package.
 */
#pragma once

#include "format/base.h"

#define NAMESPACE_BYTES 128u

/* False if neither name nor file shows one, as for C functions and unknown names. Both may be NULL.
 */
bool namespace_of(const char *function, const char *file, char ret[NAMESPACE_BYTES]);
