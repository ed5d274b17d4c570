/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the user names as allocators (--alloc-fn).
 */
#pragma once

#include "attach/allocators/given.h"

/* Adds what "NAME=KIND" says. HT_ERR_USAGE names what is wrong with it. */
HT_MUST_CHECK
struct ht_err *given_add(struct given_list *list, const char *text);
