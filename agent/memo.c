/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/memo.h"

#define MEMO_WORDS	 8u
#define MEMO_LAYOUT_BITS 6u
#define MEMO_STACK_BITS	 9u

/* So often in a row the same stack is found here before it becomes the kept one, which costs less.
 */
#define MEMO_HITS_MAX 64u

/*
 * By which words a walk came to the frame `outer - 1` of the kept stack; places in words from rsp
 * on, the first again where there are fewer.
 */
struct memo_layout {
	uint64_t seed;	/* of all below */
	uint16_t outer; /* 0: there is none */
	uint16_t needs_fp;
	uint16_t at[MEMO_WORDS];
};

struct memo_stack {
	uint64_t key;
	uint64_t id; /* 0 while the key changes */
};

struct memo {
	struct memo_stack stack[1u << MEMO_STACK_BITS];
	struct memo_layout layout[1u << MEMO_LAYOUT_BITS];
	uint32_t last; /* stack that was found last, */
	uint32_t hits; /* so often in a row */
};

_Static_assert(sizeof(struct memo) <= ABI_MEMO_BYTES, "the memo fits");

/* Odd numbers of chance, one for each word that goes into a key. */
static const uint64_t memo_factor[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
	0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3,
	0x589965cc75374cc3, 0x1d8e4e27c47d124f, 0xeb44accab455d165, 0xff51afd7ed558ccd,
	0xc4ceb9fe1a85ec53, 0x87c37b91114253d5, 0x4cf5ad432745937f};

enum { MEMO_PC = MEMO_WORDS, MEMO_SP, MEMO_FP, MEMO_OUTER_SP, MEMO_OUTER_FP, MEMO_VERSION };

_Static_assert(HT_ARRAY_SIZE(memo_factor) > MEMO_VERSION, "a factor for each");

/* The stack from rsp on, as far as it is certain to be there, whatever it holds. */
struct memo_view {
	const uint64_t *sp;
	uint64_t words;
};

/* What a layout says may have been of another walk: then its words may lie in an array that cannot
 * be read. In the page of the hook's return address, below rsp, all can. */
static inline struct memo_view view_of(struct trace_span span)
{
	const uint64_t *sp = span.hi - span.words;
	uint64_t words = (-(uint64_t)sp & (HT_PAGE_BYTES - 1)) / sizeof(uint64_t);
	return (struct memo_view){sp, words < span.words ? words : span.words};
}

static inline uint64_t mixed(uint64_t x)
{
	x *= memo_factor[0];
	return x ^ x >> 32;
}

static inline uint64_t sum_of(const struct walk_start *start)
{
	return start->pc * memo_factor[MEMO_PC] + start->sp * memo_factor[MEMO_SP];
}

/* Which layout a stack should have: it depends on where its walk begins. */
static inline uint32_t layout_index(const struct walk_start *start)
{
	return (uint32_t)(sum_of(start) >> (64 - MEMO_LAYOUT_BITS));
}

/* Of all that a walk from `start` by this layout depends on; 0: the stack is too short. */
static inline uint64_t key_of(const struct memo_layout *layout, const struct trace *trace,
	uint64_t outer, const struct walk_start *start, struct memo_view view)
{
	const struct trace_frame *frame = &trace->frame[outer - 1];
	uint64_t needs_fp = trace->flags[outer - 1] & TRACE_NEEDS_FP;
	uint64_t key = layout->seed + frame->hash + needs_fp;
	key += trace->version * memo_factor[MEMO_VERSION];
	key += sum_of(start);
	key += (layout->needs_fp ? start->fp : 0) * memo_factor[MEMO_FP];
	key += frame->sp * memo_factor[MEMO_OUTER_SP];
	key += (needs_fp ? frame->fp : 0) * memo_factor[MEMO_OUTER_FP];
#pragma GCC unroll 8
	for (unsigned i = 0; i < MEMO_WORDS; i++) {
		uint64_t at = load_relaxed(&layout->at[i]);
		if (ht_unlikely(at >= view.words))
			return 0;
		key += view.sp[at] * memo_factor[i];
	}
	return key;
}

