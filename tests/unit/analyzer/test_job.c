/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that answer a request: what they print is the answer, and whatever they do else ends
 * with them.
 */
#include "analyzer/live/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define WAIT_MS 20000

/* Runs a task to its end. Returns its output, malloc'd; NULL with an error. */
static char *answer_of(const struct job_task *task, struct ht_err **ret_err)
{
	struct job job;
	int output;
	char text[1000] = "";
	ck_no_err(job_start(&job, task));
	ck_assert_int_eq(poll(&(struct pollfd){job.pipe, POLLIN, 0}, 1, WAIT_MS), 1);
	const pid_t pid = job.pid;
	*ret_err = job_finish(&job, &output);
	ck_assert_int_eq(job.pid, 0);
	/* job_finish has reaped the process. */
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), -1);
	ck_assert((output < 0) == (*ret_err != NULL));
	if (output < 0)
		return NULL;
	ck_assert_int_ge(pread(output, text, sizeof(text) - 1, 0), 0);
	close(output);
	return strdup(text);
}

static void check_error(
	struct ht_err *(*run)(void *), void *context, enum ht_err_code code, const char *words)
{
	struct ht_err *err;
	const struct job_task task = {.run = run, .context = context};
	ck_assert_ptr_null(answer_of(&task, &err));
	ck_err_says(err, code, words);
}

static struct ht_err *print(void *context)
{
	printf("%s", (const char *)context);
	return NULL;
}

HT_TEST(the_answer_is_the_commands_output)
{
	struct ht_err *err;
	char here[] = "here";
	HT_FREED char *text = answer_of(&(struct job_task){.run = print, .context = here}, &err);
	ck_no_err(err);
	ck_assert_str_eq(text, "here");
}

static struct ht_err *complain(void *context)
{
	printf("half of it");
	return ht_err_new(HT_ERR_USAGE, "%s: not a size", (const char *)context);
}

HT_TEST(an_error_comes_back_with_its_kind)
{
	char what[] = "x";
	check_error(complain, what, HT_ERR_USAGE, "x: not a size");
}

/* A message that is longer than room for it ends early. */
HT_TEST(a_long_error_is_cut)
{
	HT_FREED char *text = malloc(20000);
	memset(text, 'y', 19999);
	text[19999] = '\0';
	check_error(complain, text, HT_ERR_USAGE, "yyyy");
}

static struct ht_err *die(void *context)
{
	raise(*(const int *)context);
	return NULL;
}

static struct ht_err *take_memory(void *context)
{
	(void)context;
	void *memory = mmap(NULL, JOB_BYTES_MAX + (1 << 20), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? ht_err_new(HT_ERR_NOMEM, "out of memory here") : NULL;
}

static struct ht_err *print_too_much(void *context)
{
	(void)context;
	if (ftruncate(STDOUT_FILENO, (off_t)(JOB_OUTPUT_MAX + 1)) == 0)
		return NULL;
	return ht_err_new(HT_ERR_SYS, "refused");
}

HT_TEST(a_job_has_limits)
{
	int killed = SIGKILL, out_of_time = SIGXCPU;
	check_error(die, &killed, HT_ERR_REFUSED, "ask for less");
	check_error(die, &out_of_time, HT_ERR_REFUSED, "60 seconds, 4 GiB");
#ifndef __SANITIZE_ADDRESS__
	check_error(take_memory, NULL, HT_ERR_NOMEM, "out of memory here");
#endif
	check_error(print_too_much, NULL, HT_ERR_REFUSED, "ask for less");
}

__attribute__((noreturn)) static struct ht_err *wait_for_ever(void *context)
{
	(void)context;
	for (;;)
		pause();
}

HT_TEST(a_job_that_is_late_is_ended)
{
	struct job job;
	int output;
	ck_no_err(job_start(&job, &(struct job_task){.run = wait_for_ever}));
	job.deadline_ns = 0;
	ck_err_says(job_finish(&job, &output), HT_ERR_REFUSED, "ask for less");
	ck_assert_int_eq(output, -1);
}

/* Prints whether the kept and the closed descriptor are open in the job. */
static struct ht_err *look(void *context)
{
	const int *fd = context;
	printf("%d %d", fcntl(fd[0], F_GETFD) >= 0, fcntl(fd[1], F_GETFD) >= 0);
	return NULL;
}

/* A connection that is open in a job as well would stay open when the server closes it. */
HT_TEST(a_job_has_only_what_it_needs)
{
	struct ht_err *err;
	int fd[2] = {fcntl(STDIN_FILENO, F_DUPFD, 40), fcntl(STDIN_FILENO, F_DUPFD, 50)};
	char *text = answer_of(
		&(struct job_task){.run = look, .context = fd, .kept = fd, .kept_count = 1}, &err);
	ck_no_err(err);
	ck_assert_str_eq(text, "1 0");
	free(text);
	close(fd[0]);
	close(fd[1]);
}

static int figure = 1;

static struct ht_err *change(void *context)
{
	(void)context;
	printf("%d", ++figure);
	return NULL;
}

HT_TEST(a_job_changes_nothing_here)
{
	struct ht_err *err;
	HT_FREED char *text = answer_of(&(struct job_task){.run = change}, &err);
	ck_no_err(err);
	ck_assert_str_eq(text, "2");
	ck_assert_int_eq(figure, 1);
}

HT_SUITE("unit/analyzer/job")
