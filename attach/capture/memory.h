/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts into the trace how much memory the target uses (MEMORY records): at the window's start, ten
 * times a second, and at its end.
 */
#pragma once

#include "format/memory.h"

struct session;

/* Puts these figures; none where none is known. */
HT_MUST_CHECK
struct ht_err *memory_put(struct session *s, const struct memory *memory, uint64_t mono_ns);
/* The window begins: puts the first figures. */
HT_MUST_CHECK
struct ht_err *memory_begin(struct session *s);
/* Called each tick: puts figures when they are due. */
HT_MUST_CHECK
struct ht_err *memory_look(struct session *s, uint64_t now_mono_ns);
/* The window ends: puts the last figures, unless the target has ended or runs another program. */
HT_MUST_CHECK
struct ht_err *memory_end(struct session *s);
