/* SPDX-License-Identifier: Apache-2.0
 *
 * Each bit of a small trace flipped, and the trace cut at each length: it is read and reported
 * without a crash, and is refused (exit 9), called a part (exit 7), or has the same report.
 */
#include <stdlib.h>
#include <unistd.h>

#include "analyzer/export/report_json.h"
#include "analyzer/ui/report_text.h"
#include "tests/unit/analyzer/stage.h"

enum verdict { REFUSED, IN_PART, WHOLE };

static struct bytes_out trace;
static char *report; /* the report of the undamaged trace */
static unsigned count[3];

static char *print_report(const struct view *view, bool is_json)
{
	const struct terminal terminal = {.columns = 80, .has_utf8 = true};
	const struct page_options page = {.path = "trace", .is_utc = true};
	const struct report_options json = {.order = METRIC_OUTSTANDING};
	char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);
	const struct text text = text_for(out, &terminal);
	ck_no_err(is_json ? report_json_write(out, view, &json)
			  : report_text_write(&text, view, &page));
	fclose(out);
	return bytes;
}

static enum verdict read_bytes(const uint8_t *data, size_t length, char **ret_json)
{
	char ending_text[MODEL_ENDING_BYTES];
	struct analysis *analysis = NULL;
	int fd = tracebuild_memfd(data, length);
	struct ht_err *err = analysis_create(fd, "trace", NULL, &analysis);
	close(fd);
	if (err) {
		ck_assert_msg(err->code == HT_ERR_FORMAT, "%s", err->message);
		ht_err_free(err);
		return REFUSED;
	}
	struct view *view = scene_view(analysis, NULL);
	*ret_json = print_report(view, true);
	free(print_report(view, false));
	view_destroy(view);
	const struct model_ending ending = model_ending(&analysis->model);
	const bool is_part = model_ending_text(&ending, ending_text);
	analysis_destroy(analysis);
	return is_part ? IN_PART : WHOLE;
}

static void put_heap(struct tracebuild *build)
{
	const struct rec heap = {.kind = REC_HEAP,
		.heap = {.begin_tsc = SCENE_START_NS,
			.end_tsc = SCENE_START_NS,
			.account_count = 1,
			.account = {{.allocator = {"glibc", 5},
				.flags = REC_ACCOUNT_KNOWN,
				.held_bytes = 5000,
				.system_bytes = 9000,
				.arenas = 1}}}};
	tracebuild_put(build, &heap);
}

/* Makes a trace in several blocks that has records of most kinds. */
static void make_trace(void)
{
	struct stage stage;
	stage_begin(&stage);
	struct tracebuild *build = &stage.scene.trace;
	tracebuild_thread(build, SCENE_TID(0), "main");
	uint32_t root = stage_node(&stage, 0, "main", NULL);
	uint32_t leaf = stage_node(&stage, root, "store::put", "store::get");
	uint64_t addr = stage_alloc(&stage, 0, 100, leaf);
	stage_alloc(&stage, 1, 2000, root);
	scene_sync(&stage.scene);
	ck_no_err(trace_writer_flush(build->writer));
	stage_free(&stage, addr);
	for (unsigned i = 0; i < 20; i++)
		stage_alloc(&stage, 0, 50 + i, leaf);
	tracebuild_rss(build, stage.scene.now, 1 << 20);
	put_heap(build);
	const struct rec mark = {
		.kind = REC_MARK, .mark = {.mono_ns = stage.scene.now, .text = {"deploy", 6}}};
	tracebuild_put(build, &mark);
	tracebuild_module_gone(build, 1, 5);
	tracebuild_loss(build, REC_COUNTER_EVENTS, 23);
	scene_sync(&stage.scene);
	tracebuild_end(build, REC_END_DURATION, stage.scene.now, stage.scene.now);
	tracebuild_slurp(tracebuild_finish(build), &trace);
	scene_deinit(&stage.scene);
	ck_assert_int_eq(read_bytes(trace.data, trace.length, &report), WHOLE);
}

static enum verdict check(const uint8_t *data, size_t length, const char *how, size_t at)
{
	char *json = NULL;
	const enum verdict verdict = read_bytes(data, length, &json);
	ck_assert_msg(verdict != WHOLE || strcmp(json, report) == 0,
		"%s at %zu: another report, and no word of damage", how, at);
	count[verdict]++;
	free(json);
	return verdict;
}

static void end(void)
{
	bytes_out_deinit(&trace);
	free(report);
}

HT_TEST(each_bit_flipped)
{
	make_trace();
	for (size_t bit = 0; bit < 8 * trace.length; bit++) {
		trace.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		check(trace.data, trace.length, "bit", bit);
		trace.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_msg(count[REFUSED] > 200 && count[IN_PART] > 1000, "%u refused, %u in part",
		count[REFUSED], count[IN_PART]);
	end();
}

HT_TEST(cut_at_each_length)
{
	make_trace();
	for (size_t length = 0; length < trace.length; length++)
		ck_assert_int_ne(check(trace.data, length, "cut", length), WHOLE);
	ck_assert_msg(count[REFUSED] > 20 && count[IN_PART] > 200, "%u refused, %u in part",
		count[REFUSED], count[IN_PART]);
	end();
}

/* Repeated parts of a trace, and bytes after its end. */
HT_TEST(bytes_added_and_repeated)
{
	make_trace();
	struct bytes_out longer = {0};
	ck_no_err(bytes_out_put(&longer, trace.data, trace.length));
	for (size_t i = 0; i < 64; i++) {
		ck_no_err(bytes_out_u8(&longer, (uint8_t)(i * 37)));
		ck_assert_int_eq(check(longer.data, longer.length, "more", i), IN_PART);
	}
	longer.length = trace.length;
	ck_no_err(bytes_out_put(&longer, trace.data, trace.length));
	ck_assert_int_eq(check(longer.data, longer.length, "twice", 0), IN_PART);
	bytes_out_deinit(&longer);
	end();
}

HT_SUITE("analyzer/damage")
