/* SPDX-License-Identifier: Apache-2.0 */
#include "format/record.h"

#include <stdlib.h>
#include <string.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"

#define TEXT(s)                                                                                    \
	{                                                                                          \
		(s), sizeof(s) - 1                                                                 \
	}
#define PAYLOAD(s) (s), sizeof(s) - 1

static const uint8_t raw[] = {0, 1, 'r', 'a', 'w'}, sorted[] = {4, 5, 6};

/* One record of each kind, each field with a value of its own, and its payload as FORMAT.md says.
 */
static const struct {
	struct rec rec;
	const char *payload;
	size_t length;
} goldens[] = {
	{{.kind = REC_TARGET,
		 .target = {1, 2, 3, TEXT("com"), TEXT("/exe"), TEXT("6.1"), TEXT("0.1")}},
		PAYLOAD("\1\2\3\3com\4/exe\0036.1\0030.1")},
	{{.kind = REC_CAPTURE, .capture = {1, 2, 3, 4, 5, 300, 6, 7, 8}},
		PAYLOAD("\1\2\3\4\5\xac\2\6\7\10")},
	{{.kind = REC_MODULE,
		 .module = {1, 2, 3, 4, 5, TEXT("/lib"), TEXT("\xab\0\xcd"), 6, 2,
			 {{7, 8, 9, 10}, {11, 12, 13, 14}}}},
		PAYLOAD("\1\2\3\4\5\4/lib\3\xab\0\xcd\6\2\7\10\11\12\13\14\15\16")},
	{{.kind = REC_MODULE_GONE, .module_gone = {1, 2}}, PAYLOAD("\1\2")},
	{{.kind = REC_THREAD, .thread = {1, TEXT("io"), 300}}, PAYLOAD("\1\2io\xac\2")},
	{{.kind = REC_EVENTS, .events = {1, 2, 3, {raw, raw + sizeof(raw)}}},
		PAYLOAD("\1\2\3\0\1raw")},
	{{.kind = REC_SYNC, .sync = {1, 2, 3}}, PAYLOAD("\1\2\3")},
	{{.kind = REC_RSS, .rss = {1, 2}}, PAYLOAD("\1\2")},
	{{.kind = REC_LOSS, .loss = {99, 2}}, PAYLOAD("\x63\2")},
	{{.kind = REC_SYMBOL,
		 .symbol = {1, 2, 2, {{TEXT("f"), TEXT("a.c"), 3}, {TEXT("g"), TEXT(""), 0}}}},
		PAYLOAD("\1\2\2\1f\3a.c\3\1g\0\0")},
	{{.kind = REC_MARK, .mark = {1, TEXT("here")}}, PAYLOAD("\1\4here")},
	{{.kind = REC_END, .end = {1, 2, 3}}, PAYLOAD("\1\2\3")},
	{{.kind = REC_HEAP,
		 .heap = {1, 2, 2,
			 {{TEXT("glibc"), REC_ACCOUNT_KNOWN, 300, 4, 5, 6, 7, TEXT("why")},
				 {TEXT("je"), 0, 0, 0, 0, 0, 0, TEXT("")}}}},
		PAYLOAD("\1\2\2\5glibc\1\xac\2\4\5\6\7\3why\2je\0\0\0\0\0\0\0")},
	{{.kind = REC_MAPPED, .mapped = {2, {{4096, 300, 1}, {8192, 4, 3}}}},
		PAYLOAD("\2\x80\x20\xac\2\1\x80\x40\4\3")},
	{{.kind = REC_COLUMNS, .events = {1, 2, 3, {sorted, sorted + sizeof(sorted)}}},
		PAYLOAD("\1\2\3\4\5\6")},
	{{.kind = REC_SCRIPTS, .scripts = {3, 300}}, PAYLOAD("\3\xac\2")},
	{{.kind = REC_NAMES, .names = {3, 7, TEXT("a.dwo")}}, PAYLOAD("\3\7\5a.dwo")},
	{{.kind = REC_MEMORY, .memory = {1, 2, {{1, 300}, {200, 4}}}},
		PAYLOAD("\1\2\1\xac\2\xc8\1\4")},
	{{.kind = REC_PAUSE, .pause = {300, 1}}, PAYLOAD("\xac\2\1")},
	{{.kind = REC_LEFT, .left = {3, 6, TEXT("fds")}}, PAYLOAD("\3\6\3fds")},
	{{.kind = REC_SETTLE, .settle = {1, 300, 4}}, PAYLOAD("\1\xac\2\4")},
	{{.kind = REC_CULLED,
		 .culled = {1, 300, 3, 4, 5, 6, 1, 8, 9, 10, 1, 12, 13,
			 {sorted, sorted + sizeof(sorted)}}},
		PAYLOAD("\1\xac\2\3\4\5\6\1\10\11\12\1\14\15\4\5\6")},
	{{.kind = (enum rec_kind)200, .raw = TEXT("later")}, PAYLOAD("later")},
};

