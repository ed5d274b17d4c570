/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/ehframe_memory.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/ehwriter.h"
#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define TEXT_BYTES 0x1000u

/* This process, with a made-up module: its "image" is one page with .eh_frame_hdr and .eh_frame. */
struct fixture {
	struct proc proc;
	uint8_t *page;
	struct module module;
};

static raddr_t raddr_of(const void *at)
{
	return (raddr_t)(uintptr_t)at;
}

/* Makes the module: .eh_frame_hdr at vaddr 0, .eh_frame at 0x40, and text at 0x10000, of which
 * nothing is read. */
static void fixture_init(struct fixture *fixture)
{
	struct ehwriter writer = {.vaddr = 0x40};
	struct ehcie cie = EHCIE_USUAL;
	size_t at = ehwriter_cie(&writer, &cie);
	ehwriter_fde(&writer, at, &cie, 0x10000, TEXT_BYTES, EHPROGRAM(DW_CFA_nop));
	ehwriter_end(&writer);

	ck_no_err(proc_open(getpid(), &fixture->proc));
	ck_no_err(proc_open_mem(&fixture->proc));
	fixture->page = mmap(NULL, 2 * HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(fixture->page, MAP_FAILED);
	ck_assert_int_eq(munmap(fixture->page + HT_PAGE_BYTES, HT_PAGE_BYTES), 0);
	static const uint8_t hdr[] = {
		1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_omit, DW_EH_PE_omit, 0x3c, 0, 0, 0};
	memcpy(fixture->page, hdr, sizeof(hdr));
	memcpy(fixture->page + 0x40, writer.out.data, writer.out.length);
	ehwriter_deinit(&writer);

	static char path[] = "/usr/lib/libmade-up.so";
	raddr_t bias = raddr_of(fixture->page);
	fixture->module = (struct module){
		.id = 1,
		.path = path,
		.bias = bias,
		.text_lo = bias + 0x10000,
		.text_hi = bias + 0x10000 + TEXT_BYTES,
		.segment = {{.vaddr = 0, .memsz = HT_PAGE_BYTES, .filesz = HT_PAGE_BYTES}},
		.segment_count = 1,
		.eh_frame_hdr = bias,
		.eh_frame_hdr_bytes = sizeof(hdr),
	};
}

static void fixture_deinit(struct fixture *fixture)
{
	munmap(fixture->page, HT_PAGE_BYTES);
	proc_close(&fixture->proc);
}

static uint32_t compiled_rule(struct fixture *fixture, struct unwind_stats *ret_stats)
{
	HT_FREED struct abi_table *table;
	ck_no_err(ehframe_memory_compile(&fixture->proc, &fixture->module, &table, ret_stats));
	ck_assert_uint_eq(table->lo, 0x10000);
	ck_assert_uint_eq(table->hi, 0x10000 + TEXT_BYTES);
	uint32_t rule = table_lookup(table, 0x10000);
	return rule;
}

HT_TEST(compiles_relative_to_the_bias)
{
	struct fixture fixture;
	struct unwind_stats stats;
	fixture_init(&fixture);
	ck_assert_uint_eq(compiled_rule(&fixture, &stats), abi_rule_make(ABI_RULE_RSP, 1, 0));
	ck_assert_uint_eq(stats.fde_count, 1);
	ck_assert_uint_eq(stats.bad_fdes, 0);
	fixture_deinit(&fixture);
}

HT_TEST(stops_where_memory_ends)
{
	struct fixture fixture;
	struct unwind_stats stats;
	fixture_init(&fixture);
	fixture.module.segment[0].filesz = UINT64_MAX;
	ck_assert_uint_eq(compiled_rule(&fixture, &stats), abi_rule_make(ABI_RULE_RSP, 1, 0));
	fixture_deinit(&fixture);
}

HT_TEST(stops_where_the_segment_ends)
{
	struct fixture fixture;
	struct unwind_stats stats;
	fixture_init(&fixture);
	fixture.module.segment[0].filesz = 0x60;
	ck_assert_uint_eq(compiled_rule(&fixture, &stats), ABI_RULE_FRAME);
	ck_assert_uint_eq(stats.fde_count, 0);
	ck_assert_uint_eq(stats.bad_fdes, 1);
	fixture_deinit(&fixture);
}

static void change_nothing(struct fixture *fixture)
{
	fixture->module.eh_frame_hdr = 0;
}

static void change_length(struct fixture *fixture)
{
	fixture->module.eh_frame_hdr_bytes = 7;
}

static void change_version(struct fixture *fixture)
{
	fixture->page[0] = 2;
}

static void change_encoding(struct fixture *fixture)
{
	fixture->page[1] = DW_EH_PE_omit;
}

static void change_pointer(struct fixture *fixture)
{
	fixture->page[6] = 0x10;
}

static void change_segments(struct fixture *fixture)
{
	fixture->module.segment_count = 0;
}

static void change_segment(struct fixture *fixture)
{
	fixture->module.segment[0].filesz = 0x40;
}

static void change_mapping(struct fixture *fixture)
{
	ck_assert_int_eq(munmap(fixture->page, HT_PAGE_BYTES), 0);
}

HT_TEST(unusable_header_means_frame_pointers)
{
	static void (*const changes[])(struct fixture *) = {change_nothing, change_length,
		change_version, change_encoding, change_pointer, change_segments, change_segment,
		change_mapping};
	for (size_t i = 0; i < HT_ARRAY_SIZE(changes); i++) {
		struct fixture fixture;
		struct unwind_stats stats;
		fixture_init(&fixture);
		changes[i](&fixture);
		ck_assert_uint_eq(compiled_rule(&fixture, &stats), ABI_RULE_FRAME);
		ck_assert_uint_eq(stats.fde_count, 0);
		fixture_deinit(&fixture);
	}
}

HT_TEST(names_the_module_that_is_too_large)
{
	struct fixture fixture;
	struct abi_table *table;
	struct unwind_stats stats;
	fixture_init(&fixture);
	fixture.module.text_hi = fixture.module.text_lo + 2ull * TABLE_TEXT_MAX;
	ck_err_says(ehframe_memory_compile(&fixture.proc, &fixture.module, &table, &stats),
		HT_ERR_FORMAT, "libmade-up.so");
	fixture_deinit(&fixture);
}

static bool is_kept(struct fixture *fixture, struct cache *cache, struct abi_table **ret)
{
	bool kept;
	ck_no_err(ehframe_memory_table(&fixture->proc, &fixture->module, cache, ret, &kept));
	return kept;
}

static void fixture_identify(struct fixture *fixture, uint8_t byte)
{
	memset(fixture->module.build_id, byte, 20);
	fixture->module.build_id_bytes = 20;
}

/* Reads the table twice, as two attaches would. Returns true if the second read finds the table in
 * the cache. */
static bool is_kept_again(struct fixture *fixture, struct cache *cache)
{
	HT_FREED struct abi_table *first, *second;
	ck_assert(!is_kept(fixture, cache, &first));
	bool kept = is_kept(fixture, cache, &second);
	ck_assert_uint_eq(first->bytes, second->bytes);
	ck_assert_mem_eq(first, second, first->bytes);
	return kept;
}

static struct cache *own_cache(void)
{
	char *path = tmpdir_path("cache");
	ck_assert_int_eq(setenv("XDG_CACHE_HOME", path, 1), 0);
	free(path);
	struct cache *cache = cache_open();
	ck_assert_ptr_nonnull(cache);
	return cache;
}

HT_TEST(tables_are_kept_by_build_id)
{
	struct fixture fixture;
	struct cache *cache = own_cache();
	fixture_init(&fixture);
	ck_assert(!is_kept_again(&fixture, cache)); /* the module has no build-id */
	ck_assert(!is_kept_again(&fixture, NULL));
	for (uint8_t byte = 0; byte < 3; byte++) {
		fixture_identify(&fixture, byte);
		ck_assert(is_kept_again(&fixture, cache));
	}
	cache_close(cache);
	fixture_deinit(&fixture);
}

/* The target states its build-id, and may state a wrong one. */
HT_TEST(another_module_with_the_same_build_id_is_compiled)
{
	struct fixture fixture;
	struct cache *cache = own_cache();
	fixture_init(&fixture);
	fixture_identify(&fixture, 1);
	ck_assert(is_kept_again(&fixture, cache));
	uint8_t *section = fixture.page + 0x40;
	/* Each byte counts up to the terminator: a longer entry would hide the terminator. */
	for (size_t at = 0; at < 0x30; at++) {
		struct abi_table *table;
		section[at] ^= 1;
		bool kept;
		struct ht_err *err =
			ehframe_memory_table(&fixture.proc, &fixture.module, cache, &table, &kept);
		ck_no_err(err);
		ck_assert_msg(!kept, "byte %zu was not compared", at);
		free(table);
		section[at] ^= 1;
		(void)is_kept(&fixture, cache, &table);
		free(table);
	}
	fixture.module.text_hi += HT_PAGE_BYTES;
	ck_assert(is_kept_again(&fixture, cache));
	fixture.module.text_lo -= HT_PAGE_BYTES;
	ck_assert(is_kept_again(&fixture, cache));
	cache_close(cache);
	fixture_deinit(&fixture);
}

/* Without a terminator, the section's length depends on the mappings. */
HT_TEST(without_an_end_nothing_is_kept)
{
	struct fixture fixture;
	struct cache *cache = own_cache();
	fixture_init(&fixture);
	fixture_identify(&fixture, 1);
	fixture.module.segment[0].filesz = 0x60;
	ck_assert(!is_kept_again(&fixture, cache));
	/* The comparison must not read beyond the segment. */
	fixture.module.segment[0].filesz = HT_PAGE_BYTES;
	ck_assert(is_kept_again(&fixture, cache));
	fixture.module.segment[0].filesz = 0x60;
	ck_assert(!is_kept_again(&fixture, cache));
	cache_close(cache);
	fixture_deinit(&fixture);
}

static const struct module *module_with(const struct modules *modules, const char *name)
{
	for (size_t i = 0; i < modules->count; i++)
		if (strstr(modules->module[i].path, name))
			return &modules->module[i];
	ck_abort_msg("no %s here", name);
}

HT_TEST(compiles_what_is_loaded_here)
{
	static const char *const names[] = {"libc.so.6", "ld-linux-x86-64.so.2", "[vdso]"};
	struct proc proc;
	struct proc_maps maps;
	struct modules modules;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(proc_maps_read(&proc, &maps));
	ck_no_err(modules_read(&proc, &maps, &modules));
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		const struct module *module = module_with(&modules, names[i]);
		struct abi_table *table;
		struct unwind_stats stats;
		ck_no_err(ehframe_memory_compile(&proc, module, &table, &stats));
		ck_assert_msg(stats.fde_count >= 4, "%s", names[i]);
		ck_assert_msg(stats.rows >= 10, "%s", names[i]);
		free(table);
	}
	const struct module *libc = module_with(&modules, "libc.so.6");
	struct abi_table *table;
	struct unwind_stats stats;
	ck_no_err(ehframe_memory_compile(&proc, libc, &table, &stats));
	ck_assert_uint_eq(table_lookup(table, raddr_of(&abort) - libc->bias),
		abi_rule_make(ABI_RULE_RSP, 1, 0));
	free(table);
	modules_deinit(&modules);
	proc_maps_deinit(&maps);
	proc_close(&proc);
}

HT_SUITE("attach/unwind/ehframe_memory")
