/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/push/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/model/strings.h"
#include "format/array.h"

#define ITEM_END     ".push"
#define NEW_BEGIN    ".new-"
#define SENT	     "sent"
#define DROPPED	     "dropped"
#define LOCK	     "lock"
#define SENT_MAX     8192 /* keys of sent windows that stay in a shortened list */
#define NUMBER_BYTES 32u
#define PATH_BYTES   4000u

/* --- the directory ---------------------------------------------------------------------------- */

static struct ht_err *name_base(const char *base, char path[PATH_BYTES])
{
	const char *state = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int length;
	if (base)
		length = snprintf(path, PATH_BYTES, "%s", base);
	else if (state && *state == '/')
		length = snprintf(path, PATH_BYTES, "%s/push", state);
	else if (xdg && *xdg == '/')
		length = snprintf(path, PATH_BYTES, "%s/heaptap/push", xdg);
	else if (geteuid() == 0)
		length = snprintf(path, PATH_BYTES, "/var/lib/heaptap/push");
	else if (home && *home == '/')
		length = snprintf(path, PATH_BYTES, "%s/.local/state/heaptap/push", home);
	else
		return ht_err_new(
			HT_ERR_USAGE, "push: there is no place for a spool; name one: --spool DIR");
	return length > 0 && (unsigned)length < PATH_BYTES
		       ? NULL
		       : ht_err_new(HT_ERR_USAGE, "push: the name of the spool is too long");
}

/* Makes a directory and its missing parents. */
static struct ht_err *make(const char *path)
{
	char part[PUSH_SPOOL_PATH_BYTES];
	snprintf(part, sizeof(part), "%s", path);
	for (char *at = strchr(part + 1, '/');; at = strchr(at + 1, '/')) {
		if (at)
			*at = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return ht_err_sys(errno, "push: cannot make the spool %s", path);
		if (!at)
			return NULL;
		*at = '/';
	}
}

/* Removes unfinished files of processes that were killed. */
static void remove_left(const struct push_spool *spool)
{
	DIR *dir = opendir(spool->path);
	const struct dirent *entry;
	while (dir && (entry = readdir(dir)))
		if (strncmp(entry->d_name, NEW_BEGIN, strlen(NEW_BEGIN)) == 0) {
			const pid_t pid =
				(pid_t)strtol(entry->d_name + strlen(NEW_BEGIN), NULL, 10);
			if (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
				unlinkat(spool->dir, entry->d_name, 0);
		}
	if (dir)
		closedir(dir);
}

struct ht_err *push_spool_open(
	const char *base, const char *shown, uint64_t max_bytes, struct push_spool *ret)
{
	char path[PATH_BYTES];
	*ret = (struct push_spool){.dir = -1, .lock = -1, .max_bytes = max_bytes};
	HT_TRY(name_base(base, path));
	snprintf(ret->path, sizeof(ret->path), "%s/%016" PRIx64, path,
		strings_hash(STRINGS_HASH, shown, strlen(shown)));
	HT_TRY(make(ret->path));
	ret->dir = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir < 0)
		return ht_err_sys(errno, "push: cannot open the spool %s", ret->path);
	remove_left(ret);
	return NULL;
}

void push_spool_close(struct push_spool *spool)
{
	push_spool_unlock(spool);
	if (spool->dir >= 0)
		close(spool->dir);
	spool->dir = -1;
}

