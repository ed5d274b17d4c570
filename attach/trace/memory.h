/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts into the trace how much memory the target uses (MEMORY records): at the window's start, ten
 * times a second, and at its end.
 */
#pragma once

#include "attach/process/memuse.h"
#include "format/memory.h"

struct sink;

struct memory_figures {
	const struct proc *proc;
	struct sink *sink;
	int agent_fd; /* the agent's memfd; negative: none */
	struct memuse use;
	uint64_t next_ns;
	/* the last and the first RSS, without heaptap's memory in the target; 0: unknown */
	uint64_t rss_bytes, rss_first_bytes;
};

/* Puts the known figures of `memory` into the trace; no record if all are unknown. */
HT_MUST_CHECK
struct ht_err *memory_put(struct sink *sink, const struct memory *memory, uint64_t mono_ns);
/* Call when the window begins: puts the first figures. `proc` and `sink` must outlive `figures`,
 * which memory_end closes, also after an error. */
HT_MUST_CHECK
struct ht_err *memory_begin(
	struct memory_figures *figures, const struct proc *proc, struct sink *sink, int agent_fd);
/* Call it in each tick: puts figures when they are due. */
HT_MUST_CHECK
struct ht_err *memory_look(struct memory_figures *figures, uint64_t now_mono_ns);
/* Call it when the window ends, and once after memory_begin in any case: puts the last figures,
 * unless `is_gone` (the target has ended or runs another program), and closes `figures`. */
HT_MUST_CHECK
struct ht_err *memory_end(struct memory_figures *figures, bool is_gone);
