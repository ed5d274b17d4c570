/* SPDX-License-Identifier: Apache-2.0 */
#define CHAIN_SECTION __attribute__((section("chain_text")))

#include "tests/targets/foreign.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "tests/targets/chain.h"
#include "tests/targets/random.h"

#define TABLE	  32 /* blocks that a call holds at a time */
#define MAILBOXES 32 /* for blocks that stay allocated when foreign_work returns */
#define LEVELS	  6u /* depth of calls of an allocation */
#define CHAINED	  16 /* the stack of one in 16 operations is recorded */

enum function { MALLOC, CALLOC, REALLOC, POSIX_MEMALIGN, FUNCTIONS };

static const char *const function_name[FUNCTIONS] = {
	"malloc", "calloc", "realloc", "posix_memalign"};

/* The beginning of each block; its last byte is `tag`. */
struct block {
	size_t size;
	unsigned phase; /* in which it was allocated */
	unsigned char tag;
};

struct worker {
	uint64_t seed;
	struct block *table[TABLE];
};

static unsigned phase;
static atomic_ullong calls[FUNCTIONS], bytes[FUNCTIONS], frees, chained;
static atomic_llong live_blocks, live_bytes; /* of this phase */
static _Atomic(struct block *) mailbox[MAILBOXES];

static struct block *book_new(enum function function, void *ptr, size_t size)
{
	if (!ptr || (uintptr_t)ptr % 16)
		speak_fail("%s(%zu) gave %p", function_name[function], size, ptr);
	atomic_fetch_add(&calls[function], 1);
	atomic_fetch_add(&bytes[function], size);
	atomic_fetch_add(&live_blocks, 1);
	atomic_fetch_add(&live_bytes, (long long)size);
	struct block *block = ptr;
	*block = (struct block){.size = size, .phase = phase, .tag = (unsigned char)(size ^ phase)};
	((unsigned char *)ptr)[size - 1] = block->tag;
	return block;
}

static void book_gone(const struct block *block)
{
	if (((const unsigned char *)block)[block->size - 1] != block->tag)
		speak_fail(
			"block %p of %zu bytes was overwritten", (const void *)block, block->size);
	if (block->phase != phase)
		return;
	atomic_fetch_add(&frees, 1);
	atomic_fetch_sub(&live_blocks, 1);
	atomic_fetch_sub(&live_bytes, (long long)block->size);
}

/* Makes an allocation of a size that no other allocation has, and records its stack. */
CHAIN_FUNCTION void foreign_chain(void)
{
	CHAIN_ENTER();
	size_t size = chain_size();
	void *ptr = malloc(size);
	chain_book(size);
	book_gone(book_new(MALLOC, ptr, size));
	atomic_fetch_add(&chained, 1);
	free(ptr);
	CHAIN_LEAVE();
}

CHAIN_FUNCTION struct block *foreign_get(uint64_t random)
{
	CHAIN_ENTER();
	size_t size = sizeof(struct block) + 1 + (random >> 8) % 2000;
	enum function function = random % FUNCTIONS;
	void *ptr = NULL;
	if (function == MALLOC)
		ptr = malloc(size);
	else if (function == CALLOC)
		ptr = calloc(1, size);
	else if (function == REALLOC)
		ptr = realloc(NULL, size);
	else if (posix_memalign(&ptr, 64, size))
		ptr = NULL;
	CHAIN_LEAVE();
	return book_new(function, ptr, size);
}

CHAIN_FUNCTION struct block *foreign_resize(struct block *block, uint64_t random)
{
	CHAIN_ENTER();
	size_t size = sizeof(struct block) + 1 + random % 2000;
	book_gone(block);
	void *ptr = realloc(block, size);
	CHAIN_LEAVE();
	return book_new(REALLOC, ptr, size);
}

CHAIN_FUNCTION void foreign_put(struct block *block)
{
	CHAIN_ENTER();
	book_gone(block);
	free(block);
	CHAIN_LEAVE();
}

static void step(struct worker *self, uint64_t random)
{
	struct block **at = &self->table[random % TABLE];
	unsigned what = (random >> 8) % 100;
	if (what < 10)
		*at = atomic_exchange(&mailbox[(random >> 16) % MAILBOXES], *at);
	else if (!*at)
		*at = foreign_get(random >> 16);
	else if (what < 40)
		*at = foreign_resize(*at, random >> 16);
	else {
		foreign_put(*at);
		*at = NULL;
	}
}

static void foreign_odd(struct worker *self, unsigned left);

/* foreign_even and foreign_odd call each other, `left` levels deep. */
CHAIN_FUNCTION void foreign_even(struct worker *self, unsigned left)
{
	CHAIN_ENTER();
	uint64_t random = next_random(&self->seed);
	if (left)
		foreign_odd(self, left - 1);
	else if (random % CHAINED == 0)
		foreign_chain();
	else
		step(self, random >> 8);
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void foreign_odd(struct worker *self, unsigned left)
{
	CHAIN_ENTER();
	volatile uint64_t frame[24];
	frame[left] = self->seed;
	foreign_even(self, left ? left - 1 : 0);
	if (frame[left] == self->seed)
		speak_fail("nothing was done");
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void foreign_turns(struct worker *self, unsigned operations)
{
	CHAIN_ENTER();
	for (unsigned i = 0; i < operations; i++)
		foreign_even(self, i % (LEVELS + 1));
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void foreign_work(
	uint64_t seed, unsigned operations, foreign_back_fn *back, void *context)
{
	struct chain_shadow shadow, *outer = chain_now;
	shadow.depth = 0;
	chain_now = &shadow;
	CHAIN_ENTER();
	struct worker self = {.seed = seed};
	foreign_turns(&self, operations / 2);
	if (back)
		back(context, seed + 1);
	foreign_turns(&self, operations - operations / 2);
	for (unsigned i = 0; i < TABLE; i++)
		if (self.table[i])
			foreign_put(self.table[i]);
	CHAIN_LEAVE();
	chain_now = outer;
}

void foreign_begin(void)
{
	phase++;
	for (int f = 0; f < FUNCTIONS; f++)
		calls[f] = bytes[f] = 0;
	frees = chained = 0;
	live_blocks = live_bytes = 0;
}

void foreign_say(void)
{
	uint64_t all = 0, all_bytes = 0;
	speak_add("{\"functions\":{");
	for (int f = 0; f < FUNCTIONS; f++) {
		speak_add("%s\"%s\":{\"calls\":%llu,\"bytes\":%llu}", f ? "," : "",
			function_name[f], calls[f], bytes[f]);
		all += calls[f];
		all_bytes += bytes[f];
	}
	speak_add("},\"allocations\":%lu,\"allocated_bytes\":%lu,\"frees\":%llu", all, all_bytes,
		frees);
	speak_add(",\"outstanding_blocks\":%lld,\"outstanding_bytes\":%lld,\"chained\":%llu}",
		live_blocks, live_bytes, chained);
	speak_send();
}

void foreign_save(const char *path)
{
	chain_save(path);
}
