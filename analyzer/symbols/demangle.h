/* SPDX-License-Identifier: Apache-2.0
 *
 * Names as the programmer wrote them: C++, and both manglings of Rust.
 */
#pragma once

/* The readable form of `name`, to be freed; NULL if it is not mangled or not understood. */
char *demangle(const char *name);
