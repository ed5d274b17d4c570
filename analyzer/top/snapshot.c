/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (1u << 30)

/* --- as a file ------------------------------------------------------------------------------- */

struct header {
	struct snapshot_figures figures;
	uint32_t row_count, frame_count, text_bytes;
};

static size_t bytes_of(const struct header *header)
{
	return sizeof(*header) + header->row_count * sizeof(struct snapshot_row) +
	       header->frame_count * sizeof(uint32_t) + header->text_bytes;
}

struct ht_err *snapshot_write(FILE *out, const struct snapshot *snapshot)
{
	struct header header;
	/* Clear the padding too: it is written to the file. */
	memset(&header, 0, sizeof(header));
	header.figures = snapshot->figures;
	header.row_count = snapshot->row_count;
	header.frame_count = snapshot->frame_count;
	header.text_bytes = snapshot->text_bytes;
	if (fwrite(&header, sizeof(header), 1, out) != 1 ||
		fwrite(snapshot->row, sizeof(*snapshot->row), header.row_count, out) !=
			header.row_count ||
		fwrite(snapshot->frame, sizeof(*snapshot->frame), header.frame_count, out) !=
			header.frame_count ||
		fwrite(snapshot->text, 1, header.text_bytes, out) != header.text_bytes)
		return ht_err_sys(errno, "cannot hand over the figures");
	return NULL;
}

/* Whether a text begins within the texts. Two zeros end them, so both strings of the text then end
 * within them. */
static bool is_text(const struct snapshot *snapshot, uint32_t text)
{
	return text == SNAPSHOT_NONE || text < snapshot->text_bytes;
}

static bool is_row_sound(const struct snapshot *snapshot, const struct snapshot_row *row)
{
	return is_text(snapshot, row->function) && is_text(snapshot, row->caller) &&
	       is_text(snapshot, row->script) && row->trend_count <= SNAPSHOT_TREND &&
	       row->frame <= snapshot->frame_count &&
	       row->frame_count <= snapshot->frame_count - row->frame;
}

static bool is_sound(const struct snapshot *snapshot)
{
	const uint32_t length = snapshot->text_bytes;
	if (length < 2 || snapshot->text[length - 1] || snapshot->text[length - 2] ||
		snapshot->figures.trend_count > SNAPSHOT_TREND)
		return false;
	for (uint32_t i = 0; i < snapshot->row_count; i++)
		if (!is_row_sound(snapshot, &snapshot->row[i]))
			return false;
	for (uint32_t i = 0; i < snapshot->frame_count; i++)
		if (!is_text(snapshot, snapshot->frame[i]))
			return false;
	return true;
}

/* Makes a snapshot of the `bytes` of a file, in one allocation. NULL: they are malformed, or no
 * memory. */
static struct snapshot *lay_out(const void *file, size_t bytes)
{
	struct header header;
	if (bytes < sizeof(header))
		return NULL;
	memcpy(&header, file, sizeof(header));
	if (header.row_count > SNAPSHOT_ROWS_MAX || bytes_of(&header) != bytes)
		return NULL;
	struct snapshot *ret = malloc(sizeof(*ret) + bytes);
	if (!ret)
		return NULL;
	char *at = (char *)(ret + 1);
	memcpy(at, (const char *)file + sizeof(header), bytes - sizeof(header));
	*ret = (struct snapshot){header.figures, header.row_count, header.frame_count,
		header.text_bytes, (struct snapshot_row *)(void *)at, NULL, NULL};
	ret->frame = (uint32_t *)(void *)(ret->row + header.row_count);
	ret->text = (char *)(ret->frame + header.frame_count);
	if (is_sound(ret))
		return ret;
	free(ret);
	return NULL;
}

struct ht_err *snapshot_read(int fd, struct snapshot **ret)
{
	struct stat status;
	*ret = NULL;
	if (fstat(fd, &status) != 0)
		return ht_err_sys(errno, "cannot read the figures");
	const size_t bytes = status.st_size < BYTES_MAX ? (size_t)status.st_size : 0;
	char *file = malloc(bytes + 1);
	if (!file)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the figures");
	if (pread(fd, file, bytes, 0) == (ssize_t)bytes)
		*ret = lay_out(file, bytes);
	free(file);
	return *ret ? NULL : ht_err_new(HT_ERR_FORMAT, "the figures are not complete");
}

struct ht_err *snapshot_copy(const struct snapshot *snapshot, struct snapshot **ret)
{
	char *file = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&file, &bytes);
	*ret = NULL;
	struct ht_err *err = out ? snapshot_write(out, snapshot) : NULL;
	const bool is_whole = out && fclose(out) == 0;
	if (!err && is_whole)
		*ret = lay_out(file, bytes);
	free(file);
	return err || *ret ? err : ht_err_new(HT_ERR_NOMEM, "out of memory for the figures");
}

void snapshot_destroy(struct snapshot *snapshot)
{
	free(snapshot);
}

void snapshot_follow(struct snapshot **before, struct snapshot **now, struct snapshot *next)
{
	const bool is_same = *now && *before && next->figures.time_ns <= (*now)->figures.time_ns;
	struct snapshot **gone = is_same ? now : before;
	snapshot_destroy(*gone);
	if (!is_same)
		*before = *now;
	*now = next;
}

/* --- its parts ------------------------------------------------------------------------------- */

const char *snapshot_function(const struct snapshot *snapshot, uint32_t text)
{
	return text == SNAPSHOT_NONE ? "" : snapshot->text + text;
}

const char *snapshot_place(const struct snapshot *snapshot, uint32_t text)
{
	if (text == SNAPSHOT_NONE)
		return "";
	const size_t after = text + strlen(snapshot->text + text) + 1;
	return after < snapshot->text_bytes ? snapshot->text + after : "";
}

uint32_t snapshot_frame(
	const struct snapshot *snapshot, const struct snapshot_row *row, uint32_t index)
{
	return snapshot->frame[row->frame + index];
}
