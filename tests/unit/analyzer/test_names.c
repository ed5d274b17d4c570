/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a trace may hold any byte and be a megabyte long: in no export do they break the format,
 * reach a terminal as a command, or end a script.
 */
#include <jansson.h>

#include "analyzer/export/names.h"
#include "format/foreign.h"
#include "tests/unit/analyzer/exported.h"

static void check_copy(const char *from, const char *want)
{
	char name[NAMES_BYTES];
	names_copy(name, from);
	ck_assert_str_eq(name, want);
}

HT_TEST(harmful_bytes_become_question_marks)
{
	check_copy("plain, (1) \xc3\xbc", "plain, (1) \xc3\xbc");
	check_copy("a\nb\tc\x1b[31m\x7f", "a?b?c?[31m?");
	check_copy("\xff\xc3", "??");
	check_copy("a\xe2\x80\xae"
		   "b",
		"a?b");
	check_copy("", "");
}

HT_TEST(a_megabyte_is_cut_between_characters)
{
	char name[NAMES_BYTES];
	const size_t bytes = 1 << 20;
	char *from = malloc(bytes + 1);
	for (size_t i = 0; i < bytes; i += 2)
		memcpy(from + i, "\xc3\xbc", 2);
	from[bytes] = '\0';
	names_copy(name, from);
	const size_t length = strlen(name);
	ck_assert_uint_lt(length, NAMES_BYTES);
	ck_assert_str_eq(name + length - 3, "...");
	ck_assert_mem_eq(name + length - 5, "\xc3\xbc", 2);
	names_copy(name, from + bytes - (NAMES_BYTES - 2));
	ck_assert_uint_eq(strlen(name), NAMES_BYTES - 2);
	free(from);
}

HT_TEST(a_json_string_ends_no_script)
{
	char *got = NULL;
	size_t length;
	FILE *out = open_memstream(&got, &length);
	names_put_json(out, "a\"b\\c</script>");
	fclose(out);
	ck_assert_str_eq(got, "\"a\\\"b\\\\c<\\/script>\"");
	free(got);
}

/* --- all formats -------------------------------------------------------------------------------
 */

#define HOSTILE                                                                                    \
	"(3) \"a;b,'c\\d\"\n#-----------\nfn=(1) x\r\n</script><img src=x>\t\x1b]0;x\x07\xff\xfe"  \
	"\xe2\x80\xae\xf0\x9f\x98"
#define LONG_BYTES 60000u

static struct exported exported;

/* Returns a name that begins with `prefix` and with syntax of each format, and is LONG_BYTES long;
 * malloc'd. */
static char *hostile_name(const char *prefix)
{
	char *name = malloc(LONG_BYTES + 1);
	memset(name, 'x', LONG_BYTES);
	memcpy(name, prefix, strlen(prefix));
	memcpy(name + strlen(prefix), HOSTILE, sizeof(HOSTILE) - 1);
	name[LONG_BYTES] = '\0';
	return name;
}

static void begin_hostile(void)
{
	char *path = hostile_name("/usr/"), *function = hostile_name("=f"),
	     *file = hostile_name("@"), *thread = hostile_name("-");
	struct tracebuild *trace = &exported.scene.trace;
	exported = (struct exported){0};
	scene_init(&exported.scene);
	tracebuild_module(trace, 1, path, "not hexadecimal \"\n", 0x400000, 0x500000);
	thread[200] = '\0';
	tracebuild_thread(trace, SCENE_TID(0), thread);
	const uint32_t outer = tracebuild_node(trace, 0, 0x400100);
	const uint32_t leaf = tracebuild_node(trace, outer, 0x400200);
	tracebuild_symbol(trace, 1, 0xff, function, file, 10);
	scene_malloc(&exported.scene, 0, 0x1000, 100, leaf);
	scene_malloc(&exported.scene, 0, 0x2000, 30, outer);
	free(path);
	free(function);
	free(file);
	free(thread);
}