static void check_payload(
	const struct bytes_out *out, unsigned int kind, const void *payload, size_t length)
{
	ck_assert_uint_eq(out->length, 4 + length);
	ck_assert_uint_eq(out->data[0], kind);
	ck_assert_uint_eq(out->data[1], (length & 0x7f) | 0x80);
	ck_assert_uint_eq(out->data[2], (length >> 7 & 0x7f) | 0x80);
	ck_assert_uint_eq(out->data[3], length >> 14);
	ck_assert_mem_eq(out->data + 4, payload, length);
}

/* Decodes the only record of `out` and encodes it again: the bytes must be the same. */
static void check_decodes(const struct bytes_out *out, struct rec *ret)
{
	struct bytes in = bytes_of(out->data, out->length);
	struct bytes_out again = {0};
	ck_no_err(rec_decode(&in, ret));
	ck_assert_uint_eq(bytes_left(&in), 0);
	ck_no_err(rec_encode(&again, ret));
	ck_assert_uint_eq(again.length, out->length);
	ck_assert_mem_eq(again.data, out->data, out->length);
	bytes_out_deinit(&again);
}

HT_TEST(every_kind_is_as_specified)
{
	static struct rec got;
	for (size_t i = 0; i < HT_ARRAY_SIZE(goldens); i++) {
		struct bytes_out out = {0};
		ck_no_err(rec_encode(&out, &goldens[i].rec));
		check_payload(&out, goldens[i].rec.kind, goldens[i].payload, goldens[i].length);
		check_decodes(&out, &got);
		ck_assert_int_eq(got.kind, goldens[i].rec.kind);
		ck_assert_uint_eq(got.raw.length, goldens[i].length);
		ck_assert_mem_eq(got.raw.data, goldens[i].payload, goldens[i].length);
		bytes_out_deinit(&out);
	}
}

/* Version 1.0 wrote no flags. A payload that ends within the flags is malformed. */
HT_TEST(an_older_capture_has_no_flags)
{
	static struct rec got;
	const char *const payload[] = {"\2\7\1\2\3\4\5\6\7", "\2\10\1\2\3\4\5\6\7\x80"};
	struct bytes in = bytes_of(payload[0], 9);
	got.capture.flags = 5;
	ck_no_err(rec_decode(&in, &got));
	ck_assert_uint_eq(got.capture.sample_bytes, 7);
	ck_assert_uint_eq(got.capture.flags, 0);
	in = bytes_of(payload[1], 10);
	struct ht_err *err = rec_decode(&in, &got);
	ck_assert_ptr_nonnull(err);
	ht_err_free(err);
}

HT_TEST(fields_added_later_are_passed_over)
{
	static struct rec got;
	for (size_t i = 0; i < HT_ARRAY_SIZE(goldens); i++) {
		unsigned int kind = goldens[i].rec.kind;
		if (kind == REC_EVENTS || kind == REC_COLUMNS || kind == REC_CULLED)
			continue;
		struct bytes_out out = {0};
		struct bytes_out again = {0};
		ck_no_err(bytes_out_u8(&out, (uint8_t)kind));
		ck_no_err(bytes_out_uleb(&out, goldens[i].length + 2));
		ck_no_err(bytes_out_put(&out, goldens[i].payload, goldens[i].length));
		ck_no_err(bytes_out_put(&out, "\x80\x80", 2));
		struct bytes in = bytes_of(out.data, out.length);
		ck_no_err(rec_decode(&in, &got));
		ck_assert_uint_eq(bytes_left(&in), 0);
		ck_assert_uint_eq(got.raw.length, goldens[i].length + 2);
		if (kind < 200) {
			ck_no_err(rec_encode(&again, &got));
			check_payload(&again, kind, goldens[i].payload, goldens[i].length);
		}
		bytes_out_deinit(&again);
		bytes_out_deinit(&out);
	}
}

/* Decodes from a buffer that ends at the cut, so that a sanitizer sees a read behind it. */
static void check_refused(const uint8_t *data, size_t length)
{
	static struct rec got;
	HT_FREED uint8_t *copy = malloc(length ? length : 1);
	memcpy(copy, data, length);
	struct bytes in = bytes_of(copy, length);
	ck_err(rec_decode(&in, &got), HT_ERR_FORMAT);
	ck_assert_ptr_eq(in.at, copy);
}

