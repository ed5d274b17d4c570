/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bits: which of the query's words a frame or a stack contains. */
enum { SELECT_MODULE = 1, SELECT_FUNCTION = 2, SELECT_EXCLUDED = 4 };

struct select {
	const struct analysis *analysis;
	const struct frames *frames;
	const struct query *query;
	uint8_t *frame; /* by frame: SELECT_* bits */
	uint8_t *node;	/* by nodes_index: SELECT_* bits of the stack that ends there */
};

/* As LeakSanitizer does: a pattern matches any part of the text, `*` anything, `^` and `$` the
 * ends. Unlike in LeakSanitizer, text before `$` may occur more than once: `send$` matches
 * send_send. A mismatch retries only after the last `*`, so the work is bounded by the product of
 * both lengths.
 */
static bool is_suppressed_by(const char *pattern, const char *text)
{
	const bool from_start = *pattern == '^';
	const char *at = pattern + from_start, *end = at + strlen(at);
	const bool to_end = end > at && end[-1] == '$';
	const char *star = from_start ? NULL : at, *again = text;
	end -= to_end;
	for (;;) {
		if (at < end && *at == '*') {
			star = ++at;
			again = text;
		} else if (at == end && (!to_end || !*text)) {
			return true;
		} else if (at < end && *text && *at == *text) {
			at++;
			text++;
		} else if (star && *again) {
			at = star;
			text = ++again;
		} else {
			return false;
		}
	}
}

/* Whether `text` contains one of the words, or matches one as a pattern. NULL: no. */
static bool has(const struct query_words *words, bool are_patterns, const char *text)
{
	for (size_t i = 0; text && i < words->count; i++)
		if (are_patterns ? is_suppressed_by(words->word[i], text)
				 : strstr(text, words->word[i]) != NULL)
			return true;
	return false;
}

static void look_at_frames(struct select *select)
{
	const struct query *query = select->query;
	for (size_t i = 0; i < select->frames->count; i++) {
		const struct frame *frame = &select->frames->frame[i];
		const char *module = modules_path(&select->analysis->model.modules, frame->module);
		uint8_t found = 0;
		if (has(&query->modules, false, module))
			found |= SELECT_MODULE;
		if (has(&query->functions, false, frame->function))
			found |= SELECT_FUNCTION;
		if (has(&query->excluded, false, frame->function) ||
			has(&query->excluded, false, module) ||
			has(&query->suppressed, true, frame->function) ||
			has(&query->suppressed, true, frame->file) ||
			has(&query->suppressed, true, module))
			found |= SELECT_EXCLUDED;
		select->frame[i] = found;
	}
}

/* Nodes of callers have lower numbers, so the parent's bits are known. */
static void look_at_nodes(struct select *select)
{
	const struct nodes *nodes = &select->analysis->model.nodes;
	for (uint32_t i = 0; i < nodes_total(nodes); i++) {
		const struct node *node = nodes_get(nodes, nodes_id(nodes, i));
		const struct frames_place place = frames_of(select->frames, i);
		if (!node)
			continue;
		if (node->parent)
			select->node[i] = select->node[nodes_index(nodes, node->parent)];
		for (uint32_t k = 0; k < place.count; k++)
			select->node[i] |= select->frame[place.first + k];
	}
}

static bool is_thread(const struct select *select, uint32_t thread)
{
	const struct model *model = &select->analysis->model;
	const struct query_words *words = &select->query->threads;
	char tid[16];
	bool is_assumed;
	if (!words->count)
		return true;
	if (thread >= model->threads.count)
		return false;
	const char *name = threads_shown_name(&model->threads, thread, model->comm, &is_assumed);
	snprintf(tid, sizeof(tid), "%u", model->threads.thread[thread].tid);
	for (size_t i = 0; i < words->count; i++)
		if (strcmp(words->word[i], tid) == 0 || (name && strcmp(words->word[i], name) == 0))
			return true;
	return false;
}

bool select_has(const struct select *select, uint32_t node, uint32_t thread)
{
	const struct query *query = select->query;
	uint8_t found = 0;
	if (node && node < CUBE_OTHER)
		found = select->node[nodes_index(&select->analysis->model.nodes, node)];
	return !(found & SELECT_EXCLUDED) && (!query->modules.count || found & SELECT_MODULE) &&
	       (!query->functions.count || found & SELECT_FUNCTION) &&
	       /* The thread of folded stacks is unknown. */
	       is_thread(select, node == CUBE_OTHER ? UINT32_MAX : thread);
}

void select_destroy(struct select *select)
{
	if (!select)
		return;
	free(select->frame);
	free(select->node);
	free(select);
}

struct ht_err *select_create(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, struct select **ret)
{
	const uint32_t nodes = nodes_total(&analysis->model.nodes);
	struct select *select = calloc(1, sizeof(*select));
	if (select) {
		*select = (struct select){.analysis = analysis, .frames = frames, .query = query};
		select->frame = calloc(frames->count + 1, 1);
		select->node = calloc((size_t)nodes + 1, 1);
	}
	if (!select || !select->frame || !select->node) {
		select_destroy(select);
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %u stack nodes", nodes);
	}
	look_at_frames(select);
	look_at_nodes(select);
	*ret = select;
	return NULL;
}

struct ht_err *select_sites(const struct analysis *analysis, const struct frames *frames,
	const struct query *query, bool **ret)
{
	const struct cube *cube = &analysis->cube;
	struct select *select;
	HT_TRY(select_create(analysis, frames, query, &select));
	*ret = calloc(cube->site_count + 1, sizeof(**ret));
	for (size_t i = 0; *ret && i < cube->site_count; i++)
		(*ret)[i] =
			select_has(select, cube->site[i].node, cube_site_thread(&cube->site[i]));
	select_destroy(select);
	return *ret ? NULL
		    : ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", cube->site_count);
}
