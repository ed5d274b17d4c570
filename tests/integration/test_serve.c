/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap serve: its answers equal the output of the commands; it answers only requests with the
 * token; slow, hostile and very many clients do not disturb others.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/http.h"
#include "tests/support/report.h"
#include "tests/support/smalltrace.h"
#include "tests/support/tmpdir.h"

#define ANSWER_MS 60000

static bool start(struct http *http)
{
	HT_FREED char *trace = smalltrace_make("one.htap", 3);
	bool ret = http_start(http, (const char *[]){trace, NULL});
	return ret;
}

/* --- answers --------------------------------------------------------------------------------- */

static char *print(const char *const words[])
{
	const char *argv[16] = {run_built("heaptap")};
	char *out, *err;
	for (size_t i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	int status = run_program(argv, ANSWER_MS, &out, &err);
	ck_assert_msg(status == 0, "%s: %s", words[0], err);
	free(err);
	return out;
}

/* The server's answer must equal the command's output, byte for byte. */
static void check_same(const struct http *http, const char *path, const char *const words[])
{
	char *expected = print(words), *sent = http_get(http, path, 200);
	ck_assert_msg(strcmp(sent, expected) == 0, "%s:\n%s\n%s", path, sent, expected);
	free(expected);
	free(sent);
}

/* Each member of the server's answer must equal that of the command's output. */
static void check_members(
	const struct http *http, const char *path, const char *member, const char *const words[])
{
	HT_FREED char *out = print(words);
	json_t *expected = report_parse(out), *sent = http_json(http, path, 200);
	const char *name;
	json_t *value;
	ck_assert_ptr_nonnull(json_object_get(sent, member));
	json_object_foreach(sent, name, value) ck_assert_msg(
		json_equal(value, json_object_get(expected, name)), "%s: %s", path, name);
	json_decref(expected);
	json_decref(sent);
}

static void check_reports(const struct http *http, const char *trace)
{
#define REPORT(path, member, ...)                                                                  \
	check_members(http, "/api/v1/" path, member,                                               \
		(const char *[]){"report", "--json", trace, ##__VA_ARGS__, NULL})
	REPORT("summary", "totals");
	REPORT("summary?from=+10ms&to=+30ms", "totals", "--from", "+10ms", "--to", "+30ms");
	REPORT("summary?min-size=200&max-age=1s", "totals", "--min-size", "200", "--max-age", "1s");
	REPORT("summary?thread=worker&module=target&exclude=nothing", "heap", "--thread", "worker",
		"--module", "target", "--exclude", "nothing");
	REPORT("timeline", "timeline");
	REPORT("timeline?function=parse", "timeline", "--function", "parse");
	REPORT("sites?limit=1&sort=calls", "stacks", "--limit", "1", "--sort", "calls");
	REPORT("suspects", "suspects");
	REPORT("sizes", "sizes");
	REPORT("threads", "threads");
	REPORT("lifetimes", "breakdown", "--by", "lifetime");
	REPORT("modules?metric=allocated", "breakdown", "--by", "module", "--metric", "allocated");
#undef REPORT
}

HT_TEST(answers_are_those_of_the_commands)
{
	struct http http;
	char *one = smalltrace_make("one.htap", 3), *two = smalltrace_make("two.htap", 5);
	if (!http_start(&http, (const char *[]){one, two, NULL}))
		return;
	check_reports(&http, one);
#define SAME(path, ...) check_same(&http, "/api/v1/" path, (const char *[]){__VA_ARGS__, NULL})
	SAME("report", "report", "--json", one);
	SAME("report?trace=1&by=size", "report", "--json", two, "--by", "size");
	SAME("report?alive-at=+20ms", "report", "--json", one, "--alive-at", "+20ms");
	SAME("tree?bottom-up", "tree", "--json", one, "--bottom-up");
	SAME("callers?name=parse&trace=1", "callers", "--json", two, "parse");
	SAME("diff", "diff", "--json", one, two);
	SAME("diff?base=1&trace=0", "diff", "--json", two, one);
	SAME("diff?base=1&trace=1", "diff", "--json", two, two);
	SAME("trend", "trend", "--json", one, two);
	SAME("trend?limit=1&metric=calls", "trend", "--json", one, two, "--limit", "1", "--metric",
		"calls");
	SAME("export/difffolded?base=0&trace=1", "export", "--format", "difffolded", one, two);
	SAME("export/collapsed?metric=allocated", "export", "--format", "collapsed", one,
		"--metric", "allocated");
	SAME("export/massif", "export", "--format", "massif", one);
	SAME("export/heaptrack?min-size=100", "export", "--format", "heaptrack", one, "--min-size",
		"100");
#undef SAME
	json_t *traces = http_json(&http, "/api/v1/traces", 200);
	ck_assert_uint_eq(json_array_size(json_object_get(traces, "traces")), 2);
	json_decref(traces);
	ck_assert_int_eq(http_stop(&http), 0);
	free(one);
	free(two);
}

static void write_file(const char *name, const char *text)
{
	HT_FREED char *path = tmpdir_path(name);
	FILE *file = fopen(path, "we");
	ck_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

HT_TEST(a_folder_of_windows)
{
	struct http http;
	char *folder = tmpdir_path("windows"), *path;
	ck_assert_int_eq(
		run_program((const char *[]){"mkdir", "-p", folder, NULL}, ANSWER_MS, NULL, NULL),
		0);
	free(smalltrace_make("windows/w-10.htap", 3));
	free(smalltrace_make("windows/w-9.htap", 2));
	free(smalltrace_make("windows/other", 2));
	/* An empty trace and a file that is no trace must not hide the other traces. */
	write_file("windows/a.htap", "");
	write_file("windows/w-9a.htap", "this is no trace at all, but a text that is long enough");
	if (!http_start(&http, (const char *[]){folder, NULL}))
		return;
	json_t *answer = http_json(&http, "/api/v1/traces", 200);
	const json_t *traces = json_object_get(answer, "traces");
	ck_assert_uint_eq(json_array_size(traces), 2);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_int_gt(asprintf(&path, "%s/w-%u.htap", folder, i ? 10 : 9), 0);
		ck_assert_str_eq(report_text(json_array_get(traces, i), "path"), path);
		free(path);
	}
	json_decref(answer);
	char *err = run_err(&http.run);
	ck_assert_ptr_nonnull(strstr(err, "a.htap: the file is empty"));
	ck_assert_ptr_nonnull(strstr(err, "left out: "));
	ck_assert_ptr_nonnull(strstr(err, "w-9a.htap: not a heaptap trace"));
	free(err);
	ck_assert_int_eq(http_stop(&http), 0);
	free(folder);
}

/* Returns the value of a header, malloc'd; fails without one. */
static char *header_of(const char *answer, const char *name)
{
	char *value = NULL, wanted[100];
	snprintf(wanted, sizeof(wanted), "\n%s: ", name);
	const char *at = strstr(answer, wanted);
	ck_assert_msg(at, "%s is missing: %.600s", name, answer);
	ck_assert_int_eq(sscanf(at + strlen(wanted), "%m[^\r]", &value), 1);
	return value;
}

#define HEADERS "Host: 127.0.0.1:%u\r\nX-Heaptap-Token: %s\r\nConnection: close\r\n"

static char *get_if(const struct http *http, const char *path, const char *etag)
{
	char request[1000];
	snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\n" HEADERS "If-None-Match: %s\r\n\r\n", path, http->port,
		http->token, etag);
	return http_send(http, request, NULL);
}

/* All resources of the page. Each answer has its schema, and is sent only once while it does not
 * change. */
static const char *const resource[] = {"report", "summary", "timeline", "tree", "sites", "suspects",
	"callers?name=parse", "sizes", "lifetimes", "threads", "modules", "diff", "trend",
	"traces"};
static const char *const exports[] = {"collapsed", "pprof", "speedscope", "firefox", "massif",
	"dhat", "callgrind", "csv", "heaptrack", "difffolded?base=0"};

static void check_known(const struct http *http, const char *path)
{
	HT_FREED char *first = get_if(http, path, "\"none\"");
	ck_assert_msg(http_status(first) == 200, "%s: %.600s", path, first);
	char *etag = header_of(first, "ETag"), *again = get_if(http, path, etag);
	ck_assert_msg(http_status(again) == 304, "%s: %.600s", path, again);
	free(etag);
	free(again);
}

HT_TEST(every_resource_has_a_schema_and_is_sent_once)
{
	struct http http;
	char *one = smalltrace_make("one.htap", 3), *two = smalltrace_make("two.htap", 5),
	     path[100];
	if (!http_start(&http, (const char *[]){one, two, NULL}))
		return;
	for (size_t i = 0; i < HT_ARRAY_SIZE(resource); i++) {
		snprintf(path, sizeof(path), "/api/v1/%s", resource[i]);
		json_t *answer = http_json(&http, path, 200);
		const char *schema = report_text(answer, "schema");
		ck_assert_msg(strncmp(schema, "heaptap.", 8) == 0, "%s: %s", path, schema);
		json_decref(answer);
		check_known(&http, path);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(exports); i++) {
		snprintf(path, sizeof(path), "/api/v1/export/%s", exports[i]);
		check_known(&http, path);
	}
	check_known(&http, "/api/v1/page?trace=1&base=0");
	http_stop(&http);
	free(one);
	free(two);
}

/* The server answers from its sums and does not read the file again. Only a filter by size or age
 * reads it, and then notices that the file has changed. */
HT_TEST(an_answer_does_not_read_the_trace_again)
{
	struct http http;
	char *trace = smalltrace_make("one.htap", 3), path[100];
	if (!http_start(&http, (const char *[]){trace, NULL}))
		return;
	HT_FREED char *before = http_get(&http, "/api/v1/report?from=+10ms&thread=worker", 200);
	ck_assert_int_eq(truncate(trace, 0), 0);
	HT_FREED char *after = http_get(&http, "/api/v1/report?from=+10ms&thread=worker", 200);
	ck_assert_str_eq(after, before);
	for (size_t i = 0; i < HT_ARRAY_SIZE(resource); i++) {
		snprintf(path, sizeof(path), "/api/v1/%s", resource[i]);
		if (strcmp(resource[i], "diff") != 0 && strcmp(resource[i], "trend") != 0)
			free(http_get(&http, path, 200));
	}
	free(http_get(&http, "/api/v1/page", 200));
	free(http_get(&http, "/api/v1/summary?min-size=1", 500));
	http_stop(&http);
	free(trace);
}

HT_TEST(another_question_has_another_etag)
{
	struct http http;
	if (!start(&http))
		return;
	char *first = get_if(&http, "/api/v1/summary", "\"none\"");
	char *etag = header_of(first, "ETag");
	char *other = get_if(&http, "/api/v1/summary?from=+10ms", etag);
	ck_assert_uint_eq(http_status(other), 200);
	free(first);
	free(etag);
	free(other);
	http_stop(&http);
}

HT_TEST(wrong_requests_are_explained)
{
	static const struct {
		const char *path;
		unsigned status;
		const char *words;
	} row[] = {
		{"/api/v1/nothing", 404, "nothing at this path"},
		{"/favicon.ico", 404, "nothing at this path"},
		{"/api/v1/summary?from=yesterday", 400, "--from"},
		{"/api/v1/summary?min-size=x", 400, "report: --min-size x: not a size"},
		{"/api/v1/summary?frm=1", 400, "did you mean --from?"},
		{"/api/v1/summary?function=%zz", 400, "%25"},
		{"/api/v1/summary?trace=1", 400, "there is 1 trace"},
		{"/api/v1/diff", 400, "there is 1 trace"},
		{"/api/v1/page?base=1", 400, "there is 1 trace"},
		{"/api/v1/trend", 400, "trend"},
		{"/api/v1/trend?trace=0", 400, "option --trace=0 is unknown"},
		{"/api/v1/tree?metric=x", 400, "tree: --metric x is unknown"},
		{"/api/v1/callers", 400, "parameter name is missing"},
		{"/api/v1/callers?name=nothing", 400, "nothing"},
		{"/api/v1/export/nothing", 400, "--format nothing is unknown"},
		{"/api/v1/report?suppressions=/etc/passwd", 400, "not for requests"},
		{"/api/v1/events", 404, "no capture"},
	};
	struct http http;
	if (!start(&http))
		return;
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++) {
		json_t *answer = http_json(&http, row[i].path, row[i].status);
		const char *words = report_text(answer, "error");
		ck_assert_str_eq(report_text(answer, "schema"), "heaptap.error/1");
		ck_assert_msg(strstr(words, row[i].words), "%s: %s", row[i].path, words);
		json_decref(answer);
	}
	json_decref(http_post(&http, "/api/v1/summary", 405));
	json_decref(http_json(&http, "/api/v1/stop", 405));
	json_decref(http_post(&http, "/api/v1/stop", 404));
	http_stop(&http);
}

/* --- who is answered ------------------------------------------------------------------------- */

static void check_refused(const struct http *http, unsigned status, const char *method,
	const char *path, const char *headers)
{
	char request[2000];
	snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\n%sConnection: close\r\n\r\n", method,
		path, headers);
	HT_FREED char *answer = http_send(http, request, NULL);
	ck_assert_msg(http_status(answer) == status, "%s: %.300s", request, answer);
	ck_assert_ptr_null(strcasestr(answer, "Access-Control-"));
}

