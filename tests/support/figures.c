/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/figures.h"

#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define ANSWER_MS  60000
#define EVENTS_MAX 500000 /* the most events that the firefox export writes, as in the man page */
#define PAGE	   "analyzer/heaptap-analyze.1"
#define FIGURES	   6u

enum figure { CALLS, ALLOCATED, BLOCKS, OUTSTANDING, PEAK, TEMPORARY };

static const char *const figure_name[FIGURES] = {"allocations", "allocated_bytes",
	"outstanding_blocks", "outstanding_bytes", "peak_bytes", "temporary"};

/* Options that choose a part of the trace, for all exports and the report; NULL: there are none. */
static const char *const *chosen;

/* The figures that a reader found. */
struct figures {
	bool has[FIGURES];
	uint64_t value[FIGURES];
};

static void set(struct figures *figures, enum figure figure, uint64_t value)
{
	figures->has[figure] = true;
	figures->value[figure] = value;
}

/* --- the man page's table ----------------------------------------------------------------------
 */

/* The words of a format's row in the man page's table. */
static char *listed_sums(const char *format)
{
	char line[512], start[64], *found = NULL;
	FILE *page = fopen(PAGE, "re");
	ck_assert_msg(page, "no " PAGE);
	snprintf(start, sizeof(start), ".It Cm %s Ta ", format);
	while (!found && fgets(line, sizeof(line), page))
		if (strncmp(line, start, strlen(start)) == 0)
			found = strndup(line + strlen(start), strcspn(line, "\n") - strlen(start));
	fclose(page);
	ck_assert_msg(found, "no row of %s", format);
	return found;
}

static bool has_word(const char *words, const char *word)
{
	const size_t length = strlen(word);
	for (const char *at = words; (at = strstr(at, word)); at += length)
		if ((at == words || at[-1] == ' ') && strchr(" ", at[length]))
			return true;
	return false;
}

static void check_figures(const json_t *report, const char *format, const struct figures *found)
{
	char path[64], *listed = listed_sums(format);
	for (unsigned i = 0; i < FIGURES; i++) {
		const bool is_listed = has_word(listed, figure_name[i]);
		ck_assert_msg(is_listed == found->has[i], "%s: %s is %s", format, figure_name[i],
			is_listed ? "listed, and not found" : "found, and not listed");
		if (!is_listed)
			continue;
		/* man page: peaks are those of the whole trace, and massif's end is what is live.
		 */
		if (chosen && i == PEAK)
			continue;
		const bool is_live = chosen && i == OUTSTANDING && !strcmp(format, "massif");
		snprintf(path, sizeof(path), "totals.%s", is_live ? "live_bytes" : figure_name[i]);
		ck_assert_msg(found->value[i] == report_u64(report, path), "%s: %s is %lu, not %lu",
			format, figure_name[i], found->value[i], report_u64(report, path));
	}
	free(listed);
}

/* --- exports -----------------------------------------------------------------------------------
 */

char *figures_export(
	const char *trace, const char *format, const char *const extra[], char **ret_words)
{
	const char *argv[24] = {
		run_built("heaptap"), "export", trace, "--format", format, "-f", "-o"};
	char name[64], *words;
	size_t count = 7;
	snprintf(name, sizeof(name), "export.%s", format);
	char *path = tmpdir_path(name);
	argv[count++] = path;
	while (extra && *extra)
		argv[count++] = *extra++;
	for (const char *const *word = chosen; word && *word; word++)
		argv[count++] = *word;
	int status = run_program(argv, ANSWER_MS, NULL, &words);
	ck_assert_msg(status == 0, "export to %s ended with %d: %s", format, status, words);
	if (ret_words)
		*ret_words = words;
	else
		free(words);
	return path;
}

static char *export_as(const char *trace, const char *format)
{
	return figures_export(trace, format, NULL, NULL);
}

/* The output of a reader, which must succeed and print nothing to standard error. */
static char *read_by(const char *const argv[])
{
	char *out, *err;
	int status = run_program(argv, ANSWER_MS, &out, &err);
	ck_assert_msg(status == 0, "%s ended with %d: %.2000s", argv[0], status, err);
	ck_assert_msg(!*err, "%s: %.2000s", argv[0], err);
	free(err);
	return out;
}

