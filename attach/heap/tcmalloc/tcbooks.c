/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/tcmalloc/tcbooks.h"

#include <stdlib.h>
#include <string.h>

#include "attach/heap/view/account.h"
#include "attach/heap/view/variables.h"

#define PAGE_BYTES     8192u
#define SMALL_MAX      1024u /* smaller sizes are distinguished by 8 bytes, larger ones by 128 */
#define SIZE_MAX_SMALL (256u << 10)
#define PLACES	       2169u
#define FREE_LISTS     128u
#define SLOTS	       64u
#define CACHES_MAX     4096u
#define CACHE_ALIGN    64u

/* Layouts in memory. */
struct sizes {
	uint8_t class_of[PLACES];
	int32_t move[TCBOOKS_CLASSES];
	int32_t bytes[TCBOOKS_CLASSES];
	uint64_t pages[TCBOOKS_CLASSES];
	uint64_t count;
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
	struct span full, partial; /* heads of lists */
	uint64_t spans, free;
	raddr_t slot[SLOTS][2]; /* lists of as many blocks as move at once */
	int32_t used_slots, slots, slots_max;
	uint8_t padding[52];
};

struct pages {
	struct span free[FREE_LISTS][2];
	uint64_t system_bytes, free_bytes, returned_bytes, committed_bytes, others[7];
};

struct cache {
	struct {
		raddr_t first;
		uint32_t count, least, most, over;
		int32_t block_bytes;
		uint32_t padding;
	} list[TCBOOKS_CLASSES];
	uint64_t size, sampler[3];
	raddr_t thread;
	uint64_t is_setting;
	raddr_t next, previous;
};

_Static_assert(offsetof(struct sizes, count) == 4224, "as in tcmalloc");
_Static_assert(sizeof(struct span) == 48, "as in tcmalloc");
_Static_assert(sizeof(struct central) == 1216, "as in tcmalloc");
_Static_assert(sizeof(struct cache) == 4160, "as in tcmalloc");

static bool read_variable(struct view *view, raddr_t addr, void *ret, size_t bytes)
{
	return view_read_data(view, addr, ret, bytes) == bytes;
}

/* --- sizes --- */

static size_t place_of(uint64_t bytes)
{
	return bytes <= SMALL_MAX ? (bytes + 7) / 8 : (bytes + 127 + (120 << 7)) / 128;
}

static bool is_sizes(const struct sizes *sizes)
{
	if (sizes->count < 2 || sizes->count > TCBOOKS_CLASSES || sizes->bytes[0] ||
		sizes->bytes[sizes->count - 1] != SIZE_MAX_SMALL)
		return false;
	for (size_t i = 1; i < sizes->count; i++) {
		int32_t bytes = sizes->bytes[i];
		if (bytes <= sizes->bytes[i - 1] || bytes > (int32_t)SIZE_MAX_SMALL || bytes % 8 ||
			sizes->move[i] < 1 || sizes->move[i] > UINT16_MAX ||
			sizes->pages[i] > UINT16_MAX ||
			sizes->pages[i] * PAGE_BYTES < (uint64_t)bytes ||
			sizes->class_of[place_of((uint64_t)bytes)] != i)
			return false;
	}
	return true;
}

/* --- spans --- */

/* A list head: empty, or its first span points back. */
static bool is_head(struct view *view, const struct span *head, raddr_t addr, struct span *first)
{
	*first = (struct span){0};
	if (head->start || head->pages || !head->next || !head->previous ||
		(head->next == addr) != (head->previous == addr))
		return false;
	return head->next == addr ||
	       (view_read(view, head->next, first, sizeof(*first)) && first->previous == addr);
}

static bool is_spans(struct view *view, const struct tcbooks *books, unsigned class,
	const struct span *head, raddr_t addr)
{
	struct span first;
	return is_head(view, head, addr, &first) &&
	       (head->next == addr ||
		       (first.class == class &&
			       first.pages * PAGE_BYTES == books->span_bytes[class] &&
			       first.held * books->bytes[class] <= books->span_bytes[class]));
}

static uint64_t blocks_in_span(const struct tcbooks *books, unsigned class)
{
	return class ? books->span_bytes[class] / books->bytes[class] : 0;
}

static bool central_is_sane(
	const struct tcbooks *books, unsigned class, const struct central *central)
{
	return central->class == class && central->spans <= UINT32_MAX &&
	       central->free <= central->spans * blocks_in_span(books, class) &&
	       central->used_slots >= 0 && central->used_slots <= (int32_t)SLOTS &&
	       central->slots_max <= (int32_t)SLOTS && central->slots_max >= 0;
}

