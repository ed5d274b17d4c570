/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread's last stack, kept so that the next walk can reuse it. A slot has room for
 * TRACE_FRAMES_MAX frames (trace.c). A source file that defines TRACE_DEEP before including this
 * gets the larger version of the same structure, for a deep area (deep.c).
 */
#pragma once

#include "agent/slot.h"
#include "agent/step.h"

/* Flags of a frame, in addition to STEP_SPECIAL. */
#define TRACE_USES_FP  2u /* the step to the caller begins at rbp */
#define TRACE_NEEDS_FP 4u /* some step from here outwards uses the rbp of this frame */
#define TRACE_INTERPRETS                                                                           \
	8u /* the frame's last link holds the function that it runs (step_interpreted) */

struct trace_frame {
	uint64_t pc; /* as in struct step_state */
	uint64_t sp, fp;
	uint64_t hash; /* hash of this frame and all outside it */
};

#ifdef TRACE_DEEP
#define TRACE_ROOM	 (sizeof(((struct abi_deep *)0)->walk))
#define TRACE_FRAMES_MAX ABI_FRAMES_MAX
/* Three links a frame, as in an interpreter's frames, plus what trace_extend may add before it
 * stops. */
#define TRACE_LINKS_MAX (3 * TRACE_FRAMES_MAX + 4)
#define TRACE_FRESH_MAX (sizeof(((struct abi_deep *)0)->fresh) / sizeof(struct step_state))
#else
#define TRACE_ROOM	(sizeof(((struct abi_slot *)0)->walk))
/* Most frames have one link, those with a saved rbp two, those of an interpreter three. */
#define TRACE_LINKS_MAX (TRACE_FRAMES_MAX / 2 * 3)
/* Bytes that two frames take in the arrays of struct trace. */
#define TRACE_FRAMES_BYTES                                                                         \
	(2 * (sizeof(struct trace_frame) + sizeof(uint16_t) + sizeof(uint8_t)) +                   \
		3 * (sizeof(uint64_t) + sizeof(int32_t)))
#define TRACE_FRAMES_MAX ((TRACE_ROOM - 128) / TRACE_FRAMES_BYTES * 2)
#define TRACE_FRESH_MAX	 (ABI_FRAMES_MAX * sizeof(uint64_t) / sizeof(struct step_state))
#endif

/* Larger stacks are walked anew each time: places in them do not fit 32 bits. */
#define TRACE_STACK_WORDS_MAX (1ull << 31)

/*
 * Lies in abi_slot.walk or abi_deep.walk. All zero is an empty trace. Frames are outermost first.
 * If a stack does not fit, a slot keeps its outer frames, a deep area its inner ones.
 */
struct trace {
	uint64_t snapshot; /* address of the abi_snapshot, whose generation is `generation` */
	uint32_t generation;
	uint32_t incarnation;
	uint64_t hi;	  /* where the stack begins */
	uint64_t count;	  /* frames; 0 while they change */
	uint64_t id;	  /* of the stack of all these frames; 0: unknown */
	uint64_t version; /* changes whenever the outermost frame changes (memo.h) */
	uint64_t scripts; /* walk_scripts when these frames were kept */
	union {
		/* in a slot: number of the deep area used instead, plus 1; 0: none */
		uint64_t deep;
		uint64_t outside; /* in a deep area: at least this many frames were cut off outside
				   */
	};
	/*
	 * A link is a word of the stack that led to a frame's caller: the return address, then the
	 * saved rbp if it matters, then the function that the frame runs. The links of frame i end
	 * at link_end[i] and begin where those of its caller, frame i - 1, end. The outermost frame
	 * has one link if its return address is 0, otherwise none. link_at is the place of a link
	 * in words relative to `hi`, negative; 0: the step loaded other words and must be repeated.
	 */
	uint64_t link_word[TRACE_LINKS_MAX];
	struct trace_frame frame[TRACE_FRAMES_MAX];
	int32_t link_at[TRACE_LINKS_MAX];
	uint16_t link_end[TRACE_FRAMES_MAX];
	uint8_t flags[TRACE_FRAMES_MAX];
};

_Static_assert(sizeof(struct trace) <= TRACE_ROOM, "a trace fits");
_Static_assert(TRACE_LINKS_MAX <= UINT16_MAX, "link_end can name the last link");
_Static_assert(offsetof(struct abi_slot, walk) % 8 == 0, "the trace is aligned");

/* The words [hi - words, hi) of the stack. */
struct trace_span {
	const uint64_t *hi;
	uint64_t words;
};

static inline struct trace_span span_from(uint64_t sp, uint64_t hi)
{
	return (struct trace_span){(const uint64_t *)hi, (hi - sp) / sizeof(uint64_t)};
}

