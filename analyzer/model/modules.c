/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void modules_deinit(struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		free(modules->module[i].segment);
	free(modules->module);
	free(modules->order);
	map_deinit(&modules->by_id);
	*modules = (struct modules){0};
}

static struct ht_err *intern_hex(struct strings *strings, struct rec_string bytes, const char **ret)
{
	char hex[2 * TRACE_BUILD_ID_MAX + 1];
	size_t length = bytes.length < TRACE_BUILD_ID_MAX ? bytes.length : TRACE_BUILD_ID_MAX;
	for (size_t i = 0; i < length; i++)
		snprintf(hex + 2 * i, 3, "%02x", (uint8_t)bytes.data[i]);
	return strings_intern(strings, (struct rec_string){.data = hex, .length = 2 * length}, ret);
}

struct ht_err *modules_add(
	struct modules *modules, struct strings *strings, const struct rec_module *rec)
{
	uint32_t known;
	if (modules->count == MODULES_MAX || map_get(&modules->by_id, rec->id, &known)) {
		modules->ignored++;
		return NULL;
	}
	struct module module = {
		.id = rec->id,
		.epoch = rec->epoch,
		.gone_epoch = UINT64_MAX,
		.bias = rec->bias,
		.lo = rec->lo,
		.hi = rec->hi,
		.flags = rec->flags,
		.segment_count = (uint32_t)rec->segment_count,
	};
	HT_TRY(strings_intern(strings, rec->path, &module.path));
	HT_TRY(intern_hex(strings, rec->build_id, &module.build_id));
	HT_TRY(ARRAY_RESERVE(modules->module, modules->capacity, modules->count + 1, "modules"));
	HT_TRY(map_put(&modules->by_id, rec->id, (uint32_t)modules->count));
	size_t bytes = module.segment_count * sizeof(*module.segment);
	module.segment = malloc(bytes ? bytes : 1);
	if (!module.segment)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for segments of %s", module.path);
	memcpy(module.segment, rec->segment, bytes);
	modules->module[modules->count++] = module;
	return NULL;
}

void modules_gone(struct modules *modules, const struct rec_module_gone *rec)
{
	uint32_t index = modules_by_id(modules, rec->id);
	if (index != MODULES_NONE)
		modules->module[index].gone_epoch = rec->epoch;
}

struct ht_err *modules_note(
	struct modules *modules, struct strings *strings, const struct rec_names *rec)
{
	uint32_t index = modules_by_id(modules, rec->module_id);
	if (index == MODULES_NONE)
		return NULL;
	modules->module[index].names = rec->state;
	return strings_intern(strings, rec->detail, &modules->module[index].names_detail);
}

uint32_t modules_by_id(const struct modules *modules, uint64_t id)
{
	uint32_t index;
	return map_get(&modules->by_id, id, &index) ? index : MODULES_NONE;
}

static int compare(const void *a, const void *b)
{
	const struct modules_order *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

static struct ht_err *put_in_order(struct modules *modules)
{
	HT_TRY(ARRAY_RESERVE(modules->order, modules->order_capacity, modules->count, "modules"));
	struct modules_order *order = modules->order;
	for (uint32_t i = 0; i < modules->count; i++)
		order[i] = (struct modules_order){
			.lo = modules->module[i].lo, .epoch = modules->module[i].epoch, .index = i};
	qsort(order, modules->count, sizeof(*order), compare);
	uint64_t highest = 0;
	for (size_t i = 0; i < modules->count; i++) {
		uint64_t hi = modules->module[order[i].index].hi;
		order[i].reach = highest = hi > highest ? hi : highest;
	}
	modules->ordered = modules->count;
	return NULL;
}

struct ht_err *modules_find(struct modules *modules, uint64_t pc, uint64_t epoch, uint32_t *ret)
{
	*ret = MODULES_NONE;
	if (modules->ordered != modules->count)
		HT_TRY(put_in_order(modules));
	const struct modules_order *order = modules->order;
	for (size_t i = array_from(order, modules->count, sizeof(*order), pc + 1);
		i-- > 0 && order[i].reach > pc;) {
		const struct module *module = &modules->module[order[i].index];
		if (pc < module->hi && module->epoch <= epoch && epoch < module->gone_epoch) {
			*ret = order[i].index;
			return NULL;
		}
	}
	return NULL;
}
