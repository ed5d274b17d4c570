/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/live/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/clock.h"
#include "format/helper.h"

#define STATUS_FD     3
#define MESSAGE_BYTES 4096u

/* --- in the new process ---------------------------------------------------------------------- */

static void limit(__rlimit_resource_t resource, uint64_t most)
{
	struct rlimit now;
	if (getrlimit(resource, &now) != 0)
		return;
	if (now.rlim_max == RLIM_INFINITY || most < now.rlim_max)
		now.rlim_max = most;
	now.rlim_cur = now.rlim_max;
	setrlimit(resource, &now);
}

static uint64_t address_space(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (file && fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void set_limits(void)
{
	const struct rlimit none = {0};
	uint64_t bytes = address_space();
	if (bytes)
		limit(RLIMIT_AS, bytes + JOB_BYTES_MAX);
	limit(RLIMIT_CPU, JOB_SECONDS_MAX);
	limit(RLIMIT_FSIZE, JOB_OUTPUT_MAX);
	setrlimit(RLIMIT_CORE, &none);
}

/* Closes all but standard descriptors, STATUS_FD and those that the task keeps: otherwise a
 * client's connection would stay open until this process ends. The descriptors of the task are
 * above STATUS_FD, so dup2 overwrites none (serve/traces.c opens traces from 16 on). */
static void set_descriptors(const struct job *job, int status, const struct job_task *task)
{
	int none = open("/dev/null", O_RDWR | O_CLOEXEC);
	int kept[JOB_KEPT_MAX + 4] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, STATUS_FD};
	for (size_t i = 0; i < task->kept_count; i++)
		kept[4 + i] = task->kept[i];
	if (dup2(none, STDIN_FILENO) < 0 || dup2(none, STDERR_FILENO) < 0 ||
		dup2(job->output, STDOUT_FILENO) < 0 || dup2(status, STATUS_FD) < 0 ||
		!helper_close_all_but(kept, task->kept_count + 4))
		_exit(1);
}

static void report(const struct ht_err *err)
{
	const char code = (char)err->code;
	if (write(STATUS_FD, &code, 1) < 0 ||
		write(STATUS_FD, err->message, strnlen(err->message, MESSAGE_BYTES - 2)) < 0)
		_exit(1);
}

__attribute__((noreturn)) static void run(
	const struct job *job, int status, const struct job_task *task)
{
	helper_reset_signals();
	set_descriptors(job, status, task);
	set_limits();
	struct ht_err *err = task->run(task->context);
	errno = 0;
	if (!err && (fflush(stdout) != 0 || ferror(stdout)))
		err = ht_err_sys(errno ? errno : EIO, "cannot keep the answer");
	if (err)
		report(err);
	_exit(err != NULL);
}

/* --- in the parent --------------------------------------------------------------------------- */

static struct ht_err *open_both(struct job *job, int *status)
{
	job->output = memfd_create("answer", MFD_CLOEXEC);
	if (job->output < 0)
		return ht_err_sys(errno, "cannot make room for an answer");
	if (pipe2(status, O_CLOEXEC) == 0)
		return NULL;
	struct ht_err *err = ht_err_sys(errno, "cannot make a pipe for an answer");
	close(job->output);
	return err;
}

struct ht_err *job_start(struct job *job, const struct job_task *task)
{
	int status[2];
	*job = (struct job){.deadline_ns = clock_mono_ns() + JOB_SECONDS_MAX * CLOCK_NS_PER_S};
	HT_TRY(open_both(job, status));
	job->pid = helper_fork(SIGKILL);
	if (job->pid == 0)
		run(job, status[1], task);
	const int why = errno;
	close(status[1]);
	job->pipe = status[0];
	if (job->pid > 0)
		return NULL;
	close(job->pipe);
	close(job->output);
	return ht_err_sys(why, "cannot start a process for an answer");
}

static struct ht_err *judge(int status, const char *text, size_t length)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return NULL;
	if (length > 1)
		return ht_err_new((enum ht_err_code)text[0], "%s", text + 1);
	return ht_err_new(HT_ERR_REFUSED,
		"the answer takes more than the %u seconds, %llu GiB of memory or %llu GiB of "
		"output that a request may; ask for less",
		JOB_SECONDS_MAX, JOB_BYTES_MAX >> 30, JOB_OUTPUT_MAX >> 30);
}

struct ht_err *job_finish(struct job *job, int *ret_output)
{
	char text[MESSAGE_BYTES];
	size_t length = 0;
	ssize_t n = 1;
	if (clock_mono_ns() >= job->deadline_ns)
		kill(job->pid, SIGKILL);
	while (n > 0 && length < sizeof(text) - 1) {
		n = read(job->pipe, text + length, sizeof(text) - 1 - length);
		length += n > 0 ? (size_t)n : 0;
	}
	text[length] = '\0';
	const int status = helper_wait(job->pid);
	close(job->pipe);
	struct ht_err *err = judge(status, text, length);
	*ret_output = job->output;
	if (err) {
		close(job->output);
		*ret_output = -1;
	}
	job->pid = 0;
	return err;
}