static bool is_central(
	struct view *view, const struct tcbooks *books, raddr_t addr, const struct central *central)
{
	for (unsigned i = 0; i < books->count; i++) {
		raddr_t full = addr + i * sizeof(*central) + offsetof(struct central, full);
		if (!central_is_sane(books, i, &central[i]) ||
			!is_spans(view, books, i, &central[i].full, full) ||
			!is_spans(view, books, i, &central[i].partial, full + sizeof(struct span)))
			return false;
	}
	return true;
}

static bool pages_are_sane(const struct pages *pages)
{
	return pages->system_bytes % PAGE_BYTES == 0 && pages->free_bytes % PAGE_BYTES == 0 &&
	       pages->returned_bytes <= pages->system_bytes &&
	       pages->free_bytes <= pages->system_bytes - pages->returned_bytes &&
	       pages->returned_bytes + pages->committed_bytes == pages->system_bytes &&
	       pages->system_bytes;
}

static bool is_pages(struct view *view, raddr_t addr, const struct pages *pages)
{
	if (!pages_are_sane(pages))
		return false;
	for (size_t i = 0; i < FREE_LISTS; i++) {
		for (size_t k = 0; k < 2; k++) {
			struct span first;
			raddr_t at = addr + (2 * i + k) * sizeof(struct span);
			const struct span *head = &pages->free[i][k];
			if (!is_head(view, head, at, &first) ||
				(head->next != at && first.pages != i + 1))
				return false;
		}
	}
	return true;
}

/* --- caches --- */

static bool cache_read(
	struct view *view, const struct tcbooks *books, raddr_t addr, struct cache *ret)
{
	if (!addr || addr % CACHE_ALIGN || !view_read(view, addr, ret, sizeof(*ret)))
		return false;
	for (unsigned i = 0; i < books->count; i++)
		if ((uint64_t)ret->list[i].block_bytes != books->bytes[i] ||
			!ret->list[i].first != !ret->list[i].count)
			return false;
	return true;
}

/* --- all structures --- */

struct search {
	struct view *view;
	struct variables in;
};

static bool is_within(const struct search *search, size_t at, size_t bytes)
{
	return search->in.bytes >= bytes && at <= search->in.bytes - bytes;
}

static uint64_t word_of(const struct search *search, size_t at)
{
	uint64_t word = 0;
	if (is_within(search, at, sizeof(word)))
		memcpy(&word, search->in.data + at, sizeof(word));
	return word;
}

/* Does a structure begin at offset `at`? Then its address goes to `books`. */
typedef bool take_structure(const struct search *search, size_t at, struct tcbooks *books);

static bool take_sizes(const struct search *search, size_t at, struct tcbooks *books)
{
	struct sizes sizes;
	uint64_t classes = word_of(search, at + offsetof(struct sizes, count));
	if (classes < 2 || classes > TCBOOKS_CLASSES)
		return false;
	memcpy(&sizes, search->in.data + at, sizeof(sizes));
	if (!is_sizes(&sizes))
		return false;
	books->count = (unsigned)sizes.count;
	for (size_t i = 0; i < sizes.count; i++) {
		books->bytes[i] = (uint64_t)sizes.bytes[i];
		books->span_bytes[i] = sizes.pages[i] * PAGE_BYTES;
		books->move[i] = (uint64_t)sizes.move[i];
	}
	return true;
}

static bool take_central(const struct search *search, size_t at, struct tcbooks *books)
{
	struct central central[TCBOOKS_CLASSES];
	const size_t class = at + offsetof(struct central, class);
	if (word_of(search, class) || word_of(search, class + sizeof(*central)) != 1 ||
		word_of(search, class + 2 * sizeof(*central)) != 2)
		return false;
	memcpy(central, search->in.data + at, books->count * sizeof(*central));
	if (!is_central(search->view, books, search->in.addr + at, central))
		return false;
	books->central = search->in.addr + at;
	return true;
}

static bool take_pages(const struct search *search, size_t at, struct tcbooks *books)
{
	struct pages pages;
	if (word_of(search, at) || !word_of(search, at + offsetof(struct span, next)))
		return false;
	memcpy(&pages, search->in.data + at, sizeof(pages));
	if (!is_pages(search->view, search->in.addr + at, &pages))
		return false;
	books->pages = search->in.addr + at;
	return true;
}

