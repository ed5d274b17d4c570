/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/chain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/name.h"

#define FRAMES_SHOWN  24u
#define FILE_COLUMNS  40u
#define CALLER_LEAST  12u /* columns that a caller gets at least */
#define CALLERS_SHOWN 8u

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* NULL: an unknown one, or none. */
static const char *module_name(const struct view *view, const struct frame *frame)
{
	return frame->module == MODULES_NONE
		       ? NULL
		       : base_name(view->analysis->model.modules.module[frame->module].path);
}

/* A label and its columns, to see whether it fits. */
static void frame_name(
	const struct view *view, const struct frame *frame, size_t columns, char ret[NAME_BYTES])
{
	const char *module = module_name(view, frame);
	if (frame->function)
		name_shorten(frame->function, columns, ret);
	else if (module)
		snprintf(ret, NAME_BYTES, "%.900s+0x%" PRIx64, module, frame->offset);
	else
		snprintf(ret, NAME_BYTES, "0x%" PRIx64 " (no module)", frame->offset);
}

void chain_put_frame(
	struct line *line, const struct view *view, const struct frame *frame, size_t columns)
{
	char name[NAME_BYTES];
	frame_name(view, frame, columns, name);
	line_foreign(line, name, columns);
}

/* --- in one line -------------------------------------------------------------------------------
 */

static const struct frame *frame_of(const struct view *view, uint32_t node)
{
	const uint32_t group = view->tree.node[node].group;
	return group == UINT32_MAX ? NULL : &view->frames.frame[view->groups.group[group].frame];
}

/* The next frame towards the root that is another function; 0: there is none. */
static uint32_t caller_of(const struct view *view, uint32_t node)
{
	const struct frame *frame = frame_of(view, node);
	for (uint32_t at = view->tree.node[node].parent; at; at = view->tree.node[at].parent) {
		const struct frame *caller = frame_of(view, at);
		if (caller && (!frame || !frame->function || caller->function != frame->function))
			return at;
	}
	return 0;
}

/* "  store.cpp:77", or "" */
static void file_label(const struct frame *frame, char ret[NAME_BYTES])
{
	ret[0] = '\0';
	if (frame->file && frame->line)
		snprintf(ret, NAME_BYTES, "  %.900s:%" PRIu32, base_name(frame->file), frame->line);
	else if (frame->file)
		snprintf(ret, NAME_BYTES, "  %.900s", base_name(frame->file));
}

static void put_callers(struct line *line, const struct view *view, uint32_t node)
{
	char name[NAME_BYTES];
	uint32_t at = caller_of(view, node);
	for (size_t i = 0; at && i < CALLERS_SHOWN; i++, at = caller_of(view, at)) {
		const size_t left = line_left(line) > 4 ? line_left(line) - 4 : 0;
		frame_name(view, frame_of(view, at), left, name);
		if (left < 5 || (i && text_columns(name) > left))
			break;
		line_styled(line, TEXT_DIM, " <- ");
		line_foreign_styled(line, TEXT_DIM, name, left);
	}
}

/* What the function may take of the line, so that its file and a caller fit, too. */
static size_t function_columns(
	const struct line *line, const struct view *view, uint32_t node, size_t file)
{
	char name[NAME_BYTES];
	const size_t left = line_left(line);
	const uint32_t caller = caller_of(view, node);
	size_t needs = file;
	if (caller) {
		frame_name(view, frame_of(view, caller), CALLER_LEAST, name);
		const size_t wide = text_columns(name);
		needs += 4 + (wide < left / 3 ? wide : left / 3);
	}
	return left > needs + CALLER_LEAST ? left - needs : CALLER_LEAST;
}

void chain_put(struct line *line, const struct view *view, uint32_t node, bool has_file)
{
	const struct frame *frame = node ? frame_of(view, node) : NULL;
	char file[NAME_BYTES] = "";
	if (!frame) {
		line_put(line, "%s", node ? "(stacks that allocated little)" : "(no stack)");
		return;
	}
	if (has_file)
		file_label(frame, file);
	size_t columns = text_columns(file);
	columns = columns > FILE_COLUMNS ? FILE_COLUMNS : columns;
	chain_put_frame(line, view, frame, function_columns(line, view, node, columns));
	if (columns)
		line_foreign(line, file, columns);
	put_callers(line, view, node);
}

/* --- in full -----------------------------------------------------------------------------------
 */

/* What stands behind a function: file and line, or module, and what is special about them. */
static void place_label(const struct view *view, const struct frame *frame, char ret[NAME_BYTES])
{
	const char *module = module_name(view, frame);
	file_label(frame, ret);
	if (!frame->file && frame->function && module)
		snprintf(ret, NAME_BYTES, "  %.900s", module);
	const size_t length = strlen(ret);
	if (length < NAME_BYTES - 64)
		snprintf(ret + length, NAME_BYTES - length, "%s%s",
			frame->file && frame->line_is_first ? " (function's first line)" : "",
			frame->inlined ? "  (inlined)" : "");
}

static void write_frame(struct line *line, const struct view *view, const struct frame *frame)
{
	char place[NAME_BYTES];
	place_label(view, frame, place);
	size_t columns = text_columns(place);
	const size_t left = line_left(line);
	columns = columns > left / 2 ? left / 2 : columns;
	chain_put_frame(line, view, frame, left - columns);
	if (columns)
		line_foreign_styled(line, TEXT_DIM, place, columns);
}

void chain_write(const struct text *text, const struct view *view, uint32_t node)
{
	size_t count = 0;
	for (uint32_t at = node; at; at = view->tree.node[at].parent, count++) {
		const struct frame *frame = frame_of(view, at);
		struct line line;
		if (count >= FRAMES_SHOWN)
			continue;
		line_begin(&line, text);
		line_put(&line, count ? "        <- " : "      ");
		if (frame)
			write_frame(&line, view, frame);
		else
			line_put(&line, "(stacks that allocated little, taken together)");
		line_end(&line);
	}
	if (count == 0)
		fputs("      (no stack)\n", text->out);
	if (count > FRAMES_SHOWN)
		fprintf(text->out, "        ... %zu more frames\n", count - FRAMES_SHOWN);
}
