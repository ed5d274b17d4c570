/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/memo.h"

/* Words of a group; most layouts have one group. */
#define MEMO_GROUP	 8u
#define MEMO_GROUPS	 3u
#define MEMO_WORDS	 (MEMO_GROUP * MEMO_GROUPS)
#define MEMO_LAYOUT_BITS 7u
#define MEMO_FORKS	 3u
#define MEMO_STACK_BITS	 9u
#define MEMO_WAYS	 4u /* possible places of a stack, in one cache line */

/* After so many hits in a row, a stack becomes the kept one, which is cheaper to find. */
#define MEMO_HITS_MAX 64u

/*
 * Words of one page: their places, in words from rsp; unused entries repeat the first. If the page
 * is not that of the hook's return address, `gate` is the key of these places and of all words
 * before them. A stack with another key may have unreadable memory there.
 */
struct memo_group {
	uint64_t gate; /* 0: there is none */
	union {
		uint16_t at[MEMO_GROUP];
		uint64_t places[MEMO_GROUP / 4];
	};
};

/*
 * The words through which a walk came to frame `outer - 1` of the kept stack, innermost first. If
 * stacks from one call site differ, as behind C++'s operator new, the word at `fork` selects the
 * layout.
 */
struct memo_layout {
	uint64_t seed;	/* key of all members below except the gates */
	uint16_t outer; /* 0: there is none */
	uint16_t needs_fp;
	uint16_t groups; /* one at least */
	uint16_t fork;	 /* place of the selecting word, plus 1; 0: this is the layout itself */
	uint64_t begin;	 /* the call site and forks to which this layout belongs */
	struct memo_group group[MEMO_GROUPS];
};

struct memo_stack {
	uint64_t key;
	uint64_t id; /* 0 while the key changes */
};

struct memo {
	struct memo_stack stack[1u << MEMO_STACK_BITS];
	struct memo_layout layout[1u << MEMO_LAYOUT_BITS];
	uint32_t last;			  /* index of the stack found last */
	uint32_t hits;			  /* number of hits in a row */
	uint32_t layout_puts, stack_puts; /* number of layouts and stacks added so far */
	struct memo_layout made;	  /* scratch: stacks of threads are small */
};

_Static_assert(sizeof(struct memo) <= ABI_MEMO_BYTES, "the memo fits");

/* Random odd numbers: one factor for each word of a group and for the other parts of a key. */
static const uint64_t memo_factor[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
	0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3,
	0x589965cc75374cc3, 0x1d8e4e27c47d124f, 0xeb44accab455d165, 0xff51afd7ed558ccd,
	0xc4ceb9fe1a85ec53, 0x87c37b91114253d5, 0x4cf5ad432745937f, 0x2545f4914f6cdd1d,
	0xda942042e4dd58b5};

enum {
	MEMO_PC = MEMO_GROUP,
	MEMO_SP,
	MEMO_FP,
	MEMO_OUTER_SP,
	MEMO_OUTER_FP,
	MEMO_VERSION,
	MEMO_NEAR,
	MEMO_FAR,
};

_Static_assert(HT_ARRAY_SIZE(memo_factor) > MEMO_FAR, "a factor for each");

/* The stack from rsp on. The page of the hook's return address is always readable. */
struct memo_words {
	const uint64_t *sp;
	uint64_t count, beside;
};

static inline struct memo_words words_from(const uint64_t *sp, uint64_t count)
{
	uint64_t beside = (-(uint64_t)sp & (HT_PAGE_BYTES - 1)) / sizeof(uint64_t);
	return (struct memo_words){sp, count, beside < count ? beside : count};
}

