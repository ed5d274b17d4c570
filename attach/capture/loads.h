/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the target that have loaded a library wait, for a bounded time, until heaptap has
 * hooked the library's slots (agent/load.c).
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/plan/survey.h"

/* Zero before loads_configure: no thread waits. */
struct loads {
	const struct image *image;
	uint64_t answered; /* the last question that was answered */
	uint64_t early;	   /* the last one that was answered before the tables were there */
	uint64_t late;	   /* how much of abi_control.load_late is counted */
	uint64_t in_vain;  /* waits that timed out before the slots were hooked */
	uint64_t busy_until_ns;
	bool see_constructors;
};

/* Call before the image is in use: writes into its configuration where the dynamic linker's locks
 * and list are. No thread waits before loads_listen. `image` must outlive `loads`. `wait_cycles`:
 * the longest wait of a thread, in cycles of its time stamp counter. */
void loads_configure(struct loads *loads, const struct survey *survey, const struct image *image,
	uint64_t wait_cycles);
void loads_listen(const struct loads *loads, bool listens);

/* Does a thread wait? `ret`: the number of its question. */
bool loads_asked(const struct loads *loads, uint64_t *ret);
/* Is a thread loading a library now? It will ask before the library's code runs. */
bool loads_come(const struct loads *loads);
/* Has a thread waited in the last second? Where one library is loaded, others follow. */
bool loads_are_busy(const struct loads *loads);
/* Call when the new slots are hooked. True: a thread's wait timed out before that. */
bool loads_tapped(struct loads *loads);
/* Lets all threads up to question `number` go on. */
void loads_answer(struct loads *loads, uint64_t number);
/* The same, before there are unwind tables for the new libraries: only their slots are hooked. */
void loads_answer_early(struct loads *loads, uint64_t number);
/* Call after the look that answered question `number`, and that counted `counted` libraries as
 * recorded too late. Returns how many more were late: those of threads whose wait timed out. */
HT_MUST_CHECK
uint64_t loads_count(struct loads *loads, uint64_t number, uint64_t counted);
/* Does a thread wait before the constructors of its library run? If not, calls of constructors are
 * not recorded. */
bool loads_see_constructors(const struct loads *loads);
/* Call after the window. Returns how many libraries were loaded after the last look. */
HT_MUST_CHECK
uint64_t loads_end(struct loads *loads);
