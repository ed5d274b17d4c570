/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/stops.h"

#include <errno.h>
#include <sys/wait.h>

#include "attach/thread/tracee.h"

struct ht_err *stops_resume(pid_t pid, enum __ptrace_request request, int sig)
{
	/* ESRCH: killed while it was stopped; the next wait reports it. */
	if (ptrace(request, pid, NULL, (void *)(long)sig) == 0 || errno == ESRCH)
		return NULL;
	return ht_err_sys(errno, "cannot continue process %d", pid);
}

struct ht_err *stops_ended(pid_t pid)
{
	return ht_err_new(HT_ERR_TARGET_GONE, "process %d has ended", pid);
}

/* Tries twice, since a single failure may be spurious. ESRCH: killed while it was stopped. */
static struct ht_err *ask(
	enum __ptrace_request request, pid_t pid, size_t size, void *data, const char *what)
{
	for (unsigned tries = 0; tries < 2; tries++)
		if (ptrace(request, pid, (void *)size, data) == 0)
			return NULL;
	return errno == ESRCH ? stops_ended(pid)
			      : ht_err_sys(errno, "cannot %s of process %d", what, pid);
}

/* Did a trap of the processor or the kernel cause the stop, rather than a signal from a program? If
 * the process was killed since, the next wait reports it. */
static struct ht_err *is_trap(pid_t pid, int sig, bool *ret)
{
	siginfo_t info = {0};
	struct ht_err *err = NULL;
	if (sig == SIGTRAP)
		err = ask(PTRACE_GETSIGINFO, pid, 0, &info, "read the signal");
	*ret = !err && info.si_code > 0;
	if (!err || err->code != HT_ERR_TARGET_GONE)
		return err;
	ht_err_free(err);
	return NULL;
}

struct ht_err *stops_await(
	pid_t pid, enum __ptrace_request request, int *ret_status, bool *ret_lives)
{
	for (;;) {
		int status;
		pid_t got = tracee_wait(-1, 0, &status);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ht_err_sys(errno, "cannot wait for process %d", pid);
		*ret_lives = WIFSTOPPED(status);
		*ret_status = status;
		if (!*ret_lives)
			return NULL;
		int sig = WSTOPSIG(status), event = status >> 16;
		bool trap;
		HT_TRY(is_trap(pid, event ? 0 : sig, &trap));
		if (event == PTRACE_EVENT_STOP && sig != SIGTRAP)
			HT_TRY(stops_resume(pid, PTRACE_LISTEN, 0));
		else if (event == PTRACE_EVENT_STOP && request != PTRACE_INTERRUPT)
			HT_TRY(stops_resume(pid, request, 0));
		else if (event || sig == STOPS_SYSCALL || trap)
			return NULL;
		else
			HT_TRY(stops_resume(
				pid, request == PTRACE_INTERRUPT ? PTRACE_CONT : request, sig));
	}
}

struct ht_err *stops_resume_and_await(pid_t pid, enum __ptrace_request request)
{
	int status;
	bool lives = true;
	struct ht_err *err = stops_resume(pid, request, 0);
	HT_THEN(err, stops_await(pid, request, &status, &lives));
	return err || lives ? err : stops_ended(pid);
}

struct ht_err *stops_get_regs(pid_t pid, struct user_regs_struct *ret)
{
	return ask(PTRACE_GETREGS, pid, 0, ret, "read the registers");
}

struct ht_err *stops_set_regs(pid_t pid, const struct user_regs_struct *regs)
{
	return ask(PTRACE_SETREGS, pid, 0, (void *)regs, "set the registers");
}

struct ht_err *stops_get_mask(pid_t pid, uint64_t *ret)
{
	return ask(PTRACE_GETSIGMASK, pid, sizeof(*ret), ret, "read the signal mask");
}

struct ht_err *stops_set_mask(pid_t pid, uint64_t mask)
{
	return ask(PTRACE_SETSIGMASK, pid, sizeof(mask), &mask, "set the signal mask");
}

struct ht_err *stops_detach(pid_t pid, int sig)
{
	/* Tries twice, since a single failure may be spurious. */
	if (ptrace(PTRACE_DETACH, pid, NULL, (void *)(long)sig) == 0 ||
		ptrace(PTRACE_DETACH, pid, NULL, (void *)(long)sig) == 0)
		return NULL;
	return ht_err_sys(errno, "cannot release process %d", pid);
}