static bool take_cache(const struct search *search, size_t at, struct tcbooks *books)
{
	struct cache cache;
	raddr_t word = word_of(search, at);
	if (books->cache || word % CACHE_ALIGN || !view_holds(search->view, word) ||
		!cache_read(search->view, books, word, &cache))
		return false;
	books->cache = search->in.addr + at;
	return true;
}

/* Counts the structures of `bytes` bytes that `take` finds. */
static size_t find(
	const struct search *search, size_t bytes, take_structure *take, struct tcbooks *books)
{
	size_t count = 0;
	for (size_t at = 0; is_within(search, at, bytes) && !search->view->spent;
		at += sizeof(uint64_t))
		count += take(search, at, books);
	return count;
}

struct ht_err *tcbooks_find(
	struct view *view, const struct module *module, struct tcbooks *ret, size_t *ret_count)
{
	struct search search = {.view = view};
	*ret = (struct tcbooks){0};
	*ret_count = 0;
	view_forget(view);
	struct ht_err *err = variables_read(view, module, true, &search.in);
	if (err || !search.in.data)
		return err;
	*ret_count = find(&search, sizeof(struct sizes), take_sizes, ret);
	if (*ret_count == 1)
		*ret_count = find(&search, ret->count * sizeof(struct central), take_central, ret);
	if (*ret_count == 1)
		*ret_count = find(&search, sizeof(struct pages), take_pages, ret);
	if (*ret_count == 1)
		(void)find(&search, sizeof(raddr_t), take_cache, ret);
	free(search.in.data);
	return NULL;
}

/* Subtracts the contents of a cache; false: more than there is. */
static bool subtract(
	const struct tcbooks *books, const struct cache *cache, struct tcbooks_sum *sum)
{
	for (unsigned i = 0; i < books->count; i++) {
		if (cache->list[i].count > sum->blocks[i])
			return false;
		sum->blocks[i] -= cache->list[i].count;
	}
	sum->caches++;
	return true;
}

/* All caches are in one list, which ends in both directions. */
static bool take_caches(struct view *view, const struct tcbooks *books, struct tcbooks_sum *sum)
{
	struct cache cache;
	raddr_t at, previous = 0;
	unsigned steps = 0;
	if (!books->cache)
		return true;
	if (!read_variable(view, books->cache, &at, sizeof(at)))
		return false;
	do {
		if (steps++ == CACHES_MAX || !cache_read(view, books, at, &cache))
			return false;
		previous = at;
		at = cache.previous;
	} while (at);
	at = previous;
	previous = 0;
	for (steps = 0; at; steps++) {
		if (steps == CACHES_MAX || !cache_read(view, books, at, &cache) ||
			cache.previous != previous || !subtract(books, &cache, sum))
			return false;
		previous = at;
		at = cache.next;
	}
	return true;
}

void tcbooks_read(struct view *view, const struct tcbooks *books, struct tcbooks_sum *ret)
{
	struct central central[TCBOOKS_CLASSES];
	struct pages pages;
	uint64_t spans_bytes = 0;
	*ret = (struct tcbooks_sum){0};
	view_forget(view);
	if (!read_variable(view, books->pages, &pages, sizeof(pages)) ||
		!read_variable(view, books->central, central, books->count * sizeof(*central)) ||
		!pages_are_sane(&pages))
		return;
	for (unsigned i = 0; i < books->count; i++) {
		if (!central_is_sane(books, i, &central[i]))
			return;
		uint64_t between = (uint64_t)central[i].used_slots * books->move[i];
		uint64_t blocks = central[i].spans * blocks_in_span(books, i) - central[i].free;
		if (between > blocks)
			return;
		ret->blocks[i] = blocks - between;
		spans_bytes += central[i].spans * books->span_bytes[i];
	}
	ret->system_bytes = pages.committed_bytes;
	ret->large_bytes = pages.committed_bytes - pages.free_bytes;
	if (spans_bytes > ret->large_bytes || !take_caches(view, books, ret))
		return;
	ret->large_bytes -= spans_bytes;
	ret->held_bytes = ret->large_bytes;
	for (unsigned i = 0; i < books->count; i++)
		ret->held_bytes += ret->blocks[i] * books->bytes[i];
	ret->valid = !view->spent && !view->err;
}

uint64_t tcbooks_moved_bytes(const struct tcbooks *books, const struct tcbooks_sum *before,
	const struct tcbooks_sum *now)
{
	uint64_t moved = account_distance(before->large_bytes, now->large_bytes);
	for (unsigned i = 0; i < books->count; i++)
		moved += account_distance(before->blocks[i], now->blocks[i]) * books->bytes[i];
	return moved;
}
