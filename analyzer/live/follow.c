/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/live/follow.h"

#include <string.h>

#include "format/clock.h"

#define TICK_NS (500 * CLOCK_NS_PER_MS)
/* bytes of the trace read in one turn: between turns the caller answers others */
#define READ_MAX (1u << 20)

const char *follow_state(const struct follow *follow)
{
	if (!follow->is_steered || follow->last.phase == CONTROL_ENDED)
		return "ended";
	if (follow->last.phase == CONTROL_NAMING)
		return "naming";
	if (follow->last.phase == CONTROL_DETACHING)
		return "detaching";
	return follow->last.paused ? "paused" : "recording";
}

/* --- asking ---------------------------------------------------------------------------------- */

bool follow_ask(struct follow *follow, const struct control_request *request,
	const struct follow_asked *asked)
{
	if (follow->asked_count == FOLLOW_ASKED_MAX || !follow->is_steered)
		return false;
	if (!capture_ask(follow->config.capture, request)) {
		follow->is_steered = false;
		return false;
	}
	follow->asked[follow->asked_count++] = *asked;
	return true;
}

static void call(const struct follow_asked *asked, const struct follow *follow, const char *problem)
{
	if (asked->answered)
		asked->answered(asked->context, follow, problem);
}

void follow_end(struct follow *follow, const char *problem)
{
	for (size_t i = 0; i < follow->asked_count; i++)
		call(&follow->asked[i], follow, problem);
	follow->asked_count = 0;
}

static void take_answer(struct follow *follow)
{
	struct control_reply reply = {0};
	const bool is_there = capture_answer(follow->config.capture, &reply);
	if (!is_there || !follow->asked_count) {
		follow->is_steered = false;
		follow_end(follow, "the capture has ended");
		return;
	}
	const struct follow_asked asked = follow->asked[0];
	memmove(follow->asked, follow->asked + 1, --follow->asked_count * sizeof(follow->asked[0]));
	const bool was_known = follow->last.ok;
	if (reply.ok)
		follow->last = reply;
	/* The capture answered before and does not now: it has ended. */
	else if (!asked.answered && was_known)
		follow->last.phase = CONTROL_ENDED;
	call(&asked, follow, reply.ok ? NULL : reply.message);
}

/* --- turns ----------------------------------------------------------------------------------- */

static void read_on(struct follow *follow)
{
	const struct follow_config *config = &follow->config;
	struct ht_err *err =
		config->read_on(config->context, READ_MAX, &follow->has_more, &follow->read);
	/* After an error stop reading; the data read so far stays shown. */
	if (err)
		follow->has_more = false;
	ht_err_free(err);
}

static void tick(struct follow *follow)
{
	const struct control_request status = {.verb = CONTROL_STATUS};
	follow->next_ns = clock_mono_ns() + TICK_NS;
	follow->has_more = true;
	if (!follow->asked_count && follow->last.phase != CONTROL_ENDED)
		(void)follow_ask(follow, &status, &(struct follow_asked){0});
}

int follow_poll(const struct follow *follow, struct pollfd *polled)
{
	const uint64_t now = clock_mono_ns();
	*polled = (struct pollfd){
		follow->is_steered ? follow->config.capture->socket : -1, POLLIN, 0};
	if (follow->has_more || follow->next_ns <= now)
		return 0;
	return (int)((follow->next_ns - now) / CLOCK_NS_PER_MS) + 1;
}

bool follow_turn(struct follow *follow, const struct pollfd *polled)
{
	const bool is_answered = polled->revents != 0;
	if (is_answered)
		take_answer(follow);
	if (follow->next_ns <= clock_mono_ns())
		tick(follow);
	if (follow->has_more)
		read_on(follow);
	return is_answered;
}

void follow_init(struct follow *follow, const struct follow_config *config)
{
	*follow = (struct follow){.config = *config, .is_steered = true, .has_more = true};
}
