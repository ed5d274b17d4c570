/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/preference.h"

#include <signal.h>

#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define MAIN   100
#define OTHER  101
#define OTHER2 102

static void do_nothing(int sig)
{
	(void)sig;
}

static void with_handler_of(const void *arg)
{
	int sig = *(const int *)arg;
	/* Removes the test framework's handlers. */
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	if (sig)
		signal(sig, do_nothing);
	child_ready(0);
	child_wait();
}

/* Returns the preference for a process that has a handler for `sig` (0: for no signal). */
static struct preference read_with(int sig, const struct choose_threads *threads)
{
	struct preference preference;
	struct proc proc;
	struct child child = child_fork(with_handler_of, &sig);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(preference_read(&proc, threads, false, &preference));
	proc_close(&proc);
	child_kill(&child);
	return preference;
}

static struct choose_thread computing[] = {{MAIN, STOPCOST_RESTART, true},
	{OTHER, STOPCOST_RUNNING, false}, {OTHER2, STOPCOST_RUNNING, false}};
static const struct choose_threads all_compute = {computing, HT_ARRAY_SIZE(computing)};
static struct choose_thread waiting[] = {{OTHER, STOPCOST_RESTART, false},
	{MAIN, STOPCOST_RESTART, true}, {OTHER2, STOPCOST_RUNNING, false}};
static const struct choose_threads one_waits = {waiting, HT_ARRAY_SIZE(waiting)};

HT_TEST(a_main_thread_that_sleeps_is_second_where_a_signal_has_a_handler)
{
	struct preference preference = read_with(SIGTERM, &all_compute);
	ck_assert(preference_is_second(&preference, &computing[0]));
	ck_assert(preference_is_second(&preference, &computing[1]));
}

/* A signal that is ignored can end the main thread's wait: another thread that waits comes first.
 */
HT_TEST(it_is_second_where_another_waits)
{
	struct preference preference = read_with(0, &one_waits);
	ck_assert(!preference_is_second(&preference, &waiting[0]));
	ck_assert(preference_is_second(&preference, &waiting[1]));
	ck_assert(preference_is_second(&preference, &waiting[2]));
}

HT_TEST(it_is_first_where_nobody_would_notice)
{
	struct preference preference = read_with(0, &all_compute);
	ck_assert(!preference_is_second(&preference, &computing[0]));
	ck_assert(preference_is_second(&preference, &computing[1]));
	preference = read_with(SIGSEGV, &all_compute);
	ck_assert(!preference_is_second(&preference, &computing[0]));
}

HT_SUITE("attach/stub/preference")