/* Number of links of the `count` outermost frames. */
static inline uint64_t kept_links(const struct trace *trace, uint64_t count)
{
	uint64_t links = count ? load_relaxed(&trace->link_end[count - 1]) : 0;
	return ht_likely(links <= TRACE_LINKS_MAX) ? links : TRACE_LINKS_MAX;
}

/* The node's pc for frame `i`. */
static inline uint64_t kept_frame(const struct trace *trace, uint64_t i)
{
	uint64_t links = kept_links(trace, i + 1);
	if (ht_likely(!(trace->flags[i] & TRACE_INTERPRETS)) || links == 0)
		return trace->frame[i].pc;
	return step_interpreted(trace->frame[i].pc, trace->link_word[links - 1], trace->scripts);
}

/* Whether a walk in `state`, whose rsp is that of frame `i`, continues as it did from that frame.
 */
static inline bool kept_goes_on(
	const struct trace *trace, uint64_t i, const struct step_state *state)
{
	const struct trace_frame *frame = &trace->frame[i];
	return frame->pc == state->pc &&
	       (frame->fp == state->fp || !(trace->flags[i] & TRACE_NEEDS_FP));
}

/*
 * The words of a span, addressed by link_at. As an unsigned number, link_at counts from 2^32 words
 * below `hi`: the largest value is the last word of the stack; 0 and positive values lie far below
 * the span.
 */
struct trace_links {
	uint64_t base;	/* address of word 0, which lies outside of the span */
	uint64_t first; /* number of the span's first word */
};

static inline struct trace_links trace_links_of(struct trace_span span)
{
	const uint64_t all = UINT64_C(1) << 32;
	return (struct trace_links){(uint64_t)span.hi - all * sizeof(uint64_t), all - span.words};
}

static inline bool kept_link_holds(
	const struct trace *trace, uint64_t link, struct trace_links links)
{
	uint64_t at = (uint32_t)load_relaxed(&trace->link_at[link]);
	return ht_likely(at >= links.first) &&
	       ht_likely(*(const uint64_t *)(links.base + at * sizeof(uint64_t)) ==
			 trace->link_word[link]);
}

/* Checks the first `links` links from the innermost outwards, up to the first that does not hold.
 * Returns the number of links from that one outwards, that one included; 0: all hold. */
static inline __attribute__((always_inline)) uint64_t kept_links_held(
	const struct trace *trace, uint64_t links, struct trace_span span)
{
	const struct trace_links in = trace_links_of(span);
	/* Checks four links at a time; if one of the four does not hold, the loop below finds it.
	 */
	while (ht_likely(links >= 4) && ht_likely(kept_link_holds(trace, links - 1, in)) &&
		ht_likely(kept_link_holds(trace, links - 2, in)) &&
		ht_likely(kept_link_holds(trace, links - 3, in)) &&
		ht_likely(kept_link_holds(trace, links - 4, in)))
		links -= 4;
	while (links > 0 && kept_link_holds(trace, links - 1, in))
		links--;
	return links;
}

/* All frames from the given one to the outermost are unchanged. */
#define TRACE_INTACT UINT64_MAX

/*
 * Whether a walk that has reached kept frame `count - 1` would find the frames outside it again:
 * TRACE_INTACT, or the index of the innermost frame from which the walk would differ. Checks
 * outwards from there, so it reads no word that the walk would not load: beyond a difference, the
 * word's place may belong to an array in unreadable memory.
 */
static inline uint64_t kept_left(const struct trace *trace, uint64_t count, struct trace_span span)
{
	uint64_t links = kept_links_held(trace, kept_links(trace, count), span);
	if (ht_likely(links == 0))
		return TRACE_INTACT;
	while (--count > 0 && kept_links(trace, count) >= links)
		;
	return count;
}

/* Number of kept frames; 0 if they belong to another thread or another snapshot. */
static inline uint64_t kept_count(const struct trace *trace, const struct abi_slot *slot,
	const struct abi_snapshot *snapshot, uint64_t hi)
{
	uint64_t count = load_relaxed(&trace->count);
	bool kept = count <= TRACE_FRAMES_MAX && snapshot &&
		    trace->snapshot == (uint64_t)snapshot &&
		    trace->incarnation == slot->head.incarnation && trace->hi == hi &&
		    trace->generation == snapshot->generation;
	return kept ? count : 0;
}

/* The id of the stack of all `count` kept frames, if a walk from `state`, on the stack that ends at
 * `hi`, would find it again; 0: the stack differs. */
static inline __attribute__((always_inline)) uint32_t kept_stack(
	const struct trace *trace, uint64_t count, const struct step_state *state, uint64_t hi)
{
	if (ht_unlikely(trace->frame[count - 1].sp != state->sp) ||
		ht_unlikely(!kept_goes_on(trace, count - 1, state)) ||
		ht_unlikely(kept_links_held(trace, kept_links(trace, count),
				    span_from(state->sp, hi)) != 0))
		return 0;
	return (uint32_t)trace->id;
}
