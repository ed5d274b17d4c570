/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/heap/glibc/glibc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "attach/heap/glibc/bins.h"
#include "attach/heap/glibc/tcache.h"
#include "attach/heap/view/account.h"
#include "attach/heap/view/variables.h"
#include "attach/heap/view/walks.h"
#include "attach/proc/proc_status.h"
#include "format/array.h"

#define WALKS_MAX    4u
#define HEADER_BYTES 8u /* of a block */
#define TRIES_MAX    4u /* to find the arenas */
/* If free chunks exceed this total, their resident pages are not counted: a whole reading must take
 * less than a second. */
#define RESIDENT_MAX_BYTES (8ull << 30)

struct reading {
	struct view *view;
	struct heap_account *account;
	raddr_t *ring; /* room for ARENAS_MAX arenas */
	size_t arena_count;
	raddr_t tunables_at;
	struct tunables tunables;
	unsigned threads;
	const char *trouble; /* why the account is unknown; NULL: it is known */
	/* free bytes; resident_bytes: the part of both that is in resident pages */
	uint64_t top_bytes, bins_bytes, resident_bytes;
	bool resident_unknown;
	bool partial, moved;
};

/* --- one arena --- */

static void add_resident(struct reading *reading, raddr_t addr, uint64_t bytes)
{
	uint64_t resident_bytes;
	if (!reading->resident_unknown &&
		view_resident(reading->view, addr, addr + bytes, &resident_bytes))
		reading->resident_bytes += resident_bytes;
	else
		reading->resident_unknown = true;
}

/* Pages of free chunks, and of the top, may have been given back to the kernel, or never touched:
 * count only pages in memory. */
static void add_free(struct reading *reading, const struct bins *now)
{
	reading->top_bytes += now->top_bytes;
	reading->bins_bytes += now->free_bytes - now->top_bytes;
	reading->resident_unknown |=
		!now->whole || reading->top_bytes + reading->bins_bytes > RESIDENT_MAX_BYTES;
	if (now->top_bytes)
		add_resident(reading, now->state.top, now->top_bytes);
	for (size_t i = 0; i < now->count && !reading->resident_unknown; i++)
		add_resident(reading, now->chunk[i].addr, now->chunk[i].bytes);
}

static void add_arena(struct reading *reading, const struct bins *now, uint64_t moved_bytes)
{
	struct heap_account *account = reading->account;
	add_free(reading, now);
	uint64_t held_bytes = now->state.system_bytes - now->free_bytes;
	account->held_bytes += held_bytes;
	account->system_bytes += now->state.system_bytes;
	/* If a list was not walked to its end, any block that counts as held may be free. */
	account->off_bytes += now->whole ? moved_bytes : held_bytes;
	reading->partial |= !now->whole;
	reading->moved |= moved_bytes != 0;
}

/* Two walks through one arena. */
struct walked {
	raddr_t arena;
	struct bins walk[2];
};

static struct ht_err *walk(struct view *view, void *context, unsigned slot, bool *ret_valid)
{
	struct walked *walked = context;
	struct ht_err *err = bins_walk(view, walked->arena, &walked->walk[slot]);
	*ret_valid = walked->walk[slot].valid;
	return err;
}

static uint64_t moved_bytes(void *context, unsigned before, unsigned now)
{
	struct walked *walked = context;
	return bins_moved_bytes(&walked->walk[before], &walked->walk[now]);
}

static const struct walks_how how = {.max = WALKS_MAX, .walk = walk, .moved_bytes = moved_bytes};

static void take_arena(
	struct reading *reading, const struct walked *walked, const struct walks *walks)
{
	const struct bins *last = &walked->walk[walks->last];
	const struct bins *before = &walked->walk[walks->last ^ 1];
	if (!walks->in_row)
		reading->trouble = "one of its arenas is damaged";
	else if (walks->in_row == 1)
		add_arena(reading, last, last->free_bytes);
	else if (before->whole && !last->whole)
		add_arena(reading, before, before->free_bytes);
	else
		add_arena(reading, last, walks->moved_bytes);
}

/* `share`: the part of the budget for this arena. */
static struct ht_err *read_arena(struct reading *reading, raddr_t arena, uint64_t share)
{
	struct walked walked = {.arena = arena};
	struct walks walks;
	uint64_t kept = view_limit(reading->view, share);
	struct ht_err *err = walks_take(reading->view, &how, &walked, &walks);
	view_unlimit(reading->view, kept);
	if (!err && !reading->view->err)
		take_arena(reading, &walked, &walks);
	bins_deinit(&walked.walk[0]);
	bins_deinit(&walked.walk[1]);
	return err;
}

static struct ht_err *read_arenas(struct reading *reading)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < reading->arena_count && !err && !reading->trouble; i++)
		err = read_arena(reading, reading->ring[i],
			reading->view->left / (reading->arena_count - i));
	reading->account->arenas = (uint32_t)reading->arena_count;
	if (reading->partial && reading->view->swapped)
		account_explain(reading->account, "part of its free blocks is swapped out");
	else if (reading->partial)
		account_explain(reading->account,
			"it has more free blocks, or changes them faster, than heaptap can read");
	return err;
}

/* --- caches, mapped blocks --- */

