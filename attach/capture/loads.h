/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the target that have loaded a library wait, for a bounded time, until heaptap has
 * hooked the library's slots (agent/load.c). A waiting thread asks a question: the agent counts
 * questions from 1, and an answer with a number lets all threads up to that question go on.
 */
#pragma once

#include "attach/inject/image.h"
#include "attach/plan/survey.h"

/* Zero before loads_configure: no thread waits. */
struct loads {
	const struct image *image;
	uint64_t answered; /* the last question that was answered */
	uint64_t early;	   /* the last question that was answered before the libraries had unwind
			      tables */
	uint64_t late;	   /* the part of abi_control.load_late that is already counted */
	uint64_t in_vain;  /* waits that timed out before the slots were hooked */
	uint64_t busy_until_ns;
	bool see_constructors;
};

/* Call it before the target uses the image: writes the addresses of the dynamic linker's locks and
 * list into the image's configuration. If they cannot be found, no thread ever waits. No thread
 * waits before loads_listen. `image` must outlive `loads`. `wait_cycles`: the longest wait of a
 * thread, in cycles of its time stamp counter. */
void loads_configure(struct loads *loads, const struct survey *survey, const struct image *image,
	uint64_t wait_cycles);
/* `listens`: from here on threads that load a library wait; false: they do not. */
void loads_listen(const struct loads *loads, bool listens);

/* Does a thread wait? `ret`: the number of its question. */
bool loads_asked(const struct loads *loads, uint64_t *ret);
/* Is a thread loading a library now, or does one wait? The former will ask before the library's
 * code runs. */
bool loads_come(const struct loads *loads);
/* Was a question answered in the last second? Programs mostly load several libraries in a row. */
bool loads_are_busy(const struct loads *loads);
/* Call it when the new slots are hooked. True: a thread's wait timed out before that, and the
 * thread went on. */
bool loads_tapped(struct loads *loads);
/* Answers all questions up to `number`: their threads go on. */
void loads_answer(struct loads *loads, uint64_t number);
/* As loads_answer, when the new libraries' slots are hooked, but there are no unwind tables for
 * them yet. */
void loads_answer_early(struct loads *loads, uint64_t number);
/* Call it after the look that answered question `number` and counted `counted` libraries as
 * recorded too late. Returns how many libraries more were late, because the waits of their threads
 * had timed out. */
HT_MUST_CHECK
uint64_t loads_count(struct loads *loads, uint64_t number, uint64_t counted);
/* Does a thread wait before the constructors of its library run? If not, calls of constructors are
 * not recorded. */
bool loads_see_constructors(const struct loads *loads);
/* Call it after the window. Returns how many waits have timed out since the last look: libraries
 * that were never recorded. */
HT_MUST_CHECK
uint64_t loads_end(struct loads *loads);
