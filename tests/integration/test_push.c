/* SPDX-License-Identifier: Apache-2.0
 *
 * push: an endpoint gets each window once and in order, even after it failed; no output contains a
 * password; ClickHouse has the sums of the report, and scripts/fleet.sql finds what grew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/endpoint.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define RUN_MS	  60000
#define TRACE_C	  "tests/golden/0.1-c.htap"
#define TRACE_JS  "tests/golden/0.1-node.htap"
#define TRACE_SUM "tests/golden/0.1-sample.htap"
#define SECRET	  "hunter2"

static bool has_curl(void)
{
	if (run_program(
		    (const char *[]){"sh", "-c", "command -v curl", NULL}, RUN_MS, NULL, NULL) == 0)
		return true;
	printf("skipped: push: curl is missing\n");
	return false;
}

/* Gives the test its own spool, the directory of windows that are not sent yet. */
static void use_own_spool(void)
{
	HT_FREED char *state = tmpdir_path("state");
	ck_assert_int_eq(setenv("XDG_STATE_HOME", state, 1), 0);
	ck_assert_int_eq(unsetenv("STATE_DIRECTORY"), 0);
}

static const char *address_of(const struct endpoint *endpoint)
{
	static char address[128];
	snprintf(address, sizeof(address), "pyroscope+http://127.0.0.1:%u", endpoint->port);
	return address;
}

static char *read_file(const char *path, size_t *ret_length)
{
	char *text = calloc(1, ENDPOINT_BODY_BYTES);
	FILE *file = fopen(path, "re");
	ck_assert(text && file);
	*ret_length = fread(text, 1, ENDPOINT_BODY_BYTES - 1, file);
	fclose(file);
	return text;
}

static int push(
	const char *to, const char *trace, const char *more, const char *value, char **ret_err)
{
	const char *argv[12] = {run_built("heaptap"), "push", "--to", to};
	size_t count = 4;
	if (more) {
		argv[count++] = more;
		argv[count++] = value;
	}
	if (trace)
		argv[count++] = trace;
	return run_program(argv, RUN_MS, NULL, ret_err);
}

static int push_as(const char *to, const char *trace, const char *first, const char *is,
	const char *second, const char *also)
{
	return run_program((const char *[]){run_built("heaptap"), "push", "--to", to, first, is,
				   second, also, trace, NULL},
		RUN_MS, NULL, NULL);
}

static size_t windows_waiting(void)
{
	HT_FREED char *out;
	HT_FREED char *state = tmpdir_path("state");
	run_program((const char *[]){"sh", "-c", "find \"$1\" -name '*.push' | wc -l", "sh", state,
			    NULL},
		RUN_MS, &out, NULL);
	const size_t count = strtoul(out, NULL, 10);
	return count;
}

static void check_fails(const char *to, const char *trace, const char *with, size_t waiting)
{
	HT_FREED char *err;
	const int status = push(to, trace, "--timeout", "2s", &err);
	ck_assert_msg(
		status == 1 && strstr(err, with) && strstr(err, "in "), "%d: %s", status, err);
	ck_assert_uint_eq(windows_waiting(), waiting);
}

/* The names of the trace must be in the request's form. */
static void check_body(const struct endpoint_shared *shared, const char *name)
{
	const struct endpoint_request *last = &shared->request[shared->count - 1];
	ck_assert(memmem(shared->body, last->body_bytes, name, strlen(name)));
	ck_assert(memmem(shared->body, last->body_bytes, "\"inuse_space\"", 13));
}

