/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/traces.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/model/strings.h"

#define FIRST_FD 16 /* traces use descriptors from here on; a job uses the lower ones */

static const char suffix[] = ".htap";

/* Takes ownership of `path`. */
static struct ht_err *add_file(struct serve_traces *traces, char *path)
{
	struct stat status;
	if (!path)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the traces");
	if (traces->count == SERVE_TRACES_MAX) {
		free(path);
		return ht_err_new(HT_ERR_USAGE, "serve takes %u traces at most", SERVE_TRACES_MAX);
	}
	traces->path[traces->count] = path;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	traces->fd[traces->count] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
	const int why = errno;
	if (fd >= 0)
		close(fd);
	const int kept = traces->fd[traces->count++];
	if (kept < 0)
		return ht_err_sys(why, "cannot open %s", path);
	if (fstat(kept, &status) != 0 || !S_ISREG(status.st_mode))
		return ht_err_new(HT_ERR_FORMAT, "%s is not a regular file, so not a trace", path);
	return NULL;
}

static int is_trace(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name);
	return entry->d_name[0] != '.' && length >= sizeof(suffix) &&
	       strcmp(entry->d_name + length - (sizeof(suffix) - 1), suffix) == 0;
}

static struct ht_err *add_directory(struct serve_traces *traces, const char *directory)
{
	struct dirent **entry = NULL;
	int count = scandir(directory, &entry, is_trace, versionsort);
	struct ht_err *err = NULL;
	if (count < 0)
		return ht_err_sys(errno, "cannot read the directory %s", directory);
	if (count == 0)
		err = ht_err_new(HT_ERR_USAGE, "there is no trace (*%s) in %s", suffix, directory);
	for (int i = 0; i < count; i++) {
		char *path = NULL;
		if (!err && asprintf(&path, "%s/%s", directory, entry[i]->d_name) < 0)
			path = NULL;
		HT_THEN(err, add_file(traces, path));
		if (!err)
			traces->is_found[traces->count - 1] = true;
		free(entry[i]);
	}
	free(entry);
	return err;
}

static void identify(struct serve_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++) {
		struct stat status = {0};
		if (fstat(traces->fd[i], &status) != 0)
			continue;
		const uint64_t fact[] = {status.st_dev, status.st_ino, (uint64_t)status.st_size,
			(uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec};
		traces->identity[i] = strings_hash(STRINGS_HASH, fact, sizeof(fact));
	}
}

struct ht_err *serve_traces_open(
	struct serve_traces *traces, const char *const *operand, size_t count)
{
	struct ht_err *err = NULL;
	*traces = (struct serve_traces){0};
	for (size_t i = 0; i < count && !err; i++) {
		struct stat status;
		if (stat(operand[i], &status) == 0 && S_ISDIR(status.st_mode))
			err = add_directory(traces, operand[i]);
		else
			err = add_file(traces, strdup(operand[i]));
	}
	if (!err)
		identify(traces);
	return err;
}

struct ht_err *serve_traces_add(struct serve_traces *traces, const char *path)
{
	struct ht_err *err = add_file(traces, strdup(path));
	if (!err)
		identify(traces);
	return err;
}

void serve_traces_remove(struct serve_traces *traces, size_t index)
{
	const size_t behind = --traces->count - index;
	free(traces->path[index]);
	close(traces->fd[index]);
#define MOVE_UP(member)                                                                            \
	memmove(&traces->member[index], &traces->member[index + 1],                                \
		behind * sizeof(traces->member[0]))
	MOVE_UP(path);
	MOVE_UP(fd);

	MOVE_UP(identity);
	MOVE_UP(is_found);
#undef MOVE_UP
}

void serve_traces_deinit(struct serve_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++) {
		free(traces->path[i]);
		if (traces->fd[i] >= 0)
			close(traces->fd[i]);
	}
	*traces = (struct serve_traces){0};
}
