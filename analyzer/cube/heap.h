/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole heap, including blocks from before the window: the readings of the allocators' own
 * counters at the window's start and end, combined with the events between them.
 */
#pragma once

#include "analyzer/cube/cube.h"
#include "analyzer/cube/spread.h"
#include "analyzer/model/model.h"

/* Sums of the window's events up to some moment. */
struct heap_sum {
	uint64_t live_bytes;   /* requested bytes */
	uint64_t before_bytes; /* bytes of older blocks that were freed, headers included */
	uint64_t moved_bytes;  /* sum of the bytes allocated and the bytes freed */
	uint64_t small_blocks, large_blocks; /* live blocks below 64 KiB, and the others */
};

/* Zero-initialised is empty and valid. */
struct heap_notes {
	struct heap_sum begun[MODEL_HEAPS_MAX], ended[MODEL_HEAPS_MAX]; /* by reading */
	size_t begun_count, ended_count;
	struct spread spread;			/* of the reading in progress */
	uint64_t spread_bytes[MODEL_HEAPS_MAX]; /* by reading */
	uint64_t header_bytes;			/* of a block; 0 until a reading gives it */
	uint64_t before_bytes;
};

/* Call it when all events before the beginning (or end) of reading `index` have passed. */
void heap_note(struct heap_notes *notes, const struct model *model, const struct cube *cube,
	size_t index, bool ended);
/* Counts the free of an older block; returns the bytes that it took. */
uint64_t heap_before_freed(struct heap_notes *notes, uint64_t usable_bytes);

struct heap {
	bool is_told;			 /* the trace has a reading of the heap */
	bool known;			 /* the heap at the start is known */
	const char *allocator, *reason;	 /* `reason`: of the first unknown account; otherwise of the
					    first inexact one; "": none */
	uint64_t start_bytes, off_bytes; /* off_bytes: largest error of start_bytes */
	/* From the first reading, which includes the events from the window's start up to that
	 * reading. */
	uint64_t start_held_bytes, system_bytes, arenas;

	/* False: the heap's size between start and end is unknown, because the capture is a sample
	 * or has a pause, or the start is unknown; the peak below then means nothing. The peak is
	 * never less than start_bytes and end_bytes. */
	bool has_curve;
	uint64_t peak_bytes, peak_time_ns;
	uint64_t peak_least_bytes, peak_most_bytes;

	bool end_told; /* the trace has a reading at the end */
	bool end_known;
	const char *end_allocator, *end_reason;
	uint64_t end_bytes, end_off_bytes, end_system_bytes;
	/* Bounds of the heap at the end by the events; set if they overlap the range of the
	 * reading. */
	bool end_is_bounded;
	uint64_t end_floor_bytes, end_ceiling_bytes;
	/* Growth between the first and the last reading, and the growth by events between them;
	 * known if both readings are. */
	bool growth_known;
	int64_t growth_bytes, explained_bytes;
	bool is_unexplained; /* both growths differ by more than their errors although no event was
				lost */
};

/* A figure with its error, as bounds. */
struct heap_range {
	bool is_known;	/* false: no bounds */
	bool is_figure; /* the error is 0 or less than the figure: print the figure, not the bounds
			 */
	uint64_t least_bytes, most_bytes;
};

struct heap_range heap_range_of(uint64_t bytes, uint64_t off_bytes);
/* The bounds of the heap at the end; with end_is_bounded never below the live bytes. */
struct heap_range heap_end_range(const struct heap *heap);
/* The bounds of the peak, which are never below those of the start and of the end. */
struct heap_range heap_peak_range(const struct heap *heap);

struct heap heap_of(
	const struct model *model, const struct heap_notes *notes, const struct cube *cube);
/* The heap's size when the window's blocks take `live_bytes` and older blocks of `before_bytes`
 * have been freed. */
uint64_t heap_bytes_at(const struct heap *heap, uint64_t live_bytes, uint64_t before_bytes);
