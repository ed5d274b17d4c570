/* SPDX-License-Identifier: Apache-2.0
 *
 * Firefox Profiler's processed profile, version 60, which newer viewers convert on loading:
 * allocations and frees with their times (nativeAllocations), and the memory over time (a counter).
 * Tables are written column by column, so events are kept in memory.
 *
 * More than EVENTS_MAX events would not open in a browser. Then a sample of blocks is drawn: a
 * block of s bytes with probability s / rate (at most 1), counted as max(s, rate) bytes, so that
 * sums of bytes stay right on average. A block's allocation and its free are either both drawn or
 * both left out.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/export/events.h"
#include "analyzer/export/firefox_tables.h"
#include "analyzer/export/names.h"
#include "analyzer/views/parts.h"
#include "format/array.h"

#define VERSION	      60
#define EVENTS_MAX    500000u
#define EVENTS_WANTED 450000u		 /* expected number of drawn events */
#define NUMBER_MAX    ((1ull << 53) - 1) /* the largest exact integer in JavaScript */

struct firefox {
	FILE *out;
	const struct view *view;
	uint64_t rate; /* a power of two; 0: every event is written */
	struct firefox_tables tables;
	struct firefox_table events;
	uint64_t left_out; /* events beyond EVENTS_MAX */
};

/* --- events ------------------------------------------------------------------------------------
 */

/* A pseudorandom function of `value` (the finaliser of splitmix64). */
static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

/* The bytes that a block represents; 0: not drawn. The result is the same for a block's allocation
 * and its free. */
static uint64_t weight_of(const struct firefox *firefox, const struct live_block *block)
{
	const struct model *model = &firefox->view->analysis->model;
	const uint64_t bytes = sample_share_of(block, model->capture.sample_bytes).bytes;
	if (!firefox->rate || bytes >= firefox->rate)
		return bytes;
	const uint64_t random = mix(mix(block->addr) + block->birth_ns);
	return (random & (firefox->rate - 1)) < bytes ? firefox->rate : 0;
}

static struct ht_err *add_event(struct firefox *firefox, const struct replay_call *call,
	const struct live_block *block, bool is_free)
{
	const struct threads *threads = &firefox->view->analysis->model.threads;
	const uint64_t weight = weight_of(firefox, block);
	if (firefox->rate && !weight)
		return NULL;
	if (firefox->events.rows == EVENTS_MAX) {
		firefox->left_out++;
		return NULL;
	}
	uint32_t stack;
	HT_TRY(firefox_tables_stack(&firefox->tables, block->stack, &stack));
	const int64_t bytes = (int64_t)(weight < NUMBER_MAX ? weight : NUMBER_MAX);
	return firefox_table_add(&firefox->events,
		(const int64_t[]){(int64_t)call->time_ns, is_free ? -bytes : bytes,
			firefox_cell(stack), (int64_t)(block->addr & NUMBER_MAX),
			call->thread < threads->count ? threads->thread[call->thread].tid : 0});
}

static struct ht_err *allocated(
	void *context, const struct replay_call *call, struct live_block *block)
{
	return add_event(context, call, block, false);
}

/* Uses the stack of the allocation: the trace has no stacks of frees. */
static struct ht_err *freed(void *context, const struct replay_call *call,
	const struct live_block *block, bool temporary)
{
	(void)temporary;
	return add_event(context, call, block, true);
}

/* Expected number of drawn events. */
static double count_drawn(const struct part *part, size_t count, uint64_t rate)
{
	double drawn = 0;
	for (size_t i = 0; i < count; i++) {
		const struct sums *sums = &part[i].sums;
		const double mean = sums->allocations ? (double)sums->allocated_bytes /
								(double)sums->allocations
						      : 0;
		const double chance = rate && mean < (double)rate ? mean / (double)rate : 1;
		const uint64_t events = sums->samples < sums->allocations
						? 2 * sums->samples
						: sums->allocations + sums->frees;
		drawn += chance * (double)events;
	}
	return drawn;
}

/* Finds the smallest rate with at most EVENTS_WANTED expected events. */
static struct ht_err *find_rate(struct firefox *firefox)
{
	HT_FREED struct part *part = NULL;
	size_t count;
	HT_TRY(parts_find(firefox->view, PARTS_SIZE, &part, &count));
	if (count_drawn(part, count, 0) > EVENTS_MAX)
		for (firefox->rate = 1; firefox->rate < 1ull << 62 &&
					count_drawn(part, count, firefox->rate) > EVENTS_WANTED;)
			firefox->rate *= 2;
	return NULL;
}

static struct ht_err *read_events(struct firefox *firefox, struct export_job *job)
{
	const struct model_observer observer = {
		.replay = {.context = firefox, .allocated = allocated, .freed = freed},
	};
	HT_TRY(find_rate(firefox));
	HT_TRY(events_read(job, &observer));
	if (firefox->rate)
		snprintf(job->note, sizeof(job->note),
			"firefox: more than %u events; blocks below %" PRIu64
			" bytes are a sample, and their bytes are estimates%s",
			EVENTS_MAX, firefox->rate,
			firefox->left_out ? "; the last events are left out" : "");
	return NULL;
}

