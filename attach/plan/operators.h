/* SPDX-License-Identifier: Apache-2.0
 *
 * What has no hook, and may need none: operators new and delete, and Rust's own functions.
 */
#pragma once

#include "attach/plan/entries.h"

/* Those that call a function which is hooked at its entry are seen there: so does the survey's
 * coverage have it from now on. */
void operators_settle(struct survey *survey, const struct entries *entries);
