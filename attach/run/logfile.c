/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/run/logfile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/proc/fd.h"

#define PASS_BYTES    (1u << 18)
#define BACKLOG_BYTES (64u << 20) /* if more bytes than this wait, all are skipped */

static bool open_now(struct logfile *file)
{
	struct stat stat;
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->fd < 0)
		return false;
	if (fstat(file->fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
		fd_close(&file->fd);
		return false;
	}
	file->device = stat.st_dev;
	file->inode = stat.st_ino;
	file->position = 0;
	file->length = 0;
	file->is_skipping = false;
	return true;
}

/* Skips the rest of a line that has begun before `size`. */
static void go_to_end(struct logfile *file, uint64_t size)
{
	char last = '\n';
	if (size && pread(file->fd, &last, 1, (off_t)size - 1) != 1)
		last = '\n';
	file->position = size;
	file->length = 0;
	file->is_skipping = last != '\n';
}

void logfile_open(struct logfile *file, const char *path)
{
	struct stat stat;
	*file = (struct logfile){.path = path, .fd = -1};
	if (open_now(file) && fstat(file->fd, &stat) == 0)
		go_to_end(file, (uint64_t)stat.st_size);
}

/* Does the path lead to another file now? If it leads to none, the open file is read on. */
static bool is_rotated(const struct logfile *file)
{
	struct stat stat;
	return lstat(file->path, &stat) == 0 && S_ISREG(stat.st_mode) &&
	       (stat.st_ino != file->inode || stat.st_dev != file->device);
}

static void follow_size(struct logfile *file)
{
	struct stat stat;
	if (fstat(file->fd, &stat) != 0)
		return;
	const uint64_t size = (uint64_t)stat.st_size;
	if (size < file->position) {
		file->position = 0;
		file->length = 0;
		file->is_skipping = false;
	} else if (size - file->position > BACKLOG_BYTES) {
		file->skipped_bytes += size - file->position;
		go_to_end(file, size);
	}
}

static void take(struct logfile *file, const char *bytes, size_t count,
	void (*seen)(void *context, const char *line), void *context)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == '\n') {
			file->line[file->length] = '\0';
			/* A line that is too long is reported as far as it fits. */
			if (!file->is_skipping || file->length)
				seen(context, file->line);
			file->length = 0;
			file->is_skipping = false;
		} else if (file->length == LOGFILE_LINE_MAX) {
			file->is_skipping = true;
		} else if (!file->is_skipping) {
			file->line[file->length++] = bytes[i] ? bytes[i] : ' ';
		}
	}
}

bool logfile_read(
	struct logfile *file, void (*seen)(void *context, const char *line), void *context)
{
	char bytes[16384];
	size_t total = 0;
	if (file->fd < 0 && !open_now(file))
		return false;
	follow_size(file);
	while (total < PASS_BYTES) {
		ssize_t got = pread(file->fd, bytes, sizeof(bytes), (off_t)file->position);
		if (got <= 0)
			break;
		file->position += (uint64_t)got;
		total += (size_t)got;
		take(file, bytes, (size_t)got, seen, context);
	}
	/* Leave the old file only when it was read to its end. */
	if (total == 0 && is_rotated(file))
		fd_close(&file->fd);
	return total > 0;
}

void logfile_close(struct logfile *file)
{
	fd_close(&file->fd);
}
