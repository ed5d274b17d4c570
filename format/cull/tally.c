/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cull/tally.h"

#include <stdlib.h>
#include <string.h>

#include "format/array.h"

#define BODY_MAX    (TRACE_RECORD_MAX / 2)
#define INDEX_MIN   1024u
#define PERIODS_MAX (1u << 22)

void tally_deinit(struct tally *tally)
{
	free(tally->thread);
	free(tally->site);
	free(tally->index);
	free(tally->row);
	free(tally->touched.at);
	free(tally->callers.at);
	free(tally->changed.at);
	map_deinit(&tally->by_tid);
	*tally = (struct tally){0};
}

static struct ht_err *no_memory(const char *what)
{
	return ht_err_new(HT_ERR_NOMEM, "out of memory for %s", what);
}

static struct ht_err *list_add(struct tally_list *list, uint32_t at)
{
	if (!ARRAY_HAS_ROOM(list->at, list->count, list->capacity, 64))
		return no_memory("stacks");
	list->at[list->count++] = at;
	return NULL;
}

/* --- threads -----------------------------------------------------------------------------------
 */

static struct ht_err *add_thread(
	struct tally *tally, uint32_t tid, uint64_t since_tsc, uint32_t first, uint32_t *ret)
{
	if (tally->thread_count == PERIODS_MAX - 1 ||
		!ARRAY_HAS_ROOM(tally->thread, tally->thread_count + 1, tally->thread_capacity, 64))
		return no_memory("threads");
	*ret = (uint32_t)++tally->thread_count;
	tally->thread[*ret] = (struct tally_thread){
		.tid = tid, .since_tsc = since_tsc, .first = first ? first : *ret};
	return NULL;
}

static struct ht_err *first_period(struct tally *tally, uint32_t tid, uint32_t *ret)
{
	if (map_get(&tally->by_tid, tid, ret))
		return NULL;
	HT_TRY(add_thread(tally, tid, 0, 0, ret));
	return map_put(&tally->by_tid, tid, *ret);
}

struct ht_err *tally_find_thread(
	struct tally *tally, uint32_t tid, uint64_t tsc, uint32_t *ret, uint64_t *ret_until_tsc)
{
	*ret_until_tsc = UINT64_MAX;
	HT_TRY(first_period(tally, tid, ret));
	for (uint32_t next = tally->thread[*ret].next; next; next = tally->thread[*ret].next) {
		if (tally->thread[next].since_tsc > tsc) {
			*ret_until_tsc = tally->thread[next].since_tsc;
			break;
		}
		*ret = next;
	}
	return NULL;
}

struct ht_err *tally_name(struct tally *tally, const struct rec_thread *rec)
{
	uint32_t last, next = 0;
	if (rec->tid > UINT32_MAX)
		return NULL;
	HT_TRY(first_period(tally, (uint32_t)rec->tid, &last));
	while (tally->thread[last].next)
		last = tally->thread[last].next;
	/* Every thread has a period from time 0. A first name that begins later only adds a second
	 * period, which does no harm. */
	if (rec->since_tsc <= tally->thread[last].since_tsc)
		return NULL;
	HT_TRY(add_thread(
		tally, tally->thread[last].tid, rec->since_tsc, tally->thread[last].first, &next));
	tally->thread[last].next = next;
	tally->names++;
	return NULL;
}

/* --- sites -------------------------------------------------------------------------------------
 */

/* Fibonacci hashing (Knuth, The Art of Computer Programming, vol. 3, 6.4). */
static size_t index_of(const struct tally *tally, uint32_t node, uint32_t thread, uint32_t key)
{
	uint64_t x = ((uint64_t)node << 32 | key) * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 29 ^ thread) * 0xbf58476d1ce4e5b9ull;
	return x >> 32 & (tally->index_size - 1);
}

static struct ht_err *grow_index(struct tally *tally)
{
	const size_t size = tally->index_size ? 2 * tally->index_size : INDEX_MIN;
	uint32_t *index = calloc(size, sizeof(*index));
	if (!index)
		return no_memory("stacks");
	uint32_t *old = tally->index;
	const size_t old_size = tally->index_size;
	tally->index = index;
	tally->index_size = size;
	for (size_t i = 0; i < old_size; i++) {
		uint32_t next;
		for (uint32_t at = old[i]; at; at = next) {
			struct tally_site *site = &tally->site[at];
			uint32_t *head =
				&index[index_of(tally, site->node, site->thread, site->key)];
			next = site->next;
			site->next = *head;
			*head = at;
		}
	}
	free(old);
	return NULL;
}

