/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/publish.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "attach/memory/memory.h"
#include "attach/memory/ours.h"
#include "attach/unwind/ehframe_memory.h"
#include "attach/unwind/table.h"

#define AREA_ALIGN 64u
#define LONG_BYTES (128u << 10) /* of .eh_frame_hdr: 16,000 functions, a microsecond each */
#define RANGES_MAX 16384u
#define PIECES_MAX 3u	 /* of one mapping */
#define GAPS_MAX   1024u /* examined in a module; node has 113 */
/* Snapshots take turns in as many places as there are caches. Each place has its own cache, and the
 * word that names the cache never changes: an agent that still walks by an old snapshot writes
 * nowhere else. */
#define PLACE_BYTES                                                                                \
	ht_align_up(sizeof(struct abi_snapshot) + RANGES_MAX * sizeof(struct abi_range),           \
		HT_PAGE_BYTES)
#define TABLES_OFF (ABI_UNWIND_OFF + ABI_CACHE_COUNT * PLACE_BYTES)
/* Stands for "no table": the rule is NONE for every PC. */
#define NO_TABLE 1u

struct compiled {
	uint64_t module_id;
	/* Identify the file, wherever it is loaded; a library may be unloaded and return. */
	uint64_t dev, inode, text_bytes;
	uint8_t build_id[MODULE_BUILD_ID_MAX];
	size_t build_id_bytes;
	struct abi_table *table; /* NULL: none, or already in the memfd */
	raddr_t placed;		 /* address in the target; 0: not in the memfd yet */
};

struct publish {
	struct compiled *compiled;
	size_t count;
	struct publish_counts counts;
	struct publish_interpreter interpreter;
	uint64_t next_off; /* free for tables from here on */
	uint32_t generation;
	uint16_t epoch;
};

struct ht_err *publish_create(struct publish **ret)
{
	struct publish *publish = calloc(1, sizeof(*publish));
	if (!publish)
		return ht_err_new(HT_ERR_NOMEM, "no memory for unwind tables");
	publish->next_off = TABLES_OFF;
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

static bool is_of(const struct compiled *entry, const struct module *module)
{
	return module->build_id_bytes && entry->build_id_bytes == module->build_id_bytes &&
	       !memcmp(entry->build_id, module->build_id, module->build_id_bytes) &&
	       entry->dev == module->dev && entry->inode == module->inode &&
	       entry->text_bytes == module->text_hi - module->text_lo;
}

/* Tables are relative to the load bias, so the file alone decides. */
static struct compiled *find(const struct publish *publish, const struct module *module)
{
	for (size_t i = 0; i < publish->count; i++)
		if (publish->compiled[i].module_id == module->id ||
			is_of(&publish->compiled[i], module))
			return &publish->compiled[i];
	return NULL;
}

/* Lets stacks end in the dynamic linker's entry code, which calls constructors and has no CFI. */
static struct ht_err *end_at_entry(
	const struct proc *proc, const struct module *module, struct abi_table **table)
{
	Elf64_Ehdr ehdr;
	size_t got = 0;

	if (!module->interpreter || !*table)
		return NULL;
	struct ht_err *err = memory_read_some(proc, module->lo, &ehdr, sizeof(ehdr), &got);
	if (err || got < sizeof(ehdr) || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
		return err;
	return table_fill_at(table, ehdr.e_entry, abi_rule_make(ABI_RULE_END, 0, 0));
}

/* Gives the FRAME rule to hand-written functions without CFI that keep rbp frames: every garbage
 * collection of V8 goes through one. */
static struct ht_err *find_frames(
	const struct proc *proc, const struct module *module, struct abi_table **table)
{
	static const uint8_t prologue[] = {0x55, 0x48, 0x89, 0xe5}; /* push %rbp; mov %rsp,%rbp */
	struct ht_err *err = NULL;
	uint64_t at = 0;

	for (unsigned i = 0; !err && i < GAPS_MAX && *table && table_find_gap(*table, at, &at);
		i++, at++) {
		uint8_t code[sizeof(prologue)];
		size_t got = 0;
		err = memory_read_some(proc, module->bias + at, code, sizeof(code), &got);
		if (!err && got == sizeof(code) && !memcmp(code, prologue, sizeof(code)))
			err = table_fill_at(table, at, abi_rule_make(ABI_RULE_FRAME, 0, 0));
	}
	return err;
}

struct ht_err *publish_compile(struct publish *publish, const struct proc *proc,
	const struct modules *modules, struct cache *cache)
{
	struct compiled *grown =
		realloc(publish->compiled, (publish->count + modules->count + 1) * sizeof(*grown));
	if (!grown)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", modules->count);
	publish->compiled = grown;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		struct compiled entry = {.module_id = module->id,
			.dev = module->dev,
			.inode = module->inode,
			.text_bytes = module->text_hi - module->text_lo,
			.build_id_bytes = module->build_id_bytes};
		bool cached;
		if (module->text_lo == module->text_hi || find(publish, module))
			continue;
		memcpy(entry.build_id, module->build_id, module->build_id_bytes);
		struct ht_err *err =
			ehframe_memory_table(proc, module, cache, &entry.table, &cached);
		if (err && err->code == HT_ERR_TARGET_GONE)
			return err;
		publish->counts.cached += !err && cached;
		publish->counts.compiled += !err && !cached;
		HT_THEN(err, end_at_entry(proc, module, &entry.table));
		HT_THEN(err, find_frames(proc, module, &entry.table));
		ht_err_free(err);
		publish->compiled[publish->count++] = entry;
	}
	return NULL;
}

bool publish_is_long(const struct publish *publish, const struct modules *modules)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < modules->count; i++)
		if (!find(publish, &modules->module[i]))
			bytes += modules->module[i].eh_frame_hdr_bytes;
	return bytes > LONG_BYTES;
}

