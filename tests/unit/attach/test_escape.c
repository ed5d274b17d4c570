/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "attach/memory/pagemap.h"
#include "attach/memory/proc_map.h"
#include "attach/process/proc_open.h"
#include "format/abi_thunk.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/attach/escapestage.h"

#define THUNK	       0x5a5a00020000ull
#define RESERVED_BYTES (1ull << 43)

#define SWAPPED_READ_BYTES (64u << 20) /* of what is swapped out, by one search */
#define SWAPPED_BYTES	   (SWAPPED_READ_BYTES + (3u << 20))

static const struct stackscan_ranges ours = {.thunk_lo = THUNK, .thunk_hi = THUNK + HT_PAGE_BYTES};

static struct stage scene;

static void setup(void)
{
	scene = stage_make();
}

static bool kernel_finds_pages(void)
{
	struct proc self;
	int fd;
	uint8_t *none = mmap(NULL, 2 * HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	raddr_t lo = at(none), hi = lo + 2 * HT_PAGE_BYTES;
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(pagemap_open(&self, &fd));
	bool finds = fd >= 0 && pagemap_next(fd, lo, hi) == hi;
	close(fd);
	proc_close(&self);
	munmap(none, 2 * HT_PAGE_BYTES);
	return finds;
}

/* Returns false to skip: without the kernel's help the search of terabytes takes minutes. */
static bool setup_to_search(void)
{
#ifdef __SANITIZE_ADDRESS__
	if (!kernel_finds_pages()) {
		printf("skipped: escape: a sanitizer's shadow is terabytes of writable memory\n");
		return false;
	}
#endif
	setup();
	return true;
}

static struct escape_found search(raddr_t image_lo, raddr_t image_hi)
{
	struct escape_found found;
	const struct escape_search search = {
		.proc = &scene.self, .ranges = &ours, .own_lo = image_lo, .own_hi = image_hi};
	ck_no_err(escape_scan_memory(&search, &found));
	return found;
}

/* Writes the address of thunk `index`, in two halves: so no other memory of this process, which the
 * search also reads, holds the address. */
static void put_entry(uint64_t *word, unsigned index)
{
	volatile uint32_t *half = (volatile uint32_t *)(void *)word;
	half[0] = (uint32_t)THUNK + index * ABI_THUNK_BYTES + ABI_THUNK_ENTRY;
	half[1] = (uint32_t)(THUNK >> 32);
}

static void wipe(volatile uint64_t *word)
{
	*word = 0;
}

HT_TEST(entries_in_writable_memory_are_found)
{
	if (!setup_to_search())
		return;
	ck_assert_uint_eq(search(0, 0).count, 0);
	put_entry(&scene.word[5], 7);
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.count, 1);
	ck_assert_uint_eq(found.addr, at(&scene.word[5]));
	put_entry((uint64_t *)(void *)scene.code, 0);
	put_entry((uint64_t *)(void *)(scene.code + CHUNK_BYTES - 8), 63);
	put_entry((uint64_t *)(void *)(scene.code + CHUNK_BYTES), 63);
	put_entry((uint64_t *)(void *)(scene.code + TEXT_BYTES + HT_PAGE_BYTES - 8), 1);
	found = search(0, 0);
	ck_assert_uint_eq(found.count, 5);
	ck_assert_uint_eq(found.addr, at(scene.code));
}

static size_t still(const struct escape_found *found)
{
	size_t left;
	ck_no_err(escape_still(&scene.self, &ours, found->place,
		found->count < ESCAPE_PLACES_MAX ? found->count : ESCAPE_PLACES_MAX, &left));
	return left;
}

/* A second look needs no second search. */
HT_TEST(places_are_remembered)
{
	if (!setup_to_search())
		return;
	for (size_t i = 0; i < ESCAPE_PLACES_MAX + 8; i++)
		put_entry(&scene.word[i], 1 + i % 2);
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.count, ESCAPE_PLACES_MAX + 8);
	ck_assert_uint_eq(found.thunks, 6);
	ck_assert_uint_eq(found.place[1], at(&scene.word[1]));
	ck_assert_uint_eq(still(&found), ESCAPE_PLACES_MAX);
	for (size_t i = 1; i < ESCAPE_PLACES_MAX; i++)
		wipe(&scene.word[i]);
	ck_assert_uint_eq(still(&found), 1);
	munmap(scene.word, HT_PAGE_BYTES);
	ck_assert_uint_eq(still(&found), 0);
}