static struct ht_err *take_site(struct tally *tally, uint32_t *ret)
{
	*ret = tally->free_site;
	if (*ret) {
		tally->free_site = tally->site[*ret].next;
		return NULL;
	}
	if (tally->site_count == (1u << 30) - 1 ||
		!ARRAY_HAS_ROOM(tally->site, tally->site_count + 1, tally->site_capacity, 256))
		return no_memory("stacks");
	*ret = (uint32_t)++tally->site_count;
	return NULL;
}

struct ht_err *tally_find_site(
	struct tally *tally, uint32_t node, uint32_t thread, uint32_t key, uint32_t *ret)
{
	if (tally->sites >= tally->index_size)
		HT_TRY(grow_index(tally));
	const size_t home = index_of(tally, node, thread, key);
	for (*ret = tally->index[home]; *ret; *ret = tally->site[*ret].next) {
		const struct tally_site *site = &tally->site[*ret];
		if (site->node == node && site->thread == thread && site->key == key)
			return NULL;
	}
	HT_TRY(take_site(tally, ret));
	tally->site[*ret] = (struct tally_site){.node = node,
		.key = key,
		.thread = thread,
		.next = tally->index[home],
		.epoch = tally->epoch};
	tally->index[home] = *ret;
	tally->sites++;
	/* A touched site is released at the end of the interval if it has never had a block. */
	tally->site[*ret].is_touched = true;
	return list_add(&tally->touched, *ret);
}

static void release_site(struct tally *tally, uint32_t at)
{
	struct tally_site *site = &tally->site[at];
	uint32_t *link = &tally->index[index_of(tally, site->node, site->thread, site->key)];
	while (*link != at)
		link = &tally->site[*link].next;
	*link = site->next;
	site->next = tally->free_site;
	tally->free_site = at;
	tally->sites--;
}

/* --- counting ----------------------------------------------------------------------------------
 */

static uint64_t at_peak(const struct tally *tally, const struct tally_site *site)
{
	return site->epoch == tally->epoch ? site->settled_bytes : site->live_bytes;
}

/* Call before the live bytes of a site change. */
static struct ht_err *settle(struct tally *tally, uint32_t at)
{
	struct tally_site *site = &tally->site[at];
	if (site->epoch != tally->epoch) {
		site->epoch = tally->epoch;
		site->settled_bytes = site->live_bytes;
	}
	if (!site->changed_at) {
		HT_TRY(list_add(&tally->changed, at));
		site->changed_at = (uint32_t)tally->changed.count;
	}
	if (site->is_touched)
		return NULL;
	site->is_touched = true;
	return list_add(&tally->touched, at);
}

static void note_highest(struct tally *tally, uint64_t now_ns)
{
	tally->max_bytes = tally->live_bytes;
	const int64_t bytes = (int64_t)(tally->live_bytes - tally->before_bytes);
	if (bytes > tally->highest_bytes) {
		tally->highest_bytes = bytes;
		tally->highest_ns = now_ns;
		tally->has_highest = true;
	}
	if (tally->live_bytes <= tally->peak_bytes)
		return;
	tally->peak_bytes = tally->live_bytes;
	tally->peak_blocks = tally->live_blocks;
	tally->peak_ns = now_ns;
	tally->has_peak = true;
	tally->epoch++;
}

struct ht_err *tally_birth(struct tally *tally, uint32_t at, uint64_t size, uint64_t now_ns)
{
	HT_TRY(settle(tally, at));
	struct tally_site *site = &tally->site[at];
	site->live_bytes += size;
	site->live_blocks++;
	tally->live_bytes += size;
	tally->live_blocks++;
	if (tally->live_bytes > tally->max_bytes)
		note_highest(tally, now_ns);
	return NULL;
}

/* Finds or adds the row of `key` in a chain and moves it to the front. */
static struct ht_err *find_row(
	struct tally *tally, uint32_t *head, uint32_t key, struct tally_row **ret)
{
	for (uint32_t *link = head; *link; link = &tally->row[*link].next) {
		const uint32_t at = *link;
		if (tally->row[at].key != key)
			continue;
		*link = tally->row[at].next;
		tally->row[at].next = *head;
		*head = at;
		*ret = &tally->row[at];
		return NULL;
	}
	if (tally->row_count == UINT32_MAX - 1 ||
		!ARRAY_HAS_ROOM(tally->row, tally->row_count + 1, tally->row_capacity, 256))
		return no_memory("stacks");
	*ret = &tally->row[++tally->row_count];
	**ret = (struct tally_row){.key = key, .next = *head};
	*head = (uint32_t)tally->row_count;
	return NULL;
}

static struct ht_err *count_caller(struct tally *tally, const struct tally_death *death)
{
	struct tally_thread *thread = &tally->thread[death->caller];
	struct tally_row *row = NULL;
	if (!thread->row)
		HT_TRY(list_add(&tally->callers, death->caller));
	HT_TRY(find_row(tally, &thread->row, death->hook, &row));
	row->blocks++;
	row->bytes += death->size;
	return NULL;
}

