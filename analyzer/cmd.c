/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "format/closest.h"
#include "format/foreign.h"

struct ht_err *cmd_open_trace(const char *path, int *ret)
{
	if (strcmp(path, "-") == 0) {
		*ret = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? ht_err_sys(errno, "cannot read standard input") : NULL;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return ht_err_sys(errno, "cannot open %s", path);
	struct stat status;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(fd);
		return ht_err_new(HT_ERR_FORMAT, "%s is not a regular file, so not a trace", path);
	}
	*ret = fd;
	return NULL;
}

struct ht_err *cmd_one_operand(int argc, char **argv, const char *what, const char **ret)
{
	if (optind == argc)
		return ht_err_new(HT_ERR_USAGE, "%s: %s is missing", argv[0], what);
	if (optind + 1 < argc)
		return ht_err_new(HT_ERR_USAGE, "%s takes one %s; %s is one too many", argv[0],
			what, argv[optind + 1]);
	*ret = argv[optind];
	return NULL;
}

bool cmd_file_option(
	int option, const char *value, struct resolve_files *files, struct ht_err **ret_err)
{
	*ret_err = NULL;
	switch (option) {
	case CMD_SYSROOT:
		files->sysroot = value;
		return true;
	case CMD_PERF_MAP:
		files->perf_map = value;
		return true;
	case CMD_DEBUG_DIR:
		if (files->debug_dir_count == FINDER_DEBUG_DIRS_MAX)
			*ret_err = ht_err_new(HT_ERR_USAGE, "--debug-dir can be given %u times",
				FINDER_DEBUG_DIRS_MAX);
		else
			files->debug_dir[files->debug_dir_count++] = value;
		return true;
	default:
		return false;
	}
}

struct ht_err *cmd_number(const char *option, const char *text, unsigned long max, size_t *ret)
{
	char *end;
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value > max)
		return ht_err_new(
			HT_ERR_USAGE, "%s takes a number up to %lu, not \"%s\"", option, max, text);
	*ret = value;
	return NULL;
}

/* The long option `word` names one of those of the command, which it is or was to be. */
static const char *find_option(const char *word, const struct option *known, bool *ret_is_it)
{
	char name[64];
	struct closest closest = {.word = name};
	*ret_is_it = false;
	if (strncmp(word, "--", 2) != 0)
		return NULL;
	snprintf(name, sizeof(name), "%s", word + 2);
	name[strcspn(name, "=")] = '\0';
	for (; known->name; known++) {
		closest_try(&closest, known->name);
		*ret_is_it |= strcmp(name, known->name) == 0;
	}
	return closest.match;
}

struct ht_err *cmd_bad_option(int argc, char **argv, const struct option *known)
{
	const char *option = optind > 0 && optind <= argc ? argv[optind - 1] : "";
	bool is_it;
	const char *match = find_option(option, known, &is_it);
	if (match && !is_it)
		return ht_err_new(HT_ERR_USAGE, "%s: option %s is unknown; did you mean --%s?",
			argv[0], option, match);
	return ht_err_new(HT_ERR_USAGE,
		"%s: option %s is unknown or lacks its value; see heaptap %s --help", argv[0],
		option, argv[0]);
}

struct ht_err *cmd_only_trace(int argc, char **argv, const char **ret_path, int *ret_fd)
{
	static const struct option none[] = {{0}};
	if (getopt_long(argc, argv, "", none, NULL) != -1)
		return cmd_bad_option(argc, argv, none);
	struct ht_err *err = cmd_one_operand(argc, argv, "trace file", ret_path);
	return err ? err : cmd_open_trace(*ret_path, ret_fd);
}

static bool has_read_part;

void cmd_warn_ending(const struct model_ending *ending, bool is_shown)
{
	char text[MODEL_ENDING_BYTES];
	if (!model_ending_text(ending, text))
		return;
	has_read_part = true;
	if (is_shown)
		return;
	/* The name of a file is among it. */
	foreign_copy(text, sizeof(text), text);
	fprintf(stderr, "heaptap: warning: %s\n", text);
}

void cmd_warn_model(const struct model *model)
{
	const struct model_ending ending = model_ending(model);
	cmd_warn_ending(&ending, false);
}

struct ht_err *cmd_warn_reader(
	const struct trace_reader *reader, enum trace_end how_ended, bool has_end)
{
	const struct model_ending ending = {
		.how_ended = how_ended,
		.is_growing = how_ended == TRACE_TRUNCATED && trace_reader_is_growing(reader),
		.has_end = has_end,
		.problem = trace_reader_problem(reader),
	};
	if (trace_reader_records(reader) == 0)
		return ht_err_new(HT_ERR_FORMAT, "%s; no record of it can be read",
			ending.problem ? ending.problem : "the trace is empty");
	cmd_warn_ending(&ending, false);
	return NULL;
}

static struct ht_err *read_to_end(struct trace_reader *reader)
{
	enum trace_end how_ended = TRACE_MORE;
	struct ht_err *err = NULL;
	bool has_end = false;
	while (!err && how_ended == TRACE_MORE) {
		struct rec rec;
		err = trace_reader_next(reader, &rec, &how_ended);
		has_end |= !err && how_ended == TRACE_MORE && rec.kind == REC_END;
	}
	return err ? err : cmd_warn_reader(reader, how_ended, has_end);
}

struct ht_err *cmd_check_ending(int fd, const char *path, uint64_t *ret_bytes)
{
	struct trace_reader *reader = NULL;
	off_t start = lseek(fd, 0, SEEK_CUR);
	*ret_bytes = 0;
	if (start < 0)
		return NULL;
	struct ht_err *err = trace_reader_create(fd, path, &reader);
	if (!err)
		err = read_to_end(reader);
	if (!err)
		*ret_bytes = trace_reader_seen(reader);
	trace_reader_destroy(reader);
	if (!err && lseek(fd, start, SEEK_SET) < 0)
		err = ht_err_sys(errno, "cannot read %s again", path);
	return err;
}

bool cmd_has_read_part(void)
{
	return has_read_part;
}

struct ht_err *cmd_flush(FILE *out, const char *name)
{
	errno = 0;
	if (fflush(out) != 0 || ferror(out))
		return ht_err_sys(errno ? errno : EIO, "cannot write %s", name);
	return NULL;
}