HT_TEST(what_waits_goes_in_order)
{
	struct endpoint endpoint;
	char *err;
	if (!has_curl())
		return;
	use_own_spool();
	endpoint_start(&endpoint);
	struct endpoint_shared *shared = endpoint.shared;
	const char *to = address_of(&endpoint);
	check_fails(to, TRACE_C, "onnect", 1);
	endpoint_set(&endpoint, ENDPOINT_HANGS);
	check_fails(to, TRACE_JS, "timed out", 2);
	ck_assert_uint_eq(shared->count, 1);
	endpoint_set(&endpoint, 500);
	check_fails(to, TRACE_SUM, "500: mood", 3);
	/* After a failure (500) heaptap sends no further window: one request more. */
	ck_assert_uint_eq(shared->count, 2);
	endpoint_set(&endpoint, 413);
	check_fails(to, NULL, "413: mood", 3);
	/* An endpoint that rejects one window (413) may accept others, so heaptap sends all
	 * three. */
	ck_assert_uint_eq(shared->count, 5);
	endpoint_set(&endpoint, 200);
	const int status = push(to, NULL, NULL, NULL, &err);
	ck_assert_msg(status == 0 && strstr(err, "3 windows sent"), "%d: %s", status, err);
	free(err);
	ck_assert_uint_eq(windows_waiting(), 0);
	ck_assert_uint_eq(shared->count, 8);
	for (unsigned i = 0; i < 3; i++) {
		const struct endpoint_request *request = &shared->request[5 + i];
		ck_assert_str_eq(request->key, shared->request[2 + i].key);
		ck_assert_uint_eq(strlen(request->key), 32);
		ck_assert_msg(
			strncmp(request->target, "/ingest?name=", 13) == 0, "%s", request->target);
	}
	ck_assert_str_eq(shared->request[5].key, shared->request[0].key);
	ck_assert_ptr_nonnull(strstr(shared->request[6].target, "name=node%7Bhost%3D"));
	/* With a format, Pyroscope would take the whole form as the profile. */
	ck_assert_ptr_null(strstr(shared->request[6].target, "format="));
	check_body(shared, "leak_few_large");
	/* A name has only letters, digits and .-_; a label's value has more. */
	ck_assert_int_eq(push_as(to, TRACE_C, "--service", "a:b/c d", "--host", "h:1/x"), 0);
	ck_assert_msg(strncmp(shared->request[8].target, "/ingest?name=a_b_c_d%7Bhost%3Dh%3A1%2Fx",
			      39) == 0,
		"%s", shared->request[8].target);
	/* A window that the endpoint has accepted is not sent again. */
	ck_assert_int_eq(push(to, TRACE_C, NULL, NULL, &err), 0);
	ck_assert_msg(strstr(err, "already"), "%s", err);
	free(err);
	ck_assert_uint_eq(shared->count, 9);
	endpoint_stop(&endpoint);
}

HT_TEST(a_full_spool_loses_the_oldest_and_says_so)
{
	static const char *const hosts[] = {"one", "two", "three"};
	struct endpoint endpoint;
	char *err;
	if (!has_curl())
		return;
	use_own_spool();
	endpoint_start(&endpoint);
	const char *to = address_of(&endpoint);
	for (size_t i = 0; i < 3; i++) {
		const int status =
			run_program((const char *[]){run_built("heaptap"), "push", "--to", to,
					    "--spool-max", "8K", "--host", hosts[i], TRACE_C, NULL},
				RUN_MS, NULL, &err);
		ck_assert_int_eq(status, 1);
		ck_assert_msg(!strstr(err, "oldest") == (i < 2), "%s", err);
		free(err);
	}
	ck_assert_uint_eq(windows_waiting(), 2);
	int status = push(to, TRACE_JS, "--spool-max", "1K", &err);
	ck_assert_msg(status == 1 && strstr(err, "--spool-max"), "%s", err);
	free(err);
	endpoint_set(&endpoint, 204);
	status = push(to, NULL, NULL, NULL, &err);
	ck_assert_msg(status == 0, "%s", err);
	free(err);
	ck_assert_uint_eq(endpoint.shared->count, 2);
	ck_assert_ptr_nonnull(strstr(endpoint.shared->request[0].target, "host%3Dtwo"));
	ck_assert_ptr_nonnull(strstr(endpoint.shared->request[1].target, "host%3Dthree"));
	endpoint_stop(&endpoint);
}

/* Messages, the spool and processes' command lines do not contain the password. */
HT_TEST(a_password_is_sent_and_not_shown)
{
	struct endpoint endpoint;
	char *file = tmpdir_path("address"), *state = tmpdir_path("state"), *err, address[128],
	     at[4200];
	if (!has_curl())
		return;
	use_own_spool();
	endpoint_start(&endpoint);
	endpoint_set(&endpoint, 401);
	snprintf(address, sizeof(address),
		"pyroscope+http://me:" SECRET "@127.0.0.1:%u/?tenant=t1\n", endpoint.port);
	files_write(file, address);
	snprintf(at, sizeof(at), "@%s", file);
	int status = push(at, TRACE_C, NULL, NULL, &err);
	ck_assert_msg(
		status == 1 && strstr(err, "HTTP status 401") && !strstr(err, SECRET), "%s", err);
	free(err);
	ck_assert_str_eq(endpoint.shared->request[0].authorization, "Basic bWU6aHVudGVyMg==");
	ck_assert_int_ne(run_program((const char *[]){"grep", "-rq", SECRET, state, NULL}, RUN_MS,
				 NULL, NULL),
		0);
	static const char *const wrong[] = {"pyroscope+http://me:" SECRET "@",
		"http://me:" SECRET "@h", "clickhouse+http://me:" SECRET "@h/?table=a;b",
		"pyroscope+http://me:" SECRET "@h/?x=1", "pyroscope+http://me:" SECRET "@h/ a"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		status = push(wrong[i], TRACE_C, NULL, NULL, &err);
		ck_assert_msg(
			status == 2 && !strstr(err, SECRET), "%s: %d %s", wrong[i], status, err);
		free(err);
	}
	endpoint_stop(&endpoint);
	free(file);
	free(state);
}

