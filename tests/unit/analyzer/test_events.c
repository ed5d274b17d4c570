/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages about a capture that pages get. The test is the capture's keeper, and calls the
 * event loop's steps itself.
 */
#include "analyzer/serve/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "analyzer/commands.h"
#include "tests/support/ht_check.h"
#include "tests/unit/analyzer/keeper.h"

struct scene {
	struct serve_config config;
	struct serve_traces traces;
	struct capture capture;
	struct follow_config live;
	struct events events;
	int keeper;
	uint64_t bytes, limit; /* bytes that are read of the trace, and its length */
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
	scene->live = (struct follow_config){
		.capture = &scene->capture, .read_on = read_on, .context = scene};
	scene->config = (struct serve_config){.table = &commands_table,
		.traces = &scene->traces,
		.live = &scene->live,
		.answer = answer,
		.context = scene};
	ck_no_err(events_init(&scene->events, &scene->config));
}

static void close_scene(struct scene *scene)
{
	events_end(&scene->events);
	events_deinit(&scene->events);
	free(scene->traces.path[0]);
	close(scene->capture.socket);
	if (scene->keeper >= 0)
		close(scene->keeper);
}

static void turn(struct scene *scene)
{
	struct pollfd polled[EVENTS_POLLED];
	const int wait_ms = events_poll(&scene->events, polled);
	ck_assert_int_ge(poll(polled, EVENTS_POLLED, wait_ms), 0);
	events_turn(&scene->events, polled);
}

/* The keeper takes the next request, which asks for the status, and answers with `reply`. */
static void answer_status(struct scene *scene, const struct control_reply *reply)
{
	keeper_answer(scene->keeper, CONTROL_STATUS, reply, turn, scene);
}

static void check_state(const struct scene *scene, const char *state)
{
	char text[64];
	const char *message = scene->events.hub.message;
	snprintf(text, sizeof(text), "\"state\":\"%s\"", state);
	ck_assert_msg(message && strstr(message, text), "%s: %s", state, message);
	ck_assert_ptr_eq(strstr(message, "event: capture\ndata: {"), message);
	ck_assert_str_eq(message + strlen(message) - 2, "\n\n");
}

/* --- tests ----------------------------------------------------------------------------------- */

HT_TEST(a_message_has_the_state_of_the_capture)
{
	struct scene scene;
	open_scene(&scene);
	answer_status(&scene, &(struct control_reply){.ok = true, .paused = 1});
	check_state(&scene, "paused");
	close_scene(&scene);
}

HT_TEST(without_a_keeper_the_capture_has_ended)
{
	struct scene scene;
	open_scene(&scene);
	answer_status(&scene, &(struct control_reply){.ok = true});
	close(scene.keeper);
	scene.keeper = -1;
	for (int i = 0; i < KEEPER_TURNS_MAX && scene.events.follow.is_steered; i++)
		turn(&scene);
	check_state(&scene, "ended");
	close_scene(&scene);
}

static const char *await_report(struct scene *scene)
{
	const struct events *events = &scene->events;
	for (int i = 0; i < KEEPER_TURNS_MAX &&
			!(events->hub.message && strstr(events->hub.message, "report"));
		i++)
		turn(scene);
	return events->hub.message;
}

HT_TEST(a_report_is_made_for_those_who_listen)
{
	struct scene scene;
	struct events *events = &scene.events;
	open_scene(&scene);
	scene.limit = 5000;
	answer_status(&scene, &(struct control_reply){.ok = true});
	ck_assert_uint_eq(scene.traces.read, 5000);
	ck_assert_int_eq(events->job.pid, 0);
	events->hub.count = 1;
	const char *message = await_report(&scene);
	ck_assert_msg(strstr(message, "event: report\ndata: {\"read\":5000}\n\n"), "%s", message);
	/* The trace has nothing new, so no further report is made. */
	answer_status(&scene, &(struct control_reply){.ok = true});
	ck_assert_int_eq(events->job.pid, 0);
	events->hub.count = 0;
	close_scene(&scene);
}

HT_SUITE("unit/analyzer/events")
