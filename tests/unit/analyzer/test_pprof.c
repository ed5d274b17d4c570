/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.proto, taken apart by a second reader: types, samples, locations with their inlined
 * functions, modules with their build-ids, threads.
 */
#include "format/bytes.h"
#include "tests/unit/analyzer/exported.h"

#define ITEMS_MAX 64u

static struct exported exported;

/* One field of a message. */
struct field {
	uint64_t number, value; /* of a varint */
	struct bytes bytes;	/* of anything else */
};

static bool next_field(struct bytes *message, struct field *ret)
{
	uint64_t key, length;
	const uint8_t *at;
	if (!bytes_left(message))
		return false;
	ck_assert(bytes_uleb(message, &key));
	*ret = (struct field){.number = key >> 3};
	if ((key & 7) == 0) {
		ck_assert(bytes_uleb(message, &ret->value));
		return true;
	}
	ck_assert_uint_eq(key & 7, 2);
	ck_assert(bytes_uleb(message, &length) && bytes_take(message, length, &at));
	ret->bytes = bytes_of(at, length);
	return true;
}

/* The strings (field 6 of the profile), in their order. */
static char *string[ITEMS_MAX];
static size_t string_count;

static void take_strings(void)
{
	struct bytes profile = bytes_of(exported.text, exported.length);
	struct field field;
	string_count = 0;
	while (next_field(&profile, &field))
		if (field.number == 6) {
			ck_assert_uint_lt(string_count, ITEMS_MAX);
			string[string_count++] =
				strndup((const char *)field.bytes.at, bytes_left(&field.bytes));
		}
}

static void print_packed(FILE *out, const char *what, struct bytes bytes)
{
	uint64_t value;
	fprintf(out, " %s", what);
	while (bytes_left(&bytes)) {
		ck_assert(bytes_uleb(&bytes, &value));
		fprintf(out, " %lu", value);
	}
}

static void print_message(FILE *out, unsigned kind, struct bytes message);

/* Prints a field: numbers as they are, strings in quotes, messages in brackets. */
static void print_field(FILE *out, unsigned kind, const struct field *field)
{
	static const char *const text[] = {[1] = "12", [3] = "1.2", [4] = "56", [5] = "234"};
	const char digit = (char)('0' + field->number);
	if (kind == 2 && field->number <= 2) {
		print_packed(out, field->number == 1 ? "at" : "is", field->bytes);
	} else if ((kind == 2 && field->number == 3) || (kind == 4 && field->number == 4)) {
		fprintf(out, " [");
		print_message(out, kind == 2 ? 30 : 40, field->bytes);
		fprintf(out, " ]");
	} else if ((kind == 30 && field->number <= 2) ||
		   (kind < HT_ARRAY_SIZE(text) && text[kind] && strchr(text[kind], digit) &&
			   kind != 4)) {
		fprintf(out, " \"%s\"", string[field->value]);
	} else {
		fprintf(out, " %lx", field->value);
	}
}

static void print_message(FILE *out, unsigned kind, struct bytes message)
{
	struct field field;
	while (next_field(&message, &field)) {
		/* Modules have names in their fields 5 and 6. */
		if (kind == 3 && (field.number == 5 || field.number == 6))
			fprintf(out, " \"%s\"", string[field.value]);
		else if (kind == 3)
			fprintf(out, " %lx", field.value);
		else
			print_field(out, kind, &field);
	}
}

/* Returns one line per field of the profile, without strings and times; malloc'd. */
static char *taken_apart(void)
{
	struct bytes profile = bytes_of(exported.text, exported.length);
	struct field field;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	take_strings();
	while (next_field(&profile, &field)) {
		const unsigned kind = (unsigned)field.number;
		if (kind == 6 || kind == 9)
			continue;
		fprintf(out, "%u:", kind);
		if (kind == 13 || kind == 14)
			fprintf(out, " \"%s\"", string[field.value]);
		else if (bytes_left(&field.bytes))
			print_message(out, kind == 11 ? 1 : kind, field.bytes);
		else
			fprintf(out, " %lu", field.value);
		fputc('\n', out);
	}
	fclose(out);
	for (size_t i = 0; i < string_count; i++)
		free(string[i]);
	return text;
}

