/* SPDX-License-Identifier: Apache-2.0
 *
 * The text for Prometheus keeps to the grammar of Prometheus, whatever a capture reports.
 */
#include "attach/cli/print_metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define LIMIT_MS 20000

static struct print_metrics metrics;

static struct control_reply reply_of(uint64_t pid, const char *comm, const char *trace)
{
	struct control_reply reply = {
		.ok = true, .pid = pid, .events = 17, .elapsed_ns = 1500000000};
	snprintf(reply.comm, sizeof(reply.comm), "%s", comm);
	snprintf(reply.trace, sizeof(reply.trace), "%s", trace);
	return reply;
}

static void add(struct control_reply reply)
{
	ck_assert(print_metrics_add(&metrics, &reply));
}

/* Prints the metrics to a file. Returns the text; *ret_path is the file's path. Both are malloc'd.
 */
static char *print(char **ret_path)
{
	char *text = NULL;
	size_t room = 0;
	*ret_path = tmpdir_path("metrics");
	ck_assert_ptr_nonnull(freopen(*ret_path, "we", stdout));
	print_metrics_end(&metrics);
	ck_assert_int_eq(fflush(stdout), 0);
	FILE *file = fopen(*ret_path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_gt(getdelim(&text, &room, '\0', file), 0);
	fclose(file);
	return text;
}

/* --- the grammar ----------------------------------------------------------------------------- */

static const char *take_name(const char *at)
{
	const char *start = at;
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	ck_assert_msg(at > start && !isdigit((unsigned char)*start), "no name: %s", start);
	return at;
}

static const char *take_labels(const char *at)
{
	if (*at != '{')
		return at;
	do {
		at = take_name(at + 1);
		ck_assert_msg(at[0] == '=' && at[1] == '"', "%s", at);
		for (at += 2; *at != '"'; at++) {
			ck_assert_msg((unsigned char)*at >= ' ', "%s", at);
			if (*at == '\\')
				ck_assert_msg(strchr("\\\"n", *++at), "%s", at);
		}
		at++;
	} while (*at == ',');
	ck_assert_msg(*at == '}', "%s", at);
	return at + 1;
}

static void check_sample(const char *line, const char *family)
{
	char *end;
	const char *at = take_name(line);
	ck_assert_msg(
		(size_t)(at - line) == strlen(family) && !strncmp(line, family, strlen(family)),
		"%s is not in %s", line, family);
	at = take_labels(at);
	ck_assert_msg(*at == ' ', "%s", line);
	ck_assert_msg(strtod(at + 1, &end) >= 0 && end > at + 1 && !*end, "%s", line);
}

/* Checks that each family has HELP, TYPE, then at least one sample, and that no family comes twice.
 */
static void check_text(char *text)
{
	char family[128] = "", seen[4096] = " ", word[160];
	unsigned samples = 1;
	char *rest = NULL;
	ck_assert_int_eq(text[strlen(text) - 1], '\n');
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "# HELP ", 7) == 0) {
			ck_assert_uint_gt(samples, 0);
			ck_assert_int_eq(sscanf(line + 7, "%127s", family), 1);
			snprintf(word, sizeof(word), " %s ", family);
			ck_assert_msg(!strstr(seen, word), "%s twice", family);
			size_t used = strlen(seen);
			ck_assert_uint_lt(used + strlen(word), sizeof(seen));
			snprintf(seen + used, sizeof(seen) - used, "%s", word + 1);
			samples = 0;
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			char type[16];
			ck_assert_int_eq(sscanf(line + 7, "%127s %15s", word, type), 2);
			ck_assert_str_eq(word, family);
			bool is_total = strlen(family) > 6 &&
					!strcmp(family + strlen(family) - 6, "_total");
			ck_assert_str_eq(type, is_total ? "counter" : "gauge");
		} else {
			check_sample(line, family);
			samples++;
		}
	}
	ck_assert_uint_gt(samples, 0);
}

/* Checks the file with Prometheus's promtool, if it is installed. */
static void check_promtool(const char *path)
{
	char *out, *err;
	if (access("/usr/bin/promtool", X_OK) != 0) {
		printf("skipped: promtool: it is not installed\n");
		return;
	}
	HT_FREED char *command;
	ck_assert_int_ge(asprintf(&command, "promtool check metrics <%s", path), 0);
	int status = run_program((const char *[]){"sh", "-c", command, NULL}, LIMIT_MS, &out, &err);
	ck_assert_msg(status == 0, "%s%s", out, err);
	free(out);
	free(err);
}

static void check(void)
{
	char *path, *text = print(&path);
	check_promtool(path);
	check_text(text);
	free(text);
	free(path);
}

/* --- tests ----------------------------------------------------------------------------------- */