HT_TEST(a_cut_record_is_malformed)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(goldens); i++) {
		struct bytes_out out = {0};
		ck_no_err(rec_encode(&out, &goldens[i].rec));
		for (size_t cut = 0; cut < out.length; cut++)
			check_refused(out.data, cut);
		bytes_out_deinit(&out);
	}
}

/* The payload ends before its fields do: rec_decode must not read bytes of the next record. */
HT_TEST(a_payload_too_short_for_its_fields_is_malformed)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(goldens); i++) {
		unsigned int kind = goldens[i].rec.kind;
		size_t fixed = kind == REC_EVENTS    ? 3
			       : kind == REC_COLUMNS ? 3
			       : kind == REC_CULLED  ? 14
			       : kind == 200	     ? 0
			       : kind == REC_CAPTURE ? goldens[i].length - 2 /* without flags */
			       : kind == REC_THREAD  ? goldens[i].length - 2 /* without since_tsc */
						     : goldens[i].length;
		for (size_t length = 0; length < fixed; length++) {
			struct bytes_out out = {0};
			ck_no_err(bytes_out_u8(&out, (uint8_t)kind));
			ck_no_err(bytes_out_uleb(&out, length));
			ck_no_err(bytes_out_put(&out, goldens[i].payload, goldens[i].length));
			check_refused(out.data, out.length);
			bytes_out_deinit(&out);
		}
	}
}

HT_TEST(numbers_reach_64_bits)
{
	static struct rec got;
	const uint64_t max = UINT64_MAX;
	struct bytes_out out = {0};
	struct rec rec = {.kind = REC_SYNC, .sync = {max, max - 1, max - 2}};
	ck_no_err(rec_encode(&out, &rec));
	check_decodes(&out, &got);
	ck_assert(got.sync.tsc == max && got.sync.mono_ns == max - 1);
	ck_assert(got.sync.complete_tsc == max - 2);
	bytes_out_deinit(&out);
}

static char long_text[TRACE_STRING_MAX + 1];

HT_TEST(a_long_string_is_cut)
{
	static struct rec got;
	memset(long_text, 'x', sizeof(long_text));
	for (int over = -1; over <= 1; over++) {
		size_t length = TRACE_STRING_MAX + (size_t)over;
		struct bytes_out out = {0};
		struct rec rec = {.kind = REC_MARK, .mark = {1, {long_text, length}}};
		ck_no_err(rec_encode(&out, &rec));
		check_decodes(&out, &got);
		ck_assert_uint_eq(got.mark.text.length, over > 0 ? TRACE_STRING_MAX : length);
		bytes_out_deinit(&out);
	}
}

HT_TEST(a_string_beyond_the_limit_is_malformed)
{
	struct bytes_out payload = {0};
	struct bytes_out out = {0};
	ck_no_err(bytes_out_uleb(&payload, 1));
	ck_no_err(bytes_out_uleb(&payload, sizeof(long_text)));
	ck_no_err(bytes_out_put(&payload, long_text, sizeof(long_text)));
	ck_no_err(bytes_out_u8(&out, REC_MARK));
	ck_no_err(bytes_out_uleb(&out, payload.length));
	ck_no_err(bytes_out_put(&out, payload.data, payload.length));
	check_refused(out.data, out.length);
	bytes_out_deinit(&payload);
	bytes_out_deinit(&out);
}

HT_TEST(a_build_id_is_never_cut)
{
	static struct rec got;
	for (size_t over = 0; over <= 1; over++) {
		struct bytes_out out = {0};
		struct rec rec = {.kind = REC_MODULE,
			.module.build_id = {long_text, TRACE_BUILD_ID_MAX + over}};
		if (over) {
			ck_err_says(rec_encode(&out, &rec), HT_ERR_INTERNAL, "build-id");
			ck_assert_uint_eq(out.length, 0);
		} else {
			ck_no_err(rec_encode(&out, &rec));
			check_decodes(&out, &got);
		}
		bytes_out_deinit(&out);
	}
}

