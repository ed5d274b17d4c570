/* SPDX-License-Identifier: Apache-2.0
 *
 * The places in a program's text from which it makes its system calls: thousands of calls come from
 * some hundred of them, and two runs that differ in the number of calls have the same places. So
 * what is done once at each place is done everywhere, in a tenth of the runs.
 *
 * A place is who calls, the number of the call, and the two innermost return addresses in the
 * program itself, read from the stack word by word: one that an earlier call left there may be
 * among them, which makes two places of one, never one of two that differ in the caller.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct places;

/* HEAPTAP_SWEEP=places. */
bool places_wanted(void);
/* Collects the places of the program `exe`. */
struct places *places_new(const char *exe);
void places_destroy(struct places *places);
/* A run begins: its calls are counted from the start. */
void places_begin(struct places *places);
/* Stopped process `pid` makes call `number`, with its stack at `sp`; `who` tells callers apart.
 * True the first time that this is the 1st, 4th, 16th... call of a run at its place. */
bool places_is_due(struct places *places, pid_t pid, unsigned who, long number, uint64_t sp);
/* How many there are as yet. */
size_t places_count(const struct places *places);
