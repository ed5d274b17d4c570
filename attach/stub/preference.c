/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/preference.h"

#include <signal.h>
#include <unistd.h>

#include "attach/proc/proc_status.h"

#define BIT(sig) (1ull << ((sig)-1))

/* Exceptions of the processor go to the thread that caused them, never to another. */
#define OF_A_THREAD                                                                                \
	(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGTRAP) | BIT(SIGSYS))

struct ht_err *preference_read(const struct proc *proc, const struct choose_threads *threads,
	bool filtered, struct preference *ret)
{
	struct preference preference = {.confined = filtered && geteuid() != 0};
	struct proc_status status;
	bool others_compute = true;
	HT_TRY(proc_status(proc, 0, &status));

	for (size_t i = 0; i < threads->count; i++) {
		const struct choose_thread *thread = &threads->thread[i];
		preference.others |= !thread->addressed;
		preference.sleeper |= thread->addressed && thread->cost < STOPCOST_RUNNING;
		others_compute &= thread->addressed || thread->cost == STOPCOST_RUNNING;
	}
	preference.deaf = others_compute && preference.sleeper && !(status.sig_cgt & ~OF_A_THREAD);
	*ret = preference;
	return NULL;
}

bool preference_is_second(const struct preference *preference, const struct choose_thread *thread)
{
	bool computes = thread->cost == STOPCOST_RUNNING;
	if (!preference->others || preference->confined)
		return false;
	if (thread->addressed)
		return computes || !preference->deaf;
	return computes && preference->sleeper;
}