HT_TEST(lists_reach_their_limits_and_no_further)
{
	static struct rec rec, got;
	struct bytes_out out = {0};
	rec = (struct rec){.kind = REC_MODULE, .module.segment_count = TRACE_SEGMENTS_MAX};
	memset(rec.module.segment, 0xff, sizeof(rec.module.segment));
	ck_no_err(rec_encode(&out, &rec));
	check_decodes(&out, &got);
	ck_assert_mem_eq(got.module.segment, rec.module.segment, sizeof(rec.module.segment));
	out.length = 0;
	rec.module.segment_count++;
	ck_err(rec_encode(&out, &rec), HT_ERR_INTERNAL);

	rec = (struct rec){.kind = REC_SYMBOL, .symbol.frame_count = TRACE_INLINE_MAX};
	for (size_t i = 0; i < TRACE_INLINE_MAX; i++)
		rec.symbol.frame[i] = (struct rec_frame){
			.function = {long_text, 2000}, .file = {long_text, i}, .line = i};
	ck_no_err(rec_encode(&out, &rec));
	check_decodes(&out, &got);
	ck_assert_uint_eq(got.symbol.frame[TRACE_INLINE_MAX - 1].file.length, TRACE_INLINE_MAX - 1);
	out.length = 0;
	rec.symbol.frame_count++;
	ck_err(rec_encode(&out, &rec), HT_ERR_INTERNAL);
	ck_assert_uint_eq(out.length, 0);
	bytes_out_deinit(&out);
}

HT_TEST(a_list_beyond_the_limit_is_malformed)
{
	struct bytes_out out = {0};
	ck_no_err(bytes_out_put(&out, "\3\xc2\x2\1\2\3\4\5\0\0\6\x41", 12));
	for (size_t i = 0; i < 65 * 4 + 100; i++)
		ck_no_err(bytes_out_u8(&out, 1));
	check_refused(out.data, out.length);
	bytes_out_deinit(&out);
}

HT_TEST(a_payload_reaches_its_limit_and_no_further)
{
	static struct rec got;
	HT_FREED char *body = calloc(1, TRACE_RECORD_MAX);
	struct rec rec = {.kind = REC_EVENTS, .events.body = bytes_of(body, TRACE_RECORD_MAX - 3)};
	struct bytes_out out = {0};
	ck_no_err(bytes_out_u8(&out, 77));
	ck_no_err(rec_encode(&out, &rec));
	struct bytes in = bytes_of(out.data + 1, out.length - 1);
	ck_no_err(rec_decode(&in, &got));
	ck_assert_uint_eq(got.raw.length, TRACE_RECORD_MAX);
	ck_assert_uint_eq(bytes_left(&got.events.body), TRACE_RECORD_MAX - 3);
	size_t before = out.length;
	rec.events.body.end++;
	ck_err_says(rec_encode(&out, &rec), HT_ERR_INTERNAL, "payload");
	ck_assert_uint_eq(out.length, before);
	ck_assert_uint_eq(out.data[0], 77);
	bytes_out_deinit(&out);

	ck_no_err(bytes_out_put(&out, "\7\x81\x80\x40", 4)); /* one byte more than the limit */
	ck_no_err(bytes_out_reserve(&out, TRACE_RECORD_MAX + 1));
	memset(out.data + out.length, 0, TRACE_RECORD_MAX + 1);
	in = bytes_of(out.data, out.length + TRACE_RECORD_MAX + 1);
	ck_err(rec_decode(&in, &got), HT_ERR_FORMAT);
	bytes_out_deinit(&out);
}

HT_TEST(kinds_are_1_to_255)
{
	struct bytes_out out = {0};
	for (unsigned int kind = 0; kind <= 256; kind += 256) {
		struct rec rec = {.kind = (enum rec_kind)kind};
		ck_err(rec_encode(&out, &rec), HT_ERR_INTERNAL);
		ck_assert_uint_eq(out.length, 0);
	}
	check_refused((const uint8_t *)"\0\0", 2);
}

static const struct rec_node nodes[] = {
	{.pc = 0, .parent = 0, .epoch = 0, .flags = 0},
	{.pc = 0x0102030405060708, .parent = 300, .epoch = 5, .flags = ABI_NODE_EXACT},
	{.pc = UINT64_MAX, .parent = UINT32_MAX, .epoch = UINT16_MAX, .flags = UINT8_MAX},
};

