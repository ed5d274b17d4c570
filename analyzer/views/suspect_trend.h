/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a rate fall? Tests of equal parts of a time, each with its rate.
 */
#pragma once

#include "format/base.h"

/* The last third's rate, in that of the first; 1 if the first has none. */
double trend_ratio(const double *segment, uint32_t count);
/* The rate falls by more than chance explains, if it is that of `events` independent events. */
bool trend_slows(const double *segment, uint32_t count, double events);
