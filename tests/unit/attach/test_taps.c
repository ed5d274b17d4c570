/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/taps.h"

#include "tests/support/ht_check.h"

#define LIBRARY 0x7f0000000000ull
#define TEXT	(LIBRARY + 0x1000)
#define SLOTS	(LIBRARY + 0x8000)
#define BRIDGE	0x7e0000001000ull

/* A made-up library has a slot for each of these hooks; the slots lead to functions 16 bytes apart.
 */
static const enum abi_hook hooks[] = {ABI_HOOK_MALLOC, ABI_HOOK_REALLOC, ABI_HOOK_FREE,
	ABI_NEW_BYTES, ABI_GUARD_PRCTL, ABI_GUARD_EXECVE, ABI_GUARD_FORK, ABI_MAPPING_MMAP,
	ABI_MAPPING_MREMAP, ABI_MAPPING_MUNMAP};
#define COUNT HT_ARRAY_SIZE(hooks)

struct scene {
	struct module module;
	struct slot slot[COUNT];
	struct allocator_function function[COUNT];
	struct survey survey;
	struct entry entry[2];
	struct entries entries;
	struct taps taps;
};

static raddr_t function_at(size_t index)
{
	return TEXT + 16 * index;
}

static void scene_init(struct scene *scene)
{
	*scene = (struct scene){.module = {.id = 1,
					.lo = LIBRARY,
					.hi = LIBRARY + 0x10000,
					.text_lo = TEXT,
					.text_hi = TEXT + 0x2000}};
	for (size_t i = 0; i < COUNT; i++) {
		scene->slot[i] = (struct slot){.addr = SLOTS + 8 * i,
			.value = function_at(i),
			.real = function_at(i),
			.module_id = 1,
			.hook = hooks[i]};
		scene->function[i] = (struct allocator_function){.hook = hooks[i],
			.addr = function_at(i),
			.usable_size = TEXT + 0x1000,
			.plain = function_at(0)};
	}
	scene->survey.modules = (struct modules){.module = &scene->module, .count = 1};
	scene->survey.slots = (struct slots){.slot = scene->slot,
		.count = COUNT,
		.function = scene->function,
		.function_count = COUNT};
	scene->entries.entry = scene->entry;
}

static void plan(struct scene *scene, struct taps_follow follow)
{
	taps_deinit(&scene->taps);
	ck_no_err(taps_plan(&scene->survey, &scene->entries, follow, &scene->taps));
}

static const struct taps_row *row_of(const struct scene *scene, enum abi_hook hook)
{
	for (size_t i = 0; i < scene->taps.count; i++)
		if (scene->taps.row[i].slot && scene->taps.row[i].slot->hook == hook)
			return &scene->taps.row[i];
	ck_abort_msg("no row for hook %d", (int)hook);
}

static void check_turn(const struct scene *scene, enum abi_hook hook, enum taps_turn turn)
{
	ck_assert_int_eq(row_of(scene, hook)->turn, turn);
}

/* An allocation that is recorded before its free can be would look as if it stayed. */
HT_TEST(frees_come_before_allocations_and_guards_before_both)
{
	struct scene scene;
	scene_init(&scene);
	plan(&scene, (struct taps_follow){0});
	ck_assert_uint_eq(scene.taps.count, COUNT);
	check_turn(&scene, ABI_GUARD_PRCTL, TAPS_GUARDS);
	check_turn(&scene, ABI_HOOK_FREE, TAPS_FREES);
	check_turn(&scene, ABI_MAPPING_MUNMAP, TAPS_FREES);
	check_turn(&scene, ABI_HOOK_REALLOC, TAPS_BOTH);
	check_turn(&scene, ABI_MAPPING_MREMAP, TAPS_BOTH);
	check_turn(&scene, ABI_HOOK_MALLOC, TAPS_ALLOCATIONS);
	check_turn(&scene, ABI_NEW_BYTES, TAPS_ALLOCATIONS);
	check_turn(&scene, ABI_MAPPING_MMAP, TAPS_ALLOCATIONS);
	ck_assert(
		TAPS_GUARDS < TAPS_FREES && TAPS_FREES < TAPS_BOTH && TAPS_BOTH < TAPS_ALLOCATIONS);
	taps_deinit(&scene.taps);
}

