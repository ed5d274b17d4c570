/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/chain.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/ui/name.h"
#include "analyzer/views/callers.h"

#define FRAMES_SHOWN   24u
#define FILE_COLUMNS   40u
#define FUNCTION_LEAST 12u /* columns */
#define CALLER_LEAST   24u

/* The file name of a frame's module; NULL: unknown or none. */
static const char *module_name(const struct view *view, const struct frame *frame)
{
	return strings_base_name(modules_path(&view->analysis->model.modules, frame->module));
}

/* The name of a frame: its function, shortened to `columns` if possible; else module and offset;
 * else the address. */
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

/* "  store.cpp:77", or "" */
static void file_label(const struct frame *frame, char ret[NAME_BYTES])
{
	ret[0] = '\0';
	if (frame->file && frame->line)
		snprintf(ret, NAME_BYTES, "  %.900s:%" PRIu32, strings_base_name(frame->file),
			frame->line);
	else if (frame->file)
		snprintf(ret, NAME_BYTES, "  %.900s", strings_base_name(frame->file));
}

/* The texts that follow a function on its line. */
struct tail {
	char file[NAME_BYTES];	 /* of the function itself */
	char script[NAME_BYTES]; /* the script's function with its file */
	uint32_t caller, script_node;
	size_t callers_max;
	size_t columns; /* columns that the tail needs at least */
};

static void find_tail(struct tail *tail, const struct line *line, const struct view *view,
	uint32_t node, bool has_file)
{
	char file[NAME_BYTES];
	const size_t left = line_left(line);
	tail->file[0] = tail->script[0] = '\0';
	if (has_file)
		file_label(callers_frame(view, node), tail->file);
	tail->columns = text_columns(tail->file);
	tail->caller = callers_next(view, node);
	tail->script_node = callers_script(view, node);
	if (tail->script_node) {
		frame_name(view, callers_frame(view, tail->script_node), left / 3, tail->script);
		file_label(callers_frame(view, tail->script_node), file);
		const size_t length = strlen(tail->script);
		if (length + strlen(file) < NAME_BYTES)
			snprintf(tail->script + length, NAME_BYTES - length, "%s", file);
		tail->columns += text_columns(tail->script) + 4;
	} else if (tail->caller) {
		char name[NAME_BYTES];
		frame_name(view, callers_frame(view, tail->caller), CALLER_LEAST, name);
		const size_t wide = text_columns(name);
		tail->columns += 4 + (wide < left / 3 ? wide : left / 3);
	}
}

static void put_caller(struct line *line, const char *name, size_t columns)
{
	line_styled(line, TEXT_DIM, " <- ");
	line_foreign_styled(line, TEXT_DIM, name, columns);
}

/* Puts as many callers as fit before the script's function, which comes last. */
static void put_callers(struct line *line, const struct view *view, const struct tail *tail)
{
	char name[NAME_BYTES];
	const size_t script = tail->script_node ? text_columns(tail->script) + 4 : 0;
	const size_t behind = script ? script + strlen(" <- ...") : 0;
	uint32_t at = tail->caller;
	for (size_t i = 0; at && at != tail->script_node && i < tail->callers_max; i++) {
		const size_t used = 4 + behind;
		const size_t left = line_left(line) > used ? line_left(line) - used : 0;
		frame_name(view, callers_frame(view, at), left, name);
		if (left < 5 || ((i || script) && text_columns(name) > left))
			break;
		put_caller(line, name, left);
		at = callers_next(view, at);
	}
	if (!script)
		return;
	if (at != tail->script_node && line_left(line) >= behind)
		line_styled(line, TEXT_DIM, " <- ...");
	line_styled(line, TEXT_DIM, " <- ");
	line_foreign(line, tail->script, line_left(line));
}

void chain_put(struct line *line, const struct view *view, uint32_t node, bool has_file,
	size_t callers_max)
{
	const struct frame *frame = node ? callers_frame(view, node) : NULL;
	const size_t left = line_left(line);
	struct tail tail = {.callers_max = callers_max};
	if (!frame) {
		line_put(
			line, "%s", node ? "(folded: stacks that allocated little)" : "(no stack)");
		return;
	}
	find_tail(&tail, line, view, node, has_file);
	chain_put_frame(line, view, frame,
		left > tail.columns + FUNCTION_LEAST ? left - tail.columns : FUNCTION_LEAST);
	if (tail.file[0])
		line_foreign(line, tail.file, FILE_COLUMNS);
	put_callers(line, view, &tail);
}

/* --- in full -----------------------------------------------------------------------------------
 */

/* The text after a function: file and line, or module, and remarks about them. */
static void place_label(
	const struct view *view, const struct frame *frame, bool has_room, char ret[NAME_BYTES])
{
	const char *module = module_name(view, frame);
	file_label(frame, ret);
	if (!frame->file && frame->function && module)
		snprintf(ret, NAME_BYTES, "  %.900s", module);
	const size_t length = strlen(ret);
	if (has_room && length < NAME_BYTES - 64)
		snprintf(ret + length, NAME_BYTES - length, "%s%s",
			frame->file && frame->line_is_first ? " (function's first line)" : "",
			frame->inlined ? "  (inlined)" : "");
}

static void write_frame(struct line *line, const struct view *view, const struct frame *frame)
{
	char place[NAME_BYTES], name[NAME_BYTES];
	const size_t left = line_left(line);
	place_label(view, frame, true, place);
	frame_name(view, frame, left, name);
	if (text_columns(name) + text_columns(place) > left)
		place_label(view, frame, false, place);
	size_t columns = text_columns(place);
	columns = columns > left / 2 ? left / 2 : columns;
	chain_put_frame(line, view, frame, left - columns);
	if (columns)
		line_foreign_styled(line, TEXT_DIM, place, columns);
}

void chain_write(const struct text *text, const struct view *view, uint32_t node)
{
	size_t count = 0;
	for (uint32_t at = node; at; at = view->tree.node[at].parent, count++) {
		const struct frame *frame = callers_frame(view, at);
		struct line line;
		if (count >= FRAMES_SHOWN)
			continue;
		line_begin(&line, text);
		line_put(&line, count ? "        <- " : "      ");
		if (frame)
			write_frame(&line, view, frame);
		else
			line_put(&line, "(folded: stacks that allocated little)");
		line_end(&line);
	}
	if (count == 0)
		fputs("      (no stack)\n", text->out);
	if (count > FRAMES_SHOWN)
		line_print(text, "        ... %zu more frames", count - FRAMES_SHOWN);
}
