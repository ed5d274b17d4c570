/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/sources.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/export/json.h"
#include "analyzer/export/names.h"
#include "format/array.h"

/* context: lines shown before and after a line with figures */
#define AROUND	   6u
#define LINE_BYTES 400u /* most bytes of a line; longer lines are generated code */

struct line {
	const char *file; /* interned */
	uint32_t number;
	uint64_t bytes; /* allocated in this line and in functions that it calls */
};

/* The lines of one file. */
struct part {
	const struct line *line;
	size_t count;
	uint64_t bytes; /* largest `bytes` of these lines */
};

struct sources {
	const struct source_places *places;
	int64_t start_ns; /* of the capture, since the epoch */
	size_t bytes_left;
	struct line *line;
	size_t line_count;
	struct part *part;
	size_t part_count;
	struct page_sources_result *result;
};

static struct ht_err *out_of_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for source files");
}

/* --- which lines have figures ------------------------------------------------------------------
 */

static struct ht_err *list_lines(struct sources *sources, const struct view *view)
{
	const struct tree *tree = &view->tree;
	HT_FREED struct sums *sums = NULL;
	struct ht_err *err = view_own_sums(view, tree, &sums);
	sources->line = calloc(tree->count + 1, sizeof(*sources->line));
	if (!err && !sources->line)
		err = out_of_memory();
	for (uint32_t i = err ? 0 : tree->count - 1; i > 0; i--) {
		const struct frame *frame = names_frame_of(view, i);
		sums[tree->node[i].parent].allocated_bytes += sums[i].allocated_bytes;
		if (frame && frame->file && frame->line && sums[i].allocated_bytes)
			sources->line[sources->line_count++] =
				(struct line){frame->file, frame->line, sums[i].allocated_bytes};
	}
	return err;
}

static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	if (x->file != y->file)
		return (uintptr_t)x->file < (uintptr_t)y->file ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->line->file, y->line->file);
}

static struct ht_err *list_parts(struct sources *sources)
{
	const struct line *line = sources->line;
	sources->part = calloc(sources->line_count + 1, sizeof(*sources->part));
	if (!sources->part)
		return out_of_memory();
	qsort(sources->line, sources->line_count, sizeof(*line), compare_lines);
	for (size_t i = 0; i < sources->line_count; i++) {
		if (!i || line[i].file != line[i - 1].file)
			sources->part[sources->part_count++] = (struct part){.line = &line[i]};
		struct part *part = &sources->part[sources->part_count - 1];
		part->count++;
		part->bytes = line[i].bytes > part->bytes ? line[i].bytes : part->bytes;
	}
	qsort(sources->part, sources->part_count, sizeof(*sources->part), compare_parts);
	return NULL;
}

/* --- text --------------------------------------------------------------------------------------
 */

/* Takes room for a line. When one line does not fit, no later line gets room. */
static bool has_room(struct sources *sources, const char *line)
{
	const size_t bytes = strnlen(line, LINE_BYTES) + 1;
	const bool fits = bytes <= sources->bytes_left;
	sources->bytes_left = fits ? sources->bytes_left - bytes : 0;
	return fits;
}

static json_t *line_json(const struct source *source, size_t number)
{
	char text[LINE_BYTES + 1];
	snprintf(text, sizeof(text), "%s", source->line[number - 1]);
	return json_pack("[oo]", json_number(number), json_text(text));
}

/* The lines of a part with their context, each line once. */
static json_t *lines_json(
	struct sources *sources, const struct part *part, const struct source *source)
{
	json_t *array = json_array();
	size_t next = 1;
	for (size_t i = 0; i < part->count; i++) {
		const size_t at = part->line[i].number;
		size_t from = at > AROUND ? at - AROUND : 1;
		for (from = from < next ? next : from;
			from <= at + AROUND && from <= source->line_count &&
			has_room(sources, source->line[from - 1]);
			from++)
			array = json_plus(array, line_json(source, from));
		next = from > next ? from : next;
	}
	return array;
}

static struct ht_err *part_json(struct sources *sources, const struct part *part, json_t **ret)
{
	struct source source = {0};
	char why[SOURCE_WHY_BYTES] = "";
	struct ht_err *err = source_read(sources->places, part->line->file, &source, why);
	if (!err) {
		*ret = json_pack("{so so so sb}", "path", json_text(part->line->file), "lines",
			lines_json(sources, part, &source), "problem", json_text(*why ? why : NULL),
			"is_newer", source.changed_ns > sources->start_ns);
		sources->result->files += !*why;
		sources->result->missing += *why != '\0';
	}
	source_deinit(&source);
	return err || *ret ? err : out_of_memory();
}

static struct ht_err *parts_json(struct sources *sources, json_t **ret)
{
	struct ht_err *err = NULL;
	*ret = json_array();
	for (size_t i = 0; i < sources->part_count && !err; i++) {
		json_t *part = NULL;
		if (!sources->bytes_left) {
			sources->result->left++;
			continue;
		}
		err = part_json(sources, &sources->part[i], &part);
		if (!err)
			*ret = json_plus(*ret, part);
	}
	return err || *ret ? err : out_of_memory();
}

struct ht_err *page_sources_json(const struct view *view, const struct source_places *places,
	size_t bytes_max, json_t **ret, struct page_sources_result *ret_result)
{
	struct sources sources = {
		.places = places,
		.start_ns = (int64_t)view->analysis->model.capture.start_unix_ns,
		.bytes_left = bytes_max,
		.result = ret_result,
	};
	*ret = NULL;
	*ret_result = (struct page_sources_result){0};
	struct ht_err *err = list_lines(&sources, view);
	HT_THEN(err, list_parts(&sources));
	HT_THEN(err, parts_json(&sources, ret));
	free(sources.line);
	free(sources.part);
	return err;
}