static json_t *load_json(const char *path)
{
	json_error_t error;
	json_t *root = json_load_file(path, 0, &error);
	ck_assert_msg(root, "%s: %s, line %d", path, error.text, error.line);
	return root;
}

/* A number with commas between thousands; `*at` moves behind it, blanks before it are skipped. */
static uint64_t take_number(const char **at)
{
	uint64_t value = 0;
	*at += strspn(*at, " ");
	ck_assert_msg(**at >= '0' && **at <= '9', "no number: %.80s", *at);
	for (; (**at >= '0' && **at <= '9') || **at == ','; ++*at)
		if (**at != ',')
			value = value * 10 + (uint64_t)(**at - '0');
	return value;
}

/* --- readers -----------------------------------------------------------------------------------
 */

/* The sum of the last number of each line; `before` (unless NULL) gets the sum of the numbers
 * before those. */
static uint64_t sum_lines(const char *path, uint64_t *before)
{
	char *line = NULL;
	size_t capacity = 0;
	uint64_t sum = 0;
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	if (before)
		*before = 0;
	while (getline(&line, &capacity, file) > 0) {
		char *last = strrchr(line, ' ');
		ck_assert_msg(last, "%.100s", line);
		sum += strtoull(last + 1, NULL, 10);
		*last = '\0';
		char *other = strrchr(line, ' ');
		if (before) {
			ck_assert_msg(other, "%.100s", line);
			*before += strtoull(other + 1, NULL, 10);
		}
	}
	free(line);
	fclose(file);
	return sum;
}

static void read_collapsed(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *path = export_as(trace, "collapsed");
	set(ret, OUTSTANDING, sum_lines(path, NULL));
	free(path);
}

/* Compares a trace with itself: both columns must have the trace's figures. */
static void read_difffolded(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	uint64_t before;
	char *path = figures_export(trace, "difffolded", (const char *const[]){trace, NULL}, NULL);
	set(ret, OUTSTANDING, sum_lines(path, &before));
	ck_assert_uint_eq(before, ret->value[OUTSTANDING]);
	free(path);
}

static uint64_t stated(const char *words, const char *name)
{
	const char *at = strstr(words, name);
	ck_assert_msg(at, "no %s in %s", name, words);
	at += strlen(name);
	return take_number(&at);
}

/* Takes heaptap's own --stats, because test_export has heaptrack_print and heaptrack_gui read the
 * export. */
static void read_heaptrack(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *words, *path = figures_export(
			     trace, "heaptrack", (const char *const[]){"--stats", NULL}, &words);
	set(ret, CALLS, stated(words, "calls "));
	set(ret, OUTSTANDING, stated(words, "leaked_bytes "));
	set(ret, PEAK, stated(words, "peak_bytes "));
	free(words);
	free(path);
}

static const char *pprof_program(void)
{
	static char path[256];
	glob_t found;
	if (glob("/usr/lib/go-*/pkg/tool/*/pprof", 0, NULL, &found) == 0)
		snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
	globfree(&found);
	ck_assert_msg(*path, "pprof of golang-go is missing: scripts/deps installs it");
	return path;
}

/* "         2        130          1        100        130          1: 1 2" is the line of one
 * sample. */
static void add_samples(const char *text, struct figures *ret)
{
	static const enum figure column[] = {
		CALLS, ALLOCATED, BLOCKS, OUTSTANDING, PEAK, TEMPORARY};
	const char *at = strstr(text, "\nSamples:\n");
	ck_assert_msg(at, "%.500s", text);
	at = strchr(at + 1, '\n') + 1;
	ck_assert_msg(strncmp(at,
			      "alloc_objects/count alloc_space/bytes inuse_objects/count "
			      "inuse_space/bytes[dflt] peak_space/bytes temp_objects/count\n",
			      117) == 0,
		"%.200s", at);
	for (; strncmp(at, "Locations\n", 10) != 0; at = strchr(at, '\n') + 1) {
		const char *number = at;
		if (strspn(at, " 0123456789") != strcspn(at, ":") || *at == '\n')
			continue;
		for (size_t i = 0; i < HT_ARRAY_SIZE(column); i++)
			set(ret, column[i], ret->value[column[i]] + take_number(&number));
	}
}