HT_TEST(no_capture)
{
	check();
}

HT_TEST(captures_side_by_side)
{
	struct control_reply sample = reply_of(7, "server", "/tmp/x.htap");
	sample.sample_bytes = 65536;
	sample.duration_ns = 60000000000;
	sample.phase = CONTROL_NAMING;
	add(sample);
	add(reply_of(8, "server", "/tmp/y.htap"));
	print_metrics_add_silent(&metrics);
	char *path, *text = print(&path);
	check_promtool(path);
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures 2\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures_silent 1\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "\nheaptap_events_total{uid=\"0\",pid=\"8\",comm=\"server\"} 17\n"));
	ck_assert_ptr_nonnull(strstr(text,
		"\nheaptap_window_seconds{uid=\"0\",pid=\"8\",comm=\"server\"} 1.500000000\n"));
	/* Only one of the captures has a limit. */
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_window_limit_seconds{uid=\"0\",pid=\"7\""));
	ck_assert_ptr_null(strstr(text, "\nheaptap_window_limit_seconds{uid=\"0\",pid=\"8\""));
	check_text(text);
	free(text);
	free(path);
}

static struct control_reply waiting_of(uint64_t pid, uint64_t heaptap_pid)
{
	struct control_reply reply = reply_of(pid, "server", "");
	reply.phase = CONTROL_WAITING;
	reply.heaptap_pid = heaptap_pid;
	reply.next_unix_ns = 1700000000500000000;
	snprintf(reply.waits_for, sizeof(reply.waits_for), "%s", "its RSS is \"60\" MiB\n");
	return reply;
}

/* A heaptap that waits is no capture, and has none of a capture's figures. */
HT_TEST(those_that_wait_are_apart)
{
	add(waiting_of(7, 12));
	add(waiting_of(7, 13));
	add(reply_of(7, "server", "/tmp/x.htap"));
	char *path, *text = print(&path);
	check_promtool(path);
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures 1\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures_silent 0\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_waiting 2\n"));
	ck_assert_ptr_nonnull(strstr(text,
		"\nheaptap_waiting_info{uid=\"0\",pid=\"7\",comm=\"server\",waits_for=\"its RSS "
		"is \\\"60\\\" MiB\",heaptap_pid=\"13\"} 1\n"));
	ck_assert_ptr_nonnull(strstr(text,
		"\nheaptap_next_window_time_seconds{uid=\"0\",pid=\"7\",comm=\"server\","
		"heaptap_pid=\"12\"} 1700000000.500000000\n"));
	const char *events = strstr(text, "\nheaptap_events_total{");
	ck_assert_ptr_nonnull(events);
	ck_assert_ptr_null(strstr(events + 1, "\nheaptap_events_total{"));
	check_text(text);
	free(text);
	free(path);
	/* Without a capture there is no family of captures. */
	add(waiting_of(7, 12));
	add(waiting_of(7, 12));
	text = print(&path);
	ck_assert_ptr_null(strstr(text, "heaptap_events_total"));
	ck_assert_ptr_null(strstr(text, "heaptap_capture_info"));
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures_silent 1\n"));
	check_text(text);
	free(text);
	free(path);
}

HT_TEST(each_phase_has_a_name)
{
	for (uint64_t phase = 0; phase < CONTROL_PHASES; phase++) {
		struct control_reply reply = reply_of(10 + phase, "server", "");
		reply.phase = phase;
		add(reply);
	}
	char *path, *text = print(&path);
	ck_assert_ptr_nonnull(strstr(text, "phase=\"settling\""));
	ck_assert_ptr_null(strstr(text, "phase=\"unknown\""));
	check_text(text);
	free(text);
	free(path);
}

HT_TEST(hostile_names_are_escaped)
{
	static char longest[2048];
	memset(longest, '"', sizeof(longest) - 1);
	add(reply_of(7, "a\"} 1\nx{b=\"\\", "/tmp/\033[2J\r\n\\\"\xff\xc3"));
	add(reply_of(8, "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"", longest));
	struct control_reply odd = reply_of(UINT64_MAX, "", "");
	odd.phase = odd.elapsed_ns = odd.events = UINT64_MAX;
	add(odd);
	check();
}

/* Prometheus refuses a whole text that has a series twice. */
HT_TEST(no_series_comes_twice)
{
	struct control_reply other = reply_of(7, "server", "");
	other.user = 1000;
	add(reply_of(7, "server", ""));
	add(reply_of(7, "server", ""));
	add(other);
	char *path, *text = print(&path);
	check_promtool(path);
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures 2\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nheaptap_captures_silent 1\n"));
	free(text);
	free(path);
}

HT_SUITE("unit/attach/print_metrics")
