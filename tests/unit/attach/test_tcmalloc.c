/* SPDX-License-Identifier: Apache-2.0
 *
 * tcmalloc's bookkeeping, sound, hostile, or in the middle of a change: the bytes handed out are
 * counted to the byte, and an account of contradictory data is never known.
 */
#include "attach/heap/tcmalloc/tcmalloc.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define BOOKS_READER tcmalloc_reader
#include "tests/unit/attach/madebooks.h"

#define MIB	  (1024u * 1024u)
#define PAGE	  8192u
#define CLASSES	  73u
#define VARIABLES (2 * MIB)

struct sizes {
	uint8_t class_of[2169];
	int32_t move[128], bytes[128];
	uint64_t pages[128], count;
};

struct span {
	uint64_t start, pages;
	raddr_t next, previous, objects;
	uint16_t held;
	uint8_t class, where;
	uint32_t padding;
};

struct central {
	uint64_t lock, class;
	struct span full, partial;
	uint64_t spans, free, slot[128];
	int32_t used_slots, slots, slots_max;
	uint8_t padding[52];
};

struct pages {
	struct span free[128][2];
	uint64_t system_bytes, free_bytes, returned_bytes, committed_bytes, others[7];
};

struct cache {
	struct {
		raddr_t first;
		uint32_t count, least, most, over;
		int32_t block_bytes;
		uint32_t padding;
	} list[128];
	uint64_t size, sampler[3];
	raddr_t thread, is_setting, next, previous;
};

/* Other variables lie between those that heaptap reads. */
static struct variables {
	uint64_t before[7];
	struct sizes sizes;
	uint64_t between[13];
	raddr_t cache;
	struct central central[128];
	uint64_t behind[5];
	struct pages pages;
	uint64_t last[3];
	uint8_t rest[VARIABLES];
} * variables;

static struct cache *cache[3];
static struct span *spans;
static size_t spans_used;

static void sizes_init(struct sizes *sizes)
{
	sizes->count = CLASSES;
	for (unsigned i = 1; i < CLASSES; i++) {
		uint32_t bytes = i <= 64 ? i * 16 : 1024u << (i - 64);
		sizes->bytes[i] = (int32_t)bytes;
		sizes->pages[i] = (bytes + PAGE - 1) / PAGE;
		sizes->move[i] = bytes > 2048 ? 2 : 32;
		sizes->class_of[bytes <= 1024 ? bytes / 8 : (bytes + 127 + (120 << 7)) / 128] =
			(uint8_t)i;
	}
}

static void head_init(struct span *head)
{
	head->next = head->previous = at(head);
}

static struct span *span_add(struct span *head, uint64_t pages)
{
	struct span *now = &spans[spans_used++];
	*now = (struct span){.start = 5, .pages = pages, .next = at(head), .previous = at(head)};
	head->next = head->previous = at(now);
	return now;
}

static void caches_link(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		cache[i]->next = i + 1 < count ? at(cache[i + 1]) : 0;
		cache[i]->previous = i ? at(cache[i - 1]) : 0;
	}
	variables->cache = at(cache[0]);
}

static void setup(void)
{
	static bool is_open;
	static char path[] = "/lib/libtcmalloc.so.4";
	if (!is_open) {
		ck_no_err(proc_open(getpid(), &self));
		ck_no_err(proc_open_mem(&self));
	}
	is_open = true;
	variables = map(sizeof(*variables));
	spans = map(MIB);
	spans_used = 0;
	sizes_init(&variables->sizes);
	for (unsigned i = 0; i < CLASSES; i++) {
		struct central *central = &variables->central[i];
		central->class = i;
		central->slots = central->slots_max = 16;
		head_init(&central->full);
		head_init(&central->partial);
	}
	for (unsigned i = 0; i < 128; i++) {
		head_init(&variables->pages.free[i][0]);
		head_init(&variables->pages.free[i][1]);
	}
	variables->pages.system_bytes = variables->pages.committed_bytes = 64 * MIB;
	variables->pages.free_bytes = 64 * MIB;
	for (unsigned i = 0; i < 3; i++) {
		cache[i] = map(sizeof(*cache[i]));
		for (unsigned k = 0; k < CLASSES; k++)
			cache[i]->list[k].block_bytes = variables->sizes.bytes[k];
	}
	caches_link(2);
	module = (struct module){.path = path, .segment_count = 1};
	module.segment[0] = (struct module_segment){
		.vaddr = at(variables), .memsz = sizeof(*variables), .flags = PF_R | PF_W};
}