/* If the area is full, stacks end in the modules that come later, and count as cut. */
static void place_tables(struct publish *publish, uint8_t *local, raddr_t base)
{
	const struct abi_config *config = (const void *)(local + ABI_CONFIG_OFF);
	const uint64_t end = config->near[0] ? ABI_NEAR_OFF : ABI_SHARED_OFF;

	for (size_t i = 0; i < publish->count; i++) {
		struct compiled *entry = &publish->compiled[i];
		uint64_t at = ht_align_up(publish->next_off, AREA_ALIGN);
		if (entry->placed || !entry->table)
			continue;
		if (at > end || entry->table->bytes > end - at) {
			entry->placed = NO_TABLE;
		} else {
			memcpy(local + at, entry->table, entry->table->bytes);
			publish->next_off = at + entry->table->bytes;
			entry->placed = base + at;
		}
		free(entry->table);
		entry->table = NULL;
	}
}

static int by_lo(const void *a, const void *b)
{
	const struct abi_range *x = a, *y = b;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Is it a near area? The agent recognises those itself. */
static bool is_near(const struct proc_map *map)
{
	return map->offset >= ABI_NEAR_OFF && map->offset < ABI_SHARED_OFF && ours_is(map->name);
}

/* The module that contains the interpreter, if it is loaded. */
static const struct module *find_interpreter(
	const struct publish *publish, const struct modules *modules)
{
	const struct publish_interpreter *interpreter = &publish->interpreter;
	for (size_t i = 0; interpreter->bytes && i < modules->count; i++)
		if (modules->module[i].id == interpreter->module_id)
			return &modules->module[i];
	return NULL;
}

/* Address of the interpreter in `map`, if that maps the file of `module` once more; 0: `map` does
 * not contain it. */
static raddr_t find_copy(
	const struct publish *publish, const struct module *module, const struct proc_map *map)
{
	const struct publish_interpreter *interpreter = &publish->interpreter;
	if (!module || !map->inode || map->inode != module->inode ||
		makedev(map->dev_major, map->dev_minor) != module->dev)
		return 0;
	const uint64_t vaddr = interpreter->lo - module->bias;
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		uint64_t offset = segment->offset + (vaddr - segment->vaddr);
		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->filesz &&
			offset >= map->offset && offset - map->offset < map->hi - map->lo)
			return map->lo + (offset - map->offset);
	}
	return 0;
}

/* Adds a range, split around the interpreter if that begins within it (at `at`) and there is
 * room. */
static size_t put_range(const struct publish *publish, const struct abi_range *whole, raddr_t at,
	size_t room, struct abi_range *range)
{
	const struct publish_interpreter *interpreter = &publish->interpreter;
	size_t count = 0;
	if (room < PIECES_MAX || at < whole->lo || at >= whole->hi ||
		interpreter->bytes > whole->hi - at) {
		range[0] = *whole;
		return 1;
	}
	range[count] = *whole;
	range[count].hi = at;
	count += whole->lo < at;
	range[count++] = (struct abi_range){.lo = at,
		.hi = at + interpreter->bytes,
		.bias = whole->bias,
		.table = ABI_RANGE_RULE | abi_rule_make(ABI_RULE_FRAME, interpreter->words, 0)};
	range[count] = *whole;
	range[count].lo = at + interpreter->bytes;
	return count + (range[count].lo < whole->hi);
}

