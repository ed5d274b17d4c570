/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap serve -p: requests and the page follow, mark, pause and stop a capture; a killed server
 * leaves nothing in the target.
 */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/http.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define BROWSE_MS 180000
#define PYTHON	  "/usr/bin/python3" /* Debian's, which has Debian's selenium */
#define HEADERS	  "Host: 127.0.0.1:%u\r\nX-Heaptap-Token: %s\r\nConnection: close\r\n"
#define TARGET_MS 60000

/* A target that allocates, and a server that has begun to record it. */
struct served {
	struct victim victim;
	struct tap tap;
	struct http http;
};

static bool serve_target(struct served *served)
{
	char digits[16];
	victim_start(&served->victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	served->tap = (struct tap){.target = served->victim.pid};
	tap_look(&served->tap, 0);
	snprintf(digits, sizeof(digits), "%d", served->victim.pid);
	if (http_start(&served->http, (const char *[]){"-p", digits, NULL}))
		return true;
	tap_drop(&served->tap, "nothing was recorded");
	victim_stop(&served->victim);
	return false;
}

/* A member of the current summary; 0 while the server has not read a record yet. */
static uint64_t summary_of(const struct http *http, const char *path)
{
	char request[400];
	snprintf(request, sizeof(request), "GET /api/v1/summary HTTP/1.1\r\n" HEADERS "\r\n",
		http->port, http->token);
	char *answer = http_send(http, request, NULL), *body = strstr(answer, "\r\n\r\n");
	uint64_t ret = 0;
	ck_assert(http_status(answer) == 200 || http_status(answer) == 503);
	if (http_status(answer) == 200) {
		json_t *summary = report_parse(body + 4);
		ret = report_u64(summary, path);
		json_decref(summary);
	}
	free(answer);
	return ret;
}

static void check_state(const struct http *http, const char *path, const char *state)
{
	json_auto_t *answer = http_post(http, path, 200);
	ck_assert_str_eq(report_text(answer, "schema"), "heaptap.live/1");
	ck_assert_str_eq(report_text(answer, "state"), state);
}

HT_TEST(a_capture_is_followed_and_steered)
{
	struct served served;
	const struct http *http = &served.http;
	setenv("HOME", tmpdir_path("home"), 1);
	if (!serve_target(&served))
		return;
	run_until(summary_of(http, "totals.allocations") > 0, TARGET_MS);
	const uint64_t calls = summary_of(http, "totals.allocations");
	run_until(summary_of(http, "totals.allocations") > calls, TARGET_MS);
	check_state(http, "/api/v1/mark?text=here", "recording");
	check_state(http, "/api/v1/pause", "paused");
	check_state(http, "/api/v1/resume", "recording");
	json_decref(http_post(http, "/api/v1/mark", 400));
	json_decref(http_json(http, "/api/v1/stop", 405));
	json_decref(http_post(http, "/api/v1/stop", 200));
	run_until(strstr(http_get(http, "/api/v1/summary", 200), "\"complete\":true"), TARGET_MS);
	tap_verify(&served.tap);
	/* After the capture's end the summary is complete. */
	json_t *summary = http_json(http, "/api/v1/summary", 200);
	ck_assert_str_eq(
		report_text(json_array_get(report_at(summary, "marks"), 0), "text"), "here");
	ck_assert_uint_eq(json_array_size(report_at(summary, "pauses")), 1);
	json_decref(summary);
	ck_assert_int_eq(http_stop(&served.http), 0);
	victim_stop(&served.victim);
}

HT_TEST(a_killed_server_leaves_nothing)
{
	struct served served;
	if (!serve_target(&served))
		return;
	run_until(summary_of(&served.http, "totals.allocations") > 0, TARGET_MS);
	kill(served.http.run.pid, SIGKILL);
	run_wait(&served.http.run, TARGET_MS);
	tap_verify_soon(&served.tap, TARGET_MS);
	run_deinit(&served.http.run);
	victim_stop(&served.victim);
}

HT_TEST(a_server_that_ends_leaves_the_process)
{
	struct served served;
	if (!serve_target(&served))
		return;
	run_until(summary_of(&served.http, "totals.allocations") > 0, TARGET_MS);
	ck_assert_int_eq(http_stop(&served.http), 0);
	tap_verify(&served.tap);
	victim_stop(&served.victim);
}

/* The page keeps showing the recording. */
HT_TEST(a_process_that_ends_is_shown_on)
{
	struct served served;
	const struct http *http = &served.http;
	if (!serve_target(&served))
		return;
	run_until(summary_of(http, "totals.allocations") > 0, TARGET_MS);
	tap_drop(&served.tap, "the process ends");
	kill(served.victim.pid, SIGKILL);
	ck_assert_int_eq(victim_wait(&served.victim, TARGET_MS), 128 + SIGKILL);
	run_until(strstr(http_get(http, "/api/v1/summary", 200), "\"complete\":true"), TARGET_MS);
	json_t *summary = http_json(http, "/api/v1/summary", 200);
	ck_assert_str_eq(report_text(summary, "capture.ended"), "target_exit");
	ck_assert_uint_gt(report_u64(summary, "totals.allocations"), 0);
	json_decref(summary);
	ck_assert_int_eq(http_stop(&served.http), 0);
}

HT_TEST(a_capture_of_another_terminal_goes_on)
{
	struct victim victim;
	struct tap tap;
	struct http http;
	char digits[16];
	victim_start(&victim, (const char *[]){run_built("tests/targets/cxx"), NULL});
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	snprintf(digits, sizeof(digits), "%d", victim.pid);
	if (http_start(&http, (const char *[]){"-p", digits, NULL})) {
		run_until(summary_of(&http, "totals.allocations") > 0, TARGET_MS);
		ck_assert_int_eq(http_stop(&http), 0);
	}
	ck_assert(tap_is_recording(victim.pid));
	json_decref(tap_stop(&tap, 0));
	victim_stop(&victim);
}

#define PAGES 16u

/* A page too many gets an error with the reason. */
HT_TEST(a_bounded_number_of_pages_follows)
{
	struct served served;
	const struct http *http = &served.http;
	char request[400], answer[1000];
	int fd[PAGES];
	if (!serve_target(&served))
		return;
	run_until(summary_of(http, "totals.allocations") > 0, TARGET_MS);
	snprintf(request, sizeof(request), "GET /api/v1/events HTTP/1.1\r\n" HEADERS "\r\n",
		http->port, http->token);
	for (size_t i = 0; i < PAGES; i++) {
		fd[i] = http_connect(http);
		ck_assert_int_eq(
			send(fd[i], request, strlen(request), MSG_NOSIGNAL), (int)strlen(request));
		ssize_t got = recv(fd[i], answer, sizeof(answer) - 1, 0);
		answer[got > 0 ? got : 0] = '\0';
		ck_assert_uint_eq(http_status(answer), 200);
	}
	json_t *refused = http_json(http, "/api/v1/events", 503);
	ck_assert_ptr_nonnull(strstr(report_text(refused, "error"), "too many pages follow"));
	json_decref(refused);
	for (size_t i = 0; i < PAGES; i++)
		close(fd[i]);
	json_decref(http_post(http, "/api/v1/stop", 200));
	run_until(strstr(http_get(http, "/api/v1/summary", 200), "\"complete\":true"), TARGET_MS);
	tap_verify(&served.tap);
	ck_assert_int_eq(http_stop(&served.http), 0);
	victim_stop(&served.victim);
}

/* An action in one browser is shown in both. */
HT_TEST(two_browsers_follow_one_process)
{
	struct served served;
	char *out, *err;
	if (!http_has_browser() || !serve_target(&served))
		return;
	int status = run_program(
		(const char *[]){PYTHON, "tests/page/served.py", "both", served.http.address, NULL},
		BROWSE_MS, &out, &err);
	ck_assert_msg(status == 0, "%s", err);
	json_t *seen = report_parse(out);
	ck_assert_uint_eq(json_array_size(report_at(seen, "grown")), 2);
	ck_assert_uint_eq(json_array_size(report_at(seen, "console")), 0);
	json_decref(seen);
	tap_verify(&served.tap);
	ck_assert_int_eq(http_stop(&served.http), 0);
	victim_stop(&served.victim);
}

HT_TEST(the_page_follows_and_stops)
{
	struct served served;
	char *out, *err;
	if (!http_has_browser() || !serve_target(&served))
		return;
	int status = run_program((const char *[]){PYTHON, "tests/page/served.py", "follow",
					 served.http.address, NULL},
		BROWSE_MS, &out, &err);
	ck_assert_msg(status == 0, "%s", err);
	json_t *seen = report_parse(out),
	       *summary = http_json(&served.http, "/api/v1/summary", 200);
	ck_assert_uint_eq(json_array_size(report_at(seen, "seen")), 5);
	ck_assert_uint_eq(
		report_u64(seen, "totals.allocations"), report_u64(summary, "totals.allocations"));
	ck_assert_str_eq(report_text(json_array_get(report_at(summary, "marks"), 0), "text"),
		"from the page");
	tap_verify(&served.tap);
	json_decref(seen);
	json_decref(summary);
	ck_assert_int_eq(http_stop(&served.http), 0);
	victim_stop(&served.victim);
}

HT_SUITE("integration/serve_live")
