/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/publish.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/compile.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define BASE	    0x5a5a00000000ull
#define LOCAL_BYTES (ABI_CACHES_OFF + ABI_CACHE_COUNT * ABI_CACHE_BYTES)
#define RANGES_MAX  16384u

/* This process is the target; its image never runs. */
static struct proc self;
static struct proc_maps maps;
static struct modules modules;
static uint8_t *local;
static struct publish *publish;

static void setup(void)
{
	local = mmap(NULL, LOCAL_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(local, MAP_FAILED);
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	ck_no_err(proc_maps_read(&self, &maps));
	ck_no_err(modules_read(&self, &maps, &modules));
	ck_no_err(publish_create(&publish));
}

static uint64_t in_force(void)
{
	return ((const struct abi_config *)(local + ABI_CONFIG_OFF))->unwind;
}

/* Returns the `bytes` bytes at an address of the image, which must lie between the snapshots and
 * the end of the tables area. */
static const void *view(uint64_t addr, uint64_t bytes)
{
	ck_assert_uint_ge(addr, BASE + ABI_UNWIND_OFF);
	ck_assert_uint_le(addr + bytes, BASE + ABI_TABLES_OFF + ABI_TABLES_BYTES);
	ck_assert_uint_eq(addr % 8, 0);
	return local + (addr - BASE);
}

static const struct abi_snapshot *snapshot(void)
{
	const struct abi_snapshot *found = view(in_force(), sizeof(*found));
	view(in_force(), sizeof(*found) + found->range_count * sizeof(found->range[0]));
	for (uint32_t i = 0; i < found->range_count; i++) {
		ck_assert_uint_lt(found->range[i].lo, found->range[i].hi);
		if (i)
			ck_assert_uint_le(found->range[i - 1].hi, found->range[i].lo);
	}
	return found;
}

static const struct abi_range *range_of(uint64_t pc)
{
	const struct abi_snapshot *found = snapshot();
	for (uint32_t i = 0; i < found->range_count; i++)
		if (pc >= found->range[i].lo && pc < found->range[i].hi)
			return &found->range[i];
	return NULL;
}

static void put(bool new_epoch)
{
	ck_no_err(publish_snapshot(publish, local, BASE, &modules, &maps, new_epoch));
}

HT_TEST(every_module_has_its_table)
{
	setup();
	size_t with_text = 0;
	ck_no_err(publish_compile(publish, &self, &modules, NULL));
	ck_assert_uint_eq(in_force(), 0);
	put(false);
	for (size_t i = 0; i < modules.count; i++) {
		const struct module *module = &modules.module[i];
		if (module->text_lo == module->text_hi)
			continue;
		with_text++;
		const struct abi_range *range = range_of(module->text_lo);
		ck_assert_ptr_nonnull(range);
		ck_assert_uint_eq(range->lo, module->text_lo);
		ck_assert_uint_eq(range->hi, module->text_hi);
		ck_assert_uint_eq(range->bias, module->bias);
		const struct abi_table *table = view(range->table, sizeof(*table));
		view(range->table, table->bytes);
		ck_assert_uint_eq(table->magic, ABI_TABLE_MAGIC);
		ck_assert_uint_le(module->bias + table->lo, module->text_lo);
		ck_assert_uint_ge(module->bias + table->hi, module->text_hi);
	}
	ck_assert_uint_ge(with_text, 2);
	publish_destroy(publish);
}

/* A second mapping of the file has the rule at the same offset; the rule goes when the file goes.
 */
HT_TEST(an_interpreter_has_a_rule_of_its_own)
{
	setup();
	const raddr_t at = (raddr_t)(uintptr_t)setup;
	const struct module *module = modules_find(&modules, at);
	const struct proc_map *map = proc_maps_find(&maps, at);
	ck_assert(module && map);
	struct proc_map with_copy[] = {*map, *map};
	with_copy[1].lo = 0x7e0000000000;
	with_copy[1].hi = with_copy[1].lo + (map->hi - map->lo);
	struct proc_maps both = {.map = with_copy, .count = 2};
	publish_set_interpreter(publish, &(struct publish_interpreter){.module_id = module->id,
						 .lo = at,
						 .bytes = 16,
						 .words = -4,
						 .scripts = {1, 7, 0, 3}});
	const uint64_t rule = ABI_RANGE_RULE | abi_rule_make(ABI_RULE_FRAME, -4, 0);
	const raddr_t places[] = {at, with_copy[1].lo + (at - map->lo)};
	ck_no_err(publish_snapshot(publish, local, BASE, &modules, &both, false));
	for (size_t i = 0; i < HT_ARRAY_SIZE(places); i++) {
		const struct abi_range *range = range_of(places[i]);
		ck_assert_ptr_nonnull(range);
		ck_assert_uint_eq(range->lo, places[i]);
		ck_assert_uint_eq(range->hi, places[i] + 16);
		ck_assert_uint_eq(range->table, rule);
		ck_assert_uint_eq(range_of(places[i] - 1)->hi, places[i]);
		ck_assert_uint_eq(range_of(places[i] - 1)->table, 0);
		ck_assert_uint_eq(range_of(places[i] + 16)->lo, places[i] + 16);
		ck_assert_uint_eq(range_of(places[i] + 16)->table, 0);
	}
	const uint64_t scripts[ABI_SCRIPTS_THREADS] = {1, 7, 3};
	ck_assert_mem_eq(snapshot()->scripts, scripts, sizeof(scripts));
	struct modules none = {0};
	ck_no_err(publish_snapshot(publish, local, BASE, &none, &both, true));
	ck_assert_uint_eq(range_of(places[0])->lo, map->lo);
	ck_assert_uint_eq(range_of(places[1])->lo, with_copy[1].lo);
	publish_destroy(publish);
}

HT_TEST(without_tables_there_are_frame_pointers)
{
	setup();
	put(false);
	const struct abi_range *range = range_of((uint64_t)(uintptr_t)setup);
	ck_assert_ptr_nonnull(range);
	ck_assert_uint_eq(range->table, 0);
	publish_destroy(publish);
}

HT_TEST(generated_code_is_a_range)
{
	struct proc_map map[] = {
		{.lo = 0x1000, .hi = 0x2000, .read = true, .exec = true, .name = ""},
		{.lo = 0x3000, .hi = 0x4000, .read = true, .name = ""},
		{.lo = 0x5000, .hi = 0x6000, .exec = true, .name = "/memfd:jit"},
		{.lo = 0x7000, .hi = 0x8000, .exec = true, .name = "[vsyscall]"},
		{.lo = BASE, .hi = BASE + 0x1000, .exec = true, .name = "/memfd:heaptap-1"},
		{.lo = BASE + 0x1000, .hi = BASE + 0x20000, .exec = true, .name = ""},
	};
	struct modules none = {0};
	setup();
	struct proc_maps made = {.map = map, .count = HT_ARRAY_SIZE(map)};
	ck_no_err(publish_snapshot(publish, local, BASE, &none, &made, false));
	ck_assert_uint_eq(snapshot()->range_count, 2);
	ck_assert_uint_eq(snapshot()->range[0].lo, 0x1000);
	ck_assert_uint_eq(snapshot()->range[0].hi, 0x2000);
	ck_assert_uint_eq(snapshot()->range[0].table, 0);
	ck_assert_uint_eq(snapshot()->range[1].lo, 0x5000);
	publish_destroy(publish);
}

HT_TEST(a_snapshot_in_force_is_never_changed)
{
	setup();
	ck_no_err(publish_compile(publish, &self, &modules, NULL));
	put(false);
	uint64_t first_at = in_force();
	const struct abi_snapshot *first = snapshot();
	size_t bytes = sizeof(*first) + first->range_count * sizeof(first->range[0]);
	struct abi_snapshot *copy = malloc(bytes);
	memcpy(copy, first, bytes);
	uint64_t table = range_of((uint64_t)(uintptr_t)setup)->table;

	ck_no_err(publish_compile(publish, &self, &modules, NULL));
	put(false);
	ck_assert_uint_ne(in_force(), first_at);
	ck_assert_mem_eq(first, copy, bytes);
	/* A table keeps its address in later snapshots. */
	ck_assert_uint_eq(range_of((uint64_t)(uintptr_t)setup)->table, table);
	free(copy);
	publish_destroy(publish);
}

HT_TEST(generations_epochs_and_caches)
{
	static const bool new_epoch[] = {false, false, true, false, true};
	uint16_t epoch = 0;
	setup();
	for (uint32_t i = 0; i < ABI_CACHE_COUNT + 3; i++) {
		bool fresh = new_epoch[i % HT_ARRAY_SIZE(new_epoch)];
		uint8_t *cache = local + ABI_CACHES_OFF + i % ABI_CACHE_COUNT * ABI_CACHE_BYTES;
		static const uint8_t zero[ABI_CACHE_BYTES];
		memset(cache, 0xff, ABI_CACHE_BYTES);
		put(fresh);
		epoch = (uint16_t)(epoch + fresh);
		ck_assert_uint_eq(snapshot()->generation, i + 1);
		ck_assert_uint_eq(snapshot()->epoch, epoch);
		ck_assert_uint_eq(publish_epoch(publish), epoch);
		ck_assert_uint_eq(snapshot()->cache_sets, ABI_CACHE_SETS);
		ck_assert_uint_eq(snapshot()->cache, BASE + (uint64_t)(cache - local));
		ck_assert_mem_eq(cache, zero, sizeof(zero));
	}
	publish_destroy(publish);
}

/* More ranges than a snapshot takes, published several times into each place for one. */
HT_TEST(there_is_always_room_for_a_snapshot)
{
	setup();
	struct modules none = {0};
	struct proc_maps many = {.count = RANGES_MAX + 100};
	many.map = calloc(many.count, sizeof(many.map[0]));
	for (size_t i = 0; i < many.count; i++)
		many.map[i] = (struct proc_map){.lo = (i + 1) << 13,
			.hi = ((i + 1) << 13) + 0x1000,
			.exec = true,
			.name = ""};
	uint64_t first = 0;
	for (unsigned count = 1; count <= 5 * ABI_CACHE_COUNT; count++) {
		ck_no_err(publish_snapshot(publish, local, BASE, &none, &many, true));
		ck_assert_uint_eq(snapshot()->range_count, RANGES_MAX);
		ck_assert_uint_eq(snapshot()->epoch, count);
		ck_assert_uint_eq(publish_epoch(publish), count);
		first = first ? first : in_force();
		ck_assert_int_eq(in_force() == first, count % ABI_CACHE_COUNT == 1);
	}
	/* A range that is gone is not in the next snapshot. */
	many.count = 1;
	ck_no_err(publish_snapshot(publish, local, BASE, &none, &many, true));
	ck_assert_uint_eq(snapshot()->range_count, 1);
	ck_assert_ptr_null(range_of(many.map[1].lo));
	free(many.map);
	publish_destroy(publish);
}

/* Publishes copies of libc, as if they were other files, until no table fits any more. */
static void fill(void)
{
	const struct module *libc = modules_find(&modules, (uint64_t)(uintptr_t)memcpy);
	struct module copy = *libc;
	struct modules one = {.module = &copy, .count = 1};
	const struct abi_range *range;
	unsigned count = 0;
	do {
		ck_assert_uint_lt(count++, 10000);
		copy.id = 1000 + count;
		memcpy(copy.build_id, &count, sizeof(count));
		ck_no_err(publish_compile(publish, &self, &one, NULL));
		ck_no_err(
			publish_snapshot(publish, local, BASE, &one, &(struct proc_maps){0}, true));
		range = range_of(copy.text_lo);
		ck_assert_ptr_nonnull(range);
	} while (range->table >= BASE);
	/* Without a table, the range must not read as 0, which means "frame pointers". */
	ck_assert_uint_ne(range->table, 0);
	ck_assert_uint_gt(count, 10);
}

HT_TEST(without_room_a_module_has_no_rules)
{
	setup();
	fill();
	publish_destroy(publish);
}

static size_t bytes_written(uint64_t offset, size_t bytes)
{
	size_t count = 0;
	for (size_t i = 0; i < bytes; i++)
		count += local[offset + i] != 0;
	return count;
}

/* If there are near areas, no table is written to their part of the tables' space; else tables fill
 * it. */
HT_TEST(near_areas_are_left_alone)
{
	for (unsigned near = 0; near < 2; near++) {
		setup();
		((struct abi_config *)(local + ABI_CONFIG_OFF))->near[0] = near;
		fill();
		ck_assert_uint_ne(bytes_written(ABI_NEAR_OFF - ABI_NEAR_BYTES, ABI_NEAR_BYTES), 0);
		size_t written = bytes_written(ABI_NEAR_OFF, ABI_NEAR_MAX * ABI_NEAR_BYTES);
		ck_assert_int_eq(written == 0, near == 1);
		publish_destroy(publish);
		modules_deinit(&modules);
		proc_maps_deinit(&maps);
		proc_close(&self);
	}
}

/* The same library, loaded again somewhere else. */
HT_TEST(tables_are_by_file)
{
	setup();
	ck_no_err(publish_compile(publish, &self, &modules, NULL));
	put(false);
	const struct module *libc = modules_find(&modules, (uint64_t)(uintptr_t)memcpy);
	uint64_t table = range_of(libc->text_lo)->table;
	struct module copy = *libc;
	struct modules one = {.module = &copy, .count = 1};
	copy.id = 1000;
	copy.bias += 1 << 30;
	copy.text_lo += 1 << 30;
	copy.text_hi += 1 << 30;
	ck_no_err(publish_compile(publish, &self, &one, NULL));
	ck_no_err(publish_snapshot(publish, local, BASE, &one, &maps, true));
	ck_assert_uint_eq(range_of(copy.text_lo)->table, table);
	ck_assert_uint_eq(range_of(copy.text_lo)->bias, copy.bias);
	publish_destroy(publish);
}

/* Loads a library with code that no FDE covers, between functions that have FDEs. */
static void *load_gaps(void)
{
	static const char *const command[] = {
		"gcc", "-O1", "-shared", "-fPIC", "-fno-toplevel-reorder", NULL};
	char *path = compile(command,
		"int first(int x) { return x * 3; }\n"
		"__asm__(\".globl framed\\nframed: push %rbp\\nmov %rsp,%rbp\\npush $0xcd\\n"
		"push %rbx\\npush %r12\\ncall *%rdi\\n.globl after_call\\nafter_call: \"\n"
		"\"add $24,%rsp\\npop %rbp\\nret\\n.skip 16,0xcc\\n\");\n"
		"int second(int x) { return x * 5; }\n"
		"__asm__(\".globl bare\\nbare: push %rbx\\npush %rbp\\nmov %rsp,%rbp\\n"
		"call *%rdi\\npop %rbp\\npop %rbx\\nret\\n.skip 16,0xcc\\n\");\n"
		"int third(int x) { return x * 7; }\n",
		NULL);
	ck_assert_ptr_nonnull(path);
	void *library = dlopen(path, RTLD_NOW);
	ck_assert_msg(library != NULL, "%s", dlerror());
	free(path);
	return library;
}

static uint32_t rule_at(void *library, const char *symbol)
{
	const uint64_t pc = (uint64_t)(uintptr_t)dlsym(library, symbol);
	const struct abi_range *range = range_of(pc);
	ck_assert_ptr_nonnull(range);
	return table_lookup(view(range->table, sizeof(struct abi_table)), pc - range->bias);
}

HT_TEST(functions_without_cfi_that_keep_a_frame)
{
	void *library = load_gaps();
	setup();
	ck_no_err(publish_compile(publish, &self, &modules, NULL));
	put(false);
	ck_assert_uint_eq(rule_at(library, "framed"), ABI_RULE_FRAME);
	ck_assert_uint_eq(rule_at(library, "after_call"), ABI_RULE_FRAME);
	ck_assert_uint_eq(rule_at(library, "bare"), ABI_RULE_NONE);
	ck_assert_uint_eq(rule_at(library, "second"), abi_rule_make(ABI_RULE_RSP, 1, 0));
	publish_destroy(publish);
}

HT_TEST(nothing_to_destroy)
{
	publish_destroy(NULL);
}

/* Publishes all modules anew. Returns a copy of everything that the agent reads, malloc'd. */
static uint8_t *published(struct cache *cache, struct publish_counts *ret)
{
	publish_destroy(publish);
	ck_no_err(publish_create(&publish));
	ck_no_err(publish_compile(publish, &self, &modules, cache));
	memset(local, 0, ABI_SHARED_OFF);
	put(false);
	*ret = publish_counts(publish);
	uint8_t *copy = malloc(ABI_SHARED_OFF);
	ck_assert_ptr_nonnull(copy);
	memcpy(copy, local, ABI_SHARED_OFF);
	return copy;
}

HT_TEST(kept_tables_are_the_compiled_ones)
{
	struct publish_counts counts[3];
	uint8_t *area[3];
	char *path = tmpdir_path("cache");
	ck_assert_int_eq(setenv("XDG_CACHE_HOME", path, 1), 0);
	free(path);
	setup();
	area[0] = published(NULL, &counts[0]);
	for (int i = 1; i < 3; i++) {
		struct cache *cache = cache_open();
		ck_assert_ptr_nonnull(cache);
		area[i] = published(cache, &counts[i]);
		cache_close(cache);
		ck_assert_mem_eq(area[0], area[i], ABI_SHARED_OFF);
	}
	ck_assert_uint_eq(counts[0].cached + counts[1].cached, 0);
	ck_assert_uint_eq(counts[1].compiled, counts[0].compiled);
	ck_assert_uint_eq(counts[2].compiled + counts[2].cached, counts[0].compiled);
	/* The tables of all modules except the vDSO and those without a build-id. */
	ck_assert_uint_ge(counts[2].cached, 3);
	for (int i = 0; i < 3; i++)
		free(area[i]);
	publish_destroy(publish);
}

HT_SUITE("attach/unwind/publish")