HT_TEST(only_the_token_is_answered)
{
	struct http http;
	char own[200], token[200], both[500], path[200];
	if (!start(&http))
		return;
	snprintf(own, sizeof(own), "Host: 127.0.0.1:%u\r\n", http.port);
	snprintf(token, sizeof(token), "X-Heaptap-Token: %s\r\n", http.token);
	snprintf(both, sizeof(both), "%s%s", own, token);
	snprintf(path, sizeof(path), "/api/v1/summary?token=%s", http.token);
	check_refused(&http, 200, "GET", "/api/v1/summary", both);
	check_refused(&http, 200, "GET", path, own);
	check_refused(&http, 200, "HEAD", path, own);
	check_refused(&http, 403, "GET", "/api/v1/summary", own);
	check_refused(&http, 403, "GET", "/", own);
	check_refused(&http, 403, "GET", "/nothing", own);
	check_refused(&http, 403, "GET", "/api/v1/summary?token=0", own);
	snprintf(both, sizeof(both), "Host: evil.example:%u\r\n%s", http.port, token);
	check_refused(&http, 403, "GET", "/api/v1/summary", both);
	snprintf(both, sizeof(both), "%s%sOrigin: http://evil.example\r\n", own, token);
	check_refused(&http, 403, "GET", "/api/v1/summary", both);
	check_refused(&http, 405, "OPTIONS", "/api/v1/stop", own);
	/* A token in the URL, which a page can make a browser send, is not enough for a POST. */
	snprintf(path, sizeof(path), "/api/v1/stop?token=%s", http.token);
	check_refused(&http, 403, "POST", path, own);
	http_stop(&http);
}

