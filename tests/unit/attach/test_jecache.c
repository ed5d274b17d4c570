/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc's caches of threads, of each version, with a ring that links them and without: blocks in
 * a cache are not held, and the account's error covers a cache that is not found.
 */
#include "attach/heap/jemalloc/jecache.h"

#include "tests/unit/attach/jemodel.h"

/* As fill(1), with one block more: more bytes than the caches of these tests hold. */
static uint64_t fill_more(void)
{
	uint64_t held = fill(1);
	large(68, 1);
	return held + emap_class_bytes(68);
}

HT_TEST(cached_blocks_are_not_live)
{
	setup();
	uint64_t held = fill_more();
	check_exact(held - cache_fill(&own.cache, &own.slow, 2));
	/* A cache in the same ring, of a thread that is not found. */
	struct {
		struct slow slow;
		struct cache cache;
	} *other = map(PAGE);
	held -= cache_fill(&own.cache, &own.slow, 2);
	held -= cache_fill(&other->cache, &other->slow, 5);
	own.slow.next = own.slow.previous = at(&other->slow.next);
	other->slow.next = other->slow.previous = at(&own.slow.next);
	check_exact(held);
	/* The ring's links do not lead back. */
	other->slow.previous = at(&other->slow.next);
	struct heap_account account = read_known();
	ck_assert_uint_ge(account.off_bytes, SLOTS * 32768);
	ck_assert_str_ne(account.reason, "");
}

/* A jemalloc without statistics has no rings: the cache is found in the thread's own variables. */
HT_TEST(caches_without_a_ring)
{
	for (unsigned i = 0; i < HT_ARRAY_SIZE(own.slow.more); i += 13) {
		setup();
		uint64_t held = fill_more() - cache_fill(&own.cache, &own.slow, 4);
		own.slow.next = own.slow.previous = own.slow.bins = 0;
		memset(own.slow.more, 0, sizeof(own.slow.more));
		own.slow.more[i] = at(&own.cache);
		check_exact(held);
		/* A pointer that is not to the cache's beginning does not identify the cache. */
		own.slow.more[i] = at(&own.cache) + 8;
		struct heap_account account = read_known();
		ck_assert_uint_ge(account.off_bytes, account.held_bytes);
		/* Many variables point to each other, so an invalid bin shows that these are no
		 * cache. */
		own.slow.more[i] = at(&own.cache);
		own.cache.bin[20].head = 0;
		account = read_known();
		ck_assert_uint_ge(account.off_bytes, account.held_bytes);
	}
}

HT_TEST(caches_of_before)
{
	uint64_t room = 0;
	for (unsigned i = 0; i < CACHE_BINS; i++)
		room += SLOTS * emap_class_bytes(i);
	for (unsigned i = 0; i < 2 * HT_ARRAY_SIZE(betweens); i++) {
		const struct between *between = &betweens[i / 2];
		bool has_ring = i % 2;
		setup_as(1);
		uint64_t held = fill_more() - one_fill(own.one, between, 3);
		uint64_t *ring = ring_of(own.one, between), *other = map(PAGE);
		if (!has_ring)
			memset(ring, 0, 4 * sizeof(*ring));
		check_exact(held);
		if (!has_ring)
			continue;
		/* A cache of a thread that is not found. */
		held -= one_fill(other, between, 5);
		uint64_t *next = ring_of(other, between);
		ring[0] = ring[1] = at(next);
		next[0] = next[1] = at(ring);
		check_exact(held);
		/* The thread is taking a block right now, so this bin counts nothing. */
		((struct size *)(void *)other)[0].count = -1;
		check_exact(held + 5 * 8);
		next[1] = at(next);
		struct heap_account account = read_known();
		ck_assert_uint_ge(account.off_bytes, room);
		ck_assert_str_ne(account.reason, "");
		/* The page may lie just below this thread's variables: clear it. */
		memset(other, 0, PAGE);
	}
}

HT_TEST(caches_of_before_that_contradict_themselves)
{
	for (unsigned i = 0; i < 6; i++) {
		setup_as(1);
		struct size *small = (void *)own.one;
		uint64_t held = fill(1);
		(void)one_fill(own.one, &betweens[0], 3);
		if (i == 0)
			small[20].end += 4;
		if (i == 1)
			small[20].end = small[19].end;
		if (i == 2)
			small[20].count = SLOTS + 1;
		if (i == 3)
			small[20].count = -2;
		if (i == 4)
			small[20].end += MIB;
		if (i == 5)
			ring_of(own.one, &betweens[0])[2] += 24;
		struct heap_account account = read_known();
		ck_assert_uint_eq(account.held_bytes, held);
		ck_assert_uint_ge(account.off_bytes, held);
		ck_assert_str_ne(account.reason, "");
	}
}

HT_TEST(caches_that_are_not_found_are_allowed_for)
{
	setup();
	uint64_t held = fill(1);
	own.slow.bins++;
	for (int i = 0; i < 2; i++) {
		struct heap_account account = read_known();
		ck_assert_uint_eq(account.held_bytes, held);
		ck_assert_uint_ge(account.off_bytes, held);
		ck_assert_str_ne(account.reason, "");
		memset(&own, 0, sizeof(own));
	}
}

/* Another mapping may lie a little below a thread's variables: they end at the hole between. */
HT_TEST(variables_end_at_a_hole)
{
	static uint8_t data[THREADS_VARIABLES_BYTES];
	struct view view;
	uint8_t *pages = map(4 * PAGE);
	raddr_t block = at(pages) + 4 * PAGE - THREADS_BLOCK_ALIGN;
	const struct threads threads = {.block = &block, .count = 1};
	setup();
	pages[2 * PAGE] = 7;
	munmap(pages + PAGE, PAGE);
	ck_no_err(view_init(&view, &self));
	ck_assert_uint_eq(
		threads_variables(&view, &threads, 0, data), 2 * PAGE - THREADS_BLOCK_ALIGN);
	ck_assert_uint_eq(data[0], 7);
	ck_no_err(view_deinit(&view));
	munmap(pages, 4 * PAGE);
}

HT_SUITE("attach/jecache")
