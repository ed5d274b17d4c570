/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/control/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG	      64
#define SWEEP_MAX     1000u /* names that one capture looks at */
#define LOCK_TRIES    20u
#define LOCK_US	      1000u
#define REMOVED_TRIES 3u

/* The directory's path may be longer than an address of a socket. */
static struct sockaddr_un address_of(int directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.*s", directory,
		(int)CONTROL_NAME_MAX, name);
	return address;
}

/* Has the process that listened there ended? */
static bool is_stale(int directory, const char *name)
{
	struct sockaddr_un address = address_of(directory, name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool stale = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
		     errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return stale;
}

/* The caller holds the directory's lock: between bind and listen a new socket looks stale, too. */
static void sweep(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	const struct dirent *entry;
	for (unsigned i = 0; i < SWEEP_MAX && (entry = readdir(dir)) != NULL; i++) {
		uint64_t start_ticks;
		pid_t pid;
		if (control_name_parse(entry->d_name, &pid, &start_ticks) &&
			is_stale(directory, entry->d_name))
			(void)unlinkat(directory, entry->d_name, 0);
	}
	closedir(dir);
}

/* The lock of a directory; -1: others hold it, for longer than anyone should. */
static int take_lock(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
		if (i == LOCK_TRIES) {
			close(fd);
			return -1;
		}
		usleep(LOCK_US);
	}
	return fd;
}

/* The last one to leave removes the directory: who holds the lock and finds it removed begins anew.
 */
static bool is_removed(int directory)
{
	struct stat stat;
	return fstat(directory, &stat) == 0 && stat.st_nlink == 0;
}

/* 0 or an errno. */
static int listen_at(const struct place *place)
{
	struct sockaddr_un address = address_of(place->directory, place->name);
	(void)unlinkat(place->directory, place->name, 0);
	/* The mode of the name is what bind makes it: no moment with another one. */
	mode_t before = umask(0177);
	int failed = bind(place->listener, (struct sockaddr *)&address, sizeof(address));
	int sys = errno;
	umask(before);
	if (failed)
		return sys;
	if (listen(place->listener, BACKLOG) == 0)
		return 0;
	sys = errno;
	(void)unlinkat(place->directory, place->name, 0);
	return sys;
}

/* 0 or an errno. */
static int listen_in(const char *path, struct place *ret)
{
	ret->directory = control_open_directory(path, geteuid(), true);
	if (ret->directory < 0)
		return errno;
	int lock = take_lock(ret->directory), sys = ESTALE;
	if (lock >= 0)
		sweep(ret->directory);
	if (!is_removed(ret->directory))
		sys = listen_at(ret);
	if (lock >= 0)
		close(lock);
	if (sys) {
		close(ret->directory);
		ret->directory = -1;
	}
	return sys;
}

/* 0 or an errno. */
static int open_at(const char *path, pid_t pid, uint64_t start_ticks, struct place *ret)
{
	*ret = PLACE_NONE;
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int sys = listener < 0 ? errno : ESTALE;
	ret->listener = listener;
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	control_name(pid, start_ticks, ret->name);
	for (unsigned i = 0; i < REMOVED_TRIES && sys == ESTALE; i++)
		sys = listen_in(path, ret);
	if (!sys)
		return 0;
	if (listener >= 0)
		close(listener);
	*ret = PLACE_NONE;
	return sys;
}

struct ht_err *place_open_in(char (*paths)[CONTROL_PATH_MAX], size_t count, pid_t pid,
	uint64_t start_ticks, struct place *ret)
{
	char why[CONTROL_PLACES * (CONTROL_PATH_MAX + 80)] = "";
	size_t length = 0;
	for (size_t i = 0; i < count; i++) {
		int sys = open_at(paths[i], pid, start_ticks, ret);
		if (!sys)
			return NULL;
		length += (size_t)snprintf(why + length, sizeof(why) - length, "%s%s: %s",
			i ? "; " : "", paths[i],
			sys == EPERM ? "another user owns it, or may write to it" : strerror(sys));
		length = length < sizeof(why) ? length : sizeof(why) - 1;
	}
	return ht_err_new(HT_ERR_SYS, "no directory for the socket can be used (%s)", why);
}

struct ht_err *place_open(pid_t pid, uint64_t start_ticks, struct place *ret)
{
	char paths[CONTROL_PLACES][CONTROL_PATH_MAX];
	size_t count = control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), paths);
	return place_open_in(paths, count, pid, start_ticks, ret);
}

/* With the directory, if nothing else is in it. */
static void remove_name(int directory, const char *path, const char *name, bool only_stale)
{
	int lock = take_lock(directory);
	if (!only_stale || is_stale(directory, name))
		(void)unlinkat(directory, name, 0);
	if (lock >= 0) {
		(void)rmdir(path);
		close(lock);
	}
}

void place_close(struct place *place)
{
	if (place->directory >= 0) {
		remove_name(place->directory, place->path, place->name, false);
		close(place->directory);
	}
	if (place->listener >= 0)
		close(place->listener);
	*place = PLACE_NONE;
}

void place_forget(pid_t pid, uint64_t start_ticks)
{
	char paths[CONTROL_PLACES][CONTROL_PATH_MAX], name[CONTROL_NAME_MAX];
	size_t count = control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), paths);
	control_name(pid, start_ticks, name);
	for (size_t i = 0; i < count; i++) {
		int directory = control_open_directory(paths[i], geteuid(), false);
		if (directory < 0)
			continue;
		remove_name(directory, paths[i], name, true);
		close(directory);
	}
}
