/* SPDX-License-Identifier: Apache-2.0
 *
 * The places in a program's text that make its system calls. Thousands of calls come from about a
 * hundred places, and runs with different numbers of calls have the same places. So one fault at
 * each place covers all calls in a tenth of the runs.
 *
 * A place is the caller's role, the number of the call, and the two innermost return addresses in
 * the program, read from the stack word by word. A stale return address may split one place into
 * two, but never joins two places with different callers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct places;

/* Is HEAPTAP_SWEEP=places set? */
bool places_wanted(void);
/* Collects the places of the program `exe`. */
struct places *places_new(const char *exe);
void places_destroy(struct places *places);
/* Begins a run: resets the counts of calls. */
void places_begin(struct places *places);
/* Stopped process `pid` makes call `number`, with its stack at `sp`; `who` tells callers apart.
 * True the first time that this is the 1st, 4th, 16th... call of a run at its place. */
bool places_is_due(struct places *places, pid_t pid, unsigned who, long number, uint64_t sp);
/* The number of places found so far. */
size_t places_count(const struct places *places);
