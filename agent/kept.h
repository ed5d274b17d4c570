/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack that a slot keeps: what trace.c makes of a walk, so that the next one can begin with
 * it.
 */
#pragma once

#include "agent/step.h"
#include "format/abi_control.h"

/* What else is known of a frame, beside STEP_SPECIAL. */
#define TRACE_USES_FP  2u /* the step to the caller begins at rbp */
#define TRACE_NEEDS_FP 4u /* some step from here on does, with the rbp of this frame */

struct trace_frame {
	uint64_t sp, fp;
	uint64_t hash; /* of this frame and all outside it */
};

/* A saved rbp by which a frame was found. */
struct trace_fp_link {
	uint32_t frame; /* index of the frame that was left; its caller has the rbp */
	int32_t at;	/* as in trace.link_at */
};

/* Bytes of a frame in the arrays of struct trace. */
#define TRACE_FRAME_BYTES                                                                          \
	(sizeof(struct trace_frame) + sizeof(struct trace_fp_link) + sizeof(uint64_t) +            \
		sizeof(int32_t) + sizeof(uint8_t))
#define TRACE_FRAMES_MAX ((sizeof(((struct abi_slot *)0)->walk) - 128) / TRACE_FRAME_BYTES)
#define TRACE_FRESH_MAX	 (ABI_FRAMES_MAX * sizeof(uint64_t) / sizeof(struct step_state))

/* Stacks that are larger are walked anew each time: places in them do not fit 32 bits. */
#define TRACE_STACK_WORDS_MAX (1ull << 31)

/*
 * Lies in abi_slot.walk. All zero is a trace of nothing. Frames are outermost first; of a stack
 * that is deeper they are the outer ones.
 */
struct trace {
	uint64_t snapshot; /* address of the abi_snapshot, and its generation */
	uint32_t generation;
	uint32_t incarnation;
	uint64_t hi;	/* where the stack begins */
	uint64_t count; /* frames; 0 while they change */
	uint64_t id;	/* of the stack of all these frames; 0: unknown */
	uint64_t fp_count;
	uint64_t first_link; /* 1: there is no link 0 */
	uint64_t version;    /* another whenever the outermost frame is another (memo.h) */
	/*
	 * Link i is the word of the stack that led from frame i to its caller, frame i - 1, whose
	 * PC it is; link 0 the word that is 0, the outermost return address. So the PC of frame i
	 * is link_word[i + 1]. link_at is where it lies, in words from `hi` on, negative; 0: the
	 * step loaded more than a return address, and is made again.
	 */
	uint64_t link_word[TRACE_FRAMES_MAX + 1];
	struct trace_frame frame[TRACE_FRAMES_MAX];
	struct trace_fp_link fp_link[TRACE_FRAMES_MAX];
	int32_t link_at[TRACE_FRAMES_MAX];
	uint8_t flags[TRACE_FRAMES_MAX];
};

_Static_assert(sizeof(struct trace) <= sizeof(((struct abi_slot *)0)->walk), "a trace fits");
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
