/* SPDX-License-Identifier: Apache-2.0
 *
 * A descriptor is closed once, where its scope ends; the close does not change errno.
 */
#include "attach/proc/fd.h"

#include <fcntl.h>

#include "tests/support/ht_check.h"

static int open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int guarded(int *ret_fd)
{
	FD_GUARD int fd = open_null();
	*ret_fd = fd;
	errno = ENOTTY;
	return is_open(fd);
}

HT_TEST(closed_at_the_end_of_its_scope)
{
	int fd;
	ck_assert(guarded(&fd));
	ck_assert_int_eq(errno, ENOTTY);
	ck_assert(!is_open(fd));
}

HT_TEST(closed_once)
{
	int fd = open_null(), closed = fd;
	fd_close(&fd);
	ck_assert_int_eq(fd, -1);
	ck_assert(!is_open(closed));
	errno = ENOTTY;
	fd_close(&fd);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(errno, ENOTTY);
}

HT_SUITE("attach/proc/fd")
