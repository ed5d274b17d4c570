/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/foreign.h"

#define CUT "..."

void names_copy(char to[NAMES_BYTES], const char *from)
{
	size_t put = 0, room = 0;
	/* Reads only the beginning: a name can be a megabyte long. */
	for (size_t left = strnlen(from, 4 * NAMES_BYTES); left;) {
		uint32_t point;
		const size_t length = foreign_decode(from, left, &point);
		const bool is_good = length && foreign_is_harmless(point);
		const size_t step = length ? length : 1, bytes = is_good ? step : 1;
		if (put + bytes >= NAMES_BYTES) {
			memcpy(to + room, CUT, sizeof(CUT));
			return;
		}
		memcpy(to + put, is_good ? from : "?", bytes);
		put += bytes;
		if (put + sizeof(CUT) <= NAMES_BYTES)
			room = put;
		from += step;
		left -= step;
	}
	to[put] = '\0';
}

const char *names_base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

const struct module *names_module_of(const struct view *view, uint32_t module)
{
	return module == MODULES_NONE ? NULL : &view->analysis->model.modules.module[module];
}

void names_frame(const struct view *view, const struct frame *frame, char to[NAMES_BYTES])
{
	const struct module *module = names_module_of(view, frame->module);
	char place[32];
	size_t length = 0;
	if (frame->function) {
		names_copy(to, frame->function);
		return;
	}
	snprintf(place, sizeof(place), "%s0x%" PRIx64, module ? "+" : "", frame->offset);
	if (module) {
		names_copy(to, names_base(module->path));
		length = strlen(to);
	}
	if (length + strlen(place) >= NAMES_BYTES)
		length = NAMES_BYTES - 1 - strlen(place);
	memcpy(to + length, place, strlen(place) + 1);
}

const struct frame *names_frame_of(const struct view *view, uint32_t node)
{
	const uint32_t group = view->tree.node[node].group;
	return group == UINT32_MAX ? NULL : &view->frames.frame[view->groups.group[group].frame];
}

void names_node(const struct view *view, uint32_t node, char to[NAMES_BYTES])
{
	const struct frame *frame = names_frame_of(view, node);
	if (frame)
		names_frame(view, frame, to);
	else
		snprintf(to, NAMES_BYTES, "%s", node ? "(folded)" : "(no stack)");
}

void names_module(const struct view *view, uint32_t module, char to[NAMES_BYTES])
{
	const struct module *found = names_module_of(view, module);
	names_copy(to, found ? found->path : "");
}

void names_thread(const struct view *view, uint32_t thread, char to[NAMES_BYTES])
{
	const struct model *model = &view->analysis->model;
	bool is_assumed;
	const char *name = thread == CUBE_OTHER ? "(folded)" : NULL;
	if (thread < model->threads.count)
		name = threads_shown_name(&model->threads, thread, model->comm, &is_assumed);
	names_copy(to, name ? name : "unknown");
}

uint64_t names_address(const struct view *view, const struct frame *frame)
{
	const struct module *module = names_module_of(view, frame->module);
	if (frame->interpreted)
		return 0;
	return frame->offset + (module ? module->bias : 0);
}

/* Escapes the slash too: in a page, "</script>" would end the script even within a string. */
void names_put_json(FILE *out, const char *name)
{
	putc('"', out);
	for (; *name; name++) {
		if (*name == '"' || *name == '\\' || *name == '/')
			putc('\\', out);
		putc(*name, out);
	}
	putc('"', out);
}

/* --- chains ------------------------------------------------------------------------------------
 */

struct ht_err *names_chain_init(struct names_chain *chain, const struct view *view)
{
	*chain = (struct names_chain){.node = malloc(view->tree.count * sizeof(*chain->node))};
	return chain->node
		       ? NULL
		       : ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", view->tree.count);
}

void names_chain_deinit(struct names_chain *chain)
{
	free(chain->node);
	*chain = (struct names_chain){0};
}

void names_chain_take(struct names_chain *chain, const struct view *view, uint32_t node)
{
	chain->depth = 0;
	for (uint32_t at = node; at; at = view->tree.node[at].parent)
		chain->node[chain->depth++] = at;
	for (size_t i = 0; i < chain->depth / 2; i++) {
		const uint32_t other = chain->node[chain->depth - 1 - i];
		chain->node[chain->depth - 1 - i] = chain->node[i];
		chain->node[i] = other;
	}
}

void names_chain_put(FILE *out, const struct view *view, const struct names_chain *chain)
{
	char name[NAMES_BYTES];
	if (!chain->depth)
		fputs("(no stack)", out);
	for (size_t i = 0; i < chain->depth; i++) {
		names_node(view, chain->node[i], name);
		for (char *at = name; *at; at++)
			if (*at == ';')
				*at = ':';
		fprintf(out, "%s%s", i ? ";" : "", name);
	}
}

struct ht_err *names_chain_text(
	const struct view *view, const struct names_chain *chain, char **ret)
{
	size_t length;
	*ret = NULL;
	FILE *memory = open_memstream(ret, &length);
	if (memory)
		names_chain_put(memory, view, chain);
	if (memory && fclose(memory) == 0)
		return NULL;
	free(*ret);
	return ht_err_new(HT_ERR_NOMEM, "out of memory for a stack");
}