static bool cancel(void *context)
{
	++*(unsigned *)context;
	return true;
}

HT_TEST(a_search_can_be_cancelled)
{
	unsigned asked = 0;
	if (!setup_to_search())
		return;
	const struct escape_search search = {
		.proc = &scene.self, .ranges = &ours, .is_cancelled = cancel, .context = &asked};
	struct escape_found found;
	ck_err(escape_scan_memory(&search, &found), HT_ERR_REFUSED);
	ck_assert_uint_eq(asked, 1);
}

HT_TEST(terabytes_that_are_only_reserved)
{
	if (!kernel_finds_pages()) {
		printf("skipped: escape: this kernel finds no pages (before Linux 6.7)\n");
		return;
	}
	if (!setup_to_search())
		return;
	uint64_t *word = mmap(NULL, RESERVED_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(word, MAP_FAILED);
	put_entry(&word[RESERVED_BYTES / sizeof(*word) - 1], 7);
	put_entry(&word[RESERVED_BYTES / sizeof(*word) / 2 + 1000], 7);
	ck_assert_uint_eq(search(0, 0).count, 2);
}

HT_TEST(other_words_are_none)
{
	if (!setup_to_search())
		return;
	put_entry(&scene.word[5], 64);
	scene.word[6] = THUNK;
	scene.word[7] = THUNK + ABI_THUNK_ENTRY + 8;
	ck_assert_uint_eq(search(0, 0).count, 0);
}

HT_TEST(the_image_is_left_out)
{
	if (!setup_to_search())
		return;
	put_entry(&scene.word[5], 7);
	raddr_t lo = at(scene.code), hi = lo + TEXT_BYTES + HT_PAGE_BYTES;
	/* Another protection makes the kernel list the code as a separate mapping. */
	ck_assert_int_eq(mprotect(scene.code, 2 * HT_PAGE_BYTES, PROT_NONE), 0);
	ck_assert_uint_eq(search(0, 0).count, 1);
	ck_assert_uint_eq(search(lo - (1ull << 32), hi + (1ull << 32)).count, 0);
}

HT_TEST(searches_written_pages_of_any_protection)
{
	static const int prot[] = {
		PROT_READ, PROT_READ | PROT_EXEC, PROT_EXEC, PROT_WRITE, PROT_NONE};
	if (!setup_to_search())
		return;
	put_entry(&scene.word[5], 7);
	for (size_t i = 0; i < HT_ARRAY_SIZE(prot); i++) {
		ck_assert_int_eq(mprotect(scene.word, HT_PAGE_BYTES, prot[i]), 0);
		struct escape_found found = search(0, 0);
		ck_assert_msg(found.count == 1, "protection %d: %zu", prot[i], found.count);
		ck_assert_uint_eq(found.addr, at(&scene.word[5]));
	}
}

static uint64_t *map_fd(int fd, int prot, int flags)
{
	uint64_t *map = mmap(NULL, 2 * HT_PAGE_BYTES, prot, flags, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	return map;
}

/* Two mappings of the same file pages; in one mapping, one page is the program's own copy. */
HT_TEST(does_not_search_file_contents)
{
	if (!setup_to_search())
		return;
	char *path = tmpdir_path("file");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint64_t word;
	put_entry(&word, 7);
	ck_assert_int_eq(ftruncate(fd, 2 * HT_PAGE_BYTES), 0);
	ck_assert_int_eq(pwrite(fd, &word, 8, 0), 8);
	ck_assert_int_eq(pwrite(fd, &word, 8, HT_PAGE_BYTES), 8);
	wipe(&word);
	uint64_t *clean = map_fd(fd, PROT_READ, MAP_PRIVATE | MAP_POPULATE);
	uint64_t *own = map_fd(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE);
	own[1] = clean[1];
	own[HT_PAGE_BYTES / 8] = 0;
	ck_assert_int_eq(mprotect(own, 2 * HT_PAGE_BYTES, PROT_READ), 0);
	ck_assert_uint_eq(clean[0], own[0]);
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.count, 1);
	ck_assert_uint_eq(found.addr, at(own));
	free(path);
}

/* Memory that is written through another mapping and only read here; `flags` are this mapping's. */
static void check_searched(int flags)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 2 * HT_PAGE_BYTES), 0);
	uint64_t *write = map_fd(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	put_entry(write + 5, 7);
	munmap(write, 2 * HT_PAGE_BYTES);
	uint64_t *read = map_fd(fd, PROT_READ, flags | MAP_POPULATE);
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.count, 1);
	ck_assert_uint_eq(found.addr, at(read + 5));
}

