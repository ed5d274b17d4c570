/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture as a server follows it: the test is the keeper, and turns the follower by hand.
 */
#include "analyzer/serve/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/commands.h"
#include "analyzer/serve/server.h"
#include "tests/support/ht_check.h"

#define TURNS_MAX 100

struct scene {
	struct serve_config config;
	struct serve_traces traces;
	struct capture capture;
	struct server server;
	int keeper;
	uint64_t bytes, limit; /* read of the trace, and there */
};

/* --- the server's side ----------------------------------------------------------------------- */

static struct ht_err *read_on(void *context, uint64_t most, bool *ret_has_more, uint64_t *ret_read)
{
	struct scene *scene = context;
	const uint64_t left = scene->limit - scene->bytes;
	scene->bytes += left < most ? left : most;
	*ret_has_more = scene->bytes < scene->limit;
	*ret_read = scene->bytes;
	return NULL;
}

static struct ht_err *answer(void *context, const struct serve_question *question)
{
	const struct scene *scene = context;
	ck_assert_int_eq(question->kind, ROUTE_EVENTS);
	printf("{\"read\":%llu}\n", (unsigned long long)scene->bytes);
	return NULL;
}

static void open_scene(struct scene *scene)
{
	int pair[2];
	*scene = (struct scene){0};
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	scene->keeper = pair[1];
	scene->capture = (struct capture){.pid = 4242, .socket = pair[0], .trace = "a.htap"};
	scene->traces.path[0] = strdup("a.htap");
	scene->traces.count = 1;
	scene->config = (struct serve_config){.table = &commands_table,
		.traces = &scene->traces,
		.capture = &scene->capture,
		.answer = answer,
		.read_on = read_on,
		.context = scene};
	scene->server.config = &scene->config;
	ck_no_err(follow_init(&scene->server.follow, &scene->server));
}

static void close_scene(struct scene *scene)
{
	follow_end(&scene->server.follow);
	follow_deinit(&scene->server.follow);
	free(scene->traces.path[0]);
	close(scene->capture.socket);
	if (scene->keeper >= 0)
		close(scene->keeper);
}

static void turn(struct scene *scene)
{
	struct pollfd polled[FOLLOW_POLLED];
	const int wait_ms = follow_poll(&scene->server.follow, polled);
	ck_assert_int_ge(poll(polled, FOLLOW_POLLED, wait_ms), 0);
	follow_turn(&scene->server.follow, polled);
}

/* The keeper takes the question that the next tick asks, and answers it. */
static void answer_status(struct scene *scene, const struct control_reply *reply)
{
	struct control_request request;
	for (int i = 0; i < TURNS_MAX; i++) {
		if (recv(scene->keeper, &request, sizeof(request), MSG_DONTWAIT) ==
			(ssize_t)sizeof(request)) {
			ck_assert_int_eq(request.verb, CONTROL_STATUS);
			ck_assert_int_eq(
				send(scene->keeper, reply, sizeof(*reply), 0), (int)sizeof(*reply));
			turn(scene);
			return;
		}
		turn(scene);
	}
	ck_abort_msg("the follower asks nothing");
}

static void check_state(const struct scene *scene, const char *state)
{
	char text[64];
	const char *message = scene->server.follow.message;
	snprintf(text, sizeof(text), "\"state\":\"%s\"", state);
	ck_assert_msg(message && strstr(message, text), "%s: %s", state, message);
	ck_assert_ptr_eq(strstr(message, "event: capture\ndata: {"), message);
	ck_assert_str_eq(message + strlen(message) - 2, "\n\n");
}

/* --- tests ----------------------------------------------------------------------------------- */

START_TEST(each_state_of_a_capture_has_its_name)
{
	static const struct {
		struct control_reply reply;
		const char *state;
	} row[] = {
		{{.ok = true, .phase = CONTROL_RECORDING}, "recording"},
		{{.ok = true, .phase = CONTROL_RECORDING, .paused = 1}, "paused"},
		{{.ok = true, .phase = CONTROL_DETACHING}, "detaching"},
		{{.ok = true, .phase = CONTROL_NAMING}, "naming"},
		{{.ok = true, .phase = CONTROL_ENDED}, "ended"},
	};
	struct scene scene;
	open_scene(&scene);
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++) {
		answer_status(&scene, &row[i].reply);
		check_state(&scene, row[i].state);
	}
	close_scene(&scene);
}
END_TEST

START_TEST(a_capture_that_answers_no_more_has_ended)
{
	struct scene scene;
	open_scene(&scene);
	/* Before the first answer it may only be late. */
	answer_status(&scene, &(struct control_reply){.message = "not yet"});
	check_state(&scene, "recording");
	answer_status(&scene, &(struct control_reply){.ok = true});
	answer_status(&scene, &(struct control_reply){.message = "gone"});
	check_state(&scene, "ended");
	close_scene(&scene);
}
END_TEST

START_TEST(without_a_keeper_the_capture_has_ended)
{
	struct scene scene;
	open_scene(&scene);
	answer_status(&scene, &(struct control_reply){.ok = true});
	close(scene.keeper);
	scene.keeper = -1;
	for (int i = 0; i < TURNS_MAX && scene.server.follow.is_steered; i++)
		turn(&scene);
	check_state(&scene, "ended");
	close_scene(&scene);
}
END_TEST

static const char *await_report(struct scene *scene)
{
	const struct follow *follow = &scene->server.follow;
	for (int i = 0; i < TURNS_MAX && !(follow->message && strstr(follow->message, "report"));
		i++)
		turn(scene);
	return follow->message;
}

START_TEST(a_report_is_made_for_those_who_listen)
{
	struct scene scene;
	struct follow *follow = &scene.server.follow;
	open_scene(&scene);
	scene.limit = 5000;
	answer_status(&scene, &(struct control_reply){.ok = true});
	ck_assert_uint_eq(scene.traces.read, 5000);
	ck_assert_int_eq(follow->job.pid, 0);
	follow->stream_count = 1;
	const char *message = await_report(&scene);
	ck_assert_msg(strstr(message, "event: report\ndata: {\"read\":5000}\n\n"), "%s", message);
	/* Nothing new: no further one. */
	answer_status(&scene, &(struct control_reply){.ok = true});
	ck_assert_int_eq(follow->job.pid, 0);
	follow->stream_count = 0;
	close_scene(&scene);
}
END_TEST

/* Others are answered in between. */
START_TEST(a_long_trace_is_read_in_parts)
{
	struct scene scene;
	open_scene(&scene);
	scene.limit = 10u << 20;
	turn(&scene);
	ck_assert_uint_gt(scene.bytes, 0);
	ck_assert_uint_lt(scene.bytes, scene.limit);
	for (int i = 0; i < TURNS_MAX && scene.bytes < scene.limit; i++)
		turn(&scene);
	ck_assert_uint_eq(scene.bytes, scene.limit);
	close_scene(&scene);
}
END_TEST

HT_SUITE("unit/analyzer/follow", each_state_of_a_capture_has_its_name,
	a_capture_that_answers_no_more_has_ended, without_a_keeper_the_capture_has_ended,
	a_report_is_made_for_those_who_listen, a_long_trace_is_read_in_parts)
