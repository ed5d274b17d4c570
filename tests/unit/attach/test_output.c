/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/output.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

HT_TEST(under_sudo_the_file_is_its_users)
{
	struct output output;
	struct stat st;
	HT_FREED char *path = tmpdir_path("owned");
	bool is_root = geteuid() == 0;
	setenv("SUDO_UID", "12345", 1);
	setenv("SUDO_GID", "54321", 1);
	ck_no_err(output_open(path, false, &output));
	output_deinit(&output);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_uid, is_root ? 12345 : geteuid());
	ck_assert_uint_eq(st.st_gid, is_root ? 54321 : getegid());
}

HT_TEST(no_descriptor_is_no_mistake_of_the_user)
{
	HT_FREED char *path = tmpdir_path("none");
	struct output output;
	struct rlimit few, all;
	const int next = dup(STDERR_FILENO);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	close(next);
	few = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = all.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_err_says(output_open(path, false, &output), HT_ERR_SYS, "Too many open files");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
}

HT_TEST(an_existing_file_is_left_alone)
{
	struct output output;
	HT_FREED char *path = tmpdir_path("old");
	files_write(path, "precious");
	ck_err_says(output_open(path, false, &output), HT_ERR_USAGE, "-f");
	files_check(path, "precious");
}

HT_TEST(refuses_other_than_regular_files)
{
	struct output output;
	HT_FREED char *directory = files_directory();
	HT_FREED char *fifo = files_path(directory, "fifo");
	HT_FREED char *slash = files_path(directory, "");
	HT_FREED char *nowhere = files_path(directory, "missing/trace");
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	for (int replace = 0; replace < 2; replace++) {
		ck_err_says(output_open(directory, replace, &output), HT_ERR_USAGE, "directory");
		ck_err_says(output_open(slash, replace, &output), HT_ERR_USAGE, "directory");
		ck_err_says(output_open(fifo, replace, &output), HT_ERR_USAGE, "-o -");
		ck_err_says(output_open("/dev/zero", replace, &output), HT_ERR_USAGE, "-o -");
		ck_err_says(output_open(nowhere, replace, &output), HT_ERR_USAGE, "No such file");
		ck_err_says(output_open("/proc/trace", replace, &output), HT_ERR_USAGE,
			"cannot create");
		ck_err(output_open("", replace, &output), HT_ERR_USAGE);
	}
	ck_assert_uint_eq(files_count(directory), 1);
}

HT_TEST(symbolic_links_are_not_followed)
{
	struct output output;
	HT_FREED char *directory = files_directory();
	HT_FREED char *victim = files_path(directory, "victim");
	HT_FREED char *link = files_path(directory, "link");
	HT_FREED char *dangling = files_path(directory, "dangling");
	files_write(victim, "precious");
	ck_assert_int_eq(symlink("victim", link), 0);
	ck_assert_int_eq(symlink("nothing", dangling), 0);
	for (int replace = 0; replace < 2; replace++) {
		ck_err_says(output_open(link, replace, &output), HT_ERR_USAGE, "symbolic link");
		ck_err_says(output_open(dangling, replace, &output), HT_ERR_USAGE, "symbolic link");
	}
	files_check(victim, "precious");
	ck_assert_uint_eq(files_count(directory), 3);
}

HT_TEST(another_file_in_its_place_is_not_removed)
{
	struct output output;
	HT_FREED char *path = tmpdir_path("trace");
	ck_no_err(output_open(path, false, &output));
	ck_assert_int_eq(unlink(path), 0);
	files_write(path, "precious");
	output_discard(&output);
	output_deinit(&output);
	files_check(path, "precious");
}

HT_SUITE("attach/daemon/output")
