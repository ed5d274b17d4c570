/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/tmpdir.h"

#define TURN_MS 20 /* a pause of 1 ms that takes longer had to wait for a core */

#define NOBODY 65534

static void become_nobody(void *context)
{
	(void)context;
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		_exit(126);
}

static void start(struct run *run, const char *const argv[], int stdout_fd,
	void (*prepare)(void *context), void *context)
{
	*run = (struct run){.out_fd = memfd_create("stdout", MFD_CLOEXEC),
		.err_fd = memfd_create("stderr", MFD_CLOEXEC)};
	ck_assert_int_ge(run->out_fd, 0);
	ck_assert_int_ge(run->err_fd, 0);
	char *cache = tmpdir_path("cache");
	run->pid = fork();
	/* No ck_assert in the child: it takes a lock, which another thread may have held at the
	 * fork. */
	if (run->pid) {
		ck_assert_int_ge(run->pid, 0);
		free(cache);
		return;
	}
	setenv("XDG_CACHE_HOME", cache, 1);
	int in_fd = open("/dev/null", O_RDONLY);
	dup2(in_fd, STDIN_FILENO);
	dup2(stdout_fd >= 0 ? stdout_fd : run->out_fd, STDOUT_FILENO);
	dup2(run->err_fd, STDERR_FILENO);
	if (prepare)
		prepare(context);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* survives the exec; fails without Yama */
	execvp(argv[0], (char **)argv);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

void run_start(struct run *run, const char *const argv[])
{
	start(run, argv, -1, NULL, NULL);
}

void run_start_as_nobody(struct run *run, const char *const argv[])
{
	start(run, argv, -1, become_nobody, NULL);
}

void run_start_prepared(
	struct run *run, const char *const argv[], void (*prepare)(void *context), void *context)
{
	start(run, argv, -1, prepare, context);
}

void run_start_to(struct run *run, const char *const argv[], int stdout_fd)
{
	start(run, argv, stdout_fd, NULL, NULL);
}

bool run_has_ended(struct run *run)
{
	if (!run->ended && waitpid(run->pid, &run->status, WNOHANG) == run->pid)
		run->ended = true;
	return run->ended;
}

int run_wait(struct run *run, unsigned limit_ms)
{
	uint64_t before = run_now_ms(), waited_ms = 0;
	while (!run_has_ended(run)) {
		if (waited_ms >= limit_ms) {
			char *err = run_err(run);
			kill(run->pid, SIGKILL);
			ck_abort_msg("process %d still runs after %u ms; its stderr: %s", run->pid,
				limit_ms, err);
		}
		run_pause();
		uint64_t now = run_now_ms();
		waited_ms += now - before < TURN_MS ? now - before : TURN_MS;
		before = now;
	}
	return WIFEXITED(run->status) ? WEXITSTATUS(run->status) : 128 + WTERMSIG(run->status);
}

static char *contents(int fd)
{
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	char *text = malloc((size_t)st.st_size + 1);
	ck_assert_ptr_nonnull(text);
	ssize_t got = pread(fd, text, (size_t)st.st_size, 0);
	ck_assert_int_ge(got, 0);
	text[got] = '\0';
	return text;
}

char *run_out(const struct run *run)
{
	return contents(run->out_fd);
}

char *run_err(const struct run *run)
{
	return contents(run->err_fd);
}

void run_deinit(struct run *run)
{
	if (!run_has_ended(run)) {
		kill(run->pid, SIGKILL);
		waitpid(run->pid, &run->status, 0);
		run->ended = true;
	}
	close(run->out_fd);
	close(run->err_fd);
}

int run_program(const char *const argv[], unsigned limit_ms, char **ret_out, char **ret_err)
{
	struct run run;
	run_start(&run, argv);
	int status = run_wait(&run, limit_ms);
	if (ret_out)
		*ret_out = run_out(&run);
	if (ret_err)
		*ret_err = run_err(&run);
	run_deinit(&run);
	return status;
}

char *run_built(const char *name)
{
	static char path[8][4096];
	static unsigned turn;
	const char *out = getenv("HEAPTAP_OUT");
	char *ret = path[turn++ % 8];
	snprintf(ret, sizeof(path[0]), "%s/%s", out ? out : "out/release", name);
	return ret;
}

const char *run_named(const char *what, const char *variable)
{
	const char *path = getenv(variable);
	if (path && !access(path, X_OK))
		return path;
	printf("skipped: %s: %s names no program\n", what, variable);
	return NULL;
}

uint64_t run_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void run_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}
