/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "format/foreign.h"

/* A name must hold neither the separator nor a line break, nor what a terminal would obey. */
static void put_name(FILE *out, const char *name)
{
	size_t length;

	for (size_t left = strlen(name); left; name += length, left -= length) {
		uint32_t point;
		length = foreign_decode(name, left, &point);
		if (*name == ';')
			putc(':', out);
		else if (length && foreign_is_harmless(point))
			fwrite(name, length, 1, out);
		else
			putc('?', out);
		length = length ? length : 1;
	}
}

static void put_frame(FILE *out, const struct view *view, const struct frame *frame)
{
	if (frame->function) {
		put_name(out, frame->function);
		return;
	}
	if (frame->module != MODULES_NONE) {
		const char *path = view->analysis->model.modules.module[frame->module].path;
		const char *slash = strrchr(path, '/');
		put_name(out, slash ? slash + 1 : path);
		putc('+', out);
	}
	fprintf(out, "0x%" PRIx64, frame->offset);
}

/* The chain of a row, outermost first. */
static void put_chain(FILE *out, const struct view *view, uint32_t node, uint32_t *scratch)
{
	size_t depth = 0;
	for (uint32_t at = node; at; at = view->tree.node[at].parent)
		scratch[depth++] = at;
	if (depth == 0)
		fputs("(no stack)", out);
	while (depth-- > 0) {
		const uint32_t group = view->tree.node[scratch[depth]].group;
		if (group == UINT32_MAX)
			fputs("(other)", out);
		else
			put_frame(out, view, &view->frames.frame[view->groups.group[group].frame]);
		if (depth)
			putc(';', out);
	}
}

struct ht_err *export_collapsed(FILE *out, const struct view *view, enum metric metric)
{
	uint32_t *order;
	struct ht_err *err = view_order(view, metric, &order);
	if (err)
		return err;
	uint32_t *scratch = malloc(view->tree.count * sizeof(*scratch));
	if (!scratch)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", view->tree.count);
	for (size_t i = 0; i < view->row_count && !err; i++) {
		const struct row *row = &view->row[order[i]];
		const int64_t value = metric_value(&row->sums, metric);
		if (value <= 0)
			break;
		put_chain(out, view, row->node, scratch);
		fprintf(out, " %" PRIi64 "\n", value);
	}
	free(scratch);
	free(order);
	return err;
}
