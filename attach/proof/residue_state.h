/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of the target from before the attach, and how each part is compared.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proof/residue_report.h"

/* Only a difference that lasts this long counts. */
#define RESIDUE_SETTLE_NS (1000 * CLOCK_NS_PER_MS)

struct text_hash {
	raddr_t lo, hi;
	uint64_t inode, offset;
	uint64_t bytes; /* that could be read, from `lo` on: a library may be unloaded meanwhile */
	uint64_t hash;	/* of those bytes */
};

struct thread_signals {
	pid_t tid;
	uint64_t blocked;
	bool unstable; /* the thread changes its mask by itself, so the mask is not compared */
};

struct loaded {
	raddr_t lo, hi;
	uint64_t inode;
};

struct residue {
	struct proc_maps maps;
	struct text_hash *text;
	size_t text_count;
	struct thread_signals *thread;
	size_t thread_count;
	struct loaded *module;
	size_t module_count;
};

static inline HT_PRINTF(2, 3) void residue_say(char text[RESIDUE_TEXT_BYTES], const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, RESIDUE_TEXT_BYTES, fmt, args);
	va_end(args);
}

static inline bool residue_is_equal(const char *text)
{
	return strcmp(text, "equal") == 0;
}

/* Threads and their signal masks; the target may run. */
HT_MUST_CHECK
struct ht_err *residue_take_threads(const struct proc *proc, struct residue *residue);
/* Reads the masks once more: a mask that the thread changes by itself is not compared later. */
void residue_look_at_threads(struct residue *residue, const struct proc *proc);
void residue_compare_threads(
	const struct residue *residue, const struct proc *proc, struct residue_report *report);
