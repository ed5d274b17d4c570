/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/symbols/jitdump.h"
#include "format/array.h"
#include "format/whole.h"

_Static_assert(PERF_MAP_MAX_BYTES < UINT32_MAX, "places in the text have 32 bits");

struct line {
	uint64_t from, to; /* [from, to) */
	const char *name;
};

void perf_map_deinit(struct perf_map *map)
{
	free(map->text);
	*map = (struct perf_map){0};
}

/* --- lines ---------------------------------------------------------------------------------------
 */

/* Hexadecimal, with or without 0x, up to a space. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
	const char *digit = *at;
	uint64_t value = 0;
	if (end - digit > 2 && digit[0] == '0' && digit[1] == 'x')
		digit += 2;
	const char *first = digit;
	for (; digit < end && *digit != ' '; digit++) {
		char low = (char)(*digit | 0x20);
		bool is_letter = low >= 'a' && low <= 'f';
		if (!is_letter && (*digit < '0' || *digit > '9'))
			return false;
		value = value << 4 | (uint64_t)(is_letter ? low - 'a' + 10 : *digit - '0');
	}
	if (digit == first || digit - first > 16 || digit == end)
		return false;
	*at = digit + 1;
	*ret = value;
	return true;
}

static bool take_line(const char *at, const char *end, struct line *ret)
{
	uint64_t size;
	if (!take_number(&at, end, &ret->from) || !take_number(&at, end, &size) || at == end)
		return false;
	ret->to = size > UINT64_MAX - ret->from ? UINT64_MAX : ret->from + size;
	ret->name = at;
	return true;
}

/* Takes the next well-formed line from `*at` on. */
static bool next_line(const struct perf_map *map, size_t *at, struct line *ret)
{
	while (*at < map->length) {
		const char *line = map->text + *at, *end = map->text + map->length;
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		end = newline ? newline : end;
		*at = (size_t)(end - map->text) + 1;
		if (take_line(line, end, ret))
			return true;
	}
	return false;
}

/* --- reading -------------------------------------------------------------------------------------
 */

static struct ht_err *read_lines(struct perf_map *map, int fd, size_t bytes, const char *path)
{
	if (bytes > PERF_MAP_MAX_BYTES)
		return ht_err_new(HT_ERR_USAGE, "%s has more than %u MiB: too long for a perf map",
			path, PERF_MAP_MAX_BYTES >> 20);
	map->text = malloc(bytes + 1);
	if (!map->text)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %s", path);
	/* Reads no further than the size at the start, although the program may append meanwhile.
	 */
	const ssize_t got = whole_read(fd, map->text, bytes);
	if (got < 0)
		return ht_err_sys(errno, "cannot read %s", path);
	map->length = (size_t)got;
	struct line line;
	size_t at = 0;
	if (!next_line(map, &at, &line))
		return ht_err_new(HT_ERR_USAGE,
			"%s is no perf map: no line in it is START SIZE NAME, in hexadecimal; nor "
			"a jitdump",
			path);
	return NULL;
}

static struct ht_err *read_jitdump(struct perf_map *map, int fd, const char *path)
{
	struct bytes_out text = {0};
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *in = own < 0 ? NULL : fdopen(own, "r");
	if (!in) {
		if (own >= 0)
			close(own);
		return ht_err_sys(errno, "cannot read %s", path);
	}
	struct ht_err *err = jitdump_convert(in, path, PERF_MAP_MAX_BYTES, &text);
	fclose(in);
	map->text = (char *)text.data;
	map->length = text.length;
	return err;
}

static struct ht_err *read_file(
	struct perf_map *map, int fd, const struct stat *status, const char *path)
{
	uint32_t magic;
	if (!S_ISREG(status->st_mode))
		return ht_err_new(
			HT_ERR_USAGE, "%s is not a regular file, so not a perf map", path);
	if (read(fd, &magic, sizeof(magic)) == sizeof(magic) && magic == JITDUMP_MAGIC)
		return read_jitdump(map, fd, path);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return ht_err_sys(errno, "cannot read %s", path);
	return read_lines(map, fd, (size_t)status->st_size, path);
}

struct ht_err *perf_map_read(struct perf_map *map, const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	*map = (struct perf_map){0};
	if (fd < 0)
		return ht_err_sys(errno, "cannot open %s", path);
	struct ht_err *err = fstat(fd, &status) == 0 ? read_file(map, fd, &status, path)
						     : ht_err_sys(errno, "cannot read %s", path);
	close(fd);
	if (err)
		perf_map_deinit(map);
	return err;
}

void perf_map_take_own(struct perf_map *map, int fd, const char *path, time_t since)
{
	struct stat status;
	struct ht_err *err = NULL;
	*map = (struct perf_map){0};
	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && status.st_mtime >= since)
		err = read_file(map, fd, &status, path);
	close(fd);
	if (err)
		perf_map_deinit(map);
	ht_err_free(err);
}

/* --- looking up ----------------------------------------------------------------------------------
 */

static struct rec_string name_at(const struct perf_map *map, uint32_t offset)
{
	const char *name = map->text + offset;
	size_t left = map->length - offset;
	const char *end = memchr(name, '\n', left);
	size_t length = end ? (size_t)(end - name) : left;
	if (length && name[length - 1] == '\r')
		length--;
	if (length > TRACE_STRING_MAX)
		length = TRACE_STRING_MAX;
	return (struct rec_string){.data = name, .length = length};
}

/*
 * Notes that a line covers addresses [from, to) of the sorted list. The last line that covers an
 * address gives its name. `tree` is a segment tree whose leaves are the addresses. Each node holds
 * the offset of the name of the last line noted there; lines come in file order, so the highest
 * offset between a leaf and the root is that of the last line. The time is at most lines times
 * log(addresses), for any file.
 */
static void note_line(uint32_t *tree, size_t count, size_t from, size_t to, uint32_t offset)
{
	for (from += count, to += count; from < to; from /= 2, to /= 2) {
		if (from & 1)
			tree[from++] = offset;
		if (to & 1)
			tree[--to] = offset;
	}
}

struct ht_err *perf_map_find(
	const struct perf_map *map, const uint64_t *address, size_t count, struct rec_string *ret)
{
	HT_FREED uint32_t *tree = calloc(2 * count + 1, sizeof(*tree));
	if (!tree)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu addresses", count);
	struct line line;
	for (size_t at = 0; next_line(map, &at, &line);)
		note_line(tree, count, array_from(address, count, sizeof(*address), line.from),
			array_from(address, count, sizeof(*address), line.to),
			(uint32_t)(line.name - map->text));
	for (size_t i = 0; i < count; i++) {
		uint32_t last = 0;
		for (size_t node = i + count; node > 0; node /= 2)
			last = tree[node] > last ? tree[node] : last;
		ret[i] = last ? name_at(map, last) : (struct rec_string){0};
	}
	return NULL;
}