HT_TEST(shared_memory_is_searched)
{
	if (setup_to_search())
		check_searched(MAP_SHARED);
}

/* Code that a program writes to a file in memory is mapped privately, as a library's is. */
HT_TEST(a_private_view_of_shared_memory_is_searched)
{
	if (setup_to_search())
		check_searched(MAP_PRIVATE);
}

HT_TEST(pages_are_distinguished)
{
	enum { ANON, FILE_PRIVATE, FILE_SHARED, MEMORY, DEVICE };
	static const struct proc_map map[] = {
		[ANON] = {.name = (char *)""},
		[FILE_PRIVATE] = {.name = (char *)"/usr/lib/libx.so", .inode = 7},
		[FILE_SHARED] = {.name = (char *)"/srv/data", .inode = 7, .shared = true},
		[MEMORY] = {.name = (char *)"/memfd:x (deleted)", .inode = 7},
		[DEVICE] = {.name = (char *)"/dev/card0", .inode = 7, .shared = true},
	};
	const uint64_t present = 1ull << 63, swapped = 1ull << 62, file = 1ull << 61;
	const struct {
		unsigned map;
		uint64_t entry;
		enum escape_page page;
	} table[] = {
		{ANON, 0, ESCAPE_PAGE_NOT},
		{ANON, present | 0x1234, ESCAPE_PAGE_SEARCHED},
		{ANON, swapped | 0x1234, ESCAPE_PAGE_SWAPPED},
		{FILE_PRIVATE, present | file, ESCAPE_PAGE_NOT},
		{FILE_PRIVATE, present, ESCAPE_PAGE_SEARCHED},
		{FILE_PRIVATE, swapped, ESCAPE_PAGE_SWAPPED},
		{FILE_SHARED, present | file, ESCAPE_PAGE_SEARCHED},
		{MEMORY, present | file, ESCAPE_PAGE_SEARCHED},
		{MEMORY, 0, ESCAPE_PAGE_NOT},
		{DEVICE, present, ESCAPE_PAGE_NOT},
		{DEVICE, present | file, ESCAPE_PAGE_SEARCHED},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++)
		ck_assert_msg(escape_page_of(&map[table[i].map], table[i].entry) == table[i].page,
			"row %zu", i);
}

/* An address may stand at any byte of any memory (packed structures); in code, so may the distance
 * of a call or jump. */
HT_TEST(addresses_stand_anywhere)
{
	static const size_t offset[] = {1, 3, HT_PAGE_BYTES - 8, HT_PAGE_BYTES - 7,
		HT_PAGE_BYTES - 3, HT_PAGE_BYTES - 1, HT_PAGE_BYTES, CHUNK_BYTES - 1,
		CHUNK_BYTES - 6, CHUNK_BYTES + HT_PAGE_BYTES - 9};
	if (!setup_to_search())
		return;
	uint8_t *code = mmap((void *)(uintptr_t)(THUNK + (1ull << 28)), CHUNK_BYTES + HT_PAGE_BYTES,
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_ne(code, MAP_FAILED);
	for (size_t i = 0; i < 3 * HT_ARRAY_SIZE(offset); i++) {
		size_t here = offset[i / 3], opcode = i % 3 ? 1 : 0;
		uint64_t word;
		put_entry(&word, 9);
		ck_assert_int_eq(mprotect(code, CHUNK_BYTES + HT_PAGE_BYTES, PROT_WRITE), 0);
		memset(code, 0x90, CHUNK_BYTES + HT_PAGE_BYTES);
		if (opcode) {
			int32_t distance = (int32_t)(word - at(code) - here - 5);
			code[here] = i % 3 == 1 ? 0xe8 : 0xe9;
			memcpy(code + here + 1, &distance, sizeof(distance));
		} else {
			memcpy(code + here, &word, sizeof(word));
		}
		wipe(&word);
		ck_assert_msg((search(0, 0).count > 0) == !opcode, "row %zu", i);
		ck_assert_int_eq(mprotect(code, CHUNK_BYTES + HT_PAGE_BYTES, PROT_EXEC), 0);
		struct escape_found found = search(0, 0);
		ck_assert_msg(found.count > 0, "row %zu", i);
		ck_assert_uint_eq(found.addr, at(code) + here + opcode);
	}
}

/* Memory that only the program itself can look into. */
HT_TEST(reports_unreadable_memory)
{
	if (!setup_to_search())
		return;
	int fd = (int)syscall(SYS_memfd_secret, 0);
	if (fd < 0) {
		printf("skipped: escape: no memfd_secret here\n");
		return;
	}
	put_entry(&scene.word[5], 7);
	ck_assert_int_eq(ftruncate(fd, 2 * HT_PAGE_BYTES), 0);
	volatile uint64_t *secret = map_fd(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	ck_assert_uint_eq(search(0, 0).unread_bytes, 0);
	secret[0] = 1;
	ck_assert_uint_eq(search(0, 0).unread_bytes, HT_PAGE_BYTES);
	secret[HT_PAGE_BYTES / 8] = 1;
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.unread_bytes, 2 * HT_PAGE_BYTES);
	ck_assert_uint_eq(found.count, 1);
}

/* The next `failures` reads of the page `failing` fail. */
static raddr_t failing;
static unsigned failures;

/* The test's pread says that these pages are swapped out. */
static raddr_t swapped_lo, swapped_hi;

static bool is_pagemap(int fd)
{
	char path[32], link[64] = "";
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, "/pagemap");
}

