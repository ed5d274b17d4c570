/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture that a server follows. The test is the capture's keeper, and calls the follower's steps
 * itself.
 */
#include "analyzer/live/follow.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/unit/analyzer/keeper.h"

struct scene {
	struct capture capture;
	struct follow follow;
	int keeper;
	uint64_t bytes, limit; /* bytes that are read of the trace, and its length */
	int answers;	       /* to the requests of the test */
	char problem[256];     /* the error of the last answer; "": none */
};

static struct ht_err *read_on(void *context, uint64_t most, bool *ret_has_more, uint64_t *ret_read)
{
	struct scene *scene = context;
	const uint64_t left = scene->limit - scene->bytes;
	scene->bytes += left < most ? left : most;
	*ret_has_more = scene->bytes < scene->limit;
	*ret_read = scene->bytes;
	return NULL;
}

static void take_answer(void *context, const struct follow *follow, const char *problem)
{
	struct scene *scene = context;
	ck_assert_ptr_eq(follow, &scene->follow);
	scene->answers++;
	snprintf(scene->problem, sizeof(scene->problem), "%s", problem ? problem : "");
}

static void open_scene(struct scene *scene)
{
	int pair[2];
	*scene = (struct scene){0};
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	scene->keeper = pair[1];
	scene->capture = (struct capture){.pid = 4242, .socket = pair[0], .trace = "a.htap"};
	const struct follow_config config = {
		.capture = &scene->capture, .read_on = read_on, .context = scene};
	follow_init(&scene->follow, &config);
}

static void close_keeper(struct scene *scene)
{
	if (scene->keeper >= 0)
		close(scene->keeper);
	scene->keeper = -1;
}

static void close_scene(struct scene *scene)
{
	close_keeper(scene);
	close(scene->capture.socket);
}

static void turn(struct scene *scene)
{
	struct pollfd polled;
	const int wait_ms = follow_poll(&scene->follow, &polled);
	ck_assert_int_ge(poll(&polled, 1, wait_ms), 0);
	ck_assert(follow_turn(&scene->follow, &polled) == (polled.revents != 0));
}

static bool ask(struct scene *scene, enum control_verb verb)
{
	const struct follow_asked asked = {.answered = take_answer, .context = scene};
	const struct control_request request = {.verb = verb};
	return follow_ask(&scene->follow, &request, &asked);
}

/* The keeper takes the next request, which must have this verb, and answers with `reply`. */
static void answer(struct scene *scene, enum control_verb verb, const struct control_reply *reply)
{
	keeper_answer(scene->keeper, verb, reply, turn, scene);
}

static const struct control_reply recording = {.ok = true, .phase = CONTROL_RECORDING};

HT_TEST(each_state_of_a_capture_has_its_name)
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
		answer(&scene, CONTROL_STATUS, &row[i].reply);
		ck_assert_str_eq(follow_state(&scene.follow), row[i].state);
	}
	close_scene(&scene);
}

HT_TEST(a_capture_that_answers_no_more_has_ended)
{
	struct scene scene;
	open_scene(&scene);
	/* A refusal before the first good answer does not end the capture, which may not have
	 * begun. */
	answer(&scene, CONTROL_STATUS, &(struct control_reply){.message = "not yet"});
	ck_assert_str_eq(follow_state(&scene.follow), "recording");
	answer(&scene, CONTROL_STATUS, &recording);
	answer(&scene, CONTROL_STATUS, &(struct control_reply){.message = "gone"});
	ck_assert_str_eq(follow_state(&scene.follow), "ended");
	close_scene(&scene);
}

HT_TEST(without_a_keeper_the_capture_has_ended)
{
	struct scene scene;
	open_scene(&scene);
	answer(&scene, CONTROL_STATUS, &recording);
	ck_assert(ask(&scene, CONTROL_STOP));
	close_keeper(&scene);
	for (int i = 0; i < KEEPER_TURNS_MAX && scene.follow.is_steered; i++)
		turn(&scene);
	ck_assert_str_eq(follow_state(&scene.follow), "ended");
	ck_assert_int_eq(scene.answers, 1);
	ck_assert_str_eq(scene.problem, "the capture has ended");
	ck_assert(!ask(&scene, CONTROL_STOP));
	close_scene(&scene);
}

HT_TEST(answers_reach_those_who_asked)
{
	struct scene scene;
	open_scene(&scene);
	answer(&scene, CONTROL_STATUS, &recording);
	ck_assert_int_eq(scene.answers, 0);
	ck_assert(ask(&scene, CONTROL_PAUSE));
	ck_assert(ask(&scene, CONTROL_STOP));
	answer(&scene, CONTROL_PAUSE, &(struct control_reply){.ok = true, .paused = 1});
	ck_assert_int_eq(scene.answers, 1);
	ck_assert_str_eq(scene.problem, "");
	ck_assert_str_eq(follow_state(&scene.follow), "paused");
	/* A refusal does not end the recording. */
	answer(&scene, CONTROL_STOP, &(struct control_reply){.message = "not now"});
	ck_assert_int_eq(scene.answers, 2);
	ck_assert_str_eq(scene.problem, "not now");
	ck_assert_str_eq(follow_state(&scene.follow), "paused");
	ck_assert(ask(&scene, CONTROL_STOP));
	follow_end(&scene.follow, "the end");
	ck_assert_str_eq(scene.problem, "the end");
	close_scene(&scene);
}

HT_TEST(not_more_wait_than_there_is_room_for)
{
	struct scene scene;
	size_t count = 0;
	open_scene(&scene);
	while (count <= FOLLOW_ASKED_MAX && ask(&scene, CONTROL_STATUS))
		count++;
	ck_assert_uint_eq(count, FOLLOW_ASKED_MAX);
	close_scene(&scene);
}

/* The caller must be able to serve others between two parts. */
HT_TEST(a_long_trace_is_read_in_parts)
{
	struct scene scene;
	open_scene(&scene);
	scene.limit = 10u << 20;
	turn(&scene);
	ck_assert_uint_gt(scene.bytes, 0);
	ck_assert_uint_lt(scene.bytes, scene.limit);
	for (int i = 0; i < KEEPER_TURNS_MAX && scene.bytes < scene.limit; i++)
		turn(&scene);
	ck_assert_uint_eq(scene.follow.read, scene.limit);
	ck_assert(!scene.follow.has_more);
	close_scene(&scene);
}

HT_SUITE("unit/analyzer/follow")