HT_TEST(a_thunk_knows_its_function_and_module)
{
	struct scene scene;
	scene_init(&scene);
	plan(&scene, (struct taps_follow){0});
	const struct taps_row *row = row_of(&scene, ABI_HOOK_MALLOC);
	ck_assert_int_eq(row->why, TAPS_WANTED);
	ck_assert_ptr_eq(row->module, &scene.module);
	ck_assert_int_eq(row->thunk.hook, ABI_HOOK_MALLOC);
	ck_assert_uint_eq(row->thunk.real, function_at(0));
	ck_assert_uint_eq(row->thunk.real_lo, TEXT);
	ck_assert_uint_eq(row->thunk.real_len, 0x2000);
	ck_assert_uint_eq(row->thunk.usable, TEXT + 0x1000);
	ck_assert_uint_eq(row->thunk.plain, 0);
	ck_assert_uint_eq(row_of(&scene, ABI_NEW_BYTES)->thunk.plain, function_at(0));
	/* Hooks of guards and mappings need no size of a block. */
	ck_assert_uint_eq(row_of(&scene, ABI_GUARD_PRCTL)->thunk.usable, 0);
	ck_assert_uint_eq(row_of(&scene, ABI_MAPPING_MMAP)->thunk.usable, 0);
	taps_deinit(&scene.taps);
}

HT_TEST(a_slot_without_a_known_function_stays)
{
	struct scene scene;
	scene_init(&scene);
	scene.slot[0].real = 0;
	scene.slot[0].verdict = SLOT_FOREIGN;
	plan(&scene, (struct taps_follow){0});
	ck_assert_int_eq(row_of(&scene, ABI_HOOK_MALLOC)->why, TAPS_NO_FUNCTION);
	ck_assert_str_eq(
		taps_words(row_of(&scene, ABI_HOOK_MALLOC)), "leave: holds something else");
	ck_assert_str_eq(taps_words(row_of(&scene, ABI_HOOK_FREE)), "tap");
	taps_deinit(&scene.taps);
}

HT_TEST(execs_and_children_are_watched_only_where_they_are_followed)
{
	struct scene scene;
	scene_init(&scene);
	for (unsigned i = 0; i < 4; i++) {
		struct taps_follow follow = {.execs = i & 1, .forks = i & 2};
		plan(&scene, follow);
		ck_assert_int_eq(row_of(&scene, ABI_GUARD_EXECVE)->why,
			follow.execs ? TAPS_WANTED : TAPS_NOT_FOLLOWED);
		ck_assert_int_eq(row_of(&scene, ABI_GUARD_FORK)->why,
			follow.forks ? TAPS_WANTED : TAPS_NOT_FOLLOWED);
		ck_assert_int_eq(row_of(&scene, ABI_GUARD_PRCTL)->why, TAPS_WANTED);
	}
	taps_deinit(&scene.taps);
}

/* A hook in the slot would record the call twice, and a hook that calls the function would call
 * itself. */
HT_TEST(a_function_that_is_hooked_at_its_entry_keeps_its_slots)
{
	struct scene scene;
	scene_init(&scene);
	scene.entries.count = 2;
	scene.entry[0] = (struct entry){.hook = ABI_HOOK_MALLOC,
		.addr = function_at(0),
		.at = BRIDGE,
		.bridge = {.entry = function_at(0)},
		.usable_size = 7,
		.text_lo = TEXT,
		.text_hi = TEXT + 0x2000};
	scene.entry[1] = (struct entry){
		.hook = ABI_HOOK_FREE, .addr = function_at(2), .why = "it cannot be"};
	plan(&scene, (struct taps_follow){0});
	ck_assert_uint_eq(scene.taps.count, COUNT + 2);
	ck_assert_int_eq(row_of(&scene, ABI_HOOK_MALLOC)->why, TAPS_AT_ENTRY);
	ck_assert_int_eq(row_of(&scene, ABI_HOOK_FREE)->why, TAPS_WANTED);
	raddr_t past = BRIDGE + offsetof(struct abi_bridge, code);
	ck_assert_uint_eq(row_of(&scene, ABI_NEW_BYTES)->thunk.plain, past);
	const struct taps_row *row = scene.taps.row;
	ck_assert_ptr_eq(row[0].entry, &scene.entry[0]);
	ck_assert_int_eq(row[0].why, TAPS_WANTED);
	ck_assert_int_eq(row[0].turn, TAPS_ALLOCATIONS);
	ck_assert_uint_eq(row[0].thunk.real, past);
	ck_assert_uint_eq(row[0].thunk.usable, 7);
	ck_assert_int_eq(row[1].why, TAPS_REFUSED);
	/* Once the function is hooked at its entry, a later plan leaves it alone. */
	scene.entry[0].tapped = true;
	plan(&scene, (struct taps_follow){0});
	ck_assert_int_eq(scene.taps.row[0].why, TAPS_DONE);
	ck_assert_int_eq(row_of(&scene, ABI_HOOK_MALLOC)->why, TAPS_AT_ENTRY);
	taps_deinit(&scene.taps);
}

HT_SUITE("attach/plan/taps")
