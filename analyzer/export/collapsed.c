/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/sites.h"
#include "analyzer/export/export.h"
#include "analyzer/model/array.h"
#include "format/foreign.h"

/* The places of one stack, leaf first. */
struct chain {
	struct place *place;
	size_t count, capacity;
};

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

static void put_unknown(FILE *out, const struct analysis *analysis, struct place place)
{
	if (place.module != MODULES_NONE) {
		const char *path = analysis->model.modules.module[place.module].path;
		const char *slash = strrchr(path, '/');
		put_name(out, slash ? slash + 1 : path);
		putc('+', out);
	}
	fprintf(out, "0x%" PRIx64, place.offset);
}

/* The frames of a place, outermost first, each followed by what separates it from the next; of
 * the leaf's place without the innermost `skip`. */
static void put_place(
	FILE *out, const struct analysis *analysis, struct place place, bool is_leaf, uint32_t skip)
{
	uint32_t count;
	const struct symbol_frame *frame = symbols_find(&analysis->symbols, place, &count);
	if (count == 0) {
		put_unknown(out, analysis, place);
		putc(is_leaf ? ' ' : ';', out);
	}
	for (uint32_t i = count; i-- > skip;) {
		if (frame[i].function)
			put_name(out, frame[i].function);
		else
			put_unknown(out, analysis, place);
		putc(is_leaf && i == skip ? ' ' : ';', out);
	}
}

static struct ht_err *collect(struct model *model, uint32_t leaf, struct chain *chain)
{
	const struct node *node;
	chain->count = 0;
	for (uint32_t id = leaf; (node = nodes_get(&model->nodes, id)); id = node->parent) {
		struct ht_err *err = array_reserve(&chain->place, &chain->capacity,
			chain->count + 1, sizeof(*chain->place), "frames");
		if (!err)
			err = place_of_node(&model->modules, node, &chain->place[chain->count]);
		if (err)
			return err;
		chain->count++;
	}
	return NULL;
}

static struct ht_err *put_stack(
	FILE *out, struct sites *sites, struct chain *chain, const struct profile_stack *stack)
{
	struct site site;
	struct ht_err *err = sites_find(sites, stack->node, &site);
	if (!err)
		err = collect(&sites->analysis->model, site.node, chain);
	if (err)
		return err;
	if (chain->count == 0)
		fputs("(no stack) ", out);
	for (size_t i = chain->count; i-- > 0;)
		put_place(out, sites->analysis, chain->place[i], i == 0, i == 0 ? site.skip : 0);
	return NULL;
}

struct ht_err *export_collapsed(
	FILE *out, struct analysis *analysis, enum profile_metric metric, bool shows_wrappers)
{
	struct chain chain = {0};
	struct sites sites;
	uint32_t *order = NULL;
	struct ht_err *err = sites_init(&sites, analysis, shows_wrappers);
	if (err)
		return err;
	err = profile_order(sites.stack, sites.stack_count, metric, &order);
	for (size_t i = 0; i < sites.stack_count && !err; i++) {
		const struct profile_stack *stack = &sites.stack[order[i]];
		uint64_t value = profile_stack_value(stack, metric);
		if (value == 0)
			break;
		err = put_stack(out, &sites, &chain, stack);
		if (!err)
			fprintf(out, "%" PRIu64 "\n", value);
	}
	free(chain.place);
	free(order);
	sites_deinit(&sites);
	return err;
}
