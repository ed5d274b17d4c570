/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of a trace: its contents, its end, and records that no daemon would write.
 */
#include "analyzer/model/model.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/analyzer/scene.h"

static struct scene scene;
static struct model model;
static const struct model_observer watch_nothing;

static void begin(void)
{
	scene_init(&scene);
}

static void load(void)
{
	ck_no_err(model_load(&model, tracebuild_finish(&scene.trace), "it", &watch_nothing));
}

static void end(void)
{
	model_deinit(&model);
	scene_deinit(&scene);
}

static void put_pause(uint64_t since_start_ns, uint64_t paused)
{
	const struct rec rec = {
		.kind = REC_PAUSE, .pause = {SCENE_START_NS + since_start_ns, paused}};
	tracebuild_put(&scene.trace, &rec);
}

static void check_pause(size_t i, uint64_t begin_ns, uint64_t end_ns)
{
	ck_assert_uint_eq(model.pause[i].begin_ns, begin_ns);
	ck_assert_uint_eq(model.pause[i].end_ns, end_ns);
}

static void check_left(struct rec_left left, bool has_left, const char *text)
{
	char is[MODEL_LEFT_BYTES];
	begin();
	const struct rec rec = {.kind = REC_LEFT, .left = left};
	tracebuild_put(&scene.trace, &rec);
	tracebuild_end(&scene.trace, REC_END_STOP, SCENE_START_NS + 100, 0);
	load();
	model_left_text(&model, is);
	ck_assert_uint_eq(model.has_left, has_left);
	ck_assert_str_eq(is, text);
	end();
}

HT_TEST(how_the_process_was_left_is_kept)
{
	check_left((struct rec_left){REC_LEFT_UNCHANGED, 6, {0}}, true,
		"unchanged: mappings, descriptors, allocator addresses, code, threads and signals "
		"are as before "
		"the capture");
	check_left((struct rec_left){REC_LEFT_CODE, 6, {"it sleeps", 9}}, true,
		"heaptap's code was left in the process, where it only forwards calls: it sleeps");
	check_left((struct rec_left){REC_LEFT_ENDED + 1, 6, {0}}, false,
		"the trace does not say how the process was left");
}

HT_TEST(a_killed_capture_does_not_say_how_the_process_was_left)
{
	char is[MODEL_LEFT_BYTES];
	begin();
	load();
	model_left_text(&model, is);
	ck_assert_str_eq(is, "the trace does not say how the process was left: it has no end");
	ck_assert_str_eq(model_ended(&model), "truncated");
	end();
}

HT_TEST(pauses_are_kept)
{
	begin();
	put_pause(5, 0); /* no pause has begun */
	put_pause(10, 1);
	put_pause(15, 1); /* a pause has already begun */
	put_pause(20, 0);
	put_pause(18, 2); /* before the end of the last one */
	put_pause(19, 0);
	put_pause(60, 1);
	tracebuild_end(&scene.trace, REC_END_STOP, SCENE_START_NS + 100, 0);
	load();
	ck_assert_uint_eq(model.pause_count, 3);
	check_pause(0, 10, 20);
	check_pause(1, 20, 20);
	check_pause(2, 60, 100);
	end();
}

HT_TEST(target_threads_marks_and_counters_are_kept)
{
	begin();
	tracebuild_thread(&scene.trace, 7, "old");
	tracebuild_thread(&scene.trace, 7, "new");
	const struct rec mark = {
		.kind = REC_MARK, .mark = {.mono_ns = SCENE_START_NS + 5, .text = {"here", 4}}};
	tracebuild_put(&scene.trace, &mark);
	tracebuild_rss(&scene.trace, SCENE_START_NS, 10);
	tracebuild_rss(&scene.trace, SCENE_START_NS, 30);
	tracebuild_rss(&scene.trace, SCENE_START_NS, 20);
	tracebuild_loss(&scene.trace, REC_COUNTER_LOST_SOCKET, 5);
	tracebuild_loss(&scene.trace, REC_COUNTER_LOST_SOCKET, 9); /* a running total */
	tracebuild_loss(&scene.trace, 1000, 1);
	tracebuild_end(&scene.trace, REC_END_TARGET_EXIT, SCENE_START_NS + 100, 0);
	load();
	ck_assert_str_eq(model.comm, "target");
	ck_assert_uint_eq(model.target.pid, 4242);
	ck_assert_uint_eq(model.threads.count, 1);
	ck_assert_str_eq(model.threads.thread[0].name, "new");
	ck_assert_uint_eq(model.mark_count, 1);
	ck_assert_str_eq(model.mark[0].text, "here");
	ck_assert_uint_eq(model.mark[0].time_ns, 5);
	ck_assert_uint_eq(model.memory.first.number[MEMORY_RSS], 10);
	ck_assert_uint_eq(model.memory.last.number[MEMORY_RSS], 20);
	ck_assert_uint_eq(model.rss_max_bytes, 30);
	ck_assert_uint_eq(model_dropped_events(&model), 9);
	ck_assert_str_eq(model_ended(&model), "target_exit");
	ck_assert_uint_eq(model.duration_ns, 100);
	ck_assert_int_eq(model.how_ended, TRACE_COMPLETE);
	end();
}

