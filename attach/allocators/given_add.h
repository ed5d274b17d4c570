/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the user's names of allocators (--alloc-fn).
 */
#pragma once

#include "attach/allocators/given.h"

/* Adds the function of "NAME=KIND". HT_ERR_USAGE says what is wrong with `text`. */
HT_MUST_CHECK
struct ht_err *given_add(struct given_list *list, const char *text);