HT_TEST(everything_arrives)
{
	exported_begin(&exported);
	exported_as(&exported, "pprof", NULL);
	char *got = taken_apart();
	ck_assert_str_eq(got, "1: \"alloc_objects\" \"count\"\n"
			      "1: \"alloc_space\" \"bytes\"\n"
			      "1: \"inuse_objects\" \"count\"\n"
			      "1: \"inuse_space\" \"bytes\"\n"
			      "1: \"peak_space\" \"bytes\"\n"
			      "1: \"temp_objects\" \"count\"\n"
			      "14: \"inuse_space\"\n"
			      "11: \"space\" \"bytes\"\n"
			      "12: 1\n"
			      "10: 8064\n"
			      "13: \"heaptap " HEAPTAP_VERSION ", process 4242\"\n"
			      "2: at 1 2 is 2 130 1 100 130 1 [ \"thread\" \"worker\" ]"
			      " [ \"tid\" 64 ]\n"
			      "2: at 3 2 is 1 7 1 7 0 0 [ \"thread\" \"target\" ] [ \"tid\" 65 ]\n"
			      "2: at 4 is 1 1 0 0 0 1 [ \"thread\" \"target\" ] [ \"tid\" 65 ]\n"
			      "4: 1 1 4001ff [ 1 7 ] [ 2 9 ]\n"
			      "4: 2 1 4000ff [ 3 a ]\n"
			      "4: 3 1 4002ff\n"
			      "4: 4 [ 4 ]\n"
			      "3: 1 400000 500000 0 \"/usr/bin/target\" "
			      "\"3132333435363738393031323334353637383930\""
			      " 1 1 1 1\n"
			      "5: 1 \"inner\" \"inner\" \"src/in.h\"\n"
			      "5: 2 \"caller\" \"caller\" \"src/out.c\"\n"
			      "5: 3 \"main\" \"main\" \"src/main.c\"\n"
			      "5: 4 \"(no stack)\" \"(no stack)\" \"\"\n");
	free(got);
	exported_end(&exported);
}

HT_TEST(the_first_string_is_empty)
{
	exported_begin(&exported);
	exported_as(&exported, "pprof", NULL);
	take_strings();
	ck_assert_str_eq(string[0], "");
	for (size_t i = 0; i < string_count; i++)
		free(string[i]);
	exported_end(&exported);
}

HT_TEST(one_thread_alone)
{
	struct query query;
	query_init(&query);
	ck_no_err(query_add(&query.threads, "--thread", "worker"));
	exported_begin(&exported);
	exported_as(&exported, "pprof", &query);
	char *got = taken_apart();
	ck_assert_ptr_nonnull(strstr(got, "2: at 1 2 is 2 130 1 100 130 1"));
	ck_assert_ptr_null(strstr(got, "(no stack)"));
	free(got);
	exported_end(&exported);
}

static void put_module(uint64_t id, const char *path, uint64_t lo, uint64_t flags)
{
	const struct rec rec = {
		.kind = REC_MODULE,
		.module = {.id = id,
			.lo = lo,
			.hi = lo + 0x100000,
			.path = {path, strlen(path)},
			.flags = flags},
	};
	tracebuild_put(&exported.scene.trace, &rec);
}

/* pprof takes the first module for the program, wherever it is in the trace. */
HT_TEST(the_program_comes_first)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	put_module(1, "/usr/lib/library.so", 0x600000, 0);
	put_module(2, "/usr/bin/program", 0x400000, REC_MODULE_EXECUTABLE);
	scene_malloc(&exported.scene, 0, 0x1000, 10,
		tracebuild_node(&exported.scene.trace, 0, 0x600100));
	exported_as(&exported, "pprof", NULL);
	char *got = taken_apart();
	const char *first = strstr(got, "\n3: ");
	ck_assert_msg(first && !strncmp(first, "\n3: 2 400000 ", 13), "%s", got);
	ck_assert_ptr_nonnull(strstr(first + 1, "\n3: 1 600000 "));
	free(got);
	exported_end(&exported);
}

/* --- for a server -------------------------------------------------------------------------------
 */

static uint64_t time_of_profile(void)
{
	struct bytes profile = bytes_of(exported.text, exported.length);
	struct field field;
	while (next_field(&profile, &field))
		if (field.number == 9)
			return field.value;
	ck_abort_msg("no time");
}

