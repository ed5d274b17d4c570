/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/views/named.h"

#include <stdlib.h>

/* Modules by index; the last stands for code in no file. */
struct search {
	struct model *model;
	uint32_t *of_node; /* module index, by nodes_index */
	/* by module: the first module of the same file, which may be mapped twice */
	uint32_t *first;
	struct named_module *module;
	uint32_t *seen; /* number of the last stack that passed through it, by module */
	size_t modules;
	struct map places, functions;
};

static struct ht_err *find_first(struct search *search)
{
	const struct module *module = search->model->modules.module;
	struct map by_file = {0};
	struct ht_err *err = NULL;
	for (uint32_t i = 0; i < search->modules && !err; i++) {
		const uint64_t key = (uint64_t)(uintptr_t)module[i].path * 0x9e3779b97f4a7c15ull ^
				     (uint64_t)(uintptr_t)module[i].build_id;
		uint32_t at;
		search->first[i] = i;
		if (!module[i].build_id || !module[i].build_id[0])
			continue;
		if (!map_get(&by_file, key, &at))
			err = map_put(&by_file, key, i);
		else if (module[at].path == module[i].path &&
			 module[at].build_id == module[i].build_id)
			search->first[i] = at;
	}
	map_deinit(&by_file);
	return err;
}

static struct ht_err *count_function(struct search *search, uint32_t index, const char *function)
{
	const uint64_t key = (uint64_t)(uintptr_t)function ^ (uint64_t)index << 48;
	uint32_t there;
	if (map_get(&search->functions, key, &there))
		return NULL;
	search->module[index].functions++;
	return map_put(&search->functions, key, 1);
}

static struct ht_err *count_place(
	struct search *search, const struct symbols *symbols, struct place place, uint32_t index)
{
	struct named_module *module = &search->module[index];
	uint32_t there, count;
	uint64_t key;
	struct place first = place;
	if (place.module != MODULES_NONE)
		first.module = index;
	if (place_key(first, &key)) {
		if (map_get(&search->places, key, &there))
			return NULL;
		HT_TRY(map_put(&search->places, key, 1));
	}
	module->addresses++;
	const struct symbol_frame *frame = symbols_find(symbols, place, &count);
	if (!frame)
		return NULL;
	module->with_line += frame[0].line != 0;
	if (!frame[count - 1].function)
		return NULL;
	module->with_function++;
	return count_function(search, index, frame[count - 1].function);
}

static struct ht_err *read_nodes(struct search *search, const struct symbols *symbols)
{
	const struct nodes *nodes = &search->model->nodes;
	struct ht_err *err = NULL;
	for (uint32_t i = 0; i < nodes_total(nodes) && !err; i++) {
		const struct node *node = nodes_get(nodes, nodes_id(nodes, i));
		struct place place;
		if (!node)
			continue;
		err = place_of_node(&search->model->modules, node, &place);
		if (err)
			break;
		search->of_node[i] = place.module == MODULES_NONE ? (uint32_t)search->modules
								  : search->first[place.module];
		err = count_place(search, symbols, place, search->of_node[i]);
	}
	return err;
}

/* Each stack counts once for a module. */
static void add_stack(struct search *search, const struct cube *cube, uint32_t number)
{
	const struct nodes *nodes = &search->model->nodes;
	const struct node *node;
	uint64_t allocations = 0;
	for (uint32_t i = cube->first_cell[number]; i < cube->first_cell[number + 1]; i++)
		allocations += cube->cell[i].counts.allocations;
	for (uint32_t id = cube->site[number].node; (node = nodes_get(nodes, id));
		id = node->parent) {
		const uint32_t index = search->of_node[nodes_index(nodes, id)];
		if (search->seen[index] != number + 1)
			search->module[index].allocations += allocations;
		search->seen[index] = number + 1;
	}
}

static int compare(const void *a, const void *b)
{
	const struct named_module *x = a, *y = b;
	if (x->allocations != y->allocations)
		return x->allocations > y->allocations ? -1 : 1;
	if (x->addresses != y->addresses)
		return x->addresses > y->addresses ? -1 : 1;
	return (x->module > y->module) - (x->module < y->module);
}

static void take(struct search *search, struct named *ret)
{
	size_t kept = 0;
	for (size_t i = 0; i <= search->modules; i++) {
		struct named_module module = search->module[i];
		module.module = i == search->modules ? MODULES_NONE : (uint32_t)i;
		if (module.addresses)
			search->module[kept++] = module;
		else
			ret->others += i < search->modules && search->first[i] == i;
	}
	qsort(search->module, kept, sizeof(*search->module), compare);
	ret->module = search->module;
	ret->count = kept;
	search->module = NULL;
}

struct ht_err *named_find(const struct analysis *analysis, struct named *ret)
{
	/* Not const: the first lookup sorts the modules. */
	struct model *model = (struct model *)(uintptr_t)&analysis->model;
	const struct cube *cube = &analysis->cube;
	struct search search = {.model = model, .modules = model->modules.count};
	struct ht_err *err = NULL;
	*ret = (struct named){0};
	search.of_node = calloc((size_t)nodes_total(&model->nodes) + 1, sizeof(*search.of_node));
	search.module = calloc(search.modules + 1, sizeof(*search.module));
	search.seen = calloc(search.modules + 1, sizeof(*search.seen));
	search.first = calloc(search.modules + 1, sizeof(*search.first));
	if (!search.of_node || !search.module || !search.seen || !search.first)
		err = ht_err_new(HT_ERR_NOMEM, "out of memory for the names of modules");
	HT_THEN(err, find_first(&search));
	HT_THEN(err, read_nodes(&search, &analysis->symbols));
	for (uint32_t i = 0; i < cube->site_count && !err; i++)
		add_stack(&search, cube, i);
	if (!err)
		take(&search, ret);
	free(search.of_node);
	free(search.module);
	free(search.seen);
	free(search.first);
	map_deinit(&search.places);
	map_deinit(&search.functions);
	return err;
}

void named_deinit(struct named *named)
{
	free(named->module);
	*named = (struct named){0};
}
