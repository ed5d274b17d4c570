/* SPDX-License-Identifier: Apache-2.0
 *
 * The bar shows the offset of the file that is read, on a terminal only, and is erased at the end.
 */
#include "analyzer/ui/watch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

/* Returns a terminal; `ret_main` gets its other end. */
static FILE *make_terminal(int *ret_main)
{
	const struct winsize size = {.ws_col = 80, .ws_row = 24};
	char name[64];
	*ret_main = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(*ret_main, 0);
	ck_assert_int_eq(grantpt(*ret_main) | unlockpt(*ret_main), 0);
	ck_assert_int_eq(ptsname_r(*ret_main, name, sizeof(name)), 0);
	int fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_eq(ioctl(fd, TIOCSWINSZ, &size), 0);
	setenv("TERM", "xterm", true);
	return fdopen(fd, "w");
}

/* Returns a descriptor of a file of 1000 bytes, at offset 250. */
static int make_file(void)
{
	HT_FREED char *path = tmpdir_path("file");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, 1000), 0);
	ck_assert_int_eq(lseek(fd, 250, SEEK_SET), 250);
	return fd;
}

/* Reads what the terminal gets, until `want` is in it. */
static void wait_for(int other, const char *want)
{
	char got[4096] = "";
	size_t length = 0;
	while (!strstr(got, want)) {
		ssize_t count = read(other, got + length, sizeof(got) - 1 - length);
		ck_assert_int_gt(count, 0);
		length += (size_t)count;
		got[length] = '\0';
	}
}

HT_TEST(the_offset_is_shown_while_it_changes)
{
	int other, fd = make_file();
	FILE *out = make_terminal(&other);
	struct watch watch;
	watch_begin(&watch, out, fd, "a.htap");
	ck_assert(watch.is_running);
	wait_for(other, "\r\033[K[#####               ]  25 % reading a.htap");
	ck_assert_int_eq(lseek(fd, 500, SEEK_SET), 500);
	wait_for(other, " 50 % reading a.htap");
	watch_end(&watch);
	fputs("end", out);
	fflush(out);
	wait_for(other, "\r\033[Kend");
	watch_end(&watch);
	fclose(out);
	close(other);
	close(fd);
}

HT_TEST(a_short_read_shows_nothing)
{
	int other, fd = make_file();
	FILE *out = make_terminal(&other);
	struct watch watch;
	watch_begin(&watch, out, fd, "a.htap");
	watch_end(&watch);
	ck_assert(!watch.progress.is_shown);
	ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 250);
	fclose(out);
	close(other);
	close(fd);
}

HT_TEST(no_thread_where_nothing_can_be_shown)
{
	int other, fd = make_file(), ends[2];
	FILE *out = make_terminal(&other), *file = fopen("/dev/null", "we");
	struct watch watch;
	ck_assert_int_eq(pipe(ends), 0);
	watch_begin(&watch, file, fd, "a.htap");
	ck_assert(!watch.is_running);
	watch_end(&watch);
	watch_begin(&watch, out, ends[0], "-");
	ck_assert(!watch.is_running);
	watch_end(&watch);
	fclose(out);
	fclose(file);
	close(other);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

HT_SUITE("analyzer/watch")