/* Adds `count` spans of a class, with `free` free blocks in all. Returns the bytes handed out. */
static uint64_t add(unsigned class, uint64_t count, uint64_t free)
{
	struct central *central = &variables->central[class];
	const struct sizes *sizes = &variables->sizes;
	uint64_t pages = sizes->pages[class], each = pages * PAGE / (uint64_t)sizes->bytes[class];
	span_add(free ? &central->partial : &central->full, pages)->class = (uint8_t) class;
	central->spans = count;
	central->free = free;
	variables->pages.free_bytes -= count * pages * PAGE;
	return (count * each - free) * (uint64_t)sizes->bytes[class];
}

static uint64_t fill(void)
{
	uint64_t held = add(1, 9, 100) + add(17, 10, 0) + add(66, 5, 3) + add(72, 4, 1);
	/* A block of 3 MiB; other pages were given back to the system. */
	variables->pages.free_bytes -= 8 * MIB;
	variables->pages.returned_bytes = 5 * MIB;
	variables->pages.committed_bytes -= 5 * MIB;
	span_add(&variables->pages.free[6][0], 7)->where = 1;
	return held + 3 * MIB;
}

/* Puts blocks into the cache between threads, and into those of two threads. Returns their bytes.
 */
static uint64_t keep(void)
{
	variables->central[17].used_slots = 2;
	for (unsigned i = 0; i < 2; i++) {
		cache[i]->list[66].count = i + 1;
		cache[i]->list[66].first = at(spans);
	}
	return 2 * 32 * 272 + 3 * 4096;
}

/* If not 0, the program works while heaptap reads: each look at the page heap's variables finds
 * other blocks in use, and after the tenth the variables do not add up. Counts the looks, from 1.
 */
static unsigned looks;
static uint64_t rest_free_bytes;
/* The number of further looks that find a list of free spans torn, as if the thread that changes
 * the list had lost its core. */
static unsigned torn_looks;

ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	raddr_t word = at(&variables->pages.system_bytes);
	if (looks && (raddr_t)offset <= word && word - (raddr_t)offset < bytes) {
		variables->pages.free_bytes = rest_free_bytes - looks % 3 * MIB;
		variables->pages.committed_bytes -= looks++ > 10 ? PAGE : 0;
	}
	if (torn_looks && (raddr_t)offset <= word && word - (raddr_t)offset < bytes) {
		struct span *head = &variables->pages.free[9][0];
		head->previous = --torn_looks ? at(spans) : head->next;
	}
	return syscall(SYS_pread64, fd, buffer, bytes, offset);
}

static void check_exact(uint64_t held_bytes)
{
	struct heap_account account = check_held(held_bytes);
	ck_assert_uint_eq(account.header_bytes, 0);
}

HT_TEST(every_block_counts_to_the_byte)
{
	setup();
	check_exact(0);
	uint64_t held = fill();
	check_exact(held);
	held -= keep();
	check_exact(held);
	/* The variable may lead to the cache of any thread. */
	caches_link(3);
	variables->cache = at(cache[1]);
	check_exact(held);
	ck_assert_uint_eq(read_known().arenas, 3);
}

HT_TEST(at_work_it_is_as_far_off_as_it_says)
{
	setup();
	uint64_t held = fill() - keep();
	rest_free_bytes = variables->pages.free_bytes;
	looks = 1;
	struct heap_account account = read_known();
	ck_assert_uint_gt(looks, 16);
	looks = 0;
	ck_assert_uint_eq(account.off_bytes, MIB);
	ck_assert_uint_ge(account.held_bytes, held);
	ck_assert_uint_le(account.held_bytes, held + 2 * MIB);
	ck_assert_str_eq(account.reason, "it was in use while it was read");
}

/* The lists prove that the variables are tcmalloc's; one of them is torn at the first looks. */
HT_TEST(a_list_that_is_torn_is_looked_at_again)
{
	setup();
	uint64_t held = fill();
	torn_looks = 8;
	check_held(held);
	ck_assert_uint_eq(torn_looks, 0);
}

HT_TEST(caches_that_are_not_found_are_allowed_for)
{
	setup();
	uint64_t held = fill();
	variables->cache = 0;
	struct heap_account account = read_known();
	ck_assert_uint_eq(account.held_bytes, held);
	ck_assert_uint_ge(account.off_bytes, held);
	ck_assert_str_ne(account.reason, "");
}

