/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cmd.h"
#include "analyzer/ui/watch.h"

/* The traces that cmd_hold received. */
static struct held {
	const char *path;
	int fd;
	struct analysis *analysis; /* NULL: cmd_analyse has returned it */
} held[CMD_HELD_MAX];
static size_t held_count;

void cmd_hold(const char *path, int fd, struct analysis *analysis)
{
	if (held_count < CMD_HELD_MAX)
		held[held_count++] = (struct held){path, fd, analysis};
}

static struct held *find(const char *path)
{
	for (size_t i = 0; i < held_count; i++)
		if (strcmp(held[i].path, path) == 0)
			return &held[i];
	return NULL;
}

int cmd_held_open(const char *path)
{
	const struct held *found = find(path);
	int fd = found ? fcntl(found->fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd >= 0 && lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

struct ht_err *cmd_analyse(const struct option_values *values, int fd, const char *path,
	const struct query *query, bool is_shown, struct analysis **ret)
{
	const struct resolve_files files = cmd_files(values);
	struct held *found = find(path);
	struct watch watch;
	if (found && found->analysis && !(query && query_filters_blocks(query))) {
		*ret = found->analysis;
		found->analysis = NULL;
		return NULL;
	}
	watch_begin(&watch, stderr, fd, path);
	struct ht_err *err = analysis_create(fd, path, query, ret);
	watch_end(&watch);
	if (err)
		return err;
	const struct model_ending ending = model_ending(&(*ret)->model);
	cmd_warn_ending(&ending, is_shown);
	return analysis_resolve(*ret, &files);
}