static struct ht_err *count_end(struct tally *tally, const struct tally_death *death)
{
	struct tally_site *site = &tally->site[death->site];
	const uint64_t birth = death->birth_ns / TRACE_CULLED_NS;
	const uint64_t age = birth < tally->interval ? tally->interval - birth : 0;
	const uint64_t life_ns = death->now_ns - death->birth_ns;
	struct tally_row *row = NULL;
	HT_TRY(find_row(tally, &site->row, (uint32_t)(age < UINT32_MAX ? age : UINT32_MAX), &row));
	row->temporary += death->temporary;
	if (!death->culled)
		return NULL;
	row->blocks++;
	row->bytes += death->size;
	row->lifetime_us += life_ns / 1000;
	if (row->longest_ns < life_ns)
		row->longest_ns = life_ns;
	tally->lives[culled_class(life_ns)]++;
	tally->lives_bytes[culled_class(life_ns)] += death->size;
	return count_caller(tally, death);
}

struct ht_err *tally_end(struct tally *tally, const struct tally_death *death)
{
	struct ht_err *err = settle(tally, death->site);
	if (!err && (death->temporary || death->culled))
		err = count_end(tally, death);
	struct tally_site *site = &tally->site[death->site];
	site->live_bytes -= death->size;
	site->live_blocks--;
	tally->live_bytes -= death->size;
	tally->live_blocks--;
	return err;
}

void tally_before(struct tally *tally, uint64_t usable_bytes)
{
	const uint64_t bytes = usable_bytes ? usable_bytes + tally->header_bytes : 0;
	tally->before_bytes = ht_plus(tally->before_bytes, bytes);
}

/* --- records -----------------------------------------------------------------------------------
 */

struct writer {
	struct tally *tally;
	struct rec rec; /* the record; its head's sums are 0 in all records but the first */
	struct bytes_out body;
	uint32_t thread; /* of the last entry CULLED_THREAD; 0: none */
	bool is_empty;	 /* nothing to write so far */
	tally_put *put;
	void *context;
};

static struct ht_err *flush(struct writer *writer)
{
	const struct rec_culled *head = &writer->rec.culled;
	if (writer->is_empty)
		return NULL;
	writer->rec.culled.body = bytes_of(writer->body.data, writer->body.length);
	struct ht_err *err = writer->put(writer->context, &writer->rec);
	writer->rec.culled =
		(struct rec_culled){.interval = head->interval, .end_tsc = head->end_tsc};
	writer->body.length = 0;
	writer->thread = 0;
	writer->is_empty = true;
	return err;
}

/* `thread`: number of the thread period to which the entry belongs; 0: to all threads. */
static struct ht_err *put_entry(
	struct writer *writer, uint32_t thread, const struct culled_entry *entry)
{
	if (writer->body.length > BODY_MAX)
		HT_TRY(flush(writer));
	if (thread && writer->thread != thread) {
		const struct tally_thread *of = &writer->tally->thread[thread];
		const struct culled_entry begin = {
			.kind = CULLED_THREAD, .number = {of->tid, of->since_tsc}};
		HT_TRY(culled_put(&writer->body, &begin));
		writer->thread = thread;
	}
	writer->is_empty = false;
	return culled_put(&writer->body, entry);
}

static struct ht_err *put_rows(struct writer *writer, const struct tally_site *site)
{
	for (uint32_t at = site->row; at; at = writer->tally->row[at].next) {
		const struct tally_row *row = &writer->tally->row[at];
		const struct culled_entry entry = {.kind = CULLED_BLOCKS,
			.number = {site->node, site->key, row->key, row->blocks, row->bytes,
				row->lifetime_us, row->longest_ns, row->temporary}};
		HT_TRY(put_entry(writer, site->thread, &entry));
	}
	return NULL;
}

static struct ht_err *put_share(struct writer *writer, struct tally_site *site)
{
	const uint64_t bytes = at_peak(writer->tally, site);
	if (bytes == site->reported_bytes)
		return NULL;
	const struct culled_entry entry = {.kind = CULLED_PEAK,
		.number = {site->node, site->key,
			culled_fold((int64_t)(bytes - site->reported_bytes))}};
	site->reported_bytes = bytes;
	return put_entry(writer, site->thread, &entry);
}

static struct ht_err *put_callers(struct writer *writer)
{
	struct tally *tally = writer->tally;
	for (size_t i = 0; i < tally->callers.count; i++) {
		struct tally_thread *thread = &tally->thread[tally->callers.at[i]];
		for (uint32_t at = thread->row; at; at = tally->row[at].next) {
			const struct tally_row *row = &tally->row[at];
			const struct culled_entry entry = {.kind = CULLED_FREES,
				.number = {row->key, row->blocks, row->bytes}};
			HT_TRY(put_entry(writer, tally->callers.at[i], &entry));
		}
		thread->row = 0;
	}
	tally->callers.count = 0;
	return NULL;
}

