/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cube/mappings.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "format/array.h"

#define PAGE_SHIFT	12u
#define HUGE_SHIFT	21u /* page size of MAP_HUGETLB without a size flag */
#define HUGE_SHIFT_MAX	34u
#define HUGE_SHIFT_MASK 63u
#define HUGE_SHIFT_AT	26u
#define ADDRESS_MAX	(1ull << 57) /* with five levels of page tables */
#define ACCESSIBLE	(PROT_READ | PROT_WRITE | PROT_EXEC)

void mappings_deinit(struct mappings *mappings)
{
	ranges_deinit(&mappings->ranges);
	map_deinit(&mappings->by_node);
	free(mappings->stack);
	free(mappings->moving);
	free(mappings->piece);
	*mappings = (struct mappings){0};
}

static struct ht_err *find_stack(
	struct mappings *mappings, uint32_t node, struct mappings_stack **ret)
{
	uint32_t index;
	if (!map_get(&mappings->by_node, node, &index)) {
		index = (uint32_t)mappings->stack_count;
		HT_TRY(ARRAY_RESERVE(mappings->stack, mappings->stack_capacity,
			mappings->stack_count + 1, "stacks"));
		HT_TRY(map_put(&mappings->by_node, node, index));
		mappings->stack[index] =
			(struct mappings_stack){.node = node, .peak_epoch = mappings->peak_epoch};
		mappings->stack_count++;
	}
	*ret = &mappings->stack[index];
	return NULL;
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* Call before the stack's accessible bytes change, as in cube.c. */
static void settle_peak(const struct mappings *mappings, struct mappings_stack *stack)
{
	if (stack->peak_epoch == mappings->peak_epoch)
		return;
	stack->peak_epoch = mappings->peak_epoch;
	stack->peak_bytes = mappings_accessible(&stack->live);
}

static void note_peak(struct mappings *mappings, uint64_t time_ns)
{
	uint64_t bytes = mappings_accessible(&mappings->live);
	if (bytes <= mappings->peak_bytes)
		return;
	mappings->peak_bytes = bytes;
	mappings->peak_time_ns = time_ns;
	mappings->peak_epoch++;
}

static uint64_t *bytes_of_kind(struct mappings_bytes *bytes, const struct range *range)
{
	if (!range->usable)
		return &bytes->reserved;
	return range->file ? &bytes->file : &bytes->anonymous;
}

/* Counts a range that appears or disappears. For ranges from before the window, only the
 * disappearance counts. */
static struct ht_err *account(struct mappings *mappings, const struct range *range, bool comes)
{
	struct mappings_stack *stack;
	uint64_t bytes = range->hi - range->lo;
	if (range->usable ? range->used_before : range->before) {
		if (range->usable && !comes)
			mappings->before_bytes += bytes;
		return NULL;
	}
	HT_TRY(find_stack(mappings, range->usable ? range->used_by : range->mapped_by, &stack));
	settle_peak(mappings, stack);
	*bytes_of_kind(&stack->live, range) += comes ? bytes : -bytes;
	*bytes_of_kind(&mappings->live, range) += comes ? bytes : -bytes;
	return NULL;
}

static struct ht_err *put(struct mappings *mappings, const struct range *range)
{
	bool refused;
	HT_TRY(ranges_put(&mappings->ranges, range, &refused));
	mappings->refused += refused;
	return refused ? NULL : account(mappings, range, true);
}

/* Puts back a piece of take_pieces unchanged: it is still accounted for. */
static struct ht_err *put_back(struct mappings *mappings, const struct range *piece)
{
	bool refused;
	HT_TRY(ranges_put(&mappings->ranges, piece, &refused));
	return refused ? account(mappings, piece, false) : NULL;
}

static struct ht_err *goes(void *context, const struct range *piece)
{
	return account(context, piece, false);
}

static struct ht_err *cut(struct mappings *mappings, const struct range *place)
{
	return ranges_cut(&mappings->ranges, place->lo, place->hi, goes, mappings);
}

/* --- events ---------------------------------------------------------------------------------- */

/* The range of a call in whole pages; false: no process can have this range. */
static bool place_of(uint64_t addr, uint64_t length, unsigned shift, struct range *ret)
{
	uint64_t page = 1ull << shift;
	if (addr % (1u << PAGE_SHIFT) || !length || addr > ADDRESS_MAX ||
		length > ADDRESS_MAX - addr)
		return false;
	ret->lo = addr;
	ret->hi = addr + ((length + page - 1) & -page);
	return true;
}

static unsigned page_shift(uint32_t flags)
{
	if (!(flags & MAP_HUGETLB))
		return PAGE_SHIFT;
	unsigned shift = flags >> HUGE_SHIFT_AT & HUGE_SHIFT_MASK;
	return shift >= PAGE_SHIFT && shift <= HUGE_SHIFT_MAX ? shift : HUGE_SHIFT;
}

static struct ht_err *made(struct mappings *mappings, uint32_t node, uint64_t bytes)
{
	struct mappings_stack *stack;
	HT_TRY(find_stack(mappings, node, &stack));
	stack->calls++;
	stack->made_bytes += bytes;
	mappings->made_bytes += bytes;
	return NULL;
}

/* Maps `range`, allocated in the window by `node`, in place of all ranges that it overlaps. */
static struct ht_err *replace(struct mappings *mappings, struct range *range, uint32_t node)
{
	range->mapped_by = node;
	range->used_by = range->usable ? node : 0;
	range->before = range->used_before = false;
	HT_TRY(cut(mappings, range));
	HT_TRY(put(mappings, range));
	return made(mappings, node, range->usable ? range->hi - range->lo : 0);
}

static struct ht_err *take_map(struct mappings *mappings, const struct event *event)
{
	struct range range = {
		.usable = event->protect & ACCESSIBLE,
		.file = !(event->flags & MAP_ANONYMOUS),
	};
	if (!place_of(event->addr, event->size, page_shift(event->flags), &range)) {
		mappings->odd++;
		return NULL;
	}
	return replace(mappings, &range, event->stack);
}

static struct ht_err *take_unmap(struct mappings *mappings, const struct event *event)
{
	struct range place;
	if (place_of(event->addr, event->size, PAGE_SHIFT, &place))
		return cut(mappings, &place);
	mappings->odd++;
	return NULL;
}

static struct ht_err *take_piece(void *context, const struct range *piece)
{
	struct mappings *mappings = context;
	HT_TRY(ARRAY_RESERVE(mappings->piece, mappings->piece_capacity, mappings->piece_count + 1,
		"mapped ranges"));
	mappings->piece[mappings->piece_count++] = *piece;
	return NULL;
}

/* Moves the ranges within `place` to mappings->piece. They are no longer in `ranges`, but still
 * accounted for. */
static struct ht_err *take_pieces(struct mappings *mappings, const struct range *place)
{
	mappings->piece_count = 0;
	return ranges_cut(&mappings->ranges, place->lo, place->hi, take_piece, mappings);
}

static struct ht_err *find_moving(struct mappings *mappings, uint32_t stream, struct range **ret)
{
	HT_TRY(ARRAY_RESERVE(
		mappings->moving, mappings->moving_capacity, (size_t)stream + 1, "streams"));
	*ret = &mappings->moving[stream];
	return NULL;
}

/* An mremap moves one mapping, so any piece of it gives its properties. If the old range also stays
 * mapped, its length here is 0; its first page gives the properties. */
static struct ht_err *take_move_from(
	struct mappings *mappings, uint32_t stream, const struct event *event)
{
	struct range place, *moving;
	HT_TRY(find_moving(mappings, stream, &moving));
	*moving = (struct range){0};
	bool stays = event->size == 0;
	if (!place_of(event->addr, stays ? 1 : event->size, PAGE_SHIFT, &place)) {
		mappings->odd++;
		return NULL;
	}
	HT_TRY(take_pieces(mappings, &place));
	for (size_t i = 0; i < mappings->piece_count; i++) {
		*moving = mappings->piece[i];
		HT_TRY(stays ? put_back(mappings, moving) : account(mappings, moving, false));
	}
	return NULL;
}

static struct ht_err *take_move_to(
	struct mappings *mappings, uint32_t stream, const struct event *event)
{
	struct range *moving;
	HT_TRY(find_moving(mappings, stream, &moving));
	struct range range = {.usable = !moving->hi || moving->usable, .file = moving->file};
	*moving = (struct range){0};
	if (!place_of(event->addr, event->size, PAGE_SHIFT, &range)) {
		mappings->odd++;
		return NULL;
	}
	return replace(mappings, &range, event->stack);
}

static struct ht_err *protect_piece(struct mappings *mappings, const struct range *piece,
	const struct event *event, uint64_t *made_bytes)
{
	struct range now = *piece;
	now.usable = event->protect & ACCESSIBLE;
	if (now.usable == piece->usable)
		return put_back(mappings, piece);
	if (now.usable) {
		/* The memory belongs to the window even if the reservation is older. */
		now.used_by = event->stack;
		now.used_before = false;
		*made_bytes += now.hi - now.lo;
	} else {
		now.used_by = 0;
	}
	HT_TRY(account(mappings, piece, false));
	return put(mappings, &now);
}

static struct ht_err *take_protect(struct mappings *mappings, const struct event *event)
{
	struct range place;
	uint64_t made_bytes = 0;
	if (!place_of(event->addr, event->size, PAGE_SHIFT, &place)) {
		/* A call with 0 bytes is legal and does nothing. */
		mappings->odd += event->size != 0;
		return NULL;
	}
	HT_TRY(take_pieces(mappings, &place));
	for (size_t i = 0; i < mappings->piece_count; i++)
		HT_TRY(protect_piece(mappings, &mappings->piece[i], event, &made_bytes));
	return made_bytes ? made(mappings, event->stack, made_bytes) : NULL;
}

static struct ht_err *take_advice(struct mappings *mappings, const struct event *event)
{
	struct range place;
	if (place_of(event->addr, event->size, PAGE_SHIFT, &place))
		mappings->advised_bytes += place.hi - place.lo;
	return NULL;
}

static struct ht_err *take(struct mappings *mappings, uint32_t stream, const struct event *event)
{
	switch ((enum abi_mapping_call)event->hook) {
	case ABI_CALL_MAP:
		return take_map(mappings, event);
	case ABI_CALL_UNMAP:
		return take_unmap(mappings, event);
	case ABI_CALL_MOVE_FROM:
		return take_move_from(mappings, stream, event);
	case ABI_CALL_MOVE_TO:
		return take_move_to(mappings, stream, event);
	case ABI_CALL_ADVISE:
		return take_advice(mappings, event);
	case ABI_CALL_PROTECT:
		return take_protect(mappings, event);
	}
	return NULL;
}

struct ht_err *mappings_before(struct mappings *mappings, const struct rec_range *rec)
{
	struct range range = {
		.usable = rec->flags & REC_RANGE_USABLE,
		.file = rec->flags & REC_RANGE_FILE,
		.before = true,
		.used_before = rec->flags & REC_RANGE_USABLE,
	};
	/* Mappings do not overlap: if two ranges do, the trace is wrong, so ignore the second. */
	if (!place_of(rec->lo, rec->bytes, PAGE_SHIFT, &range) ||
		ranges_overlap(&mappings->ranges, range.lo, range.hi)) {
		mappings->odd++;
		return NULL;
	}
	return put(mappings, &range);
}

struct ht_err *mappings_event(
	struct mappings *mappings, uint32_t stream, const struct event *event, uint64_t time_ns)
{
	if (event->hook < MAPPINGS_CALLS)
		mappings->calls[event->hook]++;
	struct ht_err *err = take(mappings, stream, event);
	note_peak(mappings, time_ns);
	return err;
}

/* --- the result ------------------------------------------------------------------------------- */

void mappings_finish(struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->stack_count; i++)
		settle_peak(mappings, &mappings->stack[i]);
}

static int compare(const void *a, const void *b, void *context)
{
	const struct mappings *mappings = context;
	const struct mappings_stack *x = &mappings->stack[*(const uint32_t *)a];
	const struct mappings_stack *y = &mappings->stack[*(const uint32_t *)b];
	const uint64_t left[] = {
		mappings_accessible(&x->live), x->live.reserved, x->made_bytes, y->node};
	const uint64_t right[] = {
		mappings_accessible(&y->live), y->live.reserved, y->made_bytes, x->node};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(left); i++)
		if (left[i] != right[i])
			return left[i] < right[i] ? 1 : -1;
	return 0;
}

struct ht_err *mappings_order(const struct mappings *mappings, uint32_t **ret)
{
	uint32_t *order = malloc((mappings->stack_count + 1) * sizeof(*order));
	if (!order)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a list of stacks");
	for (size_t i = 0; i < mappings->stack_count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, mappings->stack_count, sizeof(*order), compare, (void *)mappings);
	*ret = order;
	return NULL;
}
