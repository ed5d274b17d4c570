/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests where a capture puts its socket, and what becomes of sockets that killed captures have
 * left.
 */
#include "attach/control/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

static char paths[CONTROL_PLACES][CONTROL_PATH_MAX];

static void use(size_t i, const char *name)
{
	HT_FREED char *path = tmpdir_path(name);
	ck_assert_int_lt(snprintf(paths[i], CONTROL_PATH_MAX, "%s", path), CONTROL_PATH_MAX);
}

static bool exists(const char *directory, const char *name, struct stat *ret)
{
	char path[CONTROL_PATH_MAX + CONTROL_NAME_MAX + 1];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return lstat(path, ret) == 0;
}

/* Connects to the socket of `place`; returns 0 or an errno. */
static int connect_to(const struct place *place)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.40s",
		place->directory, place->name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int sys = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
	close(fd);
	/* This listener never accepts; its queue may be full of liveness checks. */
	return sys == EAGAIN ? 0 : sys;
}

static struct place open_one(size_t count, pid_t pid)
{
	struct place place;
	ck_no_err(place_open_in(paths, count, pid, 77, 0, &place));
	return place;
}

/* As after SIGKILL: the socket's name stays, and no process listens. */
static void die(struct place *place)
{
	close(place->listener);
	close(place->directory);
}

HT_TEST(a_socket_is_for_its_user_alone)
{
	struct stat stat;
	use(0, "run");
	struct place place = open_one(1, 4711);
	ck_assert_str_eq(place.path, paths[0]);
	ck_assert_str_eq(place.name, "4711.77");
	ck_assert(exists(paths[0], "4711.77", &stat));
	ck_assert_uint_eq(stat.st_mode, S_IFSOCK | 0600);
	ck_assert_int_eq(connect_to(&place), 0);
	place_close(&place);
	ck_assert(!exists(paths[0], "4711.77", &stat));
	ck_assert_int_eq(place.listener, -1);
	place_close(&place);
}

HT_TEST(captures_of_two_processes_are_side_by_side)
{
	use(0, "run");
	struct place one = open_one(1, 1), two = open_one(1, 2);
	ck_assert_int_eq(connect_to(&one), 0);
	ck_assert_int_eq(connect_to(&two), 0);
	place_close(&one);
	ck_assert_int_eq(connect_to(&two), 0);
	place_close(&two);
}

/* A capture, and heaptaps that wait to record the same process. */
HT_TEST(those_that_wait_have_places_of_their_own)
{
	struct place capture, one, two;
	struct stat stat;
	use(0, "run");
	capture = open_one(1, 4711);
	ck_no_err(place_open_in(paths, 1, 4711, 77, 12, &one));
	ck_no_err(place_open_in(paths, 1, 4711, 77, 13, &two));
	ck_assert_str_eq(one.name, "4711.77.12");
	ck_assert_int_eq(connect_to(&capture), 0);
	ck_assert_int_eq(connect_to(&one), 0);
	place_close(&capture);
	ck_assert_int_eq(connect_to(&two), 0);
	/* The next heaptap removes the socket of a dead one. */
	int directory = openat(one.directory, ".", O_RDONLY);
	die(&one);
	ck_assert(exists(paths[0], "4711.77.12", &stat));
	capture = open_one(1, 1);
	ck_assert(!exists(paths[0], "4711.77.12", &stat));
	ck_assert(exists(paths[0], "4711.77.13", &stat));
	place_close(&capture);
	place_close(&two);
	close(directory);
}

HT_TEST(a_killed_one_is_replaced)
{
	use(0, "run");
	struct place dead = open_one(1, 1), kept = dead;
	kept.directory = dup(dead.directory);
	die(&dead);
	ck_assert_int_eq(connect_to(&kept), ECONNREFUSED);
	struct place place = open_one(1, 1);
	ck_assert_int_eq(connect_to(&place), 0);
	place_close(&place);
	close(kept.directory);
}

HT_TEST(killed_ones_of_other_processes_are_removed_and_all_else_stays)
{
	struct stat stat;
	use(0, "run");
	struct place dead = open_one(1, 1), other = open_one(1, 2);
	int directory = openat(dead.directory, ".", O_RDONLY);
	ck_assert_int_ge(openat(directory, "notes", O_CREAT | O_WRONLY, 0600), 0);
	ck_assert_int_ge(openat(directory, "5.5", O_CREAT | O_WRONLY, 0600), 0);
	die(&dead);
	struct place place = open_one(1, 3);
	ck_assert(!exists(paths[0], "1.77", &stat));
	ck_assert(exists(paths[0], "2.77", &stat));
	ck_assert(exists(paths[0], "notes", &stat));
	place_close(&other);
	place_close(&place);
}

/* The heaptap that made this socket was killed before it listened. */
HT_TEST(removes_half_made_places)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat stat;
	use(0, "run");
	struct place one = open_one(1, 1);
	for (pid_t pid = 2; pid < 4; pid++) {
		snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/.%d.77",
			one.directory, pid);
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		close(fd);
	}
	struct place two = open_one(1, 2);
	ck_assert_int_eq(connect_to(&two), 0);
	ck_assert(!exists(paths[0], ".2.77", &stat));
	/* Another capture may still be making this socket, but that takes no minutes. */
	ck_assert(exists(paths[0], ".3.77", &stat));
	const struct timespec old[2] = {
		{.tv_sec = stat.st_mtime - 600}, {.tv_sec = stat.st_mtime - 600}};
	ck_assert_int_eq(utimensat(one.directory, ".3.77", old, AT_SYMLINK_NOFOLLOW), 0);
	place_close(&two);
	two = open_one(1, 2);
	ck_assert(!exists(paths[0], ".3.77", &stat));
	place_close(&one);
	place_close(&two);
}

/* The capture that ends last removes the directory while others begin. */
HT_TEST(captures_come_and_go_at_once)
{
	enum { PROCESSES = 6, ROUNDS = 100 };
	int status;
	use(0, "run");
	for (pid_t process = 1; process <= PROCESSES; process++) {
		if (fork())
			continue;
		for (unsigned i = 0; i < ROUNDS; i++) {
			struct place place;
			struct ht_err *err = place_open_in(paths, 1, process, i + 1, 0, &place);
			if (err || connect_to(&place))
				_exit(1);
			place_close(&place);
		}
		_exit(0);
	}
	for (int i = 0; i < PROCESSES; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_ne(access(paths[0], F_OK), 0);
}

HT_TEST(the_next_directory_is_used_where_one_cannot_be)
{
	use(0, "others");
	use(1, "run");
	ck_assert_int_eq(mkdir(paths[0], 0777), 0);
	ck_assert_int_eq(chmod(paths[0], 0777), 0);
	struct place place = open_one(2, 1);
	ck_assert_str_eq(place.path, paths[1]);
	place_close(&place);
	ck_err_says(place_open_in(paths, 1, 1, 77, 0, &place), HT_ERR_SYS, "may write to it");
	ck_assert_int_eq(place.listener, -1);
	use(0, "missing/run");
	ck_err_says(place_open_in(paths, 1, 1, 77, 0, &place), HT_ERR_SYS, "No such file");
}

HT_SUITE("attach/control/place")