static struct ht_err *put_lives(struct writer *writer)
{
	struct tally *tally = writer->tally;
	for (unsigned i = 0; i < TALLY_CLASSES; i++) {
		const struct culled_entry entry = {.kind = CULLED_LIVES,
			.number = {i, tally->lives[i], tally->lives_bytes[i]}};
		if (tally->lives[i])
			HT_TRY(put_entry(writer, 0, &entry));
	}
	memset(tally->lives, 0, sizeof(tally->lives));
	memset(tally->lives_bytes, 0, sizeof(tally->lives_bytes));
	return NULL;
}

static int compare_sites(const void *a, const void *b, void *context)
{
	const struct tally *tally = context;
	const struct tally_site *x = &tally->site[*(const uint32_t *)a];
	const struct tally_site *y = &tally->site[*(const uint32_t *)b];
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

static void forget_change(struct tally *tally, struct tally_site *site)
{
	const uint32_t moved = tally->changed.at[--tally->changed.count];
	tally->changed.at[site->changed_at - 1] = moved;
	tally->site[moved].changed_at = site->changed_at;
	site->changed_at = 0;
}

/* Releases a site that has no live blocks and whose share of the peak is 0 in the last record and
 * in the next. */
static void release_idle(struct tally *tally, uint32_t at)
{
	struct tally_site *site = &tally->site[at];
	if (site->live_blocks || site->reported_bytes || at_peak(tally, site))
		return;
	if (site->changed_at)
		forget_change(tally, site);
	release_site(tally, at);
}

static struct ht_err *put_peak(struct writer *writer)
{
	struct tally *tally = writer->tally;
	if (!tally->has_peak)
		return NULL;
	qsort_r(tally->changed.at, tally->changed.count, sizeof(*tally->changed.at), compare_sites,
		tally);
	for (size_t i = 0; i < tally->changed.count; i++)
		tally->site[tally->changed.at[i]].changed_at = (uint32_t)i + 1;
	for (size_t i = tally->changed.count; i-- > 0;) {
		const uint32_t at = tally->changed.at[i];
		struct tally_site *site = &tally->site[at];
		HT_TRY(put_share(writer, site));
		/* A site that has not changed since the peak needs no further entry. */
		if (site->epoch != tally->epoch)
			forget_change(tally, site);
		if (!site->is_touched)
			release_idle(tally, at);
	}
	return NULL;
}

static struct ht_err *put_sites(struct writer *writer)
{
	struct tally *tally = writer->tally;
	if (tally->touched.count)
		qsort_r(tally->touched.at, tally->touched.count, sizeof(*tally->touched.at),
			compare_sites, tally);
	for (size_t i = 0; i < tally->touched.count; i++)
		HT_TRY(put_rows(writer, &tally->site[tally->touched.at[i]]));
	return NULL;
}

static void forget_interval(struct tally *tally)
{
	for (size_t i = 0; i < tally->touched.count; i++) {
		struct tally_site *site = &tally->site[tally->touched.at[i]];
		site->row = 0;
		site->is_touched = false;
		release_idle(tally, tally->touched.at[i]);
	}
	tally->touched.count = 0;
	tally->row_count = 0;
	tally->has_peak = tally->has_highest = false;
	tally->max_bytes = tally->live_bytes;
}

struct ht_err *tally_close(struct tally *tally, uint64_t next, const struct rec_culled *head,
	tally_put *put, void *context)
{
	struct writer writer = {.tally = tally,
		.rec = {.kind = REC_CULLED, .culled = *head},
		.put = put,
		.context = context,
		.is_empty = !tally->touched.count && !head->events && !head->absorbed_frees};
	struct rec_culled *culled = &writer.rec.culled;
	culled->interval = tally->interval;
	culled->live_max_bytes = tally->max_bytes;
	culled->has_peak = tally->has_peak;
	culled->peak_ns = tally->peak_ns;
	culled->peak_bytes = tally->peak_bytes;
	culled->peak_blocks = tally->peak_blocks;
	culled->has_highest = tally->has_highest;
	culled->highest_ns = tally->highest_ns;
	culled->highest_bytes = culled_fold(tally->highest_bytes);
	struct ht_err *err = put_sites(&writer);
	HT_THEN(err, put_peak(&writer));
	HT_THEN(err, put_callers(&writer));
	HT_THEN(err, put_lives(&writer));
	HT_THEN(err, flush(&writer));
	bytes_out_deinit(&writer.body);
	forget_interval(tally);
	tally->interval = next;
	return err;
}