HT_TEST(nodes_round_trip)
{
	static struct rec got;
	struct bytes_out body = {0};
	struct bytes_out out = {0};
	for (size_t i = 0; i < HT_ARRAY_SIZE(nodes); i++)
		ck_no_err(rec_node_append(&body, &nodes[i]));
	ck_assert_mem_eq(body.data + 11, "\5\xac\2\x8\7\6\5\4\3\2\1\1", 12);
	struct rec rec = {.kind = REC_NODES,
		.nodes = {70000, HT_ARRAY_SIZE(nodes), bytes_of(body.data, body.length)}};
	ck_no_err(rec_encode(&out, &rec));
	check_decodes(&out, &got);
	ck_assert_uint_eq(got.nodes.first_id, 70000);
	ck_assert_uint_eq(got.nodes.count, HT_ARRAY_SIZE(nodes));
	for (size_t i = 0; i < HT_ARRAY_SIZE(nodes); i++) {
		struct rec_node node;
		ck_no_err(rec_node_next(&got.nodes.body, &node));
		ck_assert_uint_eq(node.pc, nodes[i].pc);
		ck_assert_uint_eq(node.parent, nodes[i].parent);
		ck_assert_uint_eq(node.epoch, nodes[i].epoch);
		ck_assert_uint_eq(node.flags, nodes[i].flags);
	}
	ck_assert_uint_eq(bytes_left(&got.nodes.body), 0);
	bytes_out_deinit(&body);
	bytes_out_deinit(&out);
}

HT_TEST(a_node_cut_or_out_of_range_is_malformed)
{
	static const struct {
		const char *bytes;
		size_t length;
	} bad[] = {
		{PAYLOAD("")},
		{PAYLOAD("\1\1"
			 "12345678")},
		{PAYLOAD("\1\1"
			 "1234567")},
		{PAYLOAD("\x80\x80\4\1"
			 "12345678"
			 "\0")},
		{PAYLOAD("\1\x80\x80\x80\x80\x10"
			 "12345678"
			 "\0")},
		{PAYLOAD("\1\1"
			 "12345678"
			 "\x80\2")},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		struct bytes in = bytes_of(bad[i].bytes, bad[i].length);
		struct rec_node node = {.pc = 5};
		ck_err(rec_node_next(&in, &node), HT_ERR_FORMAT);
		ck_assert_uint_eq(bytes_left(&in), bad[i].length);
		ck_assert_uint_eq(node.pc, 5);
	}
}

HT_TEST(ids_and_counts_of_nodes_are_bounded)
{
	static const struct {
		uint64_t first_id, count;
		bool ok;
	} cases[] = {
		{1, 1, true},
		{0, 1, false},
		{1, 2, false}, /* more nodes than the body can hold */
		{1, UINT64_MAX, false},
		{UINT32_MAX - 1, 1, true},
		{UINT32_MAX, 1, false},
		{UINT64_MAX, 1, false},
	};
	static struct rec got;
	struct bytes_out body = {0};
	ck_no_err(rec_node_append(&body, &nodes[0]));
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		struct bytes_out payload = {0};
		struct bytes_out out = {0};
		ck_no_err(bytes_out_uleb(&payload, cases[i].first_id));
		ck_no_err(bytes_out_uleb(&payload, cases[i].count));
		ck_no_err(bytes_out_put(&payload, body.data, body.length));
		ck_no_err(bytes_out_u8(&out, REC_NODES));
		ck_no_err(bytes_out_uleb(&out, payload.length));
		ck_no_err(bytes_out_put(&out, payload.data, payload.length));
		struct rec rec = {.kind = REC_NODES,
			.nodes = {cases[i].first_id, cases[i].count,
				bytes_of(body.data, body.length)}};
		struct bytes in = bytes_of(out.data, out.length);
		if (cases[i].ok) {
			ck_no_err(rec_decode(&in, &got));
			ck_no_err(rec_encode(&payload, &rec));
		} else {
			ck_err(rec_decode(&in, &got), HT_ERR_FORMAT);
			ck_err(rec_encode(&payload, &rec), HT_ERR_INTERNAL);
		}
		bytes_out_deinit(&payload);
		bytes_out_deinit(&out);
	}
	bytes_out_deinit(&body);
}

HT_TEST(every_end_reason_has_its_name_and_text)
{
	for (uint64_t reason = 0; reason <= REC_END_SNAPSHOT; reason++) {
		ck_assert_str_ne(rec_end_name(reason), "unknown");
		for (uint64_t other = 0; other < reason; other++) {
			ck_assert_str_ne(rec_end_name(reason), rec_end_name(other));
			ck_assert_str_ne(rec_end_text(reason), rec_end_text(other));
		}
	}
	ck_assert_str_eq(rec_end_name(REC_END_TARGET_EXIT), "target_exit");
	ck_assert_str_eq(rec_end_text(REC_END_TARGET_EXIT), "the process exited");
	ck_assert_str_eq(rec_end_name(REC_END_SNAPSHOT), "snapshot");
	ck_assert_str_eq(rec_end_name(REC_END_SNAPSHOT + 1), "unknown");
	ck_assert_str_eq(rec_end_text(UINT64_MAX), "an unknown reason");
}

HT_SUITE("format/record")
