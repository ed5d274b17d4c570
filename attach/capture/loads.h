/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the target that have loaded a library, and wait for us to hook its slots before they
 * go on (agent/load.c).
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/plan/survey.h"

/* Zero before loads_configure: no thread waits. */
struct loads {
	const struct image *image;
	uint64_t answered; /* the last question */
	uint64_t early;	   /* the last question that was answered before the tables were there */
	uint64_t late;	   /* abi_control.load_late, as far as it is counted */
	uint64_t in_vain;  /* waits that had ended when the slots were hooked */
	uint64_t busy_until_ns;
	bool see_constructors;
};

/* Before the image is in use: writes into its config where the dynamic linker's locks and list are.
 * Threads do not wait before loads_listen. `image` outlives `loads`. `wait_cycles`: the longest
 * wait of a thread, in cycles of its time stamp counter. */
void loads_configure(struct loads *loads, const struct survey *survey, const struct image *image,
	uint64_t wait_cycles);
void loads_listen(const struct loads *loads, bool listens);

/* Does a thread wait? The number of its question is `ret`. */
bool loads_asked(const struct loads *loads, uint64_t *ret);
/* Is a thread loading a library now? It will ask before the library runs. */
bool loads_come(const struct loads *loads);
/* Has one waited in the last second? Where one library is loaded others follow. */
bool loads_are_busy(const struct loads *loads);
/* The new slots are hooked: true if a thread has waited in vain before. */
bool loads_tapped(struct loads *loads);
/* All threads up to this question go on. */
void loads_answer(struct loads *loads, uint64_t number);
/* The same before the tables of what they have loaded are there: their slots are hooked. */
void loads_answer_early(struct loads *loads, uint64_t number);
/* After the look that answered this question and counted `counted` libraries as recorded too late.
 * Returns how many more were: those of threads that waited in vain. */
HT_MUST_CHECK
uint64_t loads_count(struct loads *loads, uint64_t number, uint64_t counted);
/* Does a thread wait before the constructors of its library run? Otherwise their calls are missing.
 */
bool loads_see_constructors(const struct loads *loads);
/* After the window: returns how many libraries came after the last look. */
HT_MUST_CHECK
uint64_t loads_end(struct loads *loads);
