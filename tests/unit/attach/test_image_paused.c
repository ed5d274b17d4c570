/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests where thunks lead while a capture is paused, and afterwards.
 */
#include "attach/inject/image.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define SLOTS 2u
#define REAL  0x7000u

static struct agent_elf elf;

static struct image make_image(void)
{
	struct image image;
	uint64_t bytes = abi_image_bytes(SLOTS);
	int fd = memfd_create("heaptap-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	ck_no_err(agent_elf_read(&elf));
	ck_no_err(image_init(&image, &elf, 0x10000, SLOTS, fd));
	return image;
}

static size_t add(struct image *image, unsigned hook)
{
	struct image_thunk want = {
		.hook = (enum abi_hook)hook, .real = REAL, .plain = abi_is_new(hook)};
	raddr_t entry;
	ck_no_err(image_thunk(image, &want, &entry));
	ck_no_err(image_enable(image, &elf, entry));
	return (entry - image->thunks) / ABI_THUNK_BYTES;
}

/* Returns the target of a thunk as the process reads it, not as struct image remembers it. */
static uint64_t target_of(const struct image *image, size_t index)
{
	const struct abi_thunk *thunk = (const void *)(image->local + ABI_THUNKS_OFF);
	return thunk[index].target;
}

static bool ends_or_moves_blocks(unsigned hook)
{
	return !abi_is_allocator(hook) || abi_is_sized_free(hook) || hook == ABI_HOOK_FREE ||
	       hook == ABI_HOOK_CFREE || hook == ABI_HOOK_DALLOCX || hook == ABI_HOOK_SDALLOCX ||
	       hook == ABI_HOOK_REALLOC || hook == ABI_HOOK_REALLOCARRAY ||
	       hook == ABI_HOOK_RALLOCX;
}

static void check_all(uint64_t sample_bytes)
{
	struct image image = make_image();
	image_config(&image)->sample_bytes = sample_bytes;
	const uint64_t *off = sample_bytes ? elf.sample_off : elf.hook_off;
	size_t index[ABI_ALLOCATOR_COUNT];
	for (unsigned i = 0; i < ABI_ALLOCATOR_COUNT; i++)
		index[i] = add(&image, i);
	ck_no_err(image_pause(&image, &elf, true));
	ck_assert_uint_eq(image_config(&image)->paused, 1);
	for (unsigned i = 0; i < ABI_ALLOCATOR_COUNT; i++)
		ck_assert_uint_eq(target_of(&image, index[i]),
			ends_or_moves_blocks(i) ? image.base + off[i] : REAL);
	ck_no_err(image_pause(&image, &elf, false));
	ck_assert_uint_eq(image_config(&image)->paused, 0);
	for (unsigned i = 0; i < ABI_ALLOCATOR_COUNT; i++)
		ck_assert_uint_eq(target_of(&image, index[i]), image.base + off[i]);
	image_deinit(&image);
}

HT_TEST(only_allocations_pass_by_the_agent)
{
	check_all(0);
	check_all(4096);
}

/* Guards and mappings have nothing to do with blocks. */
HT_TEST(other_functions_stay_hooked)
{
	struct image image = make_image();
	size_t guard = add(&image, ABI_GUARD_PRCTL), map = add(&image, ABI_MAPPING_MMAP);
	ck_no_err(image_pause(&image, &elf, true));
	ck_assert_uint_eq(target_of(&image, guard), image.base + elf.hook_off[ABI_GUARD_PRCTL]);
	ck_assert_uint_eq(target_of(&image, map), image.base + elf.hook_off[ABI_MAPPING_MMAP]);
	image_deinit(&image);
}

/* Thunks are made during a pause when a library is loaded, or when a library's slots are read
 * again. */
HT_TEST(hooks_made_in_a_pause_wait_for_its_end)
{
	struct image image = make_image();
	ck_no_err(image_pause(&image, &elf, true));
	size_t index = add(&image, ABI_HOOK_MALLOC), of_free = add(&image, ABI_HOOK_FREE);
	ck_assert_uint_eq(target_of(&image, index), REAL);
	ck_assert_uint_eq(target_of(&image, of_free), image.base + elf.hook_off[ABI_HOOK_FREE]);
	ck_no_err(image_pause(&image, &elf, false));
	ck_assert_uint_eq(target_of(&image, index), image.base + elf.hook_off[ABI_HOOK_MALLOC]);
	image_deinit(&image);
}

/* A page that an earlier capture left holds thunks that this one has no use for. */
HT_TEST(thunks_of_an_earlier_capture_are_left_alone)
{
	struct image image = make_image();
	size_t index = add(&image, ABI_HOOK_MALLOC);
	ck_no_err(image_disable_all(&image));
	image.thunk[index].config++;
	ck_no_err(image_pause(&image, &elf, false));
	ck_assert_uint_eq(target_of(&image, index), REAL);
	image_deinit(&image);
}

HT_SUITE("attach/inject/image paused")