static void read_samples(const char *path, struct figures *ret)
{
	for (unsigned i = 0; i < FIGURES; i++)
		set(ret, i, 0);
	char *text = read_by((const char *[]){pprof_program(), "-raw", path, NULL});
	add_samples(text, ret);
	free(text);
}

/* Also compares the profile with itself (-diff_base): all differences must be 0. */
static void read_pprof(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *path = export_as(trace, "pprof"), *text;
	read_samples(path, ret);
	text = read_by(
		(const char *[]){pprof_program(), "-top", "-sample_index=alloc_space", path, NULL});
	ck_assert_msg(strstr(text, "Type: alloc_space\n"), "%.500s", text);
	free(text);
	text = read_by((const char *[]){pprof_program(), "-top", "-diff_base", path, path, NULL});
	ck_assert_msg(strstr(text, "Type: inuse_space\n"), "%.500s", text);
	ck_assert_msg(strstr(text, "\nShowing nodes accounting for 0, 0% of "), "%.500s", text);
	free(text);
	free(path);
}

/* The sum of the named profile. Each stack's first frame must be in the table of frames. */
static uint64_t speedscope_sum(const json_t *root, const char *name)
{
	const json_t *frames = report_at(root, "shared.frames");
	json_t *profile, *sample, *value;
	size_t index, at;
	uint64_t sum = 0;
	json_array_foreach(report_at(root, "profiles"), index, profile)
	{
		if (strcmp(report_text(profile, "name"), name) != 0)
			continue;
		json_t *samples = report_at(profile, "samples");
		json_t *weights = report_at(profile, "weights");
		ck_assert_uint_eq(json_array_size(samples), json_array_size(weights));
		json_array_foreach(weights, at, value) sum += (uint64_t)json_integer_value(value);
		json_array_foreach(samples, at, sample)
			ck_assert_int_lt(json_integer_value(json_array_get(sample, 0)),
				(json_int_t)json_array_size(frames));
		ck_assert_uint_eq(report_u64(profile, "endValue"), sum);
		return sum;
	}
	ck_abort_msg("no profile %s", name);
}

static void read_speedscope(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *path = export_as(trace, "speedscope");
	json_t *root = load_json(path);
	ck_assert_str_eq(
		report_text(root, "$schema"), "https://www.speedscope.app/file-format-schema.json");
	set(ret, CALLS, speedscope_sum(root, "calls"));
	set(ret, ALLOCATED, speedscope_sum(root, "allocated"));
	set(ret, OUTSTANDING, speedscope_sum(root, "outstanding"));
	set(ret, PEAK, speedscope_sum(root, "peak"));
	set(ret, TEMPORARY, speedscope_sum(root, "temporary"));
	json_decref(root);
	free(path);
}

/* Each value of the column must be an index below `limit`, or null. */
static void check_column(const json_t *root, const char *path, size_t limit)
{
	json_t *value;
	size_t index;
	json_array_foreach(report_at(root, path), index, value) ck_assert_msg(
		json_is_null(value) || (json_integer_value(value) >= 0 &&
					       (size_t)json_integer_value(value) < limit),
		"%s[%zu]", path, index);
}

static void check_tables(const json_t *root)
{
	const uint64_t stacks = report_u64(root, "shared.stackTable.length");
	const uint64_t frames = report_u64(root, "shared.frameTable.length");
	const uint64_t functions = report_u64(root, "shared.funcTable.length");
	const size_t strings = json_array_size(report_at(root, "shared.stringArray"));
	check_column(root, "shared.stackTable.prefix", stacks);
	check_column(root, "shared.stackTable.frame", frames);
	check_column(root, "shared.frameTable.func", functions);
	check_column(root, "shared.funcTable.name", strings);
	check_column(root, "shared.funcTable.source", report_u64(root, "shared.sources.length"));
	check_column(root, "shared.sources.filename", strings);
	check_column(root, "shared.resourceTable.lib", json_array_size(report_at(root, "libs")));
	check_column(
		json_array_get(report_at(root, "threads"), 0), "nativeAllocations.stack", stacks);
}

static int64_t sum_column(const json_t *root, const char *path, int64_t least)
{
	json_t *value;
	size_t index;
	int64_t sum = 0;
	json_array_foreach(report_at(root, path), index,
		value) if (json_integer_value(value) >= least) sum += json_integer_value(value);
	return sum;
}

