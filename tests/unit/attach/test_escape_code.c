/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the code of modules could have copied a thunk's address from a GOT slot to elsewhere.
 */
#include "tests/unit/attach/escapestage.h"

#define CALLS_AT 1000u /* offset of the code that calls through each tapped slot once */
#define SLOTS	 4u

/* This process with one made-up module: code, and behind it slots, of which all but the last are
 * tapped. */
static struct scene {
	struct stage stage;
	struct module module;
	struct slot slot[SLOTS];
	struct journal journal;
} scene;

/* Writes an instruction whose operand is slot(%rip); its displacement comes last. */
static void put_code(size_t offset, const char *opcode, size_t length, unsigned slot)
{
	int32_t disp = (int32_t)(at(&scene.stage.word[slot]) -
				 (at(scene.stage.code) + offset + length + sizeof(disp)));
	memcpy(scene.stage.code + offset, opcode, length);
	memcpy(scene.stage.code + offset + length, &disp, sizeof(disp));
}

#define CALL "\xff\x15"
#define JUMP "\xff\x25"
#define LOAD "\x48\x8b\x05" /* mov slot(%rip), %rax */

static void setup(const char *path)
{
	scene.stage = stage_make();
	scene.module = (struct module){.id = 3,
		.path = (char *)(uintptr_t)path,
		.lo = at(scene.stage.code),
		.hi = at(scene.stage.code) + TEXT_BYTES + HT_PAGE_BYTES,
		.text_lo = at(scene.stage.code),
		.text_hi = at(scene.stage.code) + TEXT_BYTES};
	ck_no_err(journal_create(&scene.journal));
	journal_begin(&scene.journal, 0, 0, 0);
	for (size_t i = 0; i < SLOTS; i++) {
		scene.slot[i] = (struct slot){.addr = at(&scene.stage.word[i]),
			.module_id = 3,
			.type = R_X86_64_GLOB_DAT,
			.verdict = SLOT_TAP};
		struct journal_slot entry = {.addr = scene.slot[i].addr};
		if (i + 1 < SLOTS)
			ck_no_err(journal_add(&scene.journal, &entry));
	}
	for (unsigned i = 0; i + 1 < SLOTS; i++)
		put_code(CALLS_AT + 16 * i, CALL, 2, i);
}

static bool possible(void)
{
	struct modules modules = {.module = &scene.module, .count = 1};
	struct slots slots = {.slot = scene.slot, .count = SLOTS};
	bool ret = false;
	ck_no_err(escape_is_possible(&scene.stage.self, &modules, &slots, &scene.journal, &ret));
	return ret;
}

HT_TEST(calls_and_jumps_keep_the_address)
{
	setup("/usr/bin/program");
	ck_assert(!possible());
	put_code(100, CALL, 2, 0);
	put_code(200, JUMP, 2, 1);
	put_code(300, "\xf2\xff\x25", 3, 2); /* bnd jmp */
	put_code(400, CALL, 2, 0);
	ck_assert(!possible());
}

HT_TEST(loads_take_it)
{
	static const struct {
		const char *opcode;
		size_t length;
	} table[] = {
		{LOAD, 3}, {"\x48\x8b\x1d", 3}, /* mov slot(%rip), %rbx */
		{"\x4c\x8b\x3d", 3},		/* mov slot(%rip), %r15 */
		{"\xff\x35", 2},		/* push slot(%rip) */
		{"\x48\x8d\x3d", 3},		/* lea slot(%rip), %rdi */
		{"\x4c\x03\x25", 3}, /* add slot(%rip), %r12: the same ModRM as a jump's */
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		setup("/usr/bin/program");
		put_code(100, CALL, 2, 1);
		put_code(200, table[i].opcode, table[i].length, 1);
		ck_assert_msg(possible(), "row %zu", i);
	}
}

HT_TEST(only_tapped_slots_count)
{
	setup("/usr/bin/program");
	put_code(100, LOAD, 3, SLOTS - 1);
	ck_assert(!possible());
	put_code(200, LOAD, 3, SLOTS - 2);
	ck_assert(possible());
	for (size_t i = 0; i < SLOTS; i++)
		scene.slot[i].module_id = 4;
	ck_assert(!possible());
}

/* A slot lies in no known module, so unknown code may have copied its address. */
HT_TEST(slots_of_unknown_modules_count)
{
	setup("/usr/bin/program");
	ck_assert(!possible());
	scene.slot[0].addr += 8 * SLOTS;
	ck_assert(possible());
	journal_set_state(&scene.journal, 0, JOURNAL_SLOT_GONE);
	ck_assert(!possible());
}

HT_TEST(all_of_the_code_is_looked_at)
{
	const size_t last = TEXT_BYTES - 7;
	setup("/usr/bin/program");
	put_code(0, CALL, 2, 0);
	put_code(last + 1, CALL, 2, 1);
	ck_assert(!possible());
	put_code(last, LOAD, 3, 0);
	ck_assert(possible());
	/* A call that lies across two of the pieces in which code is read. */
	for (size_t before = 0; before < 12; before++) {
		setup("/usr/bin/program");
		put_code(CHUNK_BYTES - before, CALL, 2, 0);
		ck_assert_msg(!possible(), "a call at -%zu", before);
		setup("/usr/bin/program");
		put_code(CHUNK_BYTES - before, LOAD, 3, 0);
		ck_assert_msg(possible(), "a load at -%zu", before);
	}
}

