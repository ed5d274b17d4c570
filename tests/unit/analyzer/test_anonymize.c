/* SPDX-License-Identifier: Apache-2.0
 *
 * The anonymized copy of a trace: no name of the original can be read in it, and its report is the
 * same except for names.
 */
#include "analyzer/export/anonymize.h"

#include <stdlib.h>
#include <unistd.h>

#include "analyzer/export/pseudonym.h"
#include "analyzer/export/report_json.h"
#include "analyzer/symbols/wrapper.h"
#include "tests/support/report.h"
#include "tests/unit/analyzer/stage.h"

static const char *const secret[] = {"secret_main", "Secret::Engine::run(int)", "inlined_secret",
	"std::vector<SecretType, std::allocator<SecretType> >::push_back(SecretType&&)",
	"std::thread::_Invoker<std::tuple<SecretJob> >::operator()()", "xmalloc", "start_thread",
	"__libc_start_main", "/home/someone/secret.cc", "secretjs", "/opt/secret/libsecret.so",
	"worker-secret", "io-secret", "deploy of secret", "12345678901234567890", "anothersecretid",
	"libc.so.6", "abcdefghijklmnopqrst", "malloc"};
static const char *const target[] = {"target", "/usr/bin/target", "6.1.0"};

static struct stage stage;
static int original; /* descriptor of the original trace */

static void put_mapping(uint64_t addr, uint64_t length, enum abi_mapping_call call)
{
	const struct eventbuild_mapping mapping = {.addr = addr,
		.length = length,
		.call = (uint8_t)call,
		.protect = 3,
		.flags = 0x22,
		.stack = 1};
	eventbuild_mapping(scene_lane(&stage.scene, 2), stage.scene.now, &mapping, SCENE_TID(2), 0);
}

static void name(uint32_t module, uint64_t pc, const char *inner, const char *outer)
{
	stage_name(&stage, module, pc, inner, outer, "/home/someone/secret.cc", 20 + pc % 7);
}

static void make_trace(void)
{
	stage = (struct stage){.addr = 0x55550000};
	scene_init_with(&stage.scene, 0, REC_CAPTURE_MAPPINGS);
	struct tracebuild *build = &stage.scene.trace;
	tracebuild_module(build, 1, "/opt/secret/libsecret.so", "12345678901234567890", STAGE_LO,
		STAGE_LO + 0x100000);
	tracebuild_module(
		build, 2, "/lib/libc.so.6", "abcdefghijklmnopqrst", 0x7f0000000000, 0x7f0000100000);
	tracebuild_thread(build, SCENE_TID(0), "worker-secret");
	tracebuild_thread(build, SCENE_TID(1), "io-secret");
	const uint64_t lo = STAGE_LO;
	uint32_t top = tracebuild_node(build, 0, lo + 0x10);
	uint32_t run = tracebuild_node(build, top, lo + 0x20);
	uint32_t push = tracebuild_node(build, run, lo + 0x30);
	uint32_t wrap = tracebuild_node(build, run, lo + 0x40);
	uint32_t invoke = tracebuild_node(build, top, lo + 0x50);
	uint32_t libc = tracebuild_node(build, invoke, 0x7f0000000100);
	uint32_t js = tracebuild_node(build, 0, 0x2000);
	uint32_t bare = tracebuild_node(build, js, lo + 0x60);
	name(1, lo + 0x10, "secret_main", NULL);
	name(1, lo + 0x20, "inlined_secret", "Secret::Engine::run(int)");
	name(1, lo + 0x30, secret[3], NULL);
	name(1, lo + 0x40, "xmalloc", NULL);
	name(1, lo + 0x50, secret[4], NULL);
	tracebuild_symbol(build, 2, 0xff, "malloc", NULL, 0);
	name(0, 0x2000, "secretjs", NULL);
	const uint32_t stack[] = {run, push, wrap, libc, js, bare, 0, top};
	uint64_t addr[64];
	for (unsigned i = 0; i < 64; i++) {
		addr[i] = stage_alloc(&stage, i % 2, 10 + i * 7, stack[i % 8]);
		if (i % 9 == 8)
			scene_sync(&stage.scene);
		if (i % 3 == 0)
			scene_free(&stage.scene, (i + 1) % 2, addr[i], 0);
	}
	scene_free(&stage.scene, 0, 0x99990000, 64); /* an older block */
	scene_realloc_begin(&stage.scene, 0, addr[1], 24);
	scene_realloc_end(&stage.scene, 0, 0x66660000, 5000, run);
	scene_realloc_begin(&stage.scene, 0, addr[2], 24);
	scene_realloc_done(&stage.scene, 0, ABI_EVENT_REALLOC_FREED);
	put_mapping(0x7e0000000000, 1 << 20, ABI_CALL_MAP);
	put_mapping(0x7e0000080000, 1 << 16, ABI_CALL_UNMAP);
	const struct rec records[] = {
		{.kind = REC_MARK,
			.mark = {.mono_ns = stage.scene.now, .text = {"deploy of secret", 16}}},
		{.kind = REC_NAMES, .names = {1, REC_NAMES_SPLIT, {"anothersecretid", 15}}},
		{.kind = (enum rec_kind)77, .raw = {"secret_main", 11}},
	};
	tracebuild_rss(build, stage.scene.now, 5 << 20);
	tracebuild_put(build, &records[0]);
	tracebuild_put(build, &records[2]);
	scene_sync(&stage.scene);
	tracebuild_loss(build, REC_COUNTER_TRUNC_DEPTH, 3);
	tracebuild_end(build, REC_END_DURATION, stage.scene.now, stage.scene.now);
	tracebuild_put(build, &records[1]);
	original = tracebuild_finish(build);
}

