/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "format/foreign.h"

struct ht_err *cmd_open_trace(const char *path, int *ret)
{
	if (strcmp(path, "-") == 0) {
		*ret = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? ht_err_sys(errno, "cannot read standard input") : NULL;
	}
	int fd = cmd_held_open(path);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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

_Static_assert(OPTION_REPEAT_MAX == FINDER_DEBUG_DIRS_MAX, "--debug-dir has room");

struct resolve_files cmd_files(const struct option_values *values)
{
	struct resolve_files files = {
		.sysroot = option_text(values, OPTION_SYSROOT, ""),
		.perf_map = option_text(values, OPTION_PERF_MAP, NULL),
	};
	const struct option_value *dir = NULL;
	while ((dir = option_next(values, OPTION_DEBUG_DIR, dir)))
		files.debug_dir[files.debug_dir_count++] = dir->text;
	return files;
}

struct ht_err *cmd_format_of(const struct option_values *values, enum cmd_format *ret)
{
	const bool json = option_is_given(values, OPTION_JSON);
	const bool csv = option_is_given(values, OPTION_CSV);
	*ret = json ? CMD_JSON : csv ? CMD_CSV : CMD_TEXT;
	if (json && csv)
		return ht_err_new(
			HT_ERR_USAGE, "%s takes --json or --csv, not both", values->command->name);
	return NULL;
}

struct ht_err *cmd_output_open(const struct option_values *values, struct cmd_output *ret)
{
	enum terminal_color color = option_number(values, OPTION_COLOR, TERMINAL_COLOR_AUTO);
	const struct terminal terminal = terminal_of(stdout, color);
	struct ht_err *err =
		pager_open(!option_is_given(values, OPTION_NO_PAGER), &terminal, &ret->pager);
	ret->text = text_for(ret->pager.out, &terminal);
	if (option_is_given(values, OPTION_WIDE))
		ret->text.columns = TERMINAL_COLUMNS_MAX;
	return err;
}

struct ht_err *cmd_output_close(struct cmd_output *output, const char *what)
{
	struct ht_err *err = pager_close(&output->pager);
	return ht_err_first(err, cmd_flush(stdout, what));
}

static bool has_read_part, has_exceeded;

void cmd_warn_ending(const struct model_ending *ending, bool is_shown)
{
	char text[MODEL_ENDING_BYTES];
	if (!model_ending_text(ending, text))
		return;
	has_read_part = true;
	if (is_shown)
		return;
	/* The text contains the name of a file. */
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
	HT_THEN(err, read_to_end(reader));
	if (!err)
		*ret_bytes = trace_reader_seen(reader);
	trace_reader_destroy(reader);
	if (!err && lseek(fd, start, SEEK_SET) < 0)
		err = ht_err_sys(errno, "cannot read %s again", path);
	return err;
}

void cmd_note_exceeded(void)
{
	has_exceeded = true;
}

int cmd_exit_code(void)
{
	if (has_read_part)
		return 7;
	return has_exceeded ? 8 : 0;
}

struct ht_err *cmd_flush(FILE *out, const char *name)
{
	const char *shown = strcmp(name, "-") == 0 ? "standard output" : name;
	errno = 0;
	if (fflush(out) == 0 && !ferror(out))
		return NULL;
	if (errno)
		return ht_err_sys(errno, "cannot write %s", shown);
	return ht_err_new(
		HT_ERR_SYS, "cannot write %s: an earlier write failed; is the disk full?", shown);
}