HT_TEST(contradictory_heap_is_unknown)
{
	for (unsigned i = 0; i < 25; i++) {
		setup();
		uint64_t held = fill();
		check_exact(held - keep());
		struct central *central = &variables->central[17];
		struct pages *pages = &variables->pages;
		switch (i) {
		case 0:
			central->free = 10 * (PAGE / 272) + 1;
			break;
		case 1:
			variables->central[1].used_slots = 65;
			break;
		case 2:
			central->used_slots = -1;
			break;
		case 3:
			central->used_slots = 10;
			break;
		case 4:
			/* The product of the bytes overflows to the same value as before. */
			central->spans += 1ull << 51;
			break;
		case 5:
			central->class = 18;
			break;
		case 6:
			central->full.next = 0;
			break;
		case 7:
			central->full.previous = at(&central->full);
			break;
		case 8:
			((struct span *)(uintptr_t)central->full.next)->class = 16;
			break;
		case 9:
			((struct span *)(uintptr_t)central->full.next)->pages++;
			break;
		case 10:
			pages->committed_bytes += PAGE;
			break;
		case 11:
			pages->free_bytes++;
			break;
		case 12:
			pages->free_bytes = pages->committed_bytes + PAGE;
			break;
		case 13:
			pages->free_bytes = pages->committed_bytes;
			break;
		case 14:
			((struct span *)(uintptr_t)pages->free[6][0].next)->pages++;
			break;
		case 15:
			cache[1]->list[66].count = 1000;
			break;
		case 16:
			cache[1]->next = at(cache[0]);
			break;
		case 17:
			cache[0]->previous = at(cache[1]);
			break;
		case 18:
			cache[0]->next = at(cache[2]);
			break;
		case 19:
			cache[1]->list[30].block_bytes++;
			break;
		case 20:
			variables->sizes.bytes[30] += 8;
			break;
		case 21:
			variables->sizes.class_of[2]++;
			break;
		case 22:
			((struct span *)(uintptr_t)central->full.next)->previous = at(central);
			break;
		case 23:
			cache[1]->list[5].first = at(spans);
			break;
		case 24:
			/* A size far beyond the table that leads from sizes to class numbers. */
			variables->sizes.bytes[30] = 1 << 28;
			variables->sizes.pages[30] = 1 << 15;
			break;
		}
		check_unknown();
	}
}

HT_TEST(nothing_to_read_is_unknown)
{
	setup();
	check_exact(fill());
	/* Two tables that look alike. */
	struct sizes *again = (void *)variables->rest;
	*again = variables->sizes;
	check_unknown();
	again->count = 0;
	(void)read_known();
	module.segment[0].memsz = offsetof(struct variables, pages);
	check_unknown();
	module.segment[0].memsz = UINT64_MAX / 2;
	check_unknown();
	module.segment[0].memsz = 1ull << 29;
	check_unknown();
	module.segment_count = 0;
	check_unknown();
	module.segment_count = 1;
	module.segment[0].memsz = sizeof(*variables);
	munmap(variables, sizeof(*variables));
	check_unknown();
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 20;
}

/* The reader ends, whichever words are overwritten, and gives a reason if the result is unknown. */
HT_TEST(scribbled_over_it_ends)
{
	uint64_t state = 1;
	setup();
	fill();
	keep();
	struct variables *before = map(sizeof(*before));
	struct cache cache_before = *cache[0];
	memcpy(before, variables, offsetof(struct variables, rest));
	for (unsigned k = 0; k < 400; k++) {
		bool found;
		for (unsigned n = 1 + next_random(&state) % 5; n; n--) {
			uint64_t *words = n % 2 ? (void *)variables : (void *)cache[0];
			size_t count = n % 2 ? offsetof(struct variables, rest) / 8
					     : sizeof(cache_before) / 8;
			uint64_t *word = &words[next_random(&state) % count];
			*word = n % 3 ? *word ^ 1ull << next_random(&state) % 64
				      : next_random(&state) << 20;
		}
		struct heap_account account = read_account(&found);
		ck_assert(!found || account.known || account.reason[0]);
		memcpy(variables, before, offsetof(struct variables, rest));
		*cache[0] = cache_before;
	}
}

/* The reader would follow each word. */
HT_TEST(pointers_that_look_like_caches_end)
{
	setup();
	uint64_t held = fill();
	variables->cache = 0;
	raddr_t *words = (void *)variables->rest;
	for (size_t i = 0; i < sizeof(variables->rest) / sizeof(*words); i++)
		words[i] = at(cache[i % 3]) + (i % 3 ? 0 : 64);
	for (unsigned i = 0; i < 3; i++)
		cache[i]->list[CLASSES - 1].block_bytes++;
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, held);
}

HT_SUITE("attach/tcmalloc")
