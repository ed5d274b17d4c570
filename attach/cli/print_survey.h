/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what attach would do to a process (`heaptap doctor`), as text and as one JSON object.
 */
#pragma once

#include "attach/plan/ownprofile.h"
#include "attach/plan/taps.h"

/* `verbose` adds a line for each GOT slot and each function. */
void print_survey(const struct survey *survey, const struct taps *taps,
	const struct ownprofile *profile, bool verbose);
/* Prints "schema": "heaptap.doctor/1" on standard output. */
HT_MUST_CHECK
struct ht_err *print_survey_json(
	const struct survey *survey, const struct taps *taps, const struct ownprofile *profile);
