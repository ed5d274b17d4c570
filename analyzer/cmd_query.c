/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/cmd.h"

#define SUPPRESSIONS_BYTES_MAX (1u << 20) /* of all files together */

static struct ht_err *take_words(const struct option_values *values, enum option_id id,
	const char *name, struct query_words *words)
{
	const struct option_value *value = NULL;
	while ((value = option_next(values, id, value)))
		HT_TRY(query_add(words, name, value->text));
	return NULL;
}

/* --- suppressions ------------------------------------------------------------------------------
 */

/* Appends the file to `text`, which has `*length` bytes and room for SUPPRESSIONS_BYTES_MAX. */
static struct ht_err *read_file(const char *path, char *text, size_t *length)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return ht_err_sys(errno, "cannot open the suppressions %s", path);
	struct ht_err *err = NULL;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		err = ht_err_new(HT_ERR_USAGE, "--suppressions %s is not a regular file", path);
	ssize_t n = 1;
	while (!err && n > 0) {
		if (*length == SUPPRESSIONS_BYTES_MAX)
			err = ht_err_new(HT_ERR_USAGE, "--suppressions takes %u bytes at most",
				SUPPRESSIONS_BYTES_MAX);
		else
			n = read(fd, text + *length, SUPPRESSIONS_BYTES_MAX - *length);
		if (!err && n < 0)
			err = ht_err_sys(errno, "cannot read the suppressions %s", path);
		*length += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return err;
}

static char *trim(char *line)
{
	line += strspn(line, " \t");
	size_t length = strlen(line);
	while (length && strchr(" \t\r", line[length - 1]))
		line[--length] = '\0';
	return line;
}

static struct ht_err *take_line(
	char *line, const char *path, size_t number, struct query_words *words)
{
	static const char prefix[] = "leak:";
	line = trim(line);
	if (!*line || *line == '#')
		return NULL;
	if (strncmp(line, prefix, sizeof(prefix) - 1) != 0 || !line[sizeof(prefix) - 1])
		return ht_err_new(HT_ERR_USAGE,
			"%s:%zu: a suppression is leak:PATTERN, not \"%.80s\"", path, number, line);
	if (words->count == QUERY_WORDS_MAX)
		return ht_err_new(
			HT_ERR_USAGE, "--suppressions takes %u patterns at most", QUERY_WORDS_MAX);
	words->word[words->count++] = line + sizeof(prefix) - 1;
	return NULL;
}

/* Takes the lines of [from, from + length), which a NUL follows. */
static struct ht_err *take_lines(
	char *from, size_t length, const char *path, struct query_words *words)
{
	struct ht_err *err = NULL;
	size_t number = 1;
	if (memchr(from, '\0', length))
		return ht_err_new(HT_ERR_USAGE, "--suppressions %s is not a text file", path);
	for (char *rest = from; rest && !err; number++) {
		char *line = strsep(&rest, "\n");
		err = take_line(line, path, number, words);
	}
	return err;
}

static struct ht_err *take_suppressions(const struct option_values *values, struct query *query)
{
	const struct option_value *value = NULL;
	size_t length = 0;
	struct ht_err *err = NULL;
	if (!option_is_given(values, OPTION_SUPPRESSIONS))
		return NULL;
	query->owned = malloc(SUPPRESSIONS_BYTES_MAX + OPTION_REPEAT_MAX + 1);
	if (!query->owned)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for suppressions");
	while (!err && (value = option_next(values, OPTION_SUPPRESSIONS, value))) {
		const size_t from = length;
		err = read_file(value->text, query->owned, &length);
		if (err)
			break;
		query->owned[length] = '\0';
		err = take_lines(
			query->owned + from, length - from, value->text, &query->suppressed);
		length++;
	}
	return err;
}

/* --- the query ---------------------------------------------------------------------------------
 */

struct ht_err *cmd_query(const struct option_values *values, struct query *ret)
{
	query_init(ret);
	ret->from = option_text(values, OPTION_FROM, NULL);
	ret->to = option_text(values, OPTION_TO, NULL);
	ret->alive_at = option_text(values, OPTION_ALIVE_AT, NULL);
	ret->min_size = option_number(values, OPTION_MIN_SIZE, ret->min_size);
	ret->max_size = option_number(values, OPTION_MAX_SIZE, ret->max_size);
	ret->min_age_ns = option_number(values, OPTION_MIN_AGE, ret->min_age_ns);
	ret->max_age_ns = option_number(values, OPTION_MAX_AGE, ret->max_age_ns);
	ret->shows_wrappers = option_is_given(values, OPTION_SHOW_WRAPPERS);
	HT_TRY(take_words(values, OPTION_THREAD, "--thread", &ret->threads));
	HT_TRY(take_words(values, OPTION_MODULE, "--module", &ret->modules));
	HT_TRY(take_words(values, OPTION_FUNCTION, "--function", &ret->functions));
	HT_TRY(take_words(values, OPTION_EXCLUDE, "--exclude", &ret->excluded));
	return take_suppressions(values, ret);
}