HT_TEST(every_answer_has_its_headers)
{
	static const struct {
		const char *name, *value;
	} row[] = {{"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"},
		{"Cache-Control", "no-store"}};
	static const char *const path[] = {"/", "/api/v1/summary", "/api/v1/nothing"};
	struct http http;
	if (!start(&http))
		return;
	for (size_t i = 0; i < HT_ARRAY_SIZE(path); i++) {
		char *answer = get_if(&http, path[i], "\"\"");
		for (size_t k = 0; k < HT_ARRAY_SIZE(row); k++) {
			char *value = header_of(answer, row[k].name);
			ck_assert_str_eq(value, row[k].value);
			free(value);
		}
		char *policy = header_of(answer, "Content-Security-Policy");
		ck_assert_ptr_eq(strstr(policy, "default-src 'none'"), policy);
		ck_assert(i || strstr(policy, "connect-src 'self'; script-src 'sha256-"));
		ck_assert_ptr_null(strstr(policy, "unsafe"));
		free(policy);
		free(answer);
	}
	http_stop(&http);
}

static void check_status(const struct http *http, const char *line)
{
	char path[64], text[4096] = "";
	snprintf(path, sizeof(path), "/proc/%d/status", http->run.pid);
	FILE *file = fopen(path, "re");
	ck_assert(file && fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	ck_assert_msg(strstr(text, line), "%s: %s", line, text);
}

HT_TEST(root_is_given_up)
{
	struct http http;
	char *trace = smalltrace_make("one.htap", 3);
	setenv("SUDO_UID", "1234", 1);
	setenv("SUDO_GID", "1235", 1);
	if (!http_start(&http, (const char *[]){trace, NULL}))
		return;
	check_status(&http, "\nNoNewPrivs:\t1\n");
	if (geteuid() == 0) {
		check_status(&http, "\nUid:\t1234\t1234\t1234\t1234\n");
		check_status(&http, "\nGid:\t1235\t1235\t1235\t1235\n");
		check_status(&http, "\nGroups:\t \n");
		check_status(&http, "\nCapPrm:\t0000000000000000\n");
		/* Only root may open the trace; the server must still read it again. */
		json_decref(http_json(&http, "/api/v1/summary?min-size=1", 200));
	}
	http_stop(&http);
	free(trace);
}

/* --- very many, slow and hostile clients ----------------------------------------------------- */

#define SLOW	 1500u
#define AT_ONCE	 400u
#define IN_ALL	 10000u
#define ONE_LINE "GET /api/v1/summary HTTP/1.1\r\n"

static void allow_descriptors(void)
{
	struct rlimit limit;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	ck_assert_uint_gt(limit.rlim_cur, SLOW + 100);
}

/* Sends a complete request on an open connection; returns the status of the answer. */
static unsigned ask_on(const struct http *http, int fd)
{
	char request[400], answer[512];
	snprintf(request, sizeof(request), ONE_LINE HEADERS "\r\n", http->port, http->token);
	ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (int)strlen(request));
	ssize_t n = recv(fd, answer, sizeof(answer) - 1, 0);
	answer[n > 0 ? n : 0] = '\0';
	return http_status(answer);
}