/* If the trace has more than EVENTS_MAX events, only the counter track is exact. */
static void read_firefox(const char *trace, const json_t *report, struct figures *ret)
{
	char *words, *path = figures_export(trace, "firefox", NULL, &words);
	json_t *root = load_json(path);
	const json_t *thread = json_array_get(report_at(root, "threads"), 0);
	const json_t *counter = json_array_get(report_at(root, "counters"), 0);
	const uint64_t events =
		report_u64(report, "totals.allocations") + report_u64(report, "totals.frees");
	const uint64_t written = report_u64(thread, "nativeAllocations.length");
	ck_assert_uint_eq(report_u64(root, "meta.preprocessedProfileVersion"), 60);
	check_tables(root);
	ck_assert_int_eq(sum_column(counter, "samples.count", INT64_MIN),
		(int64_t)report_u64(report, "totals.outstanding_bytes"));
	ck_assert_uint_le(written, EVENTS_MAX);
	ck_assert_msg(
		(strstr(words, "are a sample") != NULL) == (events > EVENTS_MAX), "%s", words);
	set(ret, ALLOCATED, (uint64_t)sum_column(thread, "nativeAllocations.weight", 0));
	set(ret, OUTSTANDING, (uint64_t)sum_column(thread, "nativeAllocations.weight", INT64_MIN));
	if (events > EVENTS_MAX) {
		set(ret, ALLOCATED, report_u64(report, "totals.allocated_bytes"));
		set(ret, OUTSTANDING, report_u64(report, "totals.outstanding_bytes"));
	} else {
		ck_assert_uint_eq(written, events);
	}
	json_decref(root);
	free(words);
	free(path);
}

/* ms_print prints snapshots as a table with the columns n, time, total, useful, extra, stacks. */
static void read_massif(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *path = export_as(trace, "massif");
	char *text = read_by((const char *[]){"ms_print", path, NULL});
	const char *at = strstr(text, " (peak)");
	ck_assert_msg(at, "%.3000s", text);
	while (at[-1] >= '0' && at[-1] <= '9')
		at--;
	const uint64_t peak = strtoull(at, NULL, 10);
	for (; at; at = strchr(at, '\n')) {
		const char *row = at + 1;
		at = row;
		const size_t length = strcspn(row, "\n");
		if (strspn(row, " 0123456789,") != length || strcspn(row, "0123456789") >= length)
			continue;
		const uint64_t number = take_number(&row);
		take_number(&row);
		const uint64_t bytes = take_number(&row);
		if (number == peak)
			set(ret, PEAK, bytes);
		set(ret, OUTSTANDING, bytes); /* the last one counts */
	}
	free(text);
	free(path);
}

/* Runs dh_view's own code, which builds the tree, in node instead of a browser. */
static void check_view(const char *path, uint64_t allocated)
{
	static const char script[] =
		"const fs = require('fs');"
		"const code = fs.readFileSync('/usr/libexec/valgrind/dh_view.js', 'utf8');"
		"const end = 'gSelect = {childNodes: gSelectData.map(() => ({})), selectedIndex: "
		"0};"
		"gData = data; buildTree(); return gRoot._totalBytes;';"
		"const view = new Function('data', 'window', 'document', code + end);"
		"const data = JSON.parse(fs.readFileSync(process.argv[1], 'utf8'));"
		"console.log(view(data, {}, {}));";
	char *text = read_by((const char *[]){"node", "-e", script, path, NULL});
	ck_assert_uint_eq(strtoull(text, NULL, 10), allocated);
	free(text);
}

