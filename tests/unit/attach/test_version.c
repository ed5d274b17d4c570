/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of symbols are read from the tables of a module, complete or not, and a definition
 * matches a reference as it does for the dynamic linker.
 */
#include "attach/elf/version.h"

#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

static const char names[] = "\0GLIBC_2.2.5\0OTHER_1\0";

enum { AT_GLIBC = 1, AT_OTHER = 13 };

/* The tables of one module. */
static struct tables {
	char strings[sizeof(names)];
	uint16_t versym[8];
	struct {
		Elf64_Verdef def;
		Elf64_Verdaux aux;
	} defined[3];
	Elf64_Verneed need;
	Elf64_Vernaux needed[2];
} tables;

static struct proc self;
static struct dynamic dynamic;

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	tables = (struct tables){.versym = {0, 1, 2, 0x8003, 4, 5}};
	memcpy(tables.strings, names, sizeof(names));
	const uint32_t offsets[] = {AT_OTHER, AT_GLIBC, AT_OTHER};
	for (uint16_t i = 0; i < 3; i++) {
		tables.defined[i].def = (Elf64_Verdef){.vd_version = 1,
			.vd_flags = i ? 0 : VER_FLG_BASE,
			.vd_ndx = (Elf64_Half)(i + 1),
			.vd_hash = 100u + i,
			.vd_aux = sizeof(Elf64_Verdef),
			.vd_next = i < 2 ? sizeof(tables.defined[0]) : 0};
		tables.defined[i].aux.vda_name = offsets[i];
	}
	tables.need = (Elf64_Verneed){.vn_version = 1, .vn_cnt = 2, .vn_aux = sizeof(tables.need)};
	tables.needed[0] = (Elf64_Vernaux){
		.vna_hash = 200, .vna_other = 4, .vna_name = AT_GLIBC, .vna_next = 16};
	tables.needed[1] =
		(Elf64_Vernaux){.vna_hash = 201, .vna_other = 0x8005, .vna_name = AT_OTHER};
	dynamic = (struct dynamic){.lo = (raddr_t)(uintptr_t)&tables,
		.hi = (raddr_t)(uintptr_t)(&tables + 1),
		.strtab = {(raddr_t)(uintptr_t)tables.strings, sizeof(names)},
		.versym = (raddr_t)(uintptr_t)tables.versym,
		.verdef = (raddr_t)(uintptr_t)tables.defined,
		.verneed = (raddr_t)(uintptr_t)&tables.need};
}

static struct version version_at(uint32_t index)
{
	struct version version;
	ck_no_err(version_read(&self, &dynamic, index, NULL, &version));
	return version;
}

static void check(uint32_t index, uint32_t hash, const char *name, bool hidden)
{
	struct version version = version_at(index);
	ck_assert(version.has_versions);
	ck_assert_uint_eq(version.hash, hash);
	ck_assert_str_eq(version.name, name);
	ck_assert_int_eq(version.hidden, hidden);
}

HT_TEST(what_is_defined_and_what_is_needed)
{
	setup();
	check(0, 0, "", false);
	check(1, 0, "", false);
	check(2, 101, "GLIBC_2.2.5", false);
	check(3, 102, "OTHER_1", true);
	check(4, 200, "GLIBC_2.2.5", false);
	check(5, 201, "OTHER_1", true);
}

HT_TEST(tables_that_are_damaged)
{
	setup();
	dynamic.versym = 0;
	ck_assert(!version_at(2).has_versions);
	setup();
	ck_assert(!version_at(UINT32_MAX).has_versions); /* beyond the module */
	tables.defined[1].aux.vda_name = UINT32_MAX;
	check(2, 101, "", false);
	tables.defined[0].def.vd_next = UINT32_MAX;
	check(2, 0, "", false);
	setup();
	tables.need.vn_aux = UINT32_MAX;
	check(4, 0, "", false);
	setup();
	tables.versym[2] = 999; /* no such version, and lists without an end */
	tables.defined[2].def.vd_next = (Elf64_Word)-2 * (Elf64_Word)sizeof(tables.defined[0]);
	tables.needed[1].vna_next = (Elf64_Word)-16;
	check(2, 0, "", false);
}

HT_TEST(which_definition_is_taken)
{
	const struct version none = {0},
			     glibc = {.has_versions = true, .index = 2, .hash = 7, .name = "G"},
			     other = {.has_versions = true, .index = 3, .hash = 8, .name = "O"},
			     twin = {.has_versions = true, .index = 3, .hash = 7, .name = "T"},
			     base = {.has_versions = true, .index = 1};
	struct version strict = glibc, old = base;
	strict.hidden = old.hidden = true;
	ck_assert_int_eq(version_match(&glibc, &none), VERSION_SAME);
	ck_assert_int_eq(version_match(&glibc, &glibc), VERSION_SAME);
	ck_assert_int_eq(version_match(&glibc, &other), VERSION_OTHER);
	ck_assert_int_eq(version_match(&glibc, &twin), VERSION_OTHER);
	ck_assert_int_eq(version_match(&glibc, &base), VERSION_SAME);
	ck_assert_int_eq(version_match(&strict, &base), VERSION_OTHER);
	ck_assert_int_eq(version_match(&glibc, &old), VERSION_OTHER);
	ck_assert_int_eq(version_match(&none, &base), VERSION_SAME);
	ck_assert_int_eq(version_match(&none, &glibc), VERSION_SAME);
	ck_assert_int_eq(version_match(&none, &other), VERSION_UNSURE);
}

HT_SUITE("attach/version")