HT_TEST(ten_thousand_connections)
{
	struct http http;
	int fd[AT_ONCE];
	if (!start(&http))
		return;
	allow_descriptors();
	for (unsigned done = 0; done < IN_ALL; done += AT_ONCE) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			fd[i] = http_connect(&http);
			ck_assert_int_ge(fd[i], 0);
			ck_assert_int_eq(send(fd[i], ONE_LINE, strlen(ONE_LINE), MSG_NOSIGNAL),
				(int)strlen(ONE_LINE));
		}
		json_decref(http_json(&http, "/api/v1/summary", 200));
		for (unsigned i = 0; i < AT_ONCE; i++)
			close(fd[i]);
	}
	json_decref(http_json(&http, "/api/v1/tree", 200));
	ck_assert_int_eq(http_stop(&http), 0);
}

HT_TEST(slow_clients_make_room)
{
	struct http http;
	static int fd[SLOW];
	unsigned ended = 0;
	char byte;
	if (!start(&http))
		return;
	allow_descriptors();
	for (unsigned i = 0; i < SLOW; i++) {
		fd[i] = http_connect(&http);
		ck_assert_int_ge(fd[i], 0);
		send(fd[i], "GET / HT", 8, MSG_NOSIGNAL);
	}
	json_decref(http_json(&http, "/api/v1/summary", 200));
	for (unsigned i = 0; i < SLOW; i++)
		ended += recv(fd[i], &byte, 1, MSG_DONTWAIT) >= 0;
	ck_assert_uint_ge(ended, SLOW - 1100);
	/* The server closes the other connections by itself, even if they send bytes slowly. */
	run_until(send(fd[SLOW - 1], "x", 1, MSG_NOSIGNAL) < 0, ANSWER_MS);
	json_decref(http_json(&http, "/api/v1/summary", 200));
	for (unsigned i = 0; i < SLOW; i++)
		close(fd[i]);
	ck_assert_int_eq(http_stop(&http), 0);
}