bool push_spool_lock(struct push_spool *spool)
{
	spool->lock = openat(spool->dir, LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (spool->lock >= 0 && flock(spool->lock, LOCK_EX | LOCK_NB) == 0)
		return true;
	push_spool_unlock(spool);
	return false;
}

void push_spool_unlock(struct push_spool *spool)
{
	if (spool->lock >= 0)
		close(spool->lock);
	spool->lock = -1;
}

/* --- windows ---------------------------------------------------------------------------------- */

struct items {
	struct item {
		char name[PUSH_SPOOL_NAME_BYTES];
		uint64_t bytes;
	} * item;
	size_t count, capacity;
	uint64_t bytes;
};

static int compare(const void *left, const void *right)
{
	return strcmp(((const struct item *)left)->name, ((const struct item *)right)->name);
}

static bool is_item(const char *name)
{
	const size_t length = strlen(name), end = strlen(ITEM_END);
	return *name != '.' && length < PUSH_SPOOL_NAME_BYTES && length > end &&
	       strcmp(name + length - end, ITEM_END) == 0;
}

static void add_item(struct items *items, const char *name, uint64_t bytes)
{
	if (!ARRAY_HAS_ROOM(items->item, items->count, items->capacity, 16))
		return;
	struct item *item = &items->item[items->count++];
	snprintf(item->name, sizeof(item->name), "%s", name);
	item->bytes = bytes;
	items->bytes += bytes;
}

/* Oldest first; the caller frees items->item. */
static struct items list(const struct push_spool *spool)
{
	struct items items = {0};
	DIR *dir = opendir(spool->path);
	const struct dirent *entry;
	struct stat stat;
	while (dir && (entry = readdir(dir)))
		if (is_item(entry->d_name) &&
			fstatat(spool->dir, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0)
			add_item(&items, entry->d_name, (uint64_t)stat.st_size);
	if (dir)
		closedir(dir);
	if (items.count)
		qsort(items.item, items.count, sizeof(*items.item), compare);
	return items;
}

void push_spool_count(const struct push_spool *spool, size_t *ret_windows, uint64_t *ret_bytes)
{
	struct items items = list(spool);
	*ret_windows = items.count;
	*ret_bytes = items.bytes;
	free(items.item);
}

bool push_spool_next(struct push_spool *spool, const char *after, char ret[PUSH_SPOOL_NAME_BYTES])
{
	struct items items = list(spool);
	size_t i = 0;
	while (i < items.count && strcmp(items.item[i].name, after) <= 0)
		i++;
	const bool is_there = i < items.count;
	if (is_there)
		memcpy(ret, items.item[i].name, PUSH_SPOOL_NAME_BYTES);
	free(items.item);
	return is_there;
}

int push_spool_read(const struct push_spool *spool, const char *name)
{
	return openat(spool->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- what was sent ---------------------------------------------------------------------------- */

static bool was_sent(const struct push_spool *spool, const char *key)
{
	char line[PUSH_KEY_BYTES + 1];
	bool is_found = false;
	const int fd = openat(spool->dir, SENT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	while (file && !is_found && fgets(line, sizeof(line), file))
		is_found = strncmp(line, key, PUSH_KEY_BYTES - 1) == 0;
	if (file)
		fclose(file);
	return is_found;
}

/* If the list has 2 * SENT_MAX keys or more, keeps the youngest SENT_MAX. */
static void shorten_sent(const struct push_spool *spool, int fd)
{
	const off_t line = PUSH_KEY_BYTES, size = lseek(fd, 0, SEEK_END);
	char key[PUSH_KEY_BYTES];
	if (size < 2 * SENT_MAX * line)
		return;
	const int new =
		openat(spool->dir, SENT ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool is_written = new >= 0;
	for (off_t at = size - SENT_MAX * line; is_written && at < size; at += line)
		is_written = pread(fd, key, sizeof(key), at) == line &&
			     write(new, key, sizeof(key)) == line;
	if (new >= 0)
		close(new);
	if (is_written)
		renameat(spool->dir, SENT ".new", spool->dir, SENT);
}

void push_spool_taken(struct push_spool *spool, const char *name, const char *key)
{
	char line[PUSH_KEY_BYTES];
	const int fd = openat(
		spool->dir, SENT, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	memcpy(line, key, sizeof(line));
	line[sizeof(line) - 1] = '\n';
	/* Write the key first: after a crash in between, the window is sent again, with the same
	 * key. */
	if (fd >= 0) {
		if (write(fd, line, sizeof(line)) == (ssize_t)sizeof(line))
			shorten_sent(spool, fd);
		fsync(fd);
		close(fd);
	}
	unlinkat(spool->dir, name, 0);
}

/* --- adding ----------------------------------------------------------------------------------- */

uint64_t push_spool_dropped(const struct push_spool *spool)
{
	char text[NUMBER_BYTES] = "";
	const int fd = openat(spool->dir, DROPPED, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0;
	const ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	return got > 0 ? strtoull(text, NULL, 10) : 0;
}

static void count_dropped(const struct push_spool *spool, size_t dropped)
{
	const uint64_t sum = push_spool_dropped(spool) + dropped;
	const int fd = openat(
		spool->dir, DROPPED, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	dprintf(fd, "%" PRIu64 "\n", sum);
	close(fd);
}

static size_t drop(const struct push_spool *spool)
{
	struct items items = list(spool);
	size_t dropped = 0;
	while (dropped < items.count && items.bytes > spool->max_bytes) {
		items.bytes -= items.item[dropped].bytes;
		unlinkat(spool->dir, items.item[dropped++].name, 0);
	}
	free(items.item);
	if (dropped)
		count_dropped(spool, dropped);
	return dropped;
}

/* Whether the window is already waiting or was sent; `*ret` says which. */
static bool is_there(const struct push_spool *spool, const char *key, enum push_added *ret)
{
	struct items items = list(spool);
	bool waits = false;
	for (size_t i = 0; i < items.count && !waits; i++)
		waits = strstr(items.item[i].name, key) != NULL;
	free(items.item);
	*ret = waits ? PUSH_WAITS : was_sent(spool, key) ? PUSH_SENT : PUSH_ADDED;
	return *ret != PUSH_ADDED;
}

/* Makes a name that sorts after that of the youngest window. */
static void name_item(
	const struct push_spool *spool, const char *key, char name[PUSH_SPOOL_NAME_BYTES])
{
	struct items items = list(spool);
	uint64_t number = 1;
	if (items.count)
		number = strtoull(items.item[items.count - 1].name, NULL, 10) + 1;
	free(items.item);
	snprintf(name, PUSH_SPOOL_NAME_BYTES, "%012" PRIu64 "-%s" ITEM_END, number, key);
}

static struct ht_err *write_item(const struct push_spool *spool, const char *new,
	struct ht_err *(*write)(FILE *out, void *context), void *context)
{
	const int fd = openat(
		spool->dir, new, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file)
		return ht_err_sys(errno, "push: cannot write to the spool %s", spool->path);
	struct ht_err *err = write(file, context);
	if (!err && (fflush(file) != 0 || fsync(fd) != 0))
		err = ht_err_sys(errno, "push: cannot write to the spool %s", spool->path);
	const off_t size = err ? 0 : ftello(file);
	fclose(file);
	if (!err && (uint64_t)size > spool->max_bytes)
		err = ht_err_new(HT_ERR_SYS,
			"push: the window has %ju bytes, the spool may have %" PRIu64
			"; nothing is sent: --spool-max",
			(uintmax_t)size, spool->max_bytes);
	return err;
}

struct ht_err *push_spool_add(struct push_spool *spool, const char *key,
	struct ht_err *(*write)(FILE *out, void *context), void *context, enum push_added *ret,
	size_t *ret_dropped)
{
	char name[PUSH_SPOOL_NAME_BYTES], new[PUSH_SPOOL_NAME_BYTES];
	*ret_dropped = 0;
	if (is_there(spool, key, ret))
		return NULL;
	snprintf(new, sizeof(new), NEW_BEGIN "%d", (int)getpid());
	struct ht_err *err = write_item(spool, new, write, context);
	if (!err) {
		name_item(spool, key, name);
		if (renameat(spool->dir, new, spool->dir, name) < 0)
			err = ht_err_sys(errno, "push: cannot write to the spool %s", spool->path);
	}
	if (err) {
		unlinkat(spool->dir, new, 0);
		return err;
	}
	fsync(spool->dir);
	*ret_dropped = drop(spool);
	return NULL;
}
