/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/heap.h"

/*
 * Upper bound of the memory that a block takes beyond its requested bytes: glibc's header,
 * rounding, and a remainder too small for another block. A block with its own mapping takes up to
 * two pages more.
 */
#define SMALL_ROUND_BYTES 48u
#define LARGE_ROUND_BYTES 8192u
#define LARGE_CLASS	  17u /* number of bits of the smallest large size: 64 KiB */
/* The C library and the dynamic linker allocate a little for each thread without a GOT slot. */
#define UNSEEN_BYTES (1u << 20)

/* A trace may claim any sizes: clamps to a quarter of INT64_MAX, so that sums and differences of a
 * few results do not overflow. */
static int64_t signed_of(uint64_t bytes)
{
	return bytes > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)bytes;
}

static uint64_t more_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t not_negative(int64_t bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

/* --- one reading --- */

struct reading {
	bool known;
	bool has_sizes; /* some allocator has blocks without headers: its size classes are 25 %
			   apart */
	/* the account whose reason applies to the whole reading */
	const struct model_account *telling;
	struct model_account sum;
};

static struct reading reading_of(const struct model_heap *heap)
{
	struct reading reading = {.known = heap->account_count != 0};
	uint64_t most_bytes = 0;
	for (size_t i = 0; i < heap->account_count; i++) {
		const struct model_account *account = &heap->account[i];
		bool tells = reading.known && (!account->known || account->reason[0]);
		if (!reading.telling || (tells && !reading.telling->reason[0]) ||
			(tells && !account->known))
			reading.telling = account;
		reading.known &= account->known;
		reading.has_sizes |= account->known && !account->header_bytes;
		reading.sum.held_bytes = ht_plus(reading.sum.held_bytes, account->held_bytes);
		reading.sum.off_bytes = ht_plus(reading.sum.off_bytes, account->off_bytes);
		reading.sum.system_bytes = ht_plus(reading.sum.system_bytes, account->system_bytes);
		reading.sum.arenas = ht_plus(reading.sum.arenas, account->arenas);
		/* The trace does not say which allocator a freed block belonged to: assume the one
		 * that holds the most. */
		if (account->held_bytes > most_bytes) {
			most_bytes = account->held_bytes;
			reading.sum.header_bytes = account->header_bytes;
		}
	}
	return reading;
}

/* --- notes while the trace is read --- */

static struct heap_sum sum_of(const struct heap_notes *notes, const struct cube *cube)
{
	const struct cube_counts *total = &cube->total;
	struct heap_sum sum = {.live_bytes = cube_live_bytes(cube),
		.before_bytes = notes->before_bytes,
		.moved_bytes = ht_plus(
			ht_plus(total->allocated_bytes, total->freed_bytes), notes->before_bytes)};
	sum.large_blocks = cube_live_blocks_from(cube, LARGE_CLASS);
	sum.small_blocks = cube_live_blocks(cube) - sum.large_blocks;
	return sum;
}

void heap_note(struct heap_notes *notes, const struct model *model, const struct cube *cube,
	size_t index, bool ended)
{
	if (ended)
		notes->spread_bytes[index] = spread_end(&notes->spread);
	else
		spread_begin(&notes->spread);
	(ended ? notes->ended : notes->begun)[index] = sum_of(notes, cube);
	*(ended ? &notes->ended_count : &notes->begun_count) = index + 1;
	if (!notes->header_bytes)
		notes->header_bytes = reading_of(&model->heap[index]).sum.header_bytes;
}

uint64_t heap_before_freed(struct heap_notes *notes, uint64_t usable_bytes)
{
	uint64_t bytes = usable_bytes ? ht_plus(usable_bytes, notes->header_bytes) : 0;
	notes->before_bytes = ht_plus(notes->before_bytes, bytes);
	return bytes;
}

/* --- the whole --- */

/* Bytes that the events since the window's start have added to the heap. */
static int64_t added(const struct heap_sum *sum)
{
	return signed_of(sum->live_bytes) - signed_of(sum->before_bytes);
}

static uint64_t round_bytes(const struct heap_sum *sum, const struct reading *reading)
{
	if (sum->small_blocks > UINT32_MAX || sum->large_blocks > UINT32_MAX)
		return UINT64_MAX / 4;
	return sum->small_blocks * SMALL_ROUND_BYTES + sum->large_blocks * LARGE_ROUND_BYTES +
	       (reading->has_sizes ? sum->live_bytes / 4 : 0);
}

/* Sum of the bytes allocated and the bytes freed during the reading. */
static uint64_t moved_bytes(const struct heap_notes *notes, size_t index)
{
	return notes->ended[index].moved_bytes - notes->begun[index].moved_bytes;
}

/* The error of a reading by calls during it. The threads of older blocks are unknown, so all their
 * freed bytes count. */
static uint64_t spread_bytes(const struct heap_notes *notes, size_t index)
{
	const uint64_t older = notes->ended[index].before_bytes - notes->begun[index].before_bytes;
	const uint64_t spread = ht_plus(notes->spread_bytes[index], older);
	const uint64_t moved = moved_bytes(notes, index);
	return spread < moved ? spread : moved;
}

static void take_start(
	struct heap *heap, const struct reading *reading, const struct heap_notes *notes)
{
	const struct heap_sum *sum = &notes->begun[0];
	heap->start_bytes = not_negative(signed_of(reading->sum.held_bytes) - added(sum));
	heap->off_bytes = ht_plus(
		ht_plus(reading->sum.off_bytes, spread_bytes(notes, 0)), round_bytes(sum, reading));
	heap->start_held_bytes = reading->sum.held_bytes;
	heap->system_bytes = reading->sum.system_bytes;
	heap->arenas = reading->sum.arenas;
}

static void take_end(struct heap *heap, const struct reading *end, const struct heap_notes *notes)
{
	heap->end_told = true;
	heap->end_known = end->known;
	if (end->telling) {
		heap->end_allocator = end->telling->allocator;
		heap->end_reason = end->telling->reason;
	}
	if (!end->known)
		return;
	heap->end_bytes = end->sum.held_bytes;
	heap->end_off_bytes =
		ht_plus(end->sum.off_bytes, spread_bytes(notes, notes->ended_count - 1));
	heap->end_system_bytes = end->sum.system_bytes;
}

/* Upper bound of the heap at the end, from the heap at the start and the events; UINT64_MAX: no
 * bound. */
static uint64_t ceiling_of(const struct heap *heap, const struct reading *end,
	const struct heap_notes *notes, bool is_whole)
{
	const size_t last = notes->ended_count - 1;
	const struct heap_sum *sum = &notes->begun[last];
	const struct heap_range start = heap_range_of(heap->start_bytes, heap->off_bytes);
	if (!is_whole || !start.is_known)
		return UINT64_MAX;
	uint64_t more = ht_plus(ht_plus(sum->live_bytes, round_bytes(sum, end)),
		ht_plus(spread_bytes(notes, last), UNSEEN_BYTES));
	more = ht_plus(start.most_bytes, more);
	return more > sum->before_bytes ? more - sum->before_bytes : 0;
}

static uint64_t floor_of(
	const struct heap *heap, const struct heap_notes *notes, uint64_t live_bytes, bool is_whole)
{
	const size_t last = notes->ended_count - 1;
	const struct heap_sum *sum = &notes->begun[last];
	const struct heap_range start = heap_range_of(heap->start_bytes, heap->off_bytes);
	const uint64_t less = ht_plus(sum->before_bytes, spread_bytes(notes, last));
	const uint64_t bytes = ht_plus(start.least_bytes, sum->live_bytes);
	return is_whole && bytes > less ? more_of(bytes - less, live_bytes) : live_bytes;
}

/* Bounds the heap at the end by the events: a reading of a busy heap may be very inexact. */
static void bound_end(struct heap *heap, const struct reading *end, const struct heap_notes *notes,
	uint64_t live_bytes, bool is_whole)
{
	const struct heap_range range = heap_range_of(heap->end_bytes, heap->end_off_bytes);
	const uint64_t ceiling = ceiling_of(heap, end, notes, is_whole);
	const uint64_t floor = floor_of(heap, notes, live_bytes, is_whole);
	if (floor > range.most_bytes || ceiling < range.least_bytes || floor > ceiling)
		return;
	heap->end_is_bounded = true;
	heap->end_floor_bytes = floor;
	heap->end_ceiling_bytes = ceiling;
	if (heap->end_bytes < floor)
		heap->end_bytes = floor;
	if (heap->end_bytes > ceiling)
		heap->end_bytes = ceiling;
}

/* Compares the difference of both readings with the events. */
static void compare(struct heap *heap, const struct reading *start, const struct reading *end,
	const struct heap_notes *notes, bool is_whole)
{
	const struct heap_sum *sum = &notes->begun[notes->ended_count - 1];
	heap->growth_known = true;
	heap->growth_bytes = signed_of(end->sum.held_bytes) - signed_of(start->sum.held_bytes);
	heap->explained_bytes = added(sum) - added(&notes->begun[0]);
	/* To avoid a false alarm, assume that the reading missed every byte that moved. */
	const uint64_t moved =
		ht_plus(moved_bytes(notes, 0), moved_bytes(notes, notes->ended_count - 1));
	uint64_t off_bytes = ht_plus(
		ht_plus(ht_plus(heap->off_bytes, heap->end_off_bytes), moved), UNSEEN_BYTES);
	int64_t more = heap->growth_bytes - heap->explained_bytes;
	heap->is_unexplained =
		is_whole && (more > signed_of(ht_plus(off_bytes, round_bytes(sum, start))) ||
				    -more > signed_of(off_bytes));
}

/* Events count requested bytes, allocators count what blocks take: if the end exceeds the highest
 * sum of the events, the end is the peak. */
static void take_peak(struct heap *heap, const struct cube *cube, uint64_t end_ns)
{
	heap->peak_bytes = not_negative(signed_of(heap->start_bytes) + cube->highest_bytes);
	heap->peak_time_ns = cube->highest_time_ns;
	if (heap->peak_bytes < heap->start_bytes) {
		heap->peak_bytes = heap->start_bytes;
		heap->peak_time_ns = 0;
	}
	struct heap_range by_events = heap_range_of(heap->peak_bytes, heap->off_bytes);
	struct heap_range end = {0};
	if (heap->end_known)
		end = heap_end_range(heap);
	heap->peak_least_bytes = more_of(by_events.least_bytes, end.least_bytes);
	heap->peak_most_bytes = more_of(by_events.most_bytes, end.most_bytes);
	if (heap->end_known && heap->peak_bytes < heap->end_bytes) {
		heap->peak_bytes = heap->end_bytes;
		heap->peak_time_ns = end_ns;
	}
}

struct heap_range heap_end_range(const struct heap *heap)
{
	struct heap_range range = heap_range_of(heap->end_bytes, heap->end_off_bytes);
	if (!heap->end_is_bounded)
		return range;
	range.least_bytes = more_of(range.least_bytes, heap->end_floor_bytes);
	if (range.most_bytes > heap->end_ceiling_bytes)
		range.most_bytes = heap->end_ceiling_bytes;
	range.is_known = range.most_bytes != UINT64_MAX;
	range.is_figure = range.most_bytes - range.least_bytes == 0 ||
			  more_of(range.most_bytes - heap->end_bytes,
				  heap->end_bytes - range.least_bytes) < heap->end_bytes;
	return range;
}

struct heap_range heap_peak_range(const struct heap *heap)
{
	uint64_t off_bytes = more_of(heap->peak_most_bytes - heap->peak_bytes,
		heap->peak_bytes - heap->peak_least_bytes);
	struct heap_range range = heap_range_of(heap->peak_bytes, off_bytes);
	range.least_bytes = heap->peak_least_bytes;
	range.most_bytes = heap->peak_most_bytes;
	range.is_known = heap->peak_most_bytes != UINT64_MAX;
	return range;
}

struct heap_range heap_range_of(uint64_t bytes, uint64_t off_bytes)
{
	const bool is_figure = off_bytes == 0 || off_bytes < bytes;
	return (struct heap_range){.is_known = off_bytes <= UINT64_MAX - bytes,
		.is_figure = is_figure,
		.least_bytes = is_figure ? bytes - off_bytes : 0,
		.most_bytes = ht_plus(bytes, off_bytes)};
}

struct heap heap_of(
	const struct model *model, const struct heap_notes *notes, const struct cube *cube)
{
	struct heap heap = {.is_told = model->heap_count != 0,
		.allocator = "",
		.reason = "",
		.end_allocator = "",
		.end_reason = ""};
	if (!heap.is_told)
		return heap;
	const struct reading start = reading_of(&model->heap[0]);
	if (start.telling) {
		heap.allocator = start.telling->allocator;
		heap.reason = start.telling->reason;
	}
	if (!notes->ended_count)
		return heap;
	heap.known = start.known;
	if (heap.known)
		take_start(&heap, &start, notes);
	heap.has_curve = heap.known && model_is_exact(model);
	if (heap.known && model->capture.sample_bytes)
		heap.start_bytes = start.sum.held_bytes;
	size_t last = notes->ended_count - 1;
	const struct reading end = reading_of(&model->heap[last]);
	bool is_whole = heap.has_curve && model->how_ended == TRACE_COMPLETE &&
			!model_dropped_events(model) && !model->counter[REC_COUNTER_UNTAPPED] &&
			!model->counter[REC_COUNTER_UNSEEN] && !model->counter[REC_COUNTER_DAMAGE];
	if (last)
		take_end(&heap, &end, notes);
	if (heap.end_known && !model->capture.sample_bytes)
		bound_end(&heap, &end, notes, cube_live_bytes(cube), is_whole && start.known);
	if (last && start.known && end.known)
		compare(&heap, &start, &end, notes, is_whole);
	if (heap.known)
		take_peak(&heap, cube, model->duration_ns);
	return heap;
}

uint64_t heap_bytes_at(const struct heap *heap, uint64_t live_bytes, uint64_t before_bytes)
{
	const struct heap_sum sum = {.live_bytes = live_bytes, .before_bytes = before_bytes};
	return not_negative(signed_of(heap->start_bytes) + added(&sum));
}