HT_TEST(hostile_bytes_do_not_disturb_others)
{
	static const char *const bytes[] = {"\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
		"\x16\x03\x01\x02", "GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
	struct http http;
	char *large = malloc(100001);
	if (!start(&http))
		return;
	for (size_t i = 0; i < HT_ARRAY_SIZE(bytes); i++) {
		int fd = http_connect(&http);
		send(fd, bytes[i], strlen(bytes[i]), MSG_NOSIGNAL);
		json_decref(http_json(&http, "/api/v1/summary", 200));
		close(fd);
	}
	memset(large, 'a', 100000);
	memcpy(large, "GET /", 5);
	large[100000] = '\0';
	char *answer = http_send(&http, large, NULL);
	ck_assert_uint_ne(http_status(answer), 200);
	free(answer);
	free(large);
	/* A client that asks and then closes its connection does not disturb the server. */
	int fd = http_connect(&http);
	ck_assert_uint_eq(ask_on(&http, fd), 200);
	close(fd);
	json_decref(http_json(&http, "/api/v1/summary", 200));
	ck_assert_int_eq(http_stop(&http), 0);
}

HT_TEST(refuses_too_many_requests)
{
	struct http http;
	int fd[200];
	unsigned refused = 0, answered = 0;
	if (!start(&http))
		return;
	char request[400], answer[512];
	snprintf(request, sizeof(request),
		"GET /api/v1/report?min-size=1 HTTP/1.1\r\n" HEADERS "\r\n", http.port, http.token);
	for (size_t i = 0; i < HT_ARRAY_SIZE(fd); i++) {
		fd[i] = http_connect(&http);
		send(fd[i], request, strlen(request), MSG_NOSIGNAL);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(fd); i++) {
		ssize_t n = recv(fd[i], answer, sizeof(answer) - 1, 0);
		answer[n > 0 ? n : 0] = '\0';
		refused += http_status(answer) == 503;
		answered += http_status(answer) == 200;
		close(fd[i]);
	}
	ck_assert_uint_eq(refused + answered, HT_ARRAY_SIZE(fd));
	ck_assert_uint_ge(answered, 64);
	json_decref(http_json(&http, "/api/v1/summary", 200));
	ck_assert_int_eq(http_stop(&http), 0);
}

HT_SUITE("integration/serve")
