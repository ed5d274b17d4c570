/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/words.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/cli/print.h"

#define WORDS_S 5

static volatile sig_atomic_t final_status;

enum exit_status words_complain(struct ht_err *err)
{
	enum exit_status status = outcome_error_status(err);
	print_text(stderr, "heaptap: %s\n", err->message);
	ht_err_free(err);
	return status;
}

static void leave_unsaid(int signal)
{
	(void)signal;
	_exit(final_status);
}

void words_bound(enum exit_status status)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	final_status = (sig_atomic_t)status;
	signal(SIGALRM, leave_unsaid);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(WORDS_S);
}

void words_unbound(void)
{
	alarm(0);
	signal(SIGALRM, SIG_IGN);
}