HT_TEST(pointers_in_data_count)
{
	setup("/usr/bin/program");
	scene.slot[SLOTS - 1].type = R_X86_64_64;
	ck_assert(!possible());
	scene.slot[0].type = R_X86_64_64;
	ck_assert(possible());
}

HT_TEST(the_c_library_does_not_count)
{
	static const struct {
		const char *path;
		bool counts;
	} table[] = {{"/lib/x86_64-linux-gnu/libc.so.6", false}, {"/lib/libc-2.31.so", false},
		{"/lib/libcrypto.so.3", true}, {"/opt/libc.so.6.d/libx.so", true}, {"", true}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		setup(table[i].path);
		put_code(100, LOAD, 3, 0);
		ck_assert_msg(possible() == table[i].counts, "%s", table[i].path);
	}
}

static void clear_calls(void)
{
	memset(scene.stage.code + CALLS_AT, 0x90, (size_t)16 * SLOTS);
}

HT_TEST(a_slot_that_is_used_in_no_known_way_counts)
{
	setup("/usr/bin/program");
	clear_calls();
	ck_assert(possible());
	put_code(100, CALL, 2, 0);
	put_code(200, JUMP, 2, 1);
	ck_assert(possible());
	put_code(TEXT_BYTES - 6, CALL, 2, 2);
	ck_assert(!possible());
}

/* Writes mov $distance, register: the distance from `base` to the slot. */
static void put_distance(size_t offset, const char *opcode, const void *base, unsigned slot)
{
	int64_t distance = (int64_t)(at(&scene.stage.word[slot]) - at(base));
	memcpy(scene.stage.code + offset, opcode, 2);
	memcpy(scene.stage.code + offset + 2, &distance, sizeof(distance));
}

#define MOV_RAX "\x48\xb8"
#define MOV_R15 "\x49\xbf"

HT_TEST(the_large_code_model_counts)
{
	for (size_t before = 0; before < 20; before++) {
		setup("/usr/bin/program");
		put_distance(CHUNK_BYTES - before, MOV_RAX, &scene.stage.word[20], 0);
		ck_assert_msg(possible(), "at -%zu", before);
	}
	setup("/usr/bin/program");
	put_distance(TEXT_BYTES - 10, MOV_R15, &scene.stage.word[0], 2);
	ck_assert(possible());
	setup("/usr/bin/program");
	put_distance(200, MOV_R15, scene.stage.code, 0);
	ck_assert(possible());
}

HT_TEST(other_numbers_do_not_count)
{
	setup("/usr/bin/program");
	put_distance(200, MOV_RAX, NULL, 0);
	put_distance(300, MOV_RAX, scene.stage.code - HT_PAGE_BYTES, 0);
	put_distance(400, MOV_RAX, (uint8_t *)&scene.stage.word[20] + 4, 0);
	put_distance(500, "\x48\x05", &scene.stage.word[20], 0);
	put_distance(600, "\x4c\xb8", &scene.stage.word[20], 0);
	ck_assert(!possible());
	memcpy(scene.stage.code + 700, MOV_RAX "\0\0\0\0\0\0\0\x80", 10);
	ck_assert(!possible());
}

#define HOLE_AT	   (CHUNK_BYTES + 5 * HT_PAGE_BYTES)
#define HOLE_BYTES (3 * HT_PAGE_BYTES) /* too small for any buffer that the search maps */

HT_TEST(code_behind_a_hole_is_looked_at)
{
	setup("/usr/bin/program");
	ck_assert_int_eq(munmap(scene.stage.code + HOLE_AT, HOLE_BYTES), 0);
	ck_assert(!possible());
	put_code(HOLE_AT + HOLE_BYTES, LOAD, 3, 0);
	ck_assert(possible());
	setup("/usr/bin/program");
	scene.module.text_hi = at(scene.stage.code) + HOLE_AT + HOLE_BYTES;
	ck_assert_int_eq(munmap(scene.stage.code + HOLE_AT, HOLE_BYTES), 0);
	ck_assert(!possible());
	clear_calls();
	put_code(HOLE_AT - 6, CALL, 2, 0);
	ck_assert(possible());
}

/* The mapping lies beyond the end of its file. Unreadable code might use the address; data cannot.
 */
HT_TEST(code_that_cannot_be_read_counts)
{
	static const int prot[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_EXEC};
	int fd = memfd_create("empty", MFD_CLOEXEC);
	for (size_t i = 0; i < HT_ARRAY_SIZE(prot); i++) {
		setup("/usr/bin/program");
		void *hole = mmap(scene.stage.code + HOLE_AT, HOLE_BYTES, prot[i],
			MAP_PRIVATE | MAP_FIXED, fd, 0);
		ck_assert_ptr_ne(hole, MAP_FAILED);
		ck_assert_msg(possible() == (prot[i] == (PROT_READ | PROT_EXEC)), "row %zu", i);
		put_code(HOLE_AT + HOLE_BYTES, LOAD, 3, 0);
		ck_assert_msg(possible(), "row %zu", i);
	}
	close(fd);
}

HT_SUITE("attach/proof/escape, code")