/* Checks that the export is valid UTF-8 and has no control characters except line feeds. */
static void check_harmless(const char *format)
{
	ck_assert_msg(strlen(exported.text) == exported.length, "a NUL in %s", format);
	ck_assert_msg(exported.length < 100000, "%s has %zu bytes", format, exported.length);
	for (size_t at = 0; at < exported.length;) {
		uint32_t point = 0;
		const size_t length =
			foreign_decode(exported.text + at, exported.length - at, &point);
		ck_assert_msg(length && (point == '\n' || foreign_is_harmless(point)),
			"%s: byte %zu: %x", format, at, point);
		at += length;
	}
}

HT_TEST(json_stays_json)
{
	static const char *const format[] = {"speedscope", "dhat", "firefox"};
	begin_hostile();
	for (size_t i = 0; i < HT_ARRAY_SIZE(format); i++) {
		json_error_t error;
		json_t *root = json_loads(exported_as(&exported, format[i], NULL), 0, &error);
		ck_assert_msg(root, "%s: %s", format[i], error.text);
		check_harmless(format[i]);
		ck_assert_ptr_null(strcasestr(exported.text, "</script"));
		json_decref(root);
	}
	exported_end(&exported);
}

/* Checks that each line of the export begins as a line of the format may. */
static void check_lines(const char *format, const char *const prefix[], size_t lines)
{
	size_t count = 0;
	begin_hostile();
	exported_as(&exported, format, NULL);
	if (strcmp(format, "collapsed") != 0)
		check_harmless(format);
	for (char *line = exported.text, *end; *line; line = end + 1, count++) {
		bool is_known = false;
		end = strchr(line, '\n');
		ck_assert_ptr_nonnull(end);
		for (size_t i = 0; prefix[i]; i++)
			is_known |= strncmp(line, prefix[i], strlen(prefix[i])) == 0;
		ck_assert_msg(is_known, "%s: %.100s", format, line);
	}
	ck_assert_uint_eq(count, lines);
	exported_end(&exported);
}

HT_TEST(lines_stay_lines)
{
	check_lines("collapsed", (const char *const[]){"=f(3) \"a:b", NULL}, 2);
	check_lines("csv", (const char *const[]){"outstanding_bytes,", "100,", "30,", NULL}, 3);
	check_lines("massif",
		(const char *const[]){"desc: heaptap", "cmd: /usr/bin/target", "time_unit: ms",
			"#-----------", "snapshot=", "time=", "mem_", "heap_tree=", "n2: 130 (",
			" n", "  n", NULL},
		35);
	check_lines("callgrind",
		(const char *const[]){"# callgrind format", "version: 1", "creator: heaptap",
			"pid: 4242", "cmd: /usr/bin/target", "positions: line",
			"events: ", "summary: ", "totals: ", "\n", "ob=(", "fl=(", "fn=(", "cob=(",
			"cfi=(", "cfn=(", "calls=", "0 ", "10 ", NULL},
		34);
}

static size_t fields_of(const char *line)
{
	bool is_quoted = false;
	size_t count = 1;
	for (; *line && *line != '\n'; line++) {
		is_quoted ^= *line == '"';
		count += *line == ',' && !is_quoted;
	}
	ck_assert(!is_quoted);
	return count;
}

HT_TEST(fields_stay_fields)
{
	begin_hostile();
	const char *line = exported_as(&exported, "csv", NULL);
	ck_assert_uint_eq(fields_of(line), 17);
	ck_assert_uint_eq(fields_of(strchr(line, '\n') + 1), 17);
	ck_assert_ptr_null(strstr(line, ",\"="));
	ck_assert_ptr_null(strstr(line, ",\"@"));
	ck_assert_ptr_null(strstr(line, ",\"-"));
	exported_end(&exported);
}

HT_SUITE("analyzer/names")
