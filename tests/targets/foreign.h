/* SPDX-License-Identifier: Apache-2.0
 *
 * C that a program in another language calls, from any of its threads: Go by cgo (foreign.go), Java
 * by JNI (foreign_jni.c), Python as an extension module (foreign_py.c). It counts its own
 * allocations, not those of the language's runtime. All its calls of the allocator are in the
 * section chain_text. All three programs obey
 *
 *      go          runs a phase of calls by several threads, with new counts; prints the counts
 *      more        does the same, but adds to the counts of the phase before
 *      save PATH   writes the chains since the last time, as chain.h has them
 */
#pragma once

#include <stdint.h>

typedef void foreign_back_fn(void *context, uint64_t seed);

/* Begins a phase: sets the counts to 0. Call it when no thread is in foreign_work. */
void foreign_begin(void);
/* Allocates and frees, and calls `back` (unless NULL) in between, which may call this function
 * again. Some blocks are left for the next call, which frees them. */
void foreign_work(uint64_t seed, unsigned operations, foreign_back_fn *back, void *context);
/* Prints the counts of the phase as one line. Call it when no thread is in foreign_work. */
void foreign_say(void);
/* Writes the chains since the last time to file `path` (chain.h). */
void foreign_save(const char *path);