static void read_dhat(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	static const struct {
		const char *name;
		enum figure figure;
	} field[] = {{"tb", ALLOCATED}, {"tbk", CALLS}, {"gb", PEAK}, {"eb", OUTSTANDING},
		{"ebk", BLOCKS}};
	char *path = export_as(trace, "dhat");
	json_t *root = load_json(path), *row;
	size_t index;
	ck_assert_uint_eq(report_u64(root, "dhatFileVersion"), 2);
	for (size_t i = 0; i < HT_ARRAY_SIZE(field); i++) {
		uint64_t sum = 0;
		json_array_foreach(report_at(root, "pps"), index, row) sum +=
			report_u64(row, field[i].name);
		set(ret, field[i].figure, sum);
	}
	json_array_foreach(report_at(root, "pps"), index, row)
	{
		ck_assert_uint_ge(report_u64(row, "mb"), report_u64(row, "gb"));
		ck_assert_uint_ge(report_u64(row, "mbk"), report_u64(row, "ebk"));
		check_column(row, "fs", json_array_size(report_at(root, "ftbl")));
	}
	json_decref(root);
	check_view(path, ret->value[ALLOCATED]);
	free(path);
}

/* Reads the line "52,882 (100.0%) 52,896 (100.0%) ... LABEL"; its columns are in the order of the
 * export's events. */
static void take_annotated(const char *text, const char *label, struct figures *ret)
{
	static const enum figure column[] = {OUTSTANDING, PEAK, ALLOCATED, CALLS, TEMPORARY};
	const char *end = strstr(text, label), *at = end;
	ck_assert_msg(end, "no %s in %.2000s", label, text);
	while (at[-1] != '\n')
		at--;
	for (size_t i = 0; i < HT_ARRAY_SIZE(column); i++) {
		set(ret, column[i], take_number(&at));
		at += strspn(at, " ");
		if (*at == '(')
			at = strchr(at, ')') + 1;
	}
}

/* The inclusive cost of the root, which calls everything, must equal the program totals. */
static void read_callgrind(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *path = export_as(trace, "callgrind");
	struct figures below = {0};
	char *text = read_by((const char *[]){"callgrind_annotate", "--auto=no", "--inclusive=yes",
		"--threshold=100", path, NULL});
	take_annotated(text, "PROGRAM TOTALS", ret);
	take_annotated(text, "???:(root)", &below);
	for (unsigned i = 0; i < FIGURES; i++)
		ck_assert_uint_eq(below.value[i], ret->value[i]);
	free(text);
	free(path);
}

static void read_rows(const char *path, struct figures *ret)
{
	static const char script[] =
		"import csv, sys\n"
		"csv.field_size_limit(1 << 30)\n"
		"rows = list(csv.DictReader(open(sys.argv[1], newline=''), strict=True))\n"
		"for name in sys.argv[2:]:\n"
		"    print(sum(int(row[name]) for row in rows))\n";
	char *text = read_by((const char *[]){"python3", "-c", script, path, "calls",
		"allocated_bytes", "outstanding_blocks", "outstanding_bytes", "peak_bytes",
		"temporary", NULL});
	char *at = text;
	for (unsigned i = 0; i < FIGURES; i++)
		set(ret, i, strtoull(at, &at, 10));
	free(text);
}

static void read_csv(const char *trace, const json_t *report, struct figures *ret)
{
	(void)report;
	char *path = export_as(trace, "csv");
	read_rows(path, ret);
	free(path);
}

/* --- all of them -------------------------------------------------------------------------------
 */

static json_t *load_report(const char *trace)
{
	const char *argv[24] = {run_built("heaptap"), "report", "--json", trace};
	size_t count = 4;
	char *out;
	for (const char *const *word = chosen; word && *word; word++)
		argv[count++] = *word;
	ck_assert_int_eq(run_program(argv, ANSWER_MS, &out, NULL), 0);
	json_t *report = report_parse(out);
	free(out);
	return report;
}

void figures_check_all(const char *trace, const char *const part[])
{
	static const struct {
		const char *format;
		void (*read)(const char *trace, const json_t *report, struct figures *ret);
	} reader[] = {{"collapsed", read_collapsed}, {"difffolded", read_difffolded},
		{"heaptrack", read_heaptrack}, {"pprof", read_pprof},
		{"speedscope", read_speedscope}, {"firefox", read_firefox}, {"massif", read_massif},
		{"dhat", read_dhat}, {"callgrind", read_callgrind}, {"csv", read_csv}};
	chosen = part;
	json_t *report = load_report(trace);
	ck_assert(part || report_u64(report, "totals.outstanding_bytes") > 0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(reader); i++) {
		struct figures found = {0};
		reader[i].read(trace, report, &found);
		check_figures(report, reader[i].format, &found);
	}
	json_decref(report);
	chosen = NULL;
}