/* --- members -----------------------------------------------------------------------------------
 */

/* The viewer hides a thread without samples: write one at each end. */
static void put_thread(const struct firefox *firefox)
{
	const struct model *model = &firefox->view->analysis->model;
	FILE *out = firefox->out;
	char name[NAMES_BYTES];
	names_copy(name, model->comm ? model->comm : "unknown");
	fputs("\"threads\":[{\"processType\":\"default\",\"processStartupTime\":0,"
	      "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
	      "\"pausedRanges\":[],\"isMainThread\":true,\"name\":",
		out);
	names_put_json(out, name);
	fputs(",\"processName\":", out);
	names_put_json(out, name);
	fprintf(out, ",\"pid\":\"%" PRIu64 "\",\"tid\":\"%" PRIu64 "\",\n", model->target.pid,
		model->target.pid);
	fputs("\"samples\":{\"weightType\":\"samples\",\"weight\":null,\"stack\":[null,null],"
	      "\"time\":[0,",
		out);
	firefox_put_ms(out, events_end_ns(firefox->view));
	fputs("],\"length\":2},\n\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],"
	      "\"endTime\":[],\"phase\":[],\"category\":[],\"length\":0},\n",
		out);
	fputs("\"nativeAllocations\":{\"weightType\":\"bytes\",", out);
	firefox_table_put(out, &firefox->events);
	fputs("}],\n", out);
}

static struct ht_err *put_counter(const struct firefox *firefox)
{
	static const char *const column[] = {"time", "number", "count", NULL};
	struct firefox_table samples = {.column = column, .has_times = true};
	const struct view *view = firefox->view;
	const uint64_t last_ns = events_end_ns(view), step_ns = view->analysis->cube.step_ns;
	struct ht_err *err = NULL;
	HT_FREED struct window_series *series = malloc(sizeof(*series));
	if (!series)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for a counter");
	view_total_series(view, view->window, series);
	for (uint32_t i = 0; i < series->count && !err; i++) {
		const uint64_t end_ns = (i + 1) * step_ns;
		err = firefox_table_add(&samples,
			(const int64_t[]){(int64_t)(end_ns < last_ns ? end_ns : last_ns),
				(int64_t)(series->allocated_blocks[i] + series->freed_blocks[i]),
				series->live_bytes[i] - (i ? series->live_bytes[i - 1] : 0)});
	}
	fprintf(firefox->out,
		"\"counters\":[{\"name\":\"malloc\",\"category\":\"Memory\",\"description\":"
		"\"Bytes allocated in the window and not freed\",\"pid\":\"%" PRIu64
		"\",\"mainThreadIndex\":0,\"samples\":{",
		view->analysis->model.target.pid);
	firefox_table_put(firefox->out, &samples);
	fputs("}],\n", firefox->out);
	free(samples.cell);
	return err;
}

static void put_meta(const struct firefox *firefox)
{
	const struct view *view = firefox->view;
	const struct model *model = &view->analysis->model;
	FILE *out = firefox->out;
	char name[NAMES_BYTES];
	names_copy(name, model->comm ? model->comm : "unknown");
	fputs("{\"meta\":{\"interval\":1,\"startTime\":", out);
	firefox_put_ms(out, model->capture.start_unix_ns + view->from_ns);
	fputs(",\"processType\":0,\"product\":", out);
	names_put_json(out, name);
	fprintf(out,
		",\"importedFrom\":\"heaptap %s\",\"stackwalk\":1,\"version\":27,"
		"\"preprocessedProfileVersion\":%d,\"symbolicated\":true,\"markerSchema\":[],"
		"\"platform\":\"Linux\",\n",
		HEAPTAP_VERSION, VERSION);
	fputs("\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":"
	      "[\"Other\"]},{\"name\":\"Native\",\"color\":\"blue\",\"subcategories\":[\"Other\"]}"
	      ",{\"name\":\"JavaScript\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]}]},\n",
		out);
}

struct ht_err *export_firefox(FILE *out, struct export_job *job)
{
	static const char *const column[] = {
		"time", "weight", "stack", "memoryAddress", "threadId", NULL};
	struct firefox firefox = {
		.out = out, .view = job->view, .events = {.column = column, .has_times = true}};
	struct ht_err *err = firefox_tables_init(&firefox.tables, job->view);
	HT_THEN(err, read_events(&firefox, job));
	if (!err) {
		put_meta(&firefox);
		put_thread(&firefox);
		err = put_counter(&firefox);
	}
	HT_THEN(err, firefox_tables_put(out, &firefox.tables));
	if (!err)
		fputs("}\n", out);
	firefox_tables_deinit(&firefox.tables);
	free(firefox.events.cell);
	return err;
}