/* Modules use their tables; other executable mappings (JIT code) use the frame pointer rule. */
static size_t gather(const struct publish *publish, raddr_t base, const struct modules *modules,
	const struct proc_maps *maps, struct abi_range *range)
{
	const struct module *interpreting = find_interpreter(publish, modules);
	size_t count = 0;
	for (size_t i = 0; i < modules->count && count < RANGES_MAX; i++) {
		const struct module *module = &modules->module[i];
		const struct compiled *entry = find(publish, module);
		const struct abi_range whole = {
			module->text_lo, module->text_hi, module->bias, entry ? entry->placed : 0};
		if (module->text_lo < module->text_hi)
			count += put_range(publish, &whole,
				module == interpreting ? publish->interpreter.lo : 0,
				RANGES_MAX - count, range + count);
	}
	for (size_t i = 0; i < maps->count && count < RANGES_MAX; i++) {
		const struct proc_map *map = &maps->map[i];
		const struct abi_range whole = {.lo = map->lo, .hi = map->hi};
		bool ours = (map->lo >= base && map->lo < base + ABI_SHARED_OFF) || is_near(map);
		if (map->exec && !ours && map->name[0] != '[' && !modules_find(modules, map->lo))
			count += put_range(publish, &whole, find_copy(publish, interpreting, map),
				RANGES_MAX - count, range + count);
	}
	qsort(range, count, sizeof(*range), by_lo);
	return count;
}

/* Writes the numbers without gaps: the agent stops its search at the first 0. */
static void put_scripts(
	const struct publish_interpreter *interpreter, struct abi_snapshot *snapshot)
{
	uint64_t scripts[ABI_SCRIPTS_THREADS] = {0};
	size_t count = 0;
	for (size_t i = 0; i < ABI_SCRIPTS_THREADS && interpreter->bytes; i++)
		if (interpreter->scripts[i])
			scripts[count++] = interpreter->scripts[i];
	for (size_t i = 0; i < ABI_SCRIPTS_THREADS; i++)
		__atomic_store_n(&snapshot->scripts[i], scripts[i], __ATOMIC_RELAXED);
}

struct ht_err *publish_snapshot(struct publish *publish, uint8_t *local, raddr_t base,
	const struct modules *modules, const struct proc_maps *maps, bool new_epoch)
{
	struct abi_range *range = calloc(RANGES_MAX + 1, sizeof(*range));
	if (!range)
		return ht_err_new(HT_ERR_NOMEM, "no memory for an unwind snapshot");
	place_tables(publish, local, base);
	size_t count = gather(publish, base, modules, maps, range);
	unsigned turn = publish->generation % ABI_CACHE_COUNT;
	uint64_t at = ABI_UNWIND_OFF + turn * PLACE_BYTES;
	uint64_t cache_off = ABI_CACHES_OFF + turn * ABI_CACHE_BYTES;
	struct abi_snapshot *snapshot = (void *)(local + at);

	/* An agent that still walks by the old contents must find nothing rather than a mixture. */
	__atomic_store_n(&snapshot->range_count, 0, __ATOMIC_SEQ_CST);
	memcpy(snapshot->range, range, count * sizeof(*range));
	memset(local + cache_off, 0, ABI_CACHE_BYTES);
	snapshot->generation = ++publish->generation;
	snapshot->epoch = publish->epoch = (uint16_t)(publish->epoch + new_epoch);
	snapshot->cache_sets = ABI_CACHE_SETS;
	snapshot->cache = base + cache_off;
	put_scripts(&publish->interpreter, snapshot);
	__atomic_store_n(&snapshot->range_count, (uint32_t)count, __ATOMIC_RELEASE);
	struct abi_config *config = (void *)(local + ABI_CONFIG_OFF);
	__atomic_store_n(&config->unwind, base + at, __ATOMIC_RELEASE);
	free(range);
	return NULL;
}

void publish_set_interpreter(struct publish *publish, const struct publish_interpreter *interpreter)
{
	publish->interpreter = *interpreter;
}

uint16_t publish_epoch(const struct publish *publish)
{
	return publish->epoch;
}

struct publish_counts publish_counts(const struct publish *publish)
{
	return publish->counts;
}