static inline struct memo_words words_of(struct trace_span span)
{
	return words_from(span.hi - span.words, span.words);
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

static inline uint64_t gate_of(uint64_t key, uint64_t near, uint64_t far)
{
	return mixed(key + near * memo_factor[MEMO_NEAR] + far * memo_factor[MEMO_FAR]) | 1;
}

/*
 * Adds the words of a group with a gate to the key of all before it. 0: a walk would not load them,
 * or the stack is too short. The places are loaded once and then checked against the gate, because
 * another process on the same memory may write them.
 */
static inline uint64_t key_add_gated(
	uint64_t key, const struct memo_group *group, struct memo_words words, uint64_t gate)
{
	uint64_t near = load_relaxed(&group->places[0]), far = load_relaxed(&group->places[1]);
	if (gate != gate_of(key, near, far))
		return 0;
	for (unsigned i = 0; i < MEMO_GROUP; i++) {
		uint64_t at = (i < 4 ? near : far) >> i % 4 * 16 & 0xffff;
		if (ht_unlikely(at >= words.count))
			return 0;
		key += words.sp[at] * memo_factor[i];
	}
	return key;
}

/* As key_add_gated, for any group. The words of a group without a gate lie in the page `beside`,
 * which is always readable. */
static inline uint64_t key_add(
	uint64_t key, const struct memo_group *group, struct memo_words words)
{
	uint64_t gate = load_relaxed(&group->gate);
	if (ht_unlikely(gate != 0))
		return key_add_gated(key, group, words, gate);
#pragma GCC unroll 8
	for (unsigned i = 0; i < MEMO_GROUP; i++) {
		uint64_t at = load_relaxed(&group->at[i]);
		if (ht_unlikely(at >= words.beside))
			return 0;
		key += words.sp[at] * memo_factor[i];
	}
	return key;
}

/* The key, except for stack words, of what a walk from `start` by this layout depends on. */
static inline uint64_t key_begin(const struct memo_layout *layout, const struct trace *trace,
	uint64_t outer, const struct walk_start *start)
{
	const struct trace_frame *frame = &trace->frame[outer - 1];
	uint64_t needs_fp = trace->flags[outer - 1] & TRACE_NEEDS_FP;
	uint64_t key = layout->seed + frame->hash + needs_fp;
	key += trace->version * memo_factor[MEMO_VERSION];
	key += sum_of(start);
	key += (layout->needs_fp ? start->fp : 0) * memo_factor[MEMO_FP];
	key += frame->sp * memo_factor[MEMO_OUTER_SP];
	key += (needs_fp ? frame->fp : 0) * memo_factor[MEMO_OUTER_FP];
	return key;
}

/* The key of all values that the walk depends on; 0: a walk would load other words, or the stack is
 * too short. */
static inline uint64_t key_of(const struct memo_layout *layout, const struct trace *trace,
	uint64_t outer, const struct walk_start *start, struct memo_words words)
{
	uint64_t groups = load_relaxed(&layout->groups);
	uint64_t key = key_begin(layout, trace, outer, start);
	key = key_add(key, &layout->group[0], words);
	for (uint64_t i = 1; ht_unlikely(i < groups) && i < MEMO_GROUPS && key != 0; i++) {
		/* Mix the key between groups, because all groups use the same factors. */
		key = key_add(mixed(key), &layout->group[i], words);
	}
	return key;
}

static inline uint32_t stack_index(uint64_t key)
{
	return (uint32_t)(key * memo_factor[0] >> (64 - MEMO_STACK_BITS));
}

/* The stack with this key; NULL: none. */
static inline struct memo_stack *stack_find(struct memo *memo, uint64_t key)
{
	uint32_t index = stack_index(key);
	for (uint32_t way = 0; way < MEMO_WAYS; way++) {
		struct memo_stack *stack = &memo->stack[index ^ way];
		if (ht_likely(stack->key == key))
			return stack;
	}
	return NULL;
}

/* The layout stored under `begin`, or the layout that a new one would replace. Each layout has two
 * possible places. */
static inline struct memo_layout *layout_at(struct memo *memo, uint64_t begin)
{
	uint64_t index = begin >> (64 - MEMO_LAYOUT_BITS);
	return &memo->layout[ht_likely(memo->layout[index].begin == begin) ? index : index ^ 1];
}

/* `*begin`: in: sum_of the registers; out: the key under which the layout is stored, after all
 * forks. */
static inline struct memo_layout *layout_find(
	struct memo *memo, uint64_t *begin, struct memo_words words, unsigned *forks)
{
	struct memo_layout *layout = layout_at(memo, *begin);
	for (*forks = 0; *forks < MEMO_FORKS; ++*forks) {
		uint64_t at = load_relaxed(&layout->fork);
		if (at == 0 || layout->begin != *begin || at > words.beside)
			break;
		*begin += words.sp[at - 1] * memo_factor[0];
		layout = layout_at(memo, *begin);
	}
	return layout;
}

struct memo_found memo_find(
	struct abi_slot *slot, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t hi)
{
	const struct walk_start start = {.pc = pc, .sp = sp, .fp = fp};
	const struct memo_found none = {0};
	const struct memo_words words =
		words_from((const uint64_t *)sp, (hi - sp) / sizeof(uint64_t));
	if (ht_unlikely(sp % sizeof(uint64_t) != 0))
		return none;
	struct memo *memo = (struct memo *)slot->memo;
	const struct trace *trace = (const struct trace *)slot->walk;
	uint64_t begin = sum_of(&start);
	unsigned forks;
	const struct memo_layout *layout = layout_find(memo, &begin, words, &forks);
	uint64_t outer = load_relaxed(&layout->outer);
	uint64_t count = load_relaxed(&trace->count);
	if (outer - 1 >= count || count > TRACE_FRAMES_MAX)
		return none;
	uint64_t key = key_of(layout, trace, outer, &start, words);
	const struct memo_stack *stack = key ? stack_find(memo, key) : NULL;
	uint64_t id = stack ? load_acquire(&stack->id) : 0;
	if (id == 0)
		return none;
	uint32_t index = (uint32_t)(stack - memo->stack);
	memo->hits = memo->last == index ? memo->hits + 1 : 0;
	memo->last = index;
	if (memo->hits % MEMO_HITS_MAX == MEMO_HITS_MAX - 1)
		return none;
	return (struct memo_found){(uint32_t)id, (uint32_t)outer};
}

/* The page of a word, counted from that of the hook's return address. */
static inline uint64_t page_of(uint64_t at, uint64_t beside)
{
	return at < beside ? 0 : 1 + (at - beside) * sizeof(uint64_t) / HT_PAGE_BYTES;
}

/* Builds groups of words, each within one page. Its counters are private: other processes cannot
 * write them. */
struct memo_making {
	struct memo_layout *layout;
	uint64_t groups;
	uint64_t words, page; /* of the last group */
};

/* Adds the place of a word. False: no room. */
static inline bool place_add(
	struct memo_making *making, struct trace_span span, uint64_t beside, int32_t at_hi)
{
	uint64_t at = span.words + (uint64_t)(int64_t)at_hi, page = page_of(at, beside);
	/* A step that loaded more than a return address has link_at 0, which is not a place in the
	 * stack. */
	if (at >= span.words || at > UINT16_MAX)
		return false;
	if (making->groups == 0 || making->words == MEMO_GROUP || making->page != page) {
		if (making->groups == MEMO_GROUPS)
			return false;
		struct memo_group *group = &making->layout->group[making->groups++];
		group->gate = page != 0;
		for (unsigned i = 0; i < MEMO_GROUP; i++)
			group->at[i] = (uint16_t)at;
		making->page = page;
		making->words = 0;
	}
	making->layout->group[making->groups - 1].at[making->words++] = (uint16_t)at;
	return true;
}

/* Number of groups of the new layout; 0: too many words, or a step depends on words that links do
 * not name. */
static HT_NOINLINE uint64_t layout_make(
	struct abi_slot *slot, uint64_t outer, uint64_t count, struct trace_span span)
{
	struct memo_layout *layout = &((struct memo *)slot->memo)->made;
	const struct trace *trace = (const struct trace *)slot->walk;
	uint64_t beside = words_of(span).beside;
	struct memo_making making = {.layout = layout};
	for (uint64_t i = kept_links(trace, count), end = kept_links(trace, outer); i-- > end;) {
		if (!place_add(&making, span, beside, trace->link_at[i]))
			return 0;
	}
	layout->needs_fp = trace->flags[count - 1] & TRACE_NEEDS_FP;
	layout->seed = outer << 16 | layout->needs_fp;
	for (uint64_t i = 0; i < making.groups; i++) {
		const struct memo_group *group = &layout->group[i];
		layout->seed = mixed(layout->seed ^ group->places[0]);
		layout->seed = mixed(layout->seed ^ group->places[1]);
	}
	return making.groups;
}

/* The registers at which the walk of the `count` kept frames began. */
static inline struct walk_start start_of(const struct trace *trace, uint64_t count)
{
	const struct trace_frame *inner = &trace->frame[count - 1];
	return (struct walk_start){inner->pc, inner->sp, inner->fp};
}

/*
 * Adds the words of a group under construction to the key, as the walk has loaded them; `*link` is
 * one past the next link. False: the places `near` and `far` are not those of the walk, because
 * another process wrote them: such places must not get a gate.
 */
static inline bool key_add_links(uint64_t *key, const struct trace *trace, uint64_t near,
	uint64_t far, uint64_t words, uint64_t *link, uint64_t end)
{
	uint64_t first = 0;
	for (unsigned i = 0; i < MEMO_GROUP; i++) {
		uint64_t at = (i < 4 ? near : far) >> i % 4 * 16 & 0xffff, word = first;
		if (*link > end && words + (uint64_t)(int64_t)trace->link_at[*link - 1] == at)
			word = trace->link_word[--*link];
		else if (i == 0 || at != (near & 0xffff))
			return false;
		if (i == 0)
			first = word;
		*key += word * memo_factor[i];
	}
	return true;
}

/* Sets the gates for this walk and returns its key; 0: the layout is not the one just made. */
static HT_NOINLINE uint64_t layout_close(struct abi_slot *slot, uint64_t groups, uint64_t outer,
	uint64_t count, struct trace_span span)
{
	struct memo_layout *layout = &((struct memo *)slot->memo)->made;
	const struct trace *trace = (const struct trace *)slot->walk;
	struct walk_start start = start_of(trace, count);
	uint64_t link = kept_links(trace, count), end = kept_links(trace, outer);
	uint64_t key = key_begin(layout, trace, outer, &start);
	for (uint64_t i = 0; i < groups; i++) {
		struct memo_group *group = &layout->group[i];
		uint64_t near = load_relaxed(&group->places[0]);
		uint64_t far = load_relaxed(&group->places[1]);
		if (i > 0)
			key = mixed(key);
		if (group->gate)
			group->gate = gate_of(key, near, far);
		if (!key_add_links(&key, trace, near, far, span.words, &link, end))
			return 0;
	}
	return link == end ? key : 0;
}

/* A handler that jumps out of here leaves an empty layout or an invalid stack. */
static void layout_put(
	struct memo_layout *to, const struct memo_layout *from, uint64_t outer, uint64_t groups)
{
	store_relaxed(&to->outer, 0);
	store_relaxed(&to->fork, 0);
	signal_fence();
	to->seed = from->seed;
	to->needs_fp = from->needs_fp;
	to->groups = (uint16_t)groups;
	to->begin = from->begin;
	for (uint64_t i = 0; i < groups; i++)
		to->group[i] = from->group[i];
	store_release(&to->outer, (uint16_t)outer);
}

/* The place to store a layout: `found` if layout_find has found it, otherwise one of its two
 * places. */
static struct memo_layout *layout_place(
	struct memo *memo, struct memo_layout *found, uint64_t begin)
{
	uint64_t index = begin >> (64 - MEMO_LAYOUT_BITS);
	return found->begin == begin ? found : &memo->layout[index ^ (memo->layout_puts++ & 1)];
}

/* Whether the new layout differs from the old one with the same beginning. */
static inline bool layout_differs(
	const struct memo_layout *old, const struct memo_layout *made, uint64_t groups)
{
	if (old->outer == 0 || old->begin != made->begin)
		return false;
	bool differs = old->seed != made->seed;
	for (uint64_t i = 0; !differs && i < groups; i++)
		differs = old->group[i].gate != made->group[i].gate;
	return differs;
}

/* Builds the layout and returns its number of groups. Starts at no more kept frames than an earlier
 * walk from the same beginning has met, so that the layout does not alternate. */
static inline uint64_t layout_from(struct abi_slot *slot, const struct memo_layout *old,
	uint64_t begin, uint64_t *outer, uint64_t count, struct trace_span span)
{
	uint64_t fewer = load_relaxed(&old->outer), groups = 0;
	if (fewer != 0 && fewer < *outer && old->begin == begin)
		groups = layout_make(slot, fewer, count, span);
	if (groups == 0)
		return layout_make(slot, *outer, count, span);
	*outer = fewer;
	return groups;
}

/* The place for the stack of this key: the one that already has the key, an empty one, or one to
 * replace. */
static struct memo_stack *stack_place(struct memo *memo, uint64_t key)
{
	struct memo_stack *found = stack_find(memo, key);
	uint32_t index = stack_index(key);
	for (uint32_t way = 0; !found && way < MEMO_WAYS; way++) {
		if (load_relaxed(&memo->stack[index ^ way].id) == 0)
			found = &memo->stack[index ^ way];
	}
	return found ? found : &memo->stack[index ^ (memo->stack_puts++ & (MEMO_WAYS - 1))];
}

static inline void stack_put(struct memo_stack *stack, uint64_t key, uint64_t id)
{
	store_relaxed(&stack->id, 0);
	signal_fence();
	stack->key = key;
	store_release(&stack->id, id);
}

void memo_note(struct abi_slot *slot, uint64_t held, uint64_t count, struct trace_span span)
{
	struct memo *memo = (struct memo *)slot->memo;
	const struct trace *trace = (const struct trace *)slot->walk;
	if (held == 0 || count - held - 1 >= MEMO_WORDS)
		return;
	struct walk_start start = start_of(trace, count);
	unsigned forks;
	uint64_t begin = sum_of(&start);
	const struct memo_words words = words_of(span);
	struct memo_layout *layout = layout_find(memo, &begin, words, &forks);
	uint64_t groups = layout_from(slot, layout, begin, &held, count, span);
	if (groups == 0)
		return;
	memo->made.begin = begin;
	uint64_t key = layout_close(slot, groups, held, count, span);
	if (key == 0)
		return;
	uint64_t fork = load_relaxed(&memo->made.group[0].at[forks]);
	if (forks < MEMO_FORKS && layout_differs(layout, &memo->made, groups) &&
		fork < words.beside) {
		store_release(&layout->fork, (uint16_t)(fork + 1));
		begin += words.sp[fork] * memo_factor[0];
		memo->made.begin = begin;
		layout = layout_at(memo, begin);
	}
	layout_put(layout_place(memo, layout, begin), &memo->made, held, groups);
	stack_put(stack_place(memo, key), key, trace->id);
}
