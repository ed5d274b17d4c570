/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the new file ------------------------------------------------------------------------------
 */

/* In the directory of `path`; without a name, so that nothing stays when heaptap is killed. */
static int open_nameless(const char *path)
{
	char *directory = strdup(path);
	if (!directory)
		return -1;
	char *slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = '\0';
	int fd = open(slash ? directory : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	free(directory);
	return fd;
}

static struct ht_err *make_name(struct cmd_copy *copy)
{
	if (asprintf(&copy->part, "%s.part-XXXXXX", copy->path) >= 0)
		return NULL;
	copy->part = NULL;
	return ht_err_new(HT_ERR_NOMEM, "out of memory for the name of %s", copy->path);
}

static struct ht_err *open_new(struct cmd_copy *copy)
{
	copy->out = open_nameless(copy->path);
	if (copy->out >= 0)
		return NULL;
	/* Some file systems have no such files. */
	struct ht_err *err = make_name(copy);
	if (err)
		return err;
	copy->out = mkostemp(copy->part, O_CLOEXEC);
	if (copy->out >= 0)
		return NULL;
	err = ht_err_sys(errno, "cannot write %s", copy->path);
	free(copy->part);
	copy->part = NULL;
	return err;
}

static struct ht_err *open_out(struct cmd_copy *copy)
{
	struct stat there, trace;
	if (strcmp(copy->path, "-") == 0) {
		copy->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return copy->out < 0 ? ht_err_sys(errno, "cannot write standard output") : NULL;
	}
	if (stat(copy->path, &there) != 0)
		return open_new(copy);
	if (fstat(copy->in, &trace) == 0 && trace.st_dev == there.st_dev &&
		trace.st_ino == there.st_ino)
		return ht_err_new(HT_ERR_USAGE, "%s is the trace itself; name another file with -o",
			copy->path);
	if (!S_ISREG(there.st_mode))
		return ht_err_new(HT_ERR_USAGE, "%s is not a regular file", copy->path);
	if (!copy->replaces)
		return ht_err_new(HT_ERR_USAGE, "%s exists; -f replaces it", copy->path);
	return open_new(copy);
}

static int link_to(int fd, const char *path)
{
	char self[64];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* A link cannot replace a file: it gets a name beside it first. */
static struct ht_err *name_beside(struct cmd_copy *copy)
{
	struct ht_err *err = make_name(copy);
	if (err)
		return err;
	for (unsigned i = 0; i < 100; i++) {
		snprintf(copy->part + strlen(copy->path), sizeof(".part-XXXXXX"), ".part-%06u",
			(unsigned)(getpid() + (int)i) % 1000000);
		if (link_to(copy->out, copy->part) == 0)
			return NULL;
		if (errno != EEXIST)
			break;
	}
	err = ht_err_sys(errno, "cannot write %s", copy->path);
	free(copy->part);
	copy->part = NULL;
	return err;
}

static struct ht_err *give_name(struct cmd_copy *copy)
{
	struct ht_err *err = NULL;
	if (strcmp(copy->path, "-") == 0)
		return NULL;
	if (!copy->part && copy->replaces)
		err = name_beside(copy);
	if (err)
		return err;
	const int failed = !copy->part	    ? link_to(copy->out, copy->path)
			   : copy->replaces ? rename(copy->part, copy->path)
					    : renameat2(AT_FDCWD, copy->part, AT_FDCWD, copy->path,
						      RENAME_NOREPLACE);
	if (failed && errno == EEXIST)
		return ht_err_new(HT_ERR_USAGE, "%s exists; -f replaces it", copy->path);
	if (failed)
		return ht_err_sys(errno, "cannot write %s", copy->path);
	free(copy->part);
	copy->part = NULL;
	return NULL;
}

/* --- the copy ----------------------------------------------------------------------------------
 */

struct ht_err *cmd_copy_open(const struct option_values *values,
	const struct model_observer *observer, struct cmd_copy *ret)
{
	*ret = (struct cmd_copy){.in = -1,
		.out = -1,
		.path = option_text(values, OPTION_OUTPUT, NULL),
		.replaces = option_is_given(values, OPTION_FORCE)};
	const char *name = values->command->name, *trace = values->operand[0];
	if (!ret->path)
		return ht_err_new(HT_ERR_USAGE, "%s: -o OUT is missing", name);
	struct ht_err *err = cmd_open_trace(trace, &ret->in);
	if (!err && lseek(ret->in, 0, SEEK_CUR) < 0)
		err = ht_err_new(HT_ERR_USAGE,
			"%s reads the trace twice, so it takes a file, no pipe", name);
	if (!err)
		err = open_out(ret);
	if (!err)
		err = model_load(&ret->model, ret->in, trace, observer);
	if (!err && lseek(ret->in, 0, SEEK_SET) < 0)
		err = ht_err_sys(errno, "cannot read %s", trace);
	if (err)
		return err;
	cmd_warn_model(&ret->model);
	return trace_writer_create(ret->out, &ret->writer);
}

struct ht_err *cmd_copy_each(struct cmd_copy *copy,
	struct ht_err *(*sink)(void *context, const struct rec *rec), void *context)
{
	struct trace_reader *reader = NULL;
	enum trace_end how_ended = TRACE_MORE;
	struct rec *rec = malloc(sizeof(*rec));
	struct ht_err *err = rec ? trace_reader_create(copy->in, "the trace", &reader)
				 : ht_err_new(HT_ERR_NOMEM, "out of memory for a record");
	if (!err)
		trace_reader_limit(reader, copy->model.seen_bytes);
	while (!err && how_ended == TRACE_MORE) {
		err = trace_reader_next(reader, rec, &how_ended);
		if (!err && how_ended == TRACE_MORE)
			err = sink(context, rec);
	}
	trace_reader_destroy(reader);
	free(rec);
	return err;
}

struct ht_err *cmd_copy_close(struct cmd_copy *copy, struct ht_err *err)
{
	/* The copy of a part is a part: it gets no footer. */
	if (!err)
		err = copy->model.how_ended == TRACE_COMPLETE ? trace_writer_finish(copy->writer)
							      : trace_writer_flush(copy->writer);
	if (!err)
		err = give_name(copy);
	if (copy->part)
		unlink(copy->part);
	free(copy->part);
	trace_writer_destroy(copy->writer);
	model_deinit(&copy->model);
	if (copy->out >= 0)
		close(copy->out);
	if (copy->in >= 0)
		close(copy->in);
	*copy = (struct cmd_copy){.in = -1, .out = -1};
	return err;
}
