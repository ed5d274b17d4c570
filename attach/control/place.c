/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/control/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "attach/process/proc_open.h"

#define BACKLOG	    64
#define SWEEP_MAX   1000u /* names that one capture looks at */
#define STALE_TRIES 20u
#define HALF_MADE_S 60

/* Goes by the directory's descriptor: its path may not fit into the address of a socket. */
static struct sockaddr_un address_of(int directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.*s", directory,
		(int)CONTROL_NAME_MAX + 1, name);
	return address;
}

static bool stat_of(int directory, const char *name, struct stat *ret)
{
	return fstatat(directory, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Removes a socket whose process has ended, unless another file has taken its name meanwhile. */
static void remove_stale(int directory, const char *name)
{
	struct sockaddr_un address = address_of(directory, name);
	struct stat before, after;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_stale = fd >= 0 && stat_of(directory, name, &before) &&
			connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
			errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	if (is_stale && stat_of(directory, name, &after) && before.st_ino == after.st_ino)
		(void)unlinkat(directory, name, 0);
}

/* A newer half-made socket may be one that another capture is making. */
static bool is_old(int directory, const char *name)
{
	struct stat stat;
	return stat_of(directory, name, &stat) && time(NULL) - stat.st_mtime > HALF_MADE_S;
}

/* Does the process of a capture still run? Then the socket of a killed heaptap stays: it tells
 * clients that the process must be recovered. */
static bool runs(pid_t pid, uint64_t start_ticks)
{
	HT_CLEANUP(proc_close) struct proc proc = {0};
	return !ht_err_drop(proc_open(pid, &proc)) && proc.start_ticks == start_ticks;
}

/* Removes sockets that no heaptap serves any more, whole or half made (with a dot before the name),
 * but those of captures whose process still runs. */
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
		const char *name = entry->d_name;
		uint64_t start_ticks;
		pid_t pid, waiter;
		bool is_half_made = name[0] == '.';
		if (control_name_parse(name + is_half_made, &pid, &start_ticks, &waiter) &&
			(is_half_made ? is_old(directory, name)
				      : waiter || !runs(pid, start_ticks)))
			remove_stale(directory, name);
	}
	closedir(dir);
}

/* Returns 0 or an errno. The socket gets its name when it listens: a socket that does not listen
 * would look stale to another capture. ESTALE: another capture has ended and removed the directory;
 * begin anew. */
static int listen_at(int listener, int directory, const char *name)
{
	char half_made[CONTROL_NAME_MAX + 1];
	snprintf(half_made, sizeof(half_made), ".%s", name);
	struct sockaddr_un address = address_of(directory, half_made);
	(void)unlinkat(directory, half_made, 0);
	/* bind makes the file: with this umask it never has another mode than 0600. */
	mode_t before = umask(0177);
	int failed = bind(listener, (struct sockaddr *)&address, sizeof(address)), sys = errno;
	umask(before);
	if (failed)
		return sys == ENOENT ? ESTALE : sys;
	if (listen(listener, BACKLOG) == 0 && renameat(directory, half_made, directory, name) == 0)
		return 0;
	sys = errno;
	(void)unlinkat(directory, half_made, 0);
	return sys == ENOENT ? ESTALE : sys;
}

/* 0 or an errno. */
static int open_once(const char *path, const char *name, struct place *ret)
{
	*ret = PLACE_NONE;
	ret->directory = control_open_directory(path, geteuid(), true);
	/* Another capture may have removed the directory since it was made. */
	if (ret->directory < 0)
		return errno == ENOENT ? ESTALE : errno;
	sweep(ret->directory);
	ret->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int sys = ret->listener < 0 ? errno : listen_at(ret->listener, ret->directory, name);
	if (!sys)
		return 0;
	if (ret->listener >= 0)
		close(ret->listener);
	close(ret->directory);
	*ret = PLACE_NONE;
	return sys;
}

/* 0 or an errno. */
static int open_at(const char *path, const char *name, struct place *ret)
{
	int sys = ESTALE;
	for (unsigned i = 0; i < STALE_TRIES && sys == ESTALE; i++)
		sys = open_once(path, name, ret);
	if (sys)
		return sys == ESTALE ? ENOENT : sys;
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	return 0;
}

struct ht_err *place_open_in(char (*paths)[CONTROL_PATH_MAX], size_t count, pid_t pid,
	uint64_t start_ticks, pid_t waiter, struct place *ret)
{
	char name[CONTROL_NAME_MAX];
	char why[CONTROL_PLACES * (CONTROL_PATH_MAX + 80)] = "";
	size_t length = 0;
	control_name(pid, start_ticks, waiter, name);
	for (size_t i = 0; i < count; i++) {
		int sys = open_at(paths[i], name, ret);
		if (!sys)
			return NULL;
		length += (size_t)snprintf(why + length, sizeof(why) - length, "%s%s: %s",
			i ? "; " : "", paths[i],
			sys == EPERM ? "another user owns it, or may write to it" : strerror(sys));
		length = length < sizeof(why) ? length : sizeof(why) - 1;
	}
	return ht_err_new(HT_ERR_SYS, "no directory for the socket can be used (%s)", why);
}

struct ht_err *place_open(pid_t pid, uint64_t start_ticks, pid_t waiter, struct place *ret)
{
	char paths[CONTROL_PLACES][CONTROL_PATH_MAX];
	size_t count = control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), paths);
	return place_open_in(paths, count, pid, start_ticks, waiter, ret);
}

void place_close(struct place *place)
{
	if (place->directory >= 0) {
		(void)unlinkat(place->directory, place->name, 0);
		close(place->directory);
		/* If it is empty. */
		(void)rmdir(place->path);
	}
	if (place->listener >= 0)
		close(place->listener);
	*place = PLACE_NONE;
}

void place_forget(pid_t pid, uint64_t start_ticks)
{
	char paths[CONTROL_PLACES][CONTROL_PATH_MAX], name[CONTROL_NAME_MAX];
	size_t count = control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), paths);
	control_name(pid, start_ticks, 0, name);
	for (size_t i = 0; i < count; i++) {
		int directory = control_open_directory(paths[i], geteuid(), false);
		if (directory < 0)
			continue;
		remove_stale(directory, name);
		close(directory);
		(void)rmdir(paths[i]);
	}
}
