/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/image.h"

#include "attach/inject/journal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define SLOTS 2u

static struct agent_elf elf;
static struct proc self;
static uint8_t *seen; /* the memfd as a target maps it: readable and executable */

static int make_memfd(uint64_t bytes)
{
	int fd = memfd_create("heaptap-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static uint8_t *map_as_target(int fd, uint64_t bytes)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	return at;
}

static raddr_t addr_of(const void *at)
{
	return (raddr_t)(uintptr_t)at;
}

static void set_alive(struct image *image, uint64_t alive)
{
	((struct abi_state *)(void *)(image->local + ABI_STATE_OFF))->alive = alive;
}

static struct image make_image(void)
{
	struct image image;
	int fd = make_memfd(abi_image_bytes(SLOTS));
	seen = map_as_target(fd, abi_image_bytes(SLOTS));
	ck_no_err(agent_elf_read(&elf));
	ck_no_err(image_init(&image, &elf, addr_of(seen), SLOTS, fd));
	set_alive(&image, 1);
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	return image;
}

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

HT_TEST(the_agent_is_whole)
{
	static const uint8_t no_id[20];
	ck_no_err(agent_elf_read(&elf));
	ck_assert_uint_gt(elf.text_bytes, 1024);
	ck_assert_uint_le(elf.text_bytes, ABI_TEXT_MAX);
	ck_assert_mem_ne(elf.build_id, no_id, sizeof(no_id));
	for (size_t i = 0; i < ABI_TAP_COUNT; i++) {
		static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
		ck_assert_uint_ge(elf.hook_off[i], ABI_TEXT_OFF);
		ck_assert_uint_lt(elf.hook_off[i], ABI_TEXT_OFF + elf.text_bytes);
		ck_assert_mem_eq(elf.text + (elf.hook_off[i] - ABI_TEXT_OFF), endbr64, 4);
		/* One function of two names. */
		for (size_t j = 0; j < i && i != ABI_MAPPING_MMAP64; j++)
			ck_assert_uint_ne(elf.hook_off[i], elf.hook_off[j]);
	}
}

HT_TEST(an_image_holds_text_and_configuration)
{
	struct image image = make_image();
	const struct abi_config *config = image_config(&image);
	raddr_t base = image.base;

	ck_assert_mem_eq(seen + ABI_TEXT_OFF, elf.text, elf.text_bytes);
	ck_assert_uint_eq(image.bytes, abi_image_bytes(SLOTS));
	ck_assert_uint_eq(image.thunks, base + ABI_THUNKS_OFF);
	ck_assert_uint_eq(config->magic, ABI_MAGIC);
	ck_assert_uint_eq(config->version, ABI_VERSION);
	ck_assert_mem_eq(config->build_id, elf.build_id, sizeof(elf.build_id));
	ck_assert_uint_eq(config->table_mask, ABI_TABLE_WORDS - 1);
	ck_assert_uint_eq(config->node_max, ABI_NODE_MAX);
	ck_assert_uint_eq(config->slot_mask, SLOTS - 1);
	ck_assert_uint_eq(config->frames_max, ABI_FRAMES_MAX);
	ck_assert_int_eq(config->socket_fd, -1);
	ck_assert_uint_eq(config->unwind, 0);
	ck_assert_uint_eq(config->stop, 0);
	ck_assert_uint_eq(image_control(&image)->magic, ABI_MAGIC);
	image_deinit(&image);
}

HT_TEST(a_target_cannot_shrink_the_image)
{
	struct image image = make_image();
	ck_assert_int_ne(ftruncate(image.memfd, 0), 0);
	ck_assert_int_ne(ftruncate(image.memfd, (off_t)image.bytes * 2), 0);
	ck_assert_int_ne(fcntl(image.memfd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	image_deinit(&image);
}

HT_TEST(the_memfd_is_taken_over)
{
	struct image image = make_image();
	int fd = image.memfd;
	image_deinit(&image);
	ck_assert(is_closed(fd));
	ck_assert_ptr_null(image.local);
	image_deinit(&image);

	/* image_deinit also closes a memfd that image_init could not seal. */
	fd = memfd_create("heaptap-test", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, (off_t)abi_image_bytes(SLOTS)), 0);
	ck_err_says(image_init(&image, &elf, 0x10000, SLOTS, fd), HT_ERR_SYS, "seal");
	image_deinit(&image);
	ck_assert(is_closed(fd));
}

HT_TEST(claimed_slots)
{
	struct image image = make_image();
	image.slot_max = ABI_SLOT_MAX;
	image_control(&image)->claimed[1] = 1ull << 3;
	for (uint32_t i = 0; i < ABI_SLOT_MAX; i++)
		ck_assert((image_slot_next(&image, i) == i) == (i == 67));
	image_deinit(&image);
}

HT_TEST(claimed_slots_are_found_one_after_the_other)
{
	static const uint32_t claimed[] = {0, 63, 64, 131, 192, ABI_SLOT_MAX - 1};
	struct image image = make_image();
	uint32_t at = 0;
	image.slot_max = ABI_SLOT_MAX;
	for (size_t i = 0; i < HT_ARRAY_SIZE(claimed); i++)
		image_control(&image)->claimed[claimed[i] / 64] |= 1ull << claimed[i] % 64;
	for (size_t i = 0; i < HT_ARRAY_SIZE(claimed); i++) {
		ck_assert_uint_eq(image_slot_next(&image, at), claimed[i]);
		ck_assert_uint_eq(image_slot_next(&image, claimed[i]), claimed[i]);
		at = claimed[i] + 1;
	}
	ck_assert_uint_ge(image_slot_next(&image, at), image.slot_max);
	image.slot_max = SLOTS;
	ck_assert_uint_ge(image_slot_next(&image, 1), image.slot_max);
	image_deinit(&image);
}

/* --- thunks ----------------------------------------------------------------------------------- */

static uint64_t got[5], calls;

static long probe(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	got[0] = a;
	got[1] = b;
	got[2] = c;
	got[3] = d;
	got[4] = e;
	calls++;
	return 0x5eed;
}

static struct image_thunk want(enum abi_hook hook, raddr_t real)
{
	return (struct image_thunk){.hook = hook,
		.real = real,
		.real_lo = 77,
		.real_len = 88,
		.plain = abi_is_new(hook) ? 99 : 0};
}

static raddr_t thunk_to(struct image *image, enum abi_hook hook, raddr_t real)
{
	struct image_thunk thunk = want(hook, real);
	raddr_t entry;
	ck_no_err(image_thunk(image, &thunk, &entry));
	return entry;
}

static long call(raddr_t entry)
{
	long (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		(long (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))(uintptr_t)entry;
	return function(1001, 1002, 1003, 1004, 1005);
}

static void check_call(raddr_t entry, unsigned arity)
{
	uint64_t before = calls;
	ck_assert_int_eq(call(entry), 0x5eed);
	ck_assert_uint_eq(calls, before + 1);
	for (unsigned i = 0; i < HT_ARRAY_SIZE(got); i++)
		ck_assert_uint_eq(got[i], i == arity ? entry - ABI_THUNK_ENTRY : 1001 + i);
}

/* A thunk passes its own address as the argument behind the function's own, and no other register
 * of a call changes. */
HT_TEST(thunks_jump_to_the_real_function)
{
	struct image image = make_image();
	for (unsigned hook = 0; hook < ABI_HOOK_COUNT; hook++) {
		raddr_t entry = thunk_to(&image, (enum abi_hook)hook, addr_of(probe));
		ck_assert_uint_eq(entry % ABI_THUNK_BYTES, ABI_THUNK_ENTRY);
		ck_assert_mem_eq((void *)entry, "\xf3\x0f\x1e\xfa", 4);
		check_call(entry, abi_arity_of((enum abi_hook)hook));
		ck_assert_uint_eq(image_real(&image, entry), addr_of(probe));
	}
	ck_assert_uint_eq(image.thunk_count, ABI_HOOK_COUNT);
	image_deinit(&image);
}

HT_TEST(a_thunk_knows_what_the_hook_needs)
{
	struct image image = make_image();
	struct image_thunk thunk = {.hook = ABI_HOOK_FREE,
		.real = addr_of(probe),
		.real_lo = 0x1000,
		.real_len = 1ull << 40,
		.usable = 0x3000};
	raddr_t entry;
	ck_no_err(image_thunk(&image, &thunk, &entry));
	const struct abi_thunk *made = (void *)(entry - ABI_THUNK_ENTRY);
	ck_assert_uint_eq(made->real, thunk.real);
	ck_assert_uint_eq(made->target, thunk.real);
	ck_assert_uint_eq(made->config, image.base + ABI_CONFIG_OFF);
	ck_assert_uint_eq(made->real_lo, 0x1000);
	ck_assert_uint_eq(made->real_len, UINT32_MAX);
	ck_assert_uint_eq(made->hook, ABI_HOOK_FREE);
	ck_assert_uint_eq(made->usable_index, 1);
	ck_assert_uint_eq(image_config(&image)->usable[1], 0x3000);
	ck_assert_uint_eq(made->plain_index, 0);
	image_deinit(&image);
}

HT_TEST(one_thunk_for_each_function)
{
	struct image image = make_image();
	struct image_thunk a = want(ABI_HOOK_MALLOC, addr_of(probe)),
			   b = want(ABI_HOOK_VALLOC, a.real), c = want(a.hook, a.real + 1);
	raddr_t entry[3], again;
	ck_no_err(image_thunk(&image, &a, &entry[0]));
	ck_no_err(image_thunk(&image, &b, &entry[1]));
	ck_no_err(image_thunk(&image, &c, &entry[2]));
	ck_assert_uint_ne(entry[0], entry[1]);
	ck_assert_uint_ne(entry[0], entry[2]);
	ck_assert_uint_ne(entry[1], entry[2]);
	/* Another plain function to call in the place of the real one makes another thunk. */
	struct image_thunk d = a;
	d.plain = 0x4000;
	ck_no_err(image_thunk(&image, &d, &again));
	ck_assert_uint_ne(again, entry[0]);
	ck_assert_uint_eq(((struct abi_thunk *)(again - ABI_THUNK_ENTRY))->plain_index, 1);
	ck_no_err(image_enable(&image, &elf, entry[0]));
	ck_no_err(image_thunk(&image, &a, &again));
	ck_assert_uint_eq(again, entry[0]);
	/* Asking again does not take the hook out. */
	ck_assert_uint_ne(((struct abi_thunk *)(entry[0] - ABI_THUNK_ENTRY))->target, a.real);
	image_deinit(&image);
}

HT_TEST(enabling_and_disabling)
{
	struct image image = make_image();
	raddr_t entry[ABI_HOOK_COUNT];
	for (unsigned i = 0; i < ABI_HOOK_COUNT; i++) {
		entry[i] = thunk_to(&image, (enum abi_hook)i, addr_of(probe));
		ck_no_err(image_enable(&image, &elf, entry[i]));
		const struct abi_thunk *made = (void *)(entry[i] - ABI_THUNK_ENTRY);
		ck_assert_uint_eq(made->target, image.base + elf.hook_off[i]);
		ck_assert_uint_eq(made->real, addr_of(probe));
	}
	ck_no_err(image_disable_all(&image));
	for (unsigned i = 0; i < ABI_HOOK_COUNT; i++)
		check_call(entry[i], abi_arity_of((enum abi_hook)i));
	image_deinit(&image);
}

/* A sampling hook forwards the calls that it skips without a frame of its own. An operator that may
 * jump to another hook is not forwarded so, or the sampler would draw twice for one call. */
HT_TEST(hooks_of_a_sample)
{
	for (unsigned entries = 0; entries < 2; entries++) {
		struct image image = make_image();
		image_config(&image)->sample_bytes = 4096;
		image_config(&image)->near[0] = entries ? addr_of(probe) : 0;
		for (unsigned i = 0; i < ABI_ALLOCATOR_COUNT; i++) {
			raddr_t entry = thunk_to(&image, (enum abi_hook)i, addr_of(probe));
			ck_no_err(image_enable(&image, &elf, entry));
			const struct abi_thunk *made = (void *)(entry - ABI_THUNK_ENTRY);
			bool framed = entries && abi_is_new((enum abi_hook)i);
			ck_assert_uint_ne(elf.sample_off[i], elf.sample_frame_off[i]);
			ck_assert_uint_eq(made->target,
				image.base +
					(framed ? elf.sample_frame_off[i] : elf.sample_off[i]));
		}
		image_deinit(&image);
	}
}

HT_TEST(a_full_page_refuses)
{
	struct image image = make_image();
	raddr_t entry, first;
	for (unsigned i = 0; i < ABI_THUNK_MAX; i++) {
		entry = thunk_to(&image, ABI_HOOK_MALLOC, addr_of(probe) + i);
		first = i ? first : entry;
	}
	ck_assert_uint_eq(entry, image.thunks + HT_PAGE_BYTES - ABI_THUNK_BYTES + ABI_THUNK_ENTRY);
	struct image_thunk more = want(ABI_HOOK_FREE, 1), old = want(ABI_HOOK_MALLOC, 0);
	old.real = addr_of(probe);
	ck_err_says(image_thunk(&image, &more, &entry), HT_ERR_REFUSED, "64");
	ck_no_err(image_thunk(&image, &old, &entry));
	ck_assert_uint_eq(entry, first);
	/* Nothing was written behind the page. */
	ck_assert_mem_eq(seen + ABI_TEXT_OFF, elf.text, elf.text_bytes);
	image_deinit(&image);
}

/* A free without its size is recorded; an operator new without a function to call is not hooked. */
HT_TEST(tables_of_functions_have_an_end)
{
	struct image image = make_image();
	struct image_thunk thunk = want(ABI_NEW_BYTES, addr_of(probe));
	raddr_t entry;
	for (unsigned i = 1; i < ABI_PLAIN_MAX; i++) {
		thunk.plain = thunk.usable = i;
		ck_no_err(image_thunk(&image, &thunk, &entry));
		const struct abi_thunk *made = (void *)(entry - ABI_THUNK_ENTRY);
		ck_assert_uint_eq(made->plain_index, i);
		ck_assert_uint_eq(made->usable_index, i);
	}
	thunk.plain = thunk.usable = ABI_PLAIN_MAX;
	ck_err_says(image_thunk(&image, &thunk, &entry), HT_ERR_REFUSED, "more operators new");
	thunk.hook = ABI_HOOK_FREE;
	ck_no_err(image_thunk(&image, &thunk, &entry));
	ck_assert_uint_eq(((struct abi_thunk *)(entry - ABI_THUNK_ENTRY))->usable_index, 0);
	image_deinit(&image);
}

HT_TEST(only_entries_have_a_real_function)
{
	struct image image = make_image();
	raddr_t entry = thunk_to(&image, ABI_HOOK_MALLOC, 0x1234);
	ck_assert_uint_eq(image_real(&image, entry), 0x1234);
	ck_assert_uint_eq(image_real(&image, entry + 1), 0);
	ck_assert_uint_eq(image_real(&image, entry - ABI_THUNK_ENTRY), 0);
	ck_assert_uint_eq(image_real(&image, entry + ABI_THUNK_BYTES), 0);
	ck_assert_uint_eq(image_real(&image, entry - HT_PAGE_BYTES), 0);
	ck_assert_uint_eq(image_real(&image, entry + HT_PAGE_BYTES), 0);
	ck_assert_uint_eq(image_real(&image, 0), 0);
	image_deinit(&image);
}

/* --- images and pages of earlier captures ------------------------------------------------------
 */

HT_TEST(an_open_image_is_not_written)
{
	struct image image = make_image(), opened;
	raddr_t entry = thunk_to(&image, ABI_HOOK_MALLOC, addr_of(probe));
	image_config(&image)->magic = 4711;
	int fd = fcntl(image.memfd, F_DUPFD_CLOEXEC, 0);
	ck_no_err(image_open(&opened, &self, image.base, image.thunks, fd));
	ck_assert_uint_eq(opened.bytes, image.bytes);
	ck_assert_uint_eq(opened.slot_max, SLOTS);
	ck_assert_uint_eq(opened.thunk_count, 1);
	ck_assert_uint_eq(image_real(&opened, entry), addr_of(probe));
	ck_assert_uint_eq(image_config(&opened)->magic, 4711);
	image_deinit(&opened);
	ck_assert(is_closed(fd));
	check_call(entry, 1);
	image_deinit(&image);
}

HT_TEST(damaged_images_are_refused)
{
	static const uint64_t sizes[] = {0, HT_PAGE_BYTES, ABI_SLOTS_OFF};
	struct image image = make_image();
	for (size_t i = 0; i < HT_ARRAY_SIZE(sizes); i++) {
		struct image opened;
		int fd = make_memfd(sizes[i]);
		ck_err_says(
			image_open(&opened, &self, image.base, 0, fd), HT_ERR_REFUSED, "damaged");
		ck_assert(is_closed(fd));
	}
	struct image opened;
	int fd = make_memfd(abi_image_bytes(ABI_SLOT_MAX) + 1);
	ck_err_says(image_open(&opened, &self, image.base, 0, fd), HT_ERR_REFUSED, "damaged");
	ck_assert(is_closed(fd));
	fd = make_memfd(abi_image_bytes(SLOTS));
	ck_err(image_open(&opened, &self, 0x10000, 0, fd), HT_ERR_SYS);
	ck_assert(is_closed(fd));
	image_deinit(&image);
}

/* A forked child has private copies of the image: changes to them do not reach the parent. */
HT_TEST(an_inherited_image_is_private)
{
	struct image image = make_image(), opened;
	raddr_t entry = thunk_to(&image, ABI_HOOK_MALLOC, addr_of(probe));
	ck_no_err(image_enable(&image, &elf, entry));
	struct journal journal;
	ck_no_err(journal_create(&journal));
	journal_show(&journal, image.local);
	journal_begin(&journal, image.base, image.bytes, image.thunks);
	journal_set_phase(&journal, JOURNAL_TAPPED);
	set_alive(&image, 0);
	int fd = fcntl(image.memfd, F_DUPFD_CLOEXEC, 0);
	/* The child's thunk page is a private mapping. */
	ck_assert_ptr_ne(mmap(seen + ABI_THUNKS_OFF, HT_PAGE_BYTES, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_FIXED, image.memfd, ABI_THUNKS_OFF),
		MAP_FAILED);
	ck_no_err(image_open(&opened, &self, image.base, image.thunks, fd));
	ck_assert_uint_eq(opened.thunk_count, 1);
	image_config(&opened)->magic = 4711;
	ck_no_err(image_disable_all(&opened));
	check_call(entry, 1);
	ck_assert_uint_eq(image_config(&image)->magic, ABI_MAGIC);
	const struct abi_thunk *parents = (void *)(image.local + ABI_THUNKS_OFF);
	ck_assert_uint_eq(parents->target, image.base + elf.hook_off[ABI_HOOK_MALLOC]);
	journal_destroy(&journal);
	image_deinit(&opened);
	image_deinit(&image);
}

/* Makes a jump page, as an earlier capture left it: a thunk page that only forwards. */
static uint8_t *make_tombstone(raddr_t ret_entry[2])
{
	struct image image = make_image();
	struct image_thunk thunk[] = {
		want(ABI_HOOK_MALLOC, addr_of(probe)), want(ABI_HOOK_CALLOC, addr_of(probe))};
	uint8_t *page = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(thunk); i++) {
		ck_no_err(image_thunk(&image, &thunk[i], &ret_entry[i]));
		ret_entry[i] += addr_of(page) - image.thunks;
	}
	memcpy(page, image.thunk, HT_PAGE_BYTES);
	ck_assert_int_eq(mprotect(page, HT_PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
	image_deinit(&image);
	return page;
}

HT_TEST(a_tombstone_is_used_again)
{
	raddr_t old[2], entry;
	uint8_t *page = make_tombstone(old);
	struct image image = make_image();
	struct image_thunk known = want(ABI_HOOK_CALLOC, addr_of(probe)),
			   fresh = want(ABI_HOOK_FREE, addr_of(probe));
	const struct abi_thunk *there = (void *)page;

	known.real_lo = 99;
	ck_no_err(image_adopt(&image, &self, addr_of(page)));
	ck_assert_uint_eq(image.thunks, addr_of(page));
	ck_assert_uint_eq(image.thunk_count, 2);
	ck_assert_uint_eq(image_real(&image, old[0]), addr_of(probe));

	ck_no_err(image_thunk(&image, &known, &entry));
	ck_assert_uint_eq(entry, old[1]);
	ck_assert_uint_eq(there[1].config, image.base + ABI_CONFIG_OFF);
	ck_assert_uint_eq(there[1].real_lo, 99);
	check_call(entry, 2);
	ck_no_err(image_thunk(&image, &fresh, &entry));
	ck_assert_uint_eq(entry, old[1] + ABI_THUNK_BYTES);
	check_call(entry, 1);
	ck_no_err(image_enable(&image, &elf, entry));
	ck_assert_uint_eq(there[2].target, image.base + elf.hook_off[ABI_HOOK_FREE]);
	ck_no_err(image_disable_all(&image));
	check_call(entry, 1);
	check_call(old[0], 1);
	check_call(old[1], 2);
	image_deinit(&image);
}

HT_TEST(an_open_image_finds_its_adopted_page)
{
	raddr_t old[2];
	uint8_t *page = make_tombstone(old);
	struct image image = make_image(), opened;
	int fd = fcntl(image.memfd, F_DUPFD_CLOEXEC, 0);
	ck_no_err(image_open(&opened, &self, image.base, addr_of(page), fd));
	ck_assert_uint_eq(opened.thunks, addr_of(page));
	ck_assert_uint_eq(opened.thunk_count, 2);
	ck_assert_uint_eq(image_real(&opened, old[1]), addr_of(probe));
	image_deinit(&opened);
	image_deinit(&image);
}

HT_TEST(foreign_pages_are_not_adopted)
{
	raddr_t old[2];
	uint8_t *page = make_tombstone(old);
	struct image image = make_image(), as_it_was = image;
	struct abi_thunk *there = (void *)page;

	ck_assert_int_eq(mprotect(page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	there[1].code[11] ^= 1;
	ck_err_says(image_adopt(&image, &self, addr_of(page)), HT_ERR_REFUSED,
		"was not left by this version");
	there[1].code[11] ^= 1;
	there[1].hook = ABI_TAP_COUNT;
	ck_err(image_adopt(&image, &self, addr_of(page)), HT_ERR_REFUSED);
	there[1].hook = ABI_HOOK_FREE; /* its code passes another argument */
	ck_err(image_adopt(&image, &self, addr_of(page)), HT_ERR_REFUSED);
	memset(page, 0xff, HT_PAGE_BYTES);
	ck_err(image_adopt(&image, &self, addr_of(page)), HT_ERR_REFUSED);
	memset(page, 0, HT_PAGE_BYTES);
	ck_err(image_adopt(&image, &self, addr_of(page)), HT_ERR_REFUSED);
	munmap(page, HT_PAGE_BYTES);
	ck_err(image_adopt(&image, &self, addr_of(page)), HT_ERR_SYS);
	ck_assert_mem_eq(&image, &as_it_was, sizeof(image));
	image_deinit(&image);
}

/* The program has mapped something else at the address of an adopted page. */
HT_TEST(does_not_write_to_a_replaced_jump_page)
{
	raddr_t old[2], entry;
	uint8_t *page = make_tombstone(old), own[HT_PAGE_BYTES];
	struct image image = make_image();
	struct image_thunk known = want(ABI_HOOK_CALLOC, addr_of(probe)),
			   fresh = want(ABI_HOOK_FREE, addr_of(probe));

	ck_no_err(image_adopt(&image, &self, addr_of(page)));
	ck_no_err(image_thunk(&image, &known, &entry));
	ck_assert_int_eq(mprotect(page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	memset(own, 'p', sizeof(own));
	memcpy(page, own, sizeof(own));
	ck_err_says(image_thunk(&image, &fresh, &entry), HT_ERR_REFUSED, "changed by the process");
	ck_no_err(image_enable(&image, &elf, old[1]));
	ck_no_err(image_disable_all(&image));
	ck_assert_mem_eq(page, own, sizeof(own));
	munmap(page, HT_PAGE_BYTES);
	ck_no_err(image_disable_all(&image));
	image_deinit(&image);
}

/* A child forked during the capture still needs the bridges of entry hooks. */
HT_TEST(parts_kept_for_a_jump_page)
{
	for (unsigned near = 0; near < 2; near++) {
		struct image image = make_image();
		image_config(&image)->near[0] = near;
		image.local[ABI_THUNKS_OFF] = image.local[ABI_UNWIND_OFF] = 1;
		image.local[ABI_NEAR_OFF] = image.local[ABI_SHARED_OFF - 1] = 1;
		image.local[ABI_SHARED_OFF] = image.local[image.bytes - 1] = 1;
		image_keep_thunks(&image);
		ck_assert_int_eq(seen[ABI_THUNKS_OFF], 1);
		ck_assert_int_eq(seen[ABI_TEXT_OFF], 0);
		ck_assert_int_eq(seen[ABI_UNWIND_OFF], 0);
		ck_assert_uint_eq(seen[ABI_NEAR_OFF], near);
		ck_assert_uint_eq(seen[ABI_SHARED_OFF - 1], near);
		ck_assert_int_eq(seen[ABI_SHARED_OFF], 0);
		ck_assert_int_eq(seen[image.bytes - 1], 0);
		image_deinit(&image);
	}
}

HT_SUITE("attach/inject/image")
