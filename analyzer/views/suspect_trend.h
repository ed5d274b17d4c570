/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests whether a rate falls. `segment` holds the rates in `count` equal parts of a time.
 */
#pragma once

#include "format/base.h"

/* The mean rate of the last third divided by that of the first third; 1 if the latter is 0. */
double trend_ratio(const double *segment, uint32_t count);
/* Whether the rate falls by more than chance explains, for `events` independent events. */
bool trend_slows(const double *segment, uint32_t count, double events);
