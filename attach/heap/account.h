/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said of an account.
 */
#pragma once

#include "attach/heap/heap.h"

/* Adds a figure; there is room for HEAP_VALUES_MAX. */
void account_value(struct heap_account *account, enum memory_kind kind, uint64_t bytes);
/* The first reason stays: it is the weightier one. */
HT_PRINTF(2, 3) void account_explain(struct heap_account *account, const char *fmt, ...);