static void take_caches(
	struct reading *reading, const struct tcache *before, const struct tcache *now)
{
	struct heap_account *account = reading->account;
	uint64_t bytes = now->bytes < account->held_bytes ? now->bytes : account->held_bytes;
	uint64_t moved = account_distance(before->bytes, now->bytes);
	unsigned unknown = reading->threads > now->known ? reading->threads - now->known : 0;
	uint64_t unknown_bytes = unknown * tcache_max_bytes(&reading->tunables);
	account->held_bytes -= bytes;
	if (!unknown)
		account_value(account, MEMORY_GLIBC_CACHED, bytes);
	/* Cached blocks are a part of held_bytes. */
	if (unknown_bytes > account->held_bytes)
		unknown_bytes = account->held_bytes;
	account->off_bytes += moved;
	reading->moved |= moved != 0;
	if (!unknown_bytes)
		return;
	account->off_bytes += unknown_bytes;
	account_explain(account, "the caches of %u of %u threads could not be read", unknown,
		reading->threads);
}

static void take_mapped(struct reading *reading, uint64_t mapped_bytes)
{
	struct heap_account *account = reading->account;
	struct tunables now;
	if (!tunables_read(reading->view, reading->tunables_at, &now)) {
		reading->trouble = "the sum of its mapped blocks is wrong";
		return;
	}
	uint64_t moved = account_distance(mapped_bytes, now.mapped_bytes);
	account->held_bytes += now.mapped_bytes;
	account->system_bytes += now.mapped_bytes;
	account_value(account, MEMORY_GLIBC_MAPPED, now.mapped_bytes);
	account->off_bytes += moved;
	reading->moved |= moved != 0;
}

/* --- the whole account --- */

static struct ht_err *read_all(struct reading *reading)
{
	struct view *view = reading->view;
	struct proc_status status;
	struct tcache_places places;
	uint64_t mapped_bytes = reading->tunables.mapped_bytes;
	HT_TRY(proc_status(view->proc, 0, &status));
	reading->threads = status.threads;
	struct ht_err *err = tcache_find(view, &reading->tunables, &places);
	if (!err) {
		struct tcache before = tcache_read(view, &reading->tunables, &places);
		/* The caches are read before and after the arenas: a block that moves between cache
		 * and arena meanwhile changes both readings. */
		err = read_arenas(reading);
		struct tcache now = tcache_read(view, &reading->tunables, &places);
		take_caches(reading, &before, &now);
	}
	tcache_places_deinit(&places);
	if (!err)
		take_mapped(reading, mapped_bytes);
	if (reading->moved)
		account_explain(reading->account, "it was in use while it was read");
	return err;
}

static struct ht_err *read_found(struct reading *reading, const struct variables *in)
{
	struct view *view = reading->view;
	struct heap_account *account = reading->account;
	reading->tunables_at = tunables_find(view, in->data, in->bytes, in->addr);
	if (!reading->tunables_at || !tunables_read(view, reading->tunables_at, &reading->tunables))
		reading->trouble = "heaptap does not know its version";
	struct ht_err *err = reading->trouble ? NULL : read_all(reading);
	account->known = !reading->trouble;
	account->header_bytes = HEADER_BYTES;
	if (!reading->partial) {
		account_value(account, MEMORY_GLIBC_USED, account->held_bytes);
		account_value(account, MEMORY_GLIBC_TOP, reading->top_bytes);
		account_value(account, MEMORY_GLIBC_BINS, reading->bins_bytes);
	}
	if (!reading->resident_unknown)
		account_value(account, MEMORY_GLIBC_FREE_RESIDENT, reading->resident_bytes);
	if (reading->trouble)
		snprintf(account->reason, sizeof(account->reason), "%s", reading->trouble);
	return err;
}

/* A heap that was never used: everything is 0, and known. */
static void take_unused(struct heap_account *account)
{
	static const enum memory_kind kind[] = {MEMORY_GLIBC_USED, MEMORY_GLIBC_TOP,
		MEMORY_GLIBC_BINS, MEMORY_GLIBC_CACHED, MEMORY_GLIBC_MAPPED,
		MEMORY_GLIBC_FREE_RESIDENT};
	for (size_t i = 0; i < HT_ARRAY_SIZE(kind); i++)
		account_value(account, kind[i], 0);
}

/* Finds the arenas in the module's variables, and reads them. `*ret_again`: another try may find
 * them. */
static struct ht_err *find_and_read(
	struct reading *reading, const struct module *module, bool *ret_found, bool *ret_again)
{
	struct variables in;
	*ret_again = false;
	HT_TRY(variables_read(reading->view, module, false, &in));
	HT_FREED uint8_t *data = in.data;
	if (!data)
		return NULL;
	*ret_found = arena_find(
		reading->view, data, in.bytes, in.addr, reading->ring, &reading->arena_count);
	if (*ret_found)
		return read_found(reading, &in);
	if (!arena_is_unused(data, in.bytes, in.addr)) {
		*ret_again = reading->arena_count != 0;
		return NULL;
	}
	*ret_found = reading->account->known = true;
	reading->account->header_bytes = HEADER_BYTES;
	take_unused(reading->account);
	return NULL;
}

/* The heap of an arena may have grown into memory that the view does not know yet. */
struct ht_err *glibc_read(
	struct view *view, const struct module *module, struct heap_account *ret, bool *ret_found)
{
	struct reading reading = {.view = view, .account = ret};
	bool again = true;
	*ret = (struct heap_account){.allocator = "glibc"};
	*ret_found = false;
	HT_FREED raddr_t *ring = calloc(ARENAS_MAX, sizeof(*ring));
	if (!ring)
		return ht_err_new(HT_ERR_NOMEM, "no memory for a list of arenas");
	reading.ring = ring;
	for (unsigned tries = 0; tries < TRIES_MAX && again && !view->err; tries++) {
		if (tries)
			view_pause(view);
		HT_TRY(find_and_read(&reading, module, ret_found, &again));
	}
	return NULL;
}