static ssize_t read_pagemap(int fd, uint64_t *entry, size_t length, off_t offset)
{
	ssize_t got = syscall(SYS_pread64, fd, entry, length, offset);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*entry); i++) {
		raddr_t addr = ((raddr_t)offset / sizeof(*entry) + (raddr_t)i) * HT_PAGE_BYTES;
		if (addr >= swapped_lo && addr < swapped_hi)
			entry[i] = 1ull << 62;
	}
	return got;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	if (swapped_lo && is_pagemap(fd))
		return read_pagemap(fd, buffer, length, offset);
	if (failures && (raddr_t)offset <= failing && failing - (raddr_t)offset < length) {
		if ((raddr_t)offset < failing) {
			length = failing - (raddr_t)offset;
		} else {
			failures--;
			errno = EIO;
			return -1;
		}
	}
	return syscall(SYS_pread64, fd, buffer, length, offset);
}

HT_TEST(one_read_that_fails_hides_nothing)
{
	if (!setup_to_search())
		return;
	put_entry((uint64_t *)(void *)(scene.code + 3 * HT_PAGE_BYTES), 7);
	failing = at(scene.code + 3 * HT_PAGE_BYTES);
	failures = 1;
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(failures, 0);
	ck_assert_uint_eq(found.count, 1);
	ck_assert_uint_eq(found.unread_bytes, 0);
	failures = 3; /* the first where the large read is continued after its short result */
	found = search(0, 0);
	ck_assert_uint_eq(found.count, 0);
	ck_assert_uint_eq(found.unread_bytes, HT_PAGE_BYTES);
}

/* A search brings back a limited part of swapped-out memory, and reports the rest as unread. */
HT_TEST(reports_swapped_out_memory)
{
	if (!setup_to_search())
		return;
	uint8_t *map = mmap(NULL, SWAPPED_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	put_entry((uint64_t *)(void *)(map + HT_PAGE_BYTES), 7);
	put_entry((uint64_t *)(void *)(map + SWAPPED_BYTES - HT_PAGE_BYTES), 7);
	swapped_lo = at(map);
	swapped_hi = swapped_lo + SWAPPED_BYTES;
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.count, 1);
	ck_assert_uint_eq(found.addr, at(map) + HT_PAGE_BYTES);
	ck_assert_uint_eq(found.unread_bytes, SWAPPED_BYTES - SWAPPED_READ_BYTES);
}

/* A mapped file that was cut cannot be read there: the rest of the mapping still counts. */
HT_TEST(unreadable_pages_are_passed)
{
	if (!setup_to_search())
		return;
	int fd = memfd_create("test", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, HT_PAGE_BYTES), 0);
	uint8_t *map = mmap(NULL, 3 * HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	put_entry((uint64_t *)(void *)(map + 16), 1);
	put_entry(&scene.word[5], 7);
	struct escape_found found = search(0, 0);
	ck_assert_uint_eq(found.count, 2);
	ck_assert_uint_eq(found.unread_bytes, 0);
}

HT_SUITE("attach/proof/escape")
