/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that have no hook and may need none: operators new and delete, and Rust's own
 * functions.
 */
#pragma once

#include "attach/plan/survey.h"

struct entries;

/* entries_has */
typedef bool operators_is_hooked(const struct entries *entries, raddr_t addr);

/* Marks operators in the survey's coverage that call a function with an entry hook: that hook sees
 * their calls. */
void operators_settle(
	struct survey *survey, operators_is_hooked *is_hooked, const struct entries *entries);