/* The sum of each figure over all samples, and their number. */
struct totals {
	size_t samples;
	uint64_t value[6];
};

static struct totals totals(void)
{
	struct bytes profile = bytes_of(exported.text, exported.length);
	struct field field, part;
	struct totals ret = {0};
	while (next_field(&profile, &field)) {
		if (field.number != 2)
			continue;
		ret.samples++;
		while (next_field(&field.bytes, &part))
			for (size_t i = 0; part.number == 2 && i < HT_ARRAY_SIZE(ret.value); i++) {
				uint64_t value;
				ck_assert(bytes_uleb(&part.bytes, &value));
				ret.value[i] += value;
			}
	}
	return ret;
}

/* Pyroscope dates a profile by its end, makes a series of each label, and drops samples with a
 * location that has no function. */
HT_TEST(a_server_gets_names_the_end_and_no_threads)
{
	const struct export_server server = {100, 1u << 20};
	exported_begin(&exported);
	exported_as(&exported, "pprof", NULL);
	const uint64_t begin_ns = time_of_profile();
	exported_for(&exported, "pprof", NULL, &server);
	ck_assert_uint_eq(time_of_profile() - begin_ns, 8064);
	char *got = taken_apart();
	ck_assert_ptr_nonnull(strstr(got, "2: at 1 2 is 2 130 1 100 130 1\n"));
	ck_assert_ptr_nonnull(strstr(got, "4: 3 1 4002ff [ 4 ]\n"));
	ck_assert_ptr_nonnull(strstr(got, "5: 4 \"target+0x2ff\" \"target+0x2ff\" \"\"\n"));
	free(got);
	exported_end(&exported);
}

HT_TEST(a_server_gets_no_more_samples_than_it_takes)
{
	const struct export_server server = {2, 1u << 20};
	exported_begin(&exported);
	exported_as(&exported, "pprof", NULL);
	const struct totals all = totals();
	exported_for(&exported, "pprof", NULL, &server);
	const struct totals folded = totals();
	ck_assert_uint_eq(all.samples, 3);
	ck_assert_uint_eq(folded.samples, 2);
	ck_assert_mem_eq(all.value, folded.value, sizeof(all.value));
	char *got = taken_apart();
	/* The stack with most outstanding bytes is not folded. */
	ck_assert_ptr_nonnull(strstr(got, "2: at 1 2 is 2 130 1 100 130 1\n"));
	ck_assert_ptr_nonnull(strstr(got, "\"(folded)\""));
	free(got);
	exported_end(&exported);
}

HT_TEST(a_server_gets_no_more_bytes_than_it_takes)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	for (unsigned i = 0; i < 2000; i++)
		scene_malloc(&exported.scene, 0, 0x10000 + 0x1000 * i, 100 + i,
			tracebuild_node(&exported.scene.trace, 0, 0x400000 + 16 * i));
	exported_for(&exported, "pprof", NULL, &(struct export_server){15000, 1u << 20});
	const struct totals all = totals();
	const size_t whole = exported.length;
	ck_assert_uint_eq(all.samples, 2000);
	for (size_t part = 2; part <= 64; part *= 2) {
		const struct export_server server = {15000, whole / part};
		exported_for(&exported, "pprof", NULL, &server);
		const struct totals folded = totals();
		ck_assert_uint_le(exported.length, server.bytes_max);
		/* No more stacks are folded than necessary. */
		ck_assert_uint_gt(folded.samples, 2000 / part * 2 / 3);
		ck_assert_mem_eq(all.value, folded.value, sizeof(all.value));
	}
	/* One stack is left, however small the limit. */
	exported_for(&exported, "pprof", NULL, &(struct export_server){15000, 1});
	ck_assert_uint_eq(totals().samples, 1);
	exported_end(&exported);
}

HT_TEST(a_sample_says_so)
{
	exported = (struct exported){0};
	scene_init_sample(&exported.scene, 1 << 19);
	scene_malloc(&exported.scene, 0, 0x1000, 1 << 24, 0);
	exported_as(&exported, "pprof", NULL);
	char *got = taken_apart();
	ck_assert_ptr_nonnull(strstr(got, "13: \"a sample: "));
	free(got);
	exported_end(&exported);
}

HT_SUITE("analyzer/pprof")
