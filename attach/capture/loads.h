/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the target that have loaded a library, and wait for us to hook its slots before they
 * go on (agent/load.c).
 */
#pragma once

#include "attach/capture/session_state.h"

/* What threads do that load a library from now on: they do not wait before loads_listen. */
void loads_configure(struct session *s, struct abi_config *config);
void loads_listen(struct session *s, bool listens);

/* Does a thread wait? The number of its question is `ret`. */
bool loads_asked(const struct session *s, uint64_t *ret);
/* Is a thread loading a library now? It will ask before the library runs. */
bool loads_come(const struct session *s);
/* Has one waited in the last second? Where one library is loaded others follow. */
bool loads_are_busy(const struct session *s);
/* The new slots are hooked: true if a thread has waited in vain before. */
bool loads_tapped(struct session *s);
/* All threads up to this question go on. */
void loads_answer(struct session *s, uint64_t number);
/* The same before the tables of what they have loaded are there: their slots are hooked. */
void loads_answer_early(struct session *s, uint64_t number);
/* After the look that answered this question. `counted`: libraries that it counted as recorded too
 * late; counts those beyond, of threads that waited in vain. */
void loads_count(struct session *s, uint64_t number, uint64_t counted);
/* Does a thread wait before the constructors of its library run? Otherwise their calls are missing.
 */
bool loads_see_constructors(const struct session *s);
/* After the window: counts those that came after the last look. */
void loads_end(struct session *s);
