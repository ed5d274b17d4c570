/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/symbols/finder.h"
#include "format/whole.h"

void source_deinit(struct source *source)
{
	free(source->path);
	free(source->data);
	free(source->line);
	*source = (struct source){0};
}

/* --- finding the file ------------------------------------------------------------------------- */

/* A path that climbs would leave the directory that the user named. */
static bool climbs(const char *path)
{
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
			return true;
	}
	return false;
}

/* Tries the path below `directory`, then without its first component, and so on, down to the file
 * name alone. */
static int open_below(const char *directory, const char *path, char found[PATH_MAX])
{
	const char *slash;
	do {
		path += strspn(path, "/");
		const int length = snprintf(found, PATH_MAX, "%s/%s", directory, path);
		const bool is_path = *path && !climbs(path) && length < PATH_MAX;
		const int fd = is_path ? finder_open_below(directory, path) : -1;
		if (fd >= 0)
			return fd;
		slash = strchr(path, '/');
		path = slash ? slash : path;
	} while (slash);
	errno = ENOENT;
	return -1;
}

static int open_source(const struct source_places *places, const char *path, char found[PATH_MAX])
{
	struct finder finder;
	for (size_t i = 0; i < places->dir_count; i++) {
		const int fd = open_below(places->dir[i], path, found);
		if (fd >= 0)
			return fd;
	}
	struct ht_err *err = finder_init(&finder, places->sysroot);
	int fd = err ? -1 : finder_open(&finder, FINDER_SYSROOT, path);
	if (fd >= 0) {
		snprintf(found, PATH_MAX, "%s%s", places->sysroot, path);
	} else if (!err) {
		snprintf(found, PATH_MAX, "%s", path);
		fd = finder_open(&finder, FINDER_HOST, path);
	}
	const int why = errno;
	ht_err_free(err);
	finder_deinit(&finder);
	errno = why;
	return fd;
}

/* --- its lines -------------------------------------------------------------------------------- */

static struct ht_err *split(struct source *source, size_t bytes)
{
	size_t lines = 0;
	for (size_t i = 0; i < bytes; i++)
		lines += source->data[i] == '\n';
	source->line = calloc(lines + 1, sizeof(*source->line));
	if (!source->line)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu lines", lines);
	for (char *at = source->data, *end = source->data + bytes; at < end;) {
		char *stop = memchr(at, '\n', (size_t)(end - at));
		source->line[source->line_count++] = at;
		if (!stop)
			break;
		*stop = '\0';
		at = stop + 1;
	}
	return NULL;
}

static struct ht_err *read_file(
	int fd, const char *found, struct source *ret, char why[SOURCE_WHY_BYTES])
{
	struct stat status;
	if (fstat(fd, &status) != 0 || status.st_size > SOURCE_BYTES_MAX) {
		snprintf(why, SOURCE_WHY_BYTES, "%.300s has more than %u MiB", found,
			SOURCE_BYTES_MAX >> 20);
		return NULL;
	}
	ret->path = strdup(found);
	ret->data = malloc((size_t)status.st_size + 1);
	if (!ret->path || !ret->data)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %s", found);
	ret->changed_ns = status.st_mtim.tv_sec * 1000000000ll + status.st_mtim.tv_nsec;
	const ssize_t bytes = whole_read(fd, ret->data, (size_t)status.st_size);
	if (bytes >= 0) {
		ret->data[bytes] = '\0';
		return split(ret, (size_t)bytes);
	}
	snprintf(why, SOURCE_WHY_BYTES, "cannot read %.300s: %s", found, strerror(errno));
	source_deinit(ret);
	return NULL;
}

struct ht_err *source_read(const struct source_places *places, const char *path, struct source *ret,
	char ret_why[SOURCE_WHY_BYTES])
{
	char found[PATH_MAX];
	*ret = (struct source){0};
	ret_why[0] = '\0';
	const int fd = open_source(places, path, found);
	if (fd < 0) {
		snprintf(ret_why, SOURCE_WHY_BYTES,
			"cannot open %.300s: %s; --source-dir DIR names where it is", path,
			strerror(errno));
		return NULL;
	}
	struct ht_err *err = read_file(fd, found, ret, ret_why);
	close(fd);
	if (err)
		source_deinit(ret);
	return err;
}
