/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole heap, with what it held before the window: what the allocators' own books said at the
 * window's start and end, and what the events between add to that.
 */
#pragma once

#include "analyzer/cube/cube.h"
#include "analyzer/cube/spread.h"
#include "analyzer/model/model.h"

/* What the events of the window add up to, until some moment. */
struct heap_sum {
	uint64_t live_bytes;   /* requested ones */
	uint64_t before_bytes; /* of older blocks that were freed, with their headers */
	uint64_t moved_bytes;  /* allocated and freed */
	uint64_t small_blocks, large_blocks; /* live ones */
};

/* Zero-initialised is empty and valid. */
struct heap_notes {
	struct heap_sum begun[MODEL_HEAPS_MAX], ended[MODEL_HEAPS_MAX]; /* by reading */
	size_t begun_count, ended_count;
	struct spread spread;			/* of the reading that is under way */
	uint64_t spread_bytes[MODEL_HEAPS_MAX]; /* by reading */
	uint64_t header_bytes; /* of a block; 0 until there is a reading that tells */
	uint64_t before_bytes;
};

/* The events until now are those before the reading `index` of the model began, or ended. */
void heap_note(struct heap_notes *notes, const struct model *model, const struct cube *cube,
	size_t index, bool ended);
/* An older block: returns what it took. */
uint64_t heap_before_freed(struct heap_notes *notes, uint64_t usable_bytes);

struct heap {
	bool is_told;			 /* the trace has a reading of it */
	bool known;			 /* at the start */
	const char *allocator, *reason;	 /* the first unknown one's, or the first that is off; "" */
	uint64_t start_bytes, off_bytes; /* start_bytes is off by no more than that */
	/* By the first reading, with what the window had added by then. */
	uint64_t start_held_bytes, system_bytes, arenas;

	/* Never less than start_bytes and end_bytes. Not known in a sample,
	 * with a pause, nor without a start. */
	bool has_curve;
	uint64_t peak_bytes, peak_time_ns;
	uint64_t peak_least_bytes, peak_most_bytes;

	bool end_told; /* there is a reading at the end */
	bool end_known;
	const char *end_allocator, *end_reason;
	uint64_t end_bytes, end_off_bytes, end_system_bytes;
	/* What the events say about the end, where that narrows the books' word down. */
	bool end_is_bounded;
	uint64_t end_floor_bytes, end_ceiling_bytes;
	/* From the first reading to the last one, and by the events; where both are known. */
	bool growth_known;
	int64_t growth_bytes, explained_bytes;
	bool is_unexplained; /* they differ by more than they can, and no event was lost */
};

/* A figure and what it is off by, for a reader: the bounds between which it is. */
struct heap_range {
	bool is_known;	/* otherwise anything is possible */
	bool is_figure; /* it is off by less than itself: the figure says more than the bounds */
	uint64_t least_bytes, most_bytes;
};

struct heap_range heap_range_of(uint64_t bytes, uint64_t off_bytes);
/* The bounds of the end: never below what was allocated in the window and not freed. */
struct heap_range heap_end_range(const struct heap *heap);
/* The bounds of the peak, which are never below those of the start and of the end. */
struct heap_range heap_peak_range(const struct heap *heap);

struct heap heap_of(
	const struct model *model, const struct heap_notes *notes, const struct cube *cube);
/* What is held when the window's blocks take `live_bytes`, and older ones of `before_bytes` were
 * freed. */
uint64_t heap_bytes_at(const struct heap *heap, uint64_t live_bytes, uint64_t before_bytes);
