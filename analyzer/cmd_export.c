/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze export: a trace as other programs read it.
 */
#include "analyzer/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/commands.h"
#include "analyzer/export/export.h"
#include "analyzer/ui/watch.h"

struct options {
	const char *path, *out_path;
	struct resolve_files files;
	enum commands_format format;
	enum metric metric;
	bool stats, force, shows_wrappers;
};

static struct ht_err *read_options(const struct option_values *values, struct options *ret)
{
	*ret = (struct options){
		.path = values->operand[0],
		.out_path = option_text(values, OPTION_OUTPUT, "-"),
		.files = cmd_files(values),
		.format = option_number(values, OPTION_FORMAT, COMMANDS_COLLAPSED),
		.metric = option_number(values, OPTION_METRIC, METRIC_OUTSTANDING),
		.stats = option_is_given(values, OPTION_STATS),
		.force = option_is_given(values, OPTION_FORCE),
		.shows_wrappers = option_is_given(values, OPTION_SHOW_WRAPPERS),
	};
	if (!option_is_given(values, OPTION_FORMAT))
		return ht_err_new(
			HT_ERR_USAGE, "export: --format is missing; use collapsed or heaptrack");
	if (ret->format != COMMANDS_HEAPTRACK)
		return NULL;
	if (option_is_given(values, OPTION_METRIC))
		return ht_err_new(HT_ERR_USAGE, "export: --metric is for collapsed stacks; "
						"heaptrack's format has all of them");
	if (ret->shows_wrappers)
		return ht_err_new(HT_ERR_USAGE, "export: --show-wrappers is for collapsed stacks; "
						"heaptrack's format has every frame");
	return NULL;
}

/* Where an export goes. */
struct target {
	FILE *file;
	const char *path;
	char *part; /* what will be renamed to `path`, when it is whole; NULL: written in place */
};

/* What was there stays until the new one is whole. */
static int open_part(struct target *target)
{
	if (asprintf(&target->part, "%s.part-XXXXXX", target->path) < 0)
		target->part = NULL;
	return target->part ? mkostemp(target->part, O_CLOEXEC) : -1;
}

static int open_in_place(const struct target *target, int flags)
{
	return open(target->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

static struct ht_err *open_output(const struct options *options, int trace_fd, struct target *ret)
{
	struct stat trace, there;
	*ret = (struct target){.path = options->out_path};
	if (strcmp(options->out_path, "-") == 0) {
		ret->file = stdout;
		return NULL;
	}
	bool exists = lstat(options->out_path, &there) == 0;
	if (exists && fstat(trace_fd, &trace) == 0 && trace.st_ino == there.st_ino &&
		trace.st_dev == there.st_dev)
		return ht_err_new(HT_ERR_USAGE, "%s is the trace itself; name another file with -o",
			options->out_path);
	int fd = exists && options->force && S_ISREG(there.st_mode)
			 ? open_part(ret)
			 : open_in_place(ret, options->force ? 0 : O_EXCL);
	if (fd < 0 && errno == EEXIST)
		return ht_err_new(HT_ERR_USAGE, "%s exists; -f replaces it", options->out_path);
	ret->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!ret->file)
		return ht_err_sys(errno, "cannot write %s", options->out_path);
	return NULL;
}

static struct ht_err *write_collapsed(FILE *out, int fd, const struct options *options)
{
	struct analysis *analysis = NULL;
	struct view *view = NULL;
	struct query query;
	query_init(&query);
	query.shows_wrappers = options->shows_wrappers;
	struct watch watch;
	watch_begin(&watch, stderr, fd, options->path);
	struct ht_err *err = analysis_create(fd, options->path, &analysis);
	watch_end(&watch);
	if (!err)
		cmd_warn_model(&analysis->model);
	if (!err && options->metric == METRIC_TEMPORARY && analysis->cube.sample_bytes)
		err = ht_err_new(HT_ERR_USAGE,
			"%s is a sample, which cannot show temporary allocations", options->path);
	if (!err)
		err = analysis_resolve(analysis, &options->files);
	if (!err)
		err = view_create(analysis, &query, false, &view);
	if (!err)
		err = export_collapsed(out, view, options->metric);
	view_destroy(view);
	analysis_destroy(analysis);
	return err;
}

static struct ht_err *write_heaptrack(FILE *out, int fd, const struct options *options)
{
	struct export_heaptrack_stats stats;
	uint64_t bytes;
	struct ht_err *err = cmd_check_ending(fd, options->path, &bytes);
	if (err)
		return err;
	struct watch watch = {0};
	/* The export is written while the trace is read. */
	if (!isatty(fileno(out)))
		watch_begin(&watch, stderr, fd, options->path);
	err = export_heaptrack(out, fd, options->path, &options->files, &stats);
	watch_end(&watch);
	if (!err && stats.sample_bytes)
		fprintf(stderr,
			"heaptap: the trace is a sample: bytes are estimates, calls are samples, "
			"temporary means nothing\n");
	if (!err && options->stats)
		fprintf(stderr,
			"calls %" PRIu64 "\ntemporary %" PRIu64 "\npeak_bytes %" PRIu64
			"\nleaked_bytes %" PRIu64 "\n",
			stats.calls, stats.temporary, stats.peak_bytes, stats.leaked_bytes);
	return err;
}

/* Half an export would be taken for a whole one: it is removed, unless it is a device or a pipe. */
static struct ht_err *close_output(struct target *target, struct ht_err *err)
{
	struct stat status;
	const char *written = target->part ? target->part : target->path;
	bool is_file = target->file && target->file != stdout &&
		       fstat(fileno(target->file), &status) == 0 && S_ISREG(status.st_mode);
	if (!err && target->part && rename(target->part, target->path) < 0)
		err = ht_err_sys(errno, "cannot replace %s", target->path);
	if (err && is_file)
		unlink(written);
	if (target->file && target->file != stdout)
		fclose(target->file);
	free(target->part);
	return err;
}

struct ht_err *cmd_export(const struct option_values *values)
{
	struct options options;
	struct target target;
	int fd;
	struct ht_err *err = read_options(values, &options);
	if (!err)
		err = cmd_open_trace(options.path, &fd);
	if (err)
		return err;
	err = open_output(&options, fd, &target);
	if (!err) {
		err = options.format == COMMANDS_COLLAPSED
			      ? write_collapsed(target.file, fd, &options)
			      : write_heaptrack(target.file, fd, &options);
		err = ht_err_first(err, cmd_flush(target.file, options.out_path));
	}
	close(fd);
	return close_output(&target, err);
}
