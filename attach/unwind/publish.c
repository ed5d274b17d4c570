/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/publish.h"

#include <stdlib.h>
#include <string.h>

#include "attach/unwind/ehframe_memory.h"

#define AREA_END   (ABI_TABLES_OFF + ABI_TABLES_BYTES)
#define AREA_ALIGN 64u
#define RANGES_MAX 16384u

struct compiled {
	uint64_t module_id;
	struct abi_table *table; /* NULL: none, or already in the memfd */
	raddr_t placed;		 /* address in the target; 0: not in the memfd yet */
	bool usable;
};

struct publish {
	struct compiled *compiled;
	size_t count;
	uint64_t next_off; /* free from here on in the tables area */
	uint32_t generation;
	uint16_t epoch;
};

struct ht_err *publish_create(struct publish **ret)
{
	struct publish *publish = calloc(1, sizeof(*publish));
	if (!publish)
		return ht_err_new(HT_ERR_NOMEM, "no memory for unwind tables");
	publish->next_off = ABI_UNWIND_OFF;
	*ret = publish;
	return NULL;
}

void publish_destroy(struct publish *publish)
{
	if (!publish)
		return;
	for (size_t i = 0; i < publish->count; i++)
		free(publish->compiled[i].table);
	free(publish->compiled);
	free(publish);
}

static struct compiled *find(const struct publish *publish, uint64_t module_id)
{
	for (size_t i = 0; i < publish->count; i++)
		if (publish->compiled[i].module_id == module_id)
			return &publish->compiled[i];
	return NULL;
}

struct ht_err *publish_compile(
	struct publish *publish, const struct proc *proc, const struct modules *modules)
{
	struct compiled *grown =
		realloc(publish->compiled, (publish->count + modules->count + 1) * sizeof(*grown));
	if (!grown)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", modules->count);
	publish->compiled = grown;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		struct compiled entry = {.module_id = module->id};
		struct unwind_stats stats;
		if (module->text_lo == module->text_hi || find(publish, module->id))
			continue;
		struct ht_err *err = ehframe_memory_compile(proc, module, &entry.table, &stats);
		if (err && err->code == HT_ERR_TARGET_GONE)
			return err;
		entry.usable = err == NULL;
		ht_err_free(err);
		publish->compiled[publish->count++] = entry;
	}
	return NULL;
}

static struct ht_err *place(struct publish *publish, uint8_t *local, raddr_t base, const void *data,
	size_t bytes, raddr_t *ret)
{
	uint64_t at = ht_align_up(publish->next_off, AREA_ALIGN);
	if (at > AREA_END || bytes > AREA_END - at)
		return ht_err_new(HT_ERR_REFUSED, "the unwind tables of the target exceed %u MiB",
			ABI_TABLES_BYTES >> 20);
	memcpy(local + at, data, bytes);
	publish->next_off = at + bytes;
	*ret = base + at;
	return NULL;
}

static struct ht_err *place_tables(struct publish *publish, uint8_t *local, raddr_t base)
{
	for (size_t i = 0; i < publish->count; i++) {
		struct compiled *entry = &publish->compiled[i];
		if (entry->placed || !entry->table)
			continue;
		struct ht_err *err = place(
			publish, local, base, entry->table, entry->table->bytes, &entry->placed);
		if (err)
			return err;
		free(entry->table);
		entry->table = NULL;
	}
	return NULL;
}

static int by_lo(const void *a, const void *b)
{
	const struct abi_range *x = a, *y = b;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Modules by their tables, anonymous executable mappings (JIT code) by the frame pointer rule. */
static size_t gather(const struct publish *publish, raddr_t base, const struct modules *modules,
	const struct proc_maps *maps, struct abi_range *range)
{
	size_t count = 0;
	for (size_t i = 0; i < modules->count && count < RANGES_MAX; i++) {
		const struct module *module = &modules->module[i];
		const struct compiled *entry = find(publish, module->id);
		if (module->text_lo < module->text_hi)
			range[count++] = (struct abi_range){module->text_lo, module->text_hi,
				module->bias, entry ? entry->placed : 0};
	}
	for (size_t i = 0; i < maps->count && count < RANGES_MAX; i++) {
		const struct proc_map *map = &maps->map[i];
		bool ours = map->lo >= base && map->lo < base + ABI_SHARED_OFF;
		if (map->exec && !ours && map->name[0] != '[' && !modules_find(modules, map->lo))
			range[count++] = (struct abi_range){.lo = map->lo, .hi = map->hi};
	}
	qsort(range, count, sizeof(*range), by_lo);
	return count;
}

struct ht_err *publish_snapshot(struct publish *publish, uint8_t *local, raddr_t base,
	const struct modules *modules, const struct proc_maps *maps, bool new_epoch)
{
	struct ht_err *err = place_tables(publish, local, base);
	if (err)
		return err;
	struct abi_snapshot *snapshot =
		calloc(1, sizeof(*snapshot) + (RANGES_MAX + 1) * sizeof(struct abi_range));
	if (!snapshot)
		return ht_err_new(HT_ERR_NOMEM, "no memory for an unwind snapshot");
	uint64_t cache_off =
		ABI_CACHES_OFF + publish->generation % ABI_CACHE_COUNT * ABI_CACHE_BYTES;
	snapshot->generation = publish->generation + 1;
	snapshot->epoch = (uint16_t)(publish->epoch + new_epoch);
	snapshot->range_count = (uint32_t)gather(publish, base, modules, maps, snapshot->range);
	snapshot->cache_sets = ABI_CACHE_SETS;
	snapshot->cache = base + cache_off;
	memset(local + cache_off, 0, ABI_CACHE_BYTES);
	raddr_t at = 0;
	err = place(publish, local, base, snapshot,
		sizeof(*snapshot) + snapshot->range_count * sizeof(struct abi_range), &at);
	if (!err) {
		struct abi_config *config = (void *)(local + ABI_CONFIG_OFF);
		publish->generation = snapshot->generation;
		publish->epoch = snapshot->epoch;
		__atomic_store_n(&config->unwind, at, __ATOMIC_RELEASE);
	}
	free(snapshot);
	return err;
}

uint16_t publish_epoch(const struct publish *publish)
{
	return publish->epoch;
}