static int attach(const char *number, const char *to, const char *trace, char **ret_err)
{
	return run_program((const char *[]){run_built("heaptap"), "-p", number, "-d", "0.2s", "-o",
				   trace, "--push", to, NULL},
		RUN_MS, NULL, ret_err);
}

HT_TEST(each_window_of_a_capture)
{
	struct endpoint endpoint;
	struct victim victim;
	char *first = tmpdir_path("first.htap"), *second = tmpdir_path("second.htap"), *err,
	     number[16];
	if (!has_curl())
		return;
	use_own_spool();
	endpoint_start(&endpoint);
	const char *to = address_of(&endpoint);
	victim_start(&victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	snprintf(number, sizeof(number), "%d", victim.pid);
	/* The capture is as good as without --push. */
	ck_assert_int_eq(attach(number, to, first, &err), 0);
	ck_assert_msg(strstr(err, "process unchanged") && strstr(err, "1 window ("), "%s", err);
	free(err);
	ck_assert_uint_eq(windows_waiting(), 1);
	endpoint_set(&endpoint, 200);
	ck_assert_int_eq(attach(number, to, second, &err), 0);
	ck_assert_msg(strstr(err, "2 windows sent"), "%s", err);
	free(err);
	ck_assert_uint_eq(endpoint.shared->count, 2);
	ck_assert_ptr_nonnull(strstr(endpoint.shared->request[1].target, "name=actor%7B"));
	ck_assert_int_eq(attach(number, "http://h", second, &err), 2);
	free(err);
	victim_stop(&victim);
	endpoint_stop(&endpoint);
	free(first);
	free(second);
}

/* --- ClickHouse ------------------------------------------------------------------------------- */

static char clickhouse_url[64];

static char *ask(const char *statement)
{
	char *out, *err;
	const int status = run_program((const char *[]){"curl", "-sS", "-f", clickhouse_url,
					       "--data-binary", statement, NULL},
		RUN_MS, &out, &err);
	ck_assert_msg(status == 0, "%s: %s%s", statement, out, err);
	free(err);
	return out;
}

static void check_answer(const char *statement, const char *expected)
{
	HT_FREED char *out = ask(statement);
	ck_assert_msg(strcmp(out, expected) == 0, "%s: %s", statement, out);
}

static uint16_t free_port(void)
{
	struct endpoint endpoint;
	endpoint_start(&endpoint);
	endpoint_stop(&endpoint);
	return endpoint.port;
}

/* Starts a ClickHouse server. False: none can run here; prints that the test is skipped. */
static bool start_clickhouse(struct run *run, uint16_t port)
{
	static const char config[] =
		"<yandex><logger><level>warning</level><console>1</console></logger>"
		"<http_port>%u</http_port><tcp_port>%u</tcp_port><listen_host>127.0.0.1</"
		"listen_host>"
		"<path>%s/</path><tmp_path>%s/tmp/</tmp_path><users_config>%s/users.xml</"
		"users_config>"
		"<default_profile>default</default_profile><default_database>default</"
		"default_database>"
		"<mark_cache_size>5000000</mark_cache_size></yandex>\n";
	static const char users[] =
		"<yandex><profiles><default/></profiles><users><default><password></password>"
		"<networks><ip>127.0.0.1</ip></networks><profile>default</profile>"
		"<quota>default</quota></default></users><quotas><default/></quotas></yandex>\n";
	char text[20000], *dir = tmpdir_path("clickhouse"), *file, argument[4300];
	if (run_program((const char *[]){"sh", "-c",
				"mkdir -p \"$1\" && command -v clickhouse-server && "
				"grep -q sse4_2 /proc/cpuinfo",
				"sh", dir, NULL},
		    RUN_MS, NULL, NULL) != 0) {
		printf("skipped: push_clickhouse: clickhouse-server is missing, or the processor "
		       "lacks "
		       "SSE4.2\n");
		free(dir);
		return false;
	}
	snprintf(text, sizeof(text), config, port, free_port(), dir, dir, dir);
	file = tmpdir_path("clickhouse/config.xml");
	files_write(file, text);
	snprintf(argument, sizeof(argument), "--config-file=%s", file);
	free(file);
	file = tmpdir_path("clickhouse/users.xml");
	files_write(file, users);
	free(file);
	run_start(run, (const char *[]){"clickhouse-server", argument, NULL});
	snprintf(clickhouse_url, sizeof(clickhouse_url), "http://127.0.0.1:%u/", port);
	run_until(run_program((const char *[]){"curl", "-s", "-f", clickhouse_url, NULL}, RUN_MS,
			  NULL, NULL) == 0,
		30000);
	free(dir);
	return true;
}

/* Statement `index` of scripts/fleet.sql. */
static char *fleet(size_t index)
{
	size_t length;
	char *text = read_file("scripts/fleet.sql", &length), *at = text;
	for (; index; index--)
		at = strstr(at, ";\n") + 2;
	at[strcspn(at, ";")] = '\0';
	char *answer = ask(at);
	free(text);
	return answer;
}

static void forget_what_was_sent(void)
{
	HT_FREED char *state = tmpdir_path("state");
	run_program((const char *[]){"find", state, "-name", "sent", "-delete", NULL}, RUN_MS, NULL,
		NULL);
}

/* The bounds of a sample's figures equal those of the report. */
static void check_bounds(const char *to)
{
	char *expected, *err;
	const int status = push(to, TRACE_SUM, "--host", "sample", &err);
	ck_assert_msg(status == 0, "%s", err);
	free(err);
	ck_assert_int_eq(
		run_program((const char *[]){"sh", "-c",
				    "\"$1\" report --json \"$2\" | jq -r '[.stacks[].bounds95] | "
				    "[.[].allocated_bytes, .[].outstanding_bytes, "
				    ".[].growth_bytes] | [add, length] | @tsv'",
				    "sh", run_built("heaptap"), TRACE_SUM, NULL},
			RUN_MS, &expected, NULL),
		0);
	check_answer("SELECT sum(allocated_bytes_bound95 + outstanding_bytes_bound95 + "
		     "growth_bytes_bound95), 3 * count() FROM heaptap FINAL WHERE host = 'sample'",
		expected);
	free(expected);
}

HT_TEST(clickhouse_answers_what_grew_on_most_hosts)
{
	static const char *const hosts[] = {"a", "b", "c", "d"};
	struct run run;
	char to[96], expected[64], *out, *err;
	if (!has_curl())
		return;
	use_own_spool();
	const uint16_t port = free_port();
	if (!start_clickhouse(&run, port))
		return;
	free(fleet(0));
	snprintf(to, sizeof(to), "clickhouse+http://127.0.0.1:%u", port);
	for (size_t i = 0; i < 2 * HT_ARRAY_SIZE(hosts); i++) {
		/* The second push is as after a crash between the answer and its record in the
		 * spool. */
		forget_what_was_sent();
		const int status =
			push(to, TRACE_C, "--host", hosts[i % HT_ARRAY_SIZE(hosts)], &err);
		ck_assert_msg(status == 0, "%s", err);
		free(err);
	}
	/* The totals equal the report's, and a window that was sent twice counts once. */
	int status =
		run_program((const char *[]){"sh", "-c",
				    "\"$1\" report --json \"$2\" | jq -r '.totals | [.allocations, "
				    ".outstanding_bytes, .outstanding_blocks, .temporary] | @tsv'",
				    "sh", run_built("heaptap"), TRACE_C, NULL},
			RUN_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	snprintf(expected, sizeof(expected), "%s", out);
	free(out);
	check_answer("SELECT sum(allocations), sum(outstanding_bytes), sum(outstanding_blocks), "
		     "sum(temporary) FROM heaptap FINAL WHERE host = 'a'",
		expected);
	check_answer("SELECT uniq(window_id), min(toUnixTimestamp(window_start)) > 1700000000 FROM "
		     "heaptap",
		"4\t1\n");
	check_bounds(to);
	/* Inserts windows of a new release, where one site grows 100 times as fast on hosts a, c
	 * and d. On host d the growth is an estimate, and its bound is twice as large. */
	free(ask("INSERT INTO heaptap SELECT concat('n', window_id), row, window_start + 86400, "
		 "window_end + 86400, seconds, host, service, 'new', pid, site_id, site, frames, "
		 "module, "
		 "class, allocations, allocated_bytes, outstanding_blocks, outstanding_bytes, "
		 "growth_bytes * (site LIKE 'leak_few_large%' AND host != 'b' ? 100 : 1), "
		 "peak_bytes, temporary, 0, 0, host = 'd' ? 200 * growth_bytes : 0 "
		 "FROM heaptap FINAL WHERE host != 'sample'"));
	out = fleet(1);
	ck_assert_msg(strncmp(out, "leaky\tleak_few_large <- main\t2\t", 30) == 0 &&
			      strchr(out, '\n') == out + strlen(out) - 1,
		"%s", out);
	free(out);
	free(fleet(2));
	run_deinit(&run);
}

HT_SUITE("integration/push")
