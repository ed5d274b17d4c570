/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/naming.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

/* `ending` is killed right after the system call with this number; 0: it is not. */
static long ends_behind;
static struct child ending;
/* If set, another process then gets the PID. */
static bool is_used_again;
static pid_t other;

static void end_behind(long nr)
{
	if (nr != ends_behind)
		return;
	ends_behind = 0;
	child_kill(&ending);
	if (!is_used_again)
		return;
	other = child_fork_as(ending.pid);
	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_wait();
	}
}

int open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	int mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	int fd = (int)syscall(SYS_open, path, (long)flags, (long)mode);
	if (!strncmp(path, "/proc/", 6))
		end_behind(SYS_open);
	return fd;
}

/* Opens "stat", which proc_open does right after pidfd_open. */
int openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	int mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	if (!strcmp(path, "stat"))
		end_behind(SYS_pidfd_open);
	return (int)syscall(SYS_openat, (long)dir, path, (long)flags, (long)mode);
}

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict ret)
{
	memset(ret, 0, sizeof(*ret));
	(void)fd, (void)path, (void)flags, (void)mask;
	end_behind(SYS_statx);
	return 0;
}

static char *expand(const char *pattern)
{
	char *name = NULL;
	ck_no_err(naming_expand(pattern, getpid(), &name));
	return name;
}

static void check_name(const char *pattern, const char *expected)
{
	HT_FREED char *name = expand(pattern);
	ck_assert_str_eq(name, expected);
}

HT_TEST(process_and_percent)
{
	char pid[32];
	prctl(PR_SET_NAME, "a/b c;d");
	snprintf(pid, sizeof(pid), "x%d.%d", getpid(), getpid());
	check_name("x%p.%p", pid);
	check_name("%c.htap", "a_b_c_d.htap");
	check_name("100%%", "100%");
	check_name("%%p", "%p");
	check_name("plain", "plain");
	check_name("-", "-");
}

HT_TEST(host_and_time)
{
	char host[256] = "", *name = expand("%h");
	gethostname(host, sizeof(host) - 1);
	ck_assert_uint_eq(strlen(name), strlen(host));
	ck_assert_ptr_null(strpbrk(name, "/. "));
	free(name);
	name = expand("%t");
	ck_assert_uint_eq(strlen(name), strlen("20261122T153000"));
	ck_assert_uint_eq(strspn(name, "0123456789T"), strlen(name));
	free(name);
}

HT_TEST(default_name)
{
	char start[64], *name;
	prctl(PR_SET_NAME, "prog");
	name = expand(NULL);
	snprintf(start, sizeof(start), "heaptap.prog.%d.", getpid());
	ck_assert_msg(!strncmp(name, start, strlen(start)), "%s", name);
	ck_assert_str_eq(name + strlen(name) - 5, ".htap");
	free(name);
}

static void make(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

HT_TEST(number_that_is_free)
{
	char *pattern = tmpdir_path("t%n.%n"), *path = tmpdir_path("t1.1");
	check_name(pattern, path);
	make(path);
	free(path);
	path = tmpdir_path("t2.2");
	check_name(pattern, path);
	/* A link that leads nowhere counts as a file of that name. */
	ck_assert_int_eq(symlink("/no/such/file", path), 0);
	free(path);
	path = tmpdir_path("t3.3");
	check_name(pattern, path);
	free(path);
	free(pattern);
}

HT_TEST(unknown_letters)
{
	static const char *const wrong[] = {"%", "a%", "%x", "%%%", "%p%P", "% "};
	char *name;
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		ck_err_says(naming_check(wrong[i]), HT_ERR_USAGE, wrong[i]);
		ck_err(naming_expand(wrong[i], getpid(), &name), HT_ERR_USAGE);
	}
	ck_no_err(naming_check("%p%c%h%t%n%%"));
}

HT_TEST(finds_a_process_number_in_the_pattern)
{
	ck_assert(naming_has_pid(NULL));
	ck_assert(naming_has_pid("a.%c.%p.htap"));
	ck_assert(!naming_has_pid("a.%%p.%c.%t.%n.%h.htap"));
	ck_assert(!naming_has_pid("x.htap"));
}

HT_TEST(further_traces)
{
	static const struct {
		const char *name, *numbered;
	} cases[] = {{"x.htap", "x.2.htap"}, {"a/b.c/x", "a/b.c/x.2"}, {".htap", ".htap.2"},
		{"x.htap.gz", "x.htap.gz.2"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		char *name = naming_number(cases[i].name, 2, 1);
		ck_assert_str_eq(name, cases[i].numbered);
		free(name);
	}
}

/* heaptap has touched nothing, so this is not the error of a process that ends during the capture.
 */
HT_TEST(names_a_process_that_ends)
{
	static const long behind[] = {SYS_open, SYS_pidfd_open, SYS_statx};
	char *name;

	for (size_t i = 0; i < HT_ARRAY_SIZE(behind); i++) {
		ending = child_fork(child_idle, NULL);
		ends_behind = behind[i];
		ck_err(naming_expand("%c", ending.pid, &name), HT_ERR_REFUSED);
		ck_assert_int_eq(ends_behind, 0);
	}
}

HT_TEST(names_a_reused_process_number)
{
	char *name;

	if (geteuid() != 0) {
		printf("skipped: naming: only root may say which number a process gets\n");
		return;
	}
	ending = child_fork(child_idle, NULL);
	is_used_again = true;
	ends_behind = SYS_pidfd_open;
	ck_err_says(naming_expand("%c", ending.pid, &name), HT_ERR_REFUSED, "another has its");
	ck_assert_int_eq(other, ending.pid);
	ck_assert_int_eq(kill(other, SIGKILL), 0);
	ck_assert_int_eq(waitpid(other, NULL, 0), other);
}

HT_SUITE("attach/naming")