HT_TEST(without_an_end_record_the_last_clock_counts)
{
	begin();
	tracebuild_sync(&scene.trace, SCENE_START_NS + 70, SCENE_START_NS + 70);
	load();
	ck_assert_str_eq(model_ended(&model), "truncated");
	ck_assert_uint_eq(model.duration_ns, 70);
	end();
}

/* The time that the detach takes is no part of the window. */
HT_TEST(the_window_ends_when_the_end_record_says)
{
	begin();
	tracebuild_sync(&scene.trace, SCENE_START_NS + 70, SCENE_START_NS + 70);
	tracebuild_sync(&scene.trace, SCENE_START_NS + 900, SCENE_START_NS + 900);
	tracebuild_end(&scene.trace, REC_END_DURATION, SCENE_START_NS + 100, 0);
	load();
	ck_assert_uint_eq(model.duration_ns, 100);
	end();
}

HT_TEST(missing_events_count_as_dropped)
{
	begin();
	scene_malloc(&scene, 0, 0x1000, 8, 0);
	scene_malloc(&scene, 0, 0x2000, 8, 0);
	tracebuild_loss(&scene.trace, REC_COUNTER_EVENTS, 10);
	tracebuild_loss(&scene.trace, REC_COUNTER_LOST_TIMEOUT, 3);
	struct analysis *analysis = scene_analyze(&scene);
	ck_assert_uint_eq(model_missing_events(&analysis->model), 5);
	ck_assert_uint_eq(model_dropped_events(&analysis->model), 8);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

HT_TEST(refuses_other_files)
{
	struct analysis *analysis = NULL;
	int fd = tracebuild_memfd("{\"schema\":1}", 12);
	ck_err(analysis_create(fd, "it", NULL, &analysis), HT_ERR_FORMAT);
	close(fd);
	fd = tracebuild_memfd("", 0);
	ck_err(analysis_create(fd, "it", NULL, &analysis), HT_ERR_FORMAT);
	close(fd);
}

/* Returns a random number of any magnitude. */
static uint64_t any(void)
{
	uint64_t bits = (uint64_t)random() << 40 ^ (uint64_t)random() << 20 ^ (uint64_t)random();
	return bits >> random() % 64;
}

static struct bytes_out node_body; /* of the record under construction */

static struct rec_nodes any_nodes(void)
{
	struct rec_nodes nodes = {.first_id = any() % 5000, .count = any() % 10};
	node_body.length = 0;
	for (uint64_t i = 0; i < nodes.count; i++) {
		const struct rec_node node = {any(), (uint32_t)any() % 5000, (uint16_t)any(), 0};
		ck_no_err(rec_node_append(&node_body, &node));
	}
	nodes.body = bytes_of(node_body.data, node_body.length);
	return nodes;
}

static struct eventbuild mapping_events; /* events of the record under construction */

/* Random bytes hardly ever make a valid mapping event, so these events have random values. */
static struct bytes any_mappings(void)
{
	mapping_events.out.length = 0;
	eventbuild_restart(&mapping_events);
	eventbuild_thread(&mapping_events, 1, 0);
	for (unsigned i = 0; i < 8; i++) {
		const struct eventbuild_mapping mapping = {
			.call = (enum abi_mapping_call)(random() % 7),
			.addr = random() % 9 ? (any() % 64) << 12 : any(),
			.length = random() % 9 ? (any() % 32) << 12 : any(),
			.protect = (uint8_t)(random() % 2),
			.flags = (uint32_t)any(),
			.stack = (uint32_t)random() % 5};
		eventbuild_mapping(&mapping_events, any(), &mapping, 1, 0);
	}
	return bytes_of(mapping_events.out.data, mapping_events.out.length);
}

static struct bytes_out culled_entries;

static struct rec_culled any_culled(void)
{
	culled_entries.length = 0;
	for (unsigned i = 0; i < 6; i++) {
		struct culled_entry entry = {.kind = i ? 1 + random() % 7 : CULLED_THREAD,
			.count = (unsigned)random() % 9};
		for (unsigned n = 0; n < entry.count; n++)
			entry.number[n] = random() % 2 ? any() % 5 : any();
		ck_no_err(culled_put(&culled_entries, &entry));
	}
	return (struct rec_culled){random() % 2 ? any() % 100 : any(), any(), any(), any(), any(),
		any(), any() % 2, any(), any(), any(), any() % 2, any(), any(),
		bytes_of(culled_entries.data, culled_entries.length)};
}

static struct rec any_record(const char *noise)
{
	struct rec rec = {.kind = (enum rec_kind)(1 + random() % REC_CULLED)};
	const struct rec_string text = {noise + random() % 100, (size_t)random() % 100};
	switch (rec.kind) {
	case REC_TARGET:
		rec.target = (struct rec_target){any(), any(), any(), text, text, text, text};
		break;
	case REC_CAPTURE:
		rec.capture = (struct rec_capture){
			any(), any(), any(), any(), any(), any(), any(), any(), any() % 2};
		break;
	case REC_MODULE:
		rec.module = (struct rec_module){any() % 20, any() % 4, any(), any(), any(), text,
			{noise, (size_t)random() % 20}, any(), 1, {{any(), any(), any(), any()}}};
		break;
	case REC_MODULE_GONE:
		rec.module_gone = (struct rec_module_gone){any() % 20, any() % 4};
		break;
	case REC_THREAD:
		rec.thread = (struct rec_thread){any(), text, any()};
		break;
	case REC_NODES:
		rec.nodes = any_nodes();
		break;
	case REC_EVENTS:
		rec.events = (struct rec_events){.slot = any() % 4,
			.position = any() % 300,
			.flags = any() % 2,
			.body = bytes_of(text.data, text.length)};
		if (random() % 2)
			rec.events = (struct rec_events){.slot = any() % 4,
				.position = any() % 300,
				.flags = REC_EVENTS_RESTART,
				.body = any_mappings()};
		break;
	case REC_SYNC:
		rec.sync = (struct rec_sync){any(), any(), any()};
		break;
	case REC_RSS:
		rec.rss = (struct rec_rss){any(), any()};
		break;
	case REC_LOSS:
		rec.loss = (struct rec_loss){any() % 20, any()};
		break;
	case REC_SYMBOL:
		rec.symbol = (struct rec_symbol){any() % 20, any(), 1, {{text, text, any()}}};
		break;
	case REC_MARK:
		rec.mark = (struct rec_mark){any(), text};
		break;
	case REC_END:
		rec.end = (struct rec_end){any() % 9, any(), any()};
		break;
	case REC_COLUMNS:
		break;
	case REC_SCRIPTS:
		rec.scripts = (struct rec_scripts){any() % 4, any()};
		break;
	case REC_NAMES:
		rec.names = (struct rec_names){any() % 20, any() % 14, text};
		break;
	case REC_HEAP:
		rec.heap = (struct rec_heap){any(), any(), 1,
			{{text, any() % 2, any(), any(), any(), any(), any(), text}}};
		break;
	case REC_MAPPED:
		rec.mapped = (struct rec_mapped){
			2, {{any(), any(), any() % 4}, {any() << 12, any() << 12, 1}}};
		break;
	case REC_MEMORY:
		rec.memory = (struct rec_memory){
			any(), 3, {{MEMORY_RSS, any()}, {any() % 100, any()}, {any(), any()}}};
		break;
	case REC_LEFT:
		rec.left = (struct rec_left){any() % 7, any(), text};
		break;
	case REC_PAUSE:
		rec.pause = (struct rec_pause){any(), any() % 3};
		break;
	case REC_CULLED:
		rec.culled = any_culled();
		break;
	case REC_SETTLE:
		rec.settle = (struct rec_settle){any(), any(), any()};
		break;
	}
	return rec;
}

static void play_noise(unsigned seed)
{
	srandom(seed);
	char noise[256];
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)random();
	struct tracebuild trace;
	tracebuild_init(&trace);
	for (unsigned i = 0; i < 200; i++) {
		const struct rec rec = any_record(noise);
		/* The reader never gets records that the writer refuses. */
		ht_err_free(trace_writer_put(trace.writer, &rec));
	}
	struct analysis *analysis = NULL;
	struct ht_err *err = analysis_create(tracebuild_finish(&trace), "noise", NULL, &analysis);
	if (err) {
		ck_assert_int_eq(err->code, HT_ERR_FORMAT);
		ht_err_free(err);
	} else {
		const struct cube_counts *total = &analysis->cube.total;
		ck_assert_uint_le(total->frees, total->allocations);
		ck_assert_uint_le(total->temporary, total->frees);
		uint64_t anonymous = 0;
		const struct mappings *mappings = &analysis->mappings;
		for (size_t i = 0; i < mappings->stack_count; i++)
			anonymous += mappings->stack[i].live.anonymous;
		ck_assert_uint_eq(anonymous, mappings->live.anonymous);
		ck_assert_uint_le(mappings->peak_bytes, 1ull << 58);
	}
	analysis_destroy(analysis);
	tracebuild_deinit(&trace);
}

HT_TEST(records_of_any_content_are_survived)
{
	for (unsigned seed = 1; seed <= 150; seed++)
		play_noise(seed);
	bytes_out_deinit(&node_body);
	eventbuild_deinit(&mapping_events);
}

HT_SUITE("analyzer/model")