static inline uint32_t stack_index(uint64_t key)
{
	return (uint32_t)(key * memo_factor[0] >> (64 - MEMO_STACK_BITS));
}

struct memo_found memo_find(struct abi_slot *slot, uint64_t count, const struct walk_start *start,
	struct trace_span span)
{
	struct memo *memo = (struct memo *)slot->memo;
	const struct trace *trace = (const struct trace *)slot->walk;
	const struct memo_layout *layout = &memo->layout[layout_index(start)];
	uint64_t outer = load_relaxed(&layout->outer);
	struct memo_found none = {0};
	if (outer - 1 >= count)
		return none;
	uint64_t key = key_of(layout, trace, outer, start, view_of(span));
	uint32_t index = stack_index(key);
	const struct memo_stack *stack = &memo->stack[index];
	uint64_t id = load_acquire(&stack->id);
	if (id == 0 || stack->key != key || key == 0)
		return none;
	memo->hits = memo->last == index ? memo->hits + 1 : 0;
	memo->last = index;
	if (memo->hits % MEMO_HITS_MAX == MEMO_HITS_MAX - 1)
		return none;
	return (struct memo_found){(uint32_t)id, (uint32_t)outer};
}

/* Adds the place of a word. False: there is no room, or it need not be readable for others. */
static inline bool place_add(
	struct memo_layout *layout, unsigned *count, struct trace_span span, int32_t at_hi)
{
	uint64_t at = span.words + (uint64_t)(int64_t)at_hi;
	if (*count == MEMO_WORDS || at >= view_of(span).words)
		return false;
	layout->at[(*count)++] = (uint16_t)at;
	return true;
}

/* False: there are more words than there is room for, or what they mean depends on others. */
static inline bool layout_make(struct memo_layout *layout, const struct trace *trace,
	uint64_t outer, uint64_t count, struct trace_span span)
{
	unsigned words = 0;
	for (uint64_t i = kept_links(trace, count), end = kept_links(trace, outer); i-- > end;) {
		/* That of a step which loaded more than a return address is 0, no place at all. */
		if (!place_add(layout, &words, span, trace->link_at[i]))
			return false;
	}
	for (unsigned i = words; i < MEMO_WORDS; i++)
		layout->at[i] = layout->at[0];
	layout->outer = (uint16_t)outer;
	layout->needs_fp = trace->flags[count - 1] & TRACE_NEEDS_FP;
	layout->seed = (uint64_t)layout->outer << 16 | layout->needs_fp;
	for (unsigned i = 0; i < MEMO_WORDS; i++)
		layout->seed = mixed(layout->seed ^ (uint64_t)layout->at[i] << 32);
	return true;
}

/* A handler that jumps out of here leaves no layout, or a stack that is none. */
static void layout_put(struct memo_layout *to, const struct memo_layout *from)
{
	store_relaxed(&to->outer, 0);
	signal_fence();
	to->seed = from->seed;
	to->needs_fp = from->needs_fp;
	for (unsigned i = 0; i < MEMO_WORDS; i++)
		to->at[i] = from->at[i];
	store_release(&to->outer, from->outer);
}

void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span)
{
	struct memo *memo = (struct memo *)slot->memo;
	const struct trace *trace = (const struct trace *)slot->walk;
	struct memo_layout made;
	if (held == 0 || count - held - 1 >= MEMO_WORDS ||
		!layout_make(&made, trace, held, count, span))
		return;
	const struct trace_frame *inner = &trace->frame[count - 1];
	struct walk_start start = {inner->pc, inner->sp, inner->fp};
	struct memo_layout *layout = &memo->layout[layout_index(&start)];
	if (layout->seed != made.seed || layout->outer != made.outer)
		layout_put(layout, &made);
	uint64_t key = key_of(layout, trace, held, &start, view_of(span));
	struct memo_stack *stack = &memo->stack[stack_index(key)];
	store_relaxed(&stack->id, 0);
	signal_fence();
	stack->key = key;
	store_release(&stack->id, trace->id);
}