/* Returns the copy's descriptor. */
static int anonymize(bool keeps_system)
{
	const struct model_observer observer = {0};
	static struct rec rec;
	struct model model = {0};
	struct anonymizer *anonymizer;
	struct trace_writer *writer;
	struct trace_reader *reader;
	enum trace_end end;
	int copy = tracebuild_memfd("", 0);
	lseek(original, 0, SEEK_SET);
	ck_no_err(model_load(&model, original, "trace", &observer));
	lseek(original, 0, SEEK_SET);
	ck_no_err(anonymizer_create(&model, keeps_system, &anonymizer));
	ck_no_err(trace_writer_create(copy, &writer));
	ck_no_err(trace_reader_create(original, "trace", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		ck_no_err(anonymizer_put(anonymizer, &rec, writer));
	}
	ck_assert_int_eq(end, TRACE_COMPLETE);
	ck_no_err(trace_writer_finish(writer));
	trace_reader_destroy(reader);
	trace_writer_destroy(writer);
	anonymizer_destroy(anonymizer);
	model_deinit(&model);
	lseek(copy, 0, SEEK_SET);
	return copy;
}

/* Returns the records as they are in the file. */
static struct bytes_out records_of(int fd)
{
	static struct rec rec;
	struct bytes_out all = {0};
	struct trace_reader *reader;
	enum trace_end end;
	lseek(fd, 0, SEEK_SET);
	ck_no_err(trace_reader_create(fd, "copy", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		ck_no_err(bytes_out_put(&all, rec.raw.data, rec.raw.length));
	}
	trace_reader_destroy(reader);
	return all;
}

static json_t *report_of(int fd)
{
	const struct report_options options = {.order = METRIC_OUTSTANDING};
	struct analysis *analysis;
	char *bytes = NULL;
	size_t length = 0;
	lseek(fd, 0, SEEK_SET);
	ck_no_err(analysis_create(fd, "trace", NULL, &analysis));
	struct view *view = scene_view(analysis, NULL);
	FILE *out = open_memstream(&bytes, &length);
	ck_no_err(report_json_write(out, view, &options));
	fclose(out);
	json_t *report = report_parse(bytes);
	free(bytes);
	view_destroy(view);
	analysis_destroy(analysis);
	return report;
}

/* Keys of names, and of numbers that the copy must change. */
static bool is_replaced(const char *key)
{
	static const char *const replaced[] = {"pid", "tid", "uid", "start_ticks", "start_unix_ns",
		"line", "offset", "memory_total_bytes"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(replaced); i++)
		if (strcmp(key, replaced[i]) == 0)
			return true;
	return false;
}

/* Checks that both are the same tree with the same numbers. */
static void check_alike(const json_t *a, const json_t *b, const char *where)
{
	const char *key;
	json_t *value;
	ck_assert_msg(json_typeof(a) == json_typeof(b), "%s: another type", where);
	if (json_is_array(a)) {
		ck_assert_msg(json_array_size(a) == json_array_size(b), "%s: %zu and %zu", where,
			json_array_size(a), json_array_size(b));
		for (size_t i = 0; i < json_array_size(a); i++)
			check_alike(json_array_get(a, i), json_array_get(b, i), where);
	} else if (json_is_object(a)) {
		ck_assert_uint_eq(json_object_size(a), json_object_size(b));
		json_object_foreach((json_t *)(uintptr_t)a, key, value)
		{
			if (!is_replaced(key))
				check_alike(value, json_object_get(b, key), key);
		}
	} else if (!json_is_string(a)) {
		ck_assert_msg(json_equal(a, b), "%s: %s and %s", where,
			json_dumps(a, JSON_ENCODE_ANY), json_dumps(b, JSON_ENCODE_ANY));
	}
}

static void check_lacks(const struct bytes_out *bytes, const char *text)
{
	ck_assert_msg(
		!memmem(bytes->data, bytes->length, text, strlen(text)), "it has \"%s\"", text);
}

HT_TEST(the_report_is_the_same)
{
	make_trace();
	int copy = anonymize(false), kept = anonymize(true);
	json_t *before = report_of(original);
	ck_assert_uint_ge(json_array_size(report_at(before, "stacks")), 7);
	json_t *after[] = {report_of(copy), report_of(kept)};
	check_alike(before, after[0], "report");
	check_alike(before, after[1], "report");
	json_decref(before);
	json_decref(after[0]);
	json_decref(after[1]);
	close(copy);
	close(kept);
	scene_deinit(&stage.scene);
}

HT_TEST(no_name_stays)
{
	make_trace();
	int copy = anonymize(false);
	struct bytes_out all = records_of(copy);
	for (size_t i = 0; i < HT_ARRAY_SIZE(secret); i++)
		check_lacks(&all, secret[i]);
	for (size_t i = 0; i < HT_ARRAY_SIZE(target); i++)
		check_lacks(&all, target[i]);
	check_lacks(&all, "ecret");
	bytes_out_deinit(&all);
	close(copy);
	scene_deinit(&stage.scene);
}

HT_TEST(names_of_the_system_stay_without_the_programs_types)
{
	make_trace();
	int copy = anonymize(true);
	struct bytes_out all = records_of(copy);
	check_lacks(&all, "ecret");
	ck_assert(memmem(all.data, all.length, "std::vector<...>::push_back(...)", 32));
	ck_assert(memmem(all.data, all.length, "/libc.so.6", 10));
	ck_assert(memmem(all.data, all.length, "malloc", 6));
	check_lacks(&all, "abcdefghijklmnopqrst");
	check_lacks(&all, "xmalloc");
	bytes_out_deinit(&all);
	close(copy);
	scene_deinit(&stage.scene);
}

/* In one copy a name has one pseudonym; in each copy it has another. */
HT_TEST(pseudonyms_are_stable_in_one_copy)
{
	char a[PSEUDONYM_BYTES], b[PSEUDONYM_BYTES];
	struct pseudonyms one, two;
	ck_no_err(pseudonyms_init(&one));
	ck_no_err(pseudonyms_init(&two));
	const struct rec_string text = {"some_function", 13}, other = {"some_functions", 14};
	pseudonym_of(&one, "f", text, a);
	ck_assert_str_eq(pseudonym_of(&one, "f", text, b).data, a);
	ck_assert_str_ne(pseudonym_of(&one, "f", other, b).data, a);
	ck_assert_str_ne(pseudonym_of(&two, "f", text, b).data, a);
	ck_assert_uint_eq(pseudonym_of(&two, "f", (struct rec_string){"", 0}, b).length, 0);
}

/* The test vectors of the algorithm's authors: key 00 01 ... 0f, input 00 01 ... */
HT_TEST(the_hash_is_siphash)
{
	const struct pseudonyms key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
	char input[15];
	for (size_t i = 0; i < sizeof(input); i++)
		input[i] = (char)i;
	ck_assert_uint_eq(pseudonym_hash(&key, (struct rec_string){input, 0}), 0x726fdb47dd0e0e31);
	ck_assert_uint_eq(pseudonym_hash(&key, (struct rec_string){input, 8}), 0x93f5f5799a932462);
	ck_assert_uint_eq(pseudonym_hash(&key, (struct rec_string){input, 15}), 0xa129ca6149be45e5);
}

HT_TEST(pseudonyms_are_folded_as_names_are)
{
	static const char *const names[] = {"main", "operator new(unsigned long)",
		"std::vector<int>::push_back(int)", "std::__invoke<void (*)()>(void (*)())",
		"start_thread", "clone3", "_start", "zmalloc", "xcalloc", "app::malloc_pool::get()",
		"alloc::vec::Vec<T>::push", "core::ops::function::FnOnce::call_once",
		"std::rt::lang_start::{{closure}}", "void std::sort<int*>(int*, int*)", "x"};
	char ret[PSEUDONYM_BYTES];
	struct pseudonyms key;
	ck_no_err(pseudonyms_init(&key));
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		pseudonym_of_function(&key, (struct rec_string){names[i], strlen(names[i])}, ret);
		ck_assert_msg(wrapper_is(ret) == wrapper_is(names[i]), "%s: %s", names[i], ret);
		ck_assert_msg(wrapper_is_plumbing(ret) == wrapper_is_plumbing(names[i]), "%s: %s",
			names[i], ret);
	}
}

HT_TEST(bare_names)
{
	static const char *const cases[][2] = {
		{"malloc", "malloc"},
		{"std::a<B<C>, D>::e(F const&)", "std::a<...>::e(...)"},
		{"std::a<B->", "std::a<...>"},
		{"std::a(B", "std::a(...)"},
		{"", ""},
	};
	char ret[PSEUDONYM_BYTES];
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		pseudonym_bare((struct rec_string){cases[i][0], strlen(cases[i][0])}, ret);
		ck_assert_str_eq(ret, cases[i][1]);
	}
}

HT_SUITE("analyzer/anonymize")
