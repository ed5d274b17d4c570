/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/follow.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/export/json.h"
#include "analyzer/serve/server.h"
#include "analyzer/serve/stream.h"

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull
#define TICK_NS	  (500 * NS_PER_MS)
#define READ_MAX  (1u << 20) /* bytes of the trace in one turn: others are answered in between */

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* --- how the capture is ---------------------------------------------------------------------- */

static const char *state_of(const struct follow *follow)
{
	if (!follow->is_steered || follow->last.phase == CONTROL_ENDED)
		return "ended";
	if (follow->last.phase == CONTROL_NAMING)
		return "naming";
	if (follow->last.phase == CONTROL_SETTLING)
		return "settling";
	if (follow->last.phase == CONTROL_DETACHING)
		return "detaching";
	return follow->last.paused ? "paused" : "recording";
}

static char *capture_text(const struct follow *follow)
{
	const struct control_reply *last = &follow->last;
	const struct capture *capture = follow->server->config->capture;
	json_t *object = json_pack("{ss ss so sb so so so so so so}", "schema", "heaptap.live/1",
		"state", state_of(follow), "pid", json_number((uint64_t)capture->pid),
		"started_here", (int)capture->started, "elapsed_ns", json_number(last->elapsed_ns),
		"events", json_number(last->events), "dropped", json_number(last->dropped),
		"trace_bytes", json_number(last->trace_bytes), "marks", json_number(last->marks),
		"trace", json_text(capture->trace));
	char *ret = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	return ret;
}

/* Appends `text` as the data of an event; its lines are lines of data. */
static void put_event(FILE *out, const char *name, const char *text)
{
	fprintf(out, "event: %s\ndata: ", name);
	for (; *text; text++) {
		if (*text != '\n')
			putc(*text, out);
		else if (text[1])
			fputs("\ndata: ", out);
	}
	fputs("\n\n", out);
}

static void make_message(struct follow *follow)
{
	char *capture = capture_text(follow), *message = NULL;
	size_t length;
	FILE *out = capture ? open_memstream(&message, &length) : NULL;
	if (out) {
		put_event(out, "capture", capture);
		if (follow->report)
			put_event(out, "report", follow->report);
		if (fclose(out) == 0 && message) {
			free(follow->message);
			follow->message = message;
			follow->generation++;
		}
	}
	free(capture);
	stream_wake_all(follow);
}

/* --- reports --------------------------------------------------------------------------------- */

static struct ht_err *answer(void *context)
{
	const struct follow *follow = context;
	const struct serve_config *config = follow->server->config;
	return config->answer(config->context, &follow->question);
}

static void start_report(struct follow *follow)
{
	const struct serve_traces *traces = follow->server->config->traces;
	const struct job_task task = {
		.run = answer, .context = follow, .kept = traces->fd, .kept_count = traces->count};
	if (follow->job.pid || follow->read == follow->reported || !follow->stream_count)
		return;
	struct ht_err *err = job_start(&follow->job, &task);
	/* The next tick tries again. */
	if (err)
		follow->job.pid = 0;
	else
		follow->reported = follow->read;
	ht_err_free(err);
}

static char *read_output(int fd)
{
	struct stat status;
	char *text = NULL;
	if (fstat(fd, &status) == 0)
		text = malloc((size_t)status.st_size + 1);
	if (text && pread(fd, text, (size_t)status.st_size, 0) == status.st_size) {
		text[status.st_size] = '\0';
		return text;
	}
	free(text);
	return NULL;
}

static void end_report(struct follow *follow)
{
	int output;
	struct ht_err *err = job_finish(&follow->job, &output);
	/* A trace that has no record yet, or too little time: the next one may succeed. */
	ht_err_free(err);
	char *text = output >= 0 ? read_output(output) : NULL;
	if (output >= 0)
		close(output);
	if (!text)
		return;
	free(follow->report);
	follow->report = text;
	make_message(follow);
}

/* --- steering -------------------------------------------------------------------------------- */

static bool ask(
	struct follow *follow, const struct control_request *request, struct exchange *exchange)
{
	if (follow->asked_count == FOLLOW_ASKED_MAX || !follow->is_steered)
		return false;
	if (!capture_ask(follow->server->config->capture, request)) {
		follow->is_steered = false;
		return false;
	}
	follow->asked[follow->asked_count++] = exchange;
	return true;
}

static bool read_verb(const char *name, enum control_verb *ret)
{
	for (enum control_verb verb = 0; verb < CONTROL_VERBS; verb++)
		if (strcmp(control_verb_name(verb), name) == 0) {
			*ret = verb;
			return true;
		}
	return false;
}

enum MHD_Result follow_control(struct follow *follow, struct exchange *exchange)
{
	struct control_request request = {0};
	const char *text = request_value(&exchange->request, "text");
	if (!read_verb(exchange->route->path, &request.verb))
		return reply_error(exchange->connection, MHD_HTTP_NOT_FOUND, "unknown");
	if (request.verb == CONTROL_MARK && (!text || !*text || strlen(text) > CONTROL_MARK_MAX))
		return reply_error(exchange->connection, MHD_HTTP_BAD_REQUEST,
			"mark: parameter text has 1 to 1000 bytes");
	if (request.verb == CONTROL_MARK) {
		request.text_length = strlen(text);
		memcpy(request.text, text, request.text_length);
	}
	if (!ask(follow, &request, exchange))
		return reply_error(exchange->connection, MHD_HTTP_CONFLICT,
			"the capture has ended, or too many requests wait for it");
	exchange->state = EXCHANGE_RUNNING;
	MHD_suspend_connection(exchange->connection);
	return MHD_YES;
}

enum MHD_Result follow_listen(struct follow *follow, struct exchange *exchange)
{
	if (follow->stream_count == FOLLOW_STREAMS_MAX)
		return reply_error(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			"too many pages follow this capture already");
	return stream_begin(follow, exchange->connection);
}

static void end_exchange(
	struct exchange *exchange, const struct follow *follow, const char *problem)
{
	char *text = problem ? NULL : capture_text(follow);
	if (problem)
		exchange->err = ht_err_new(HT_ERR_TARGET_GONE, "%s", problem);
	else
		exchange->output = memfd_create("answer", MFD_CLOEXEC);
	if (text && exchange->output >= 0 &&
		write(exchange->output, text, strlen(text)) != (ssize_t)strlen(text))
		exchange->err = ht_err_new(HT_ERR_NOMEM, "out of memory for an answer");
	free(text);
	exchange->state = EXCHANGE_DONE;
	MHD_resume_connection(exchange->connection);
}

static void take_answer(struct follow *follow)
{
	struct control_reply reply = {0};
	const bool is_there = capture_answer(follow->server->config->capture, &reply);
	if (!is_there || !follow->asked_count) {
		follow->is_steered = false;
		for (size_t i = 0; i < follow->asked_count; i++)
			if (follow->asked[i])
				end_exchange(follow->asked[i], follow, "the capture has ended");
		follow->asked_count = 0;
		make_message(follow);
		return;
	}
	struct exchange *exchange = follow->asked[0];
	memmove(follow->asked, follow->asked + 1, --follow->asked_count * sizeof(follow->asked[0]));
	const bool was_known = follow->last.ok;
	if (reply.ok)
		follow->last = reply;
	/* A capture that this server did not start has ended and answers no more. */
	else if (!exchange && was_known)
		follow->last.phase = CONTROL_ENDED;
	if (exchange)
		end_exchange(exchange, follow, reply.ok ? NULL : reply.message);
	make_message(follow);
}

/* --- turns ----------------------------------------------------------------------------------- */

static void read_on(struct follow *follow)
{
	const struct serve_config *config = follow->server->config;
	struct ht_err *err =
		config->read_on(config->context, READ_MAX, &follow->has_more, &follow->read);
	/* Keep showing what was read. */
	if (err)
		follow->has_more = false;
	ht_err_free(err);
	config->traces->read = follow->read;
}

static void tick(struct follow *follow)
{
	const struct control_request status = {.verb = CONTROL_STATUS};
	follow->next_ns = now_ns() + TICK_NS;
	follow->has_more = true;
	if (!follow->asked_count && follow->last.phase != CONTROL_ENDED)
		(void)ask(follow, &status, NULL);
}

int follow_poll(const struct follow *follow, struct pollfd polled[FOLLOW_POLLED])
{
	const uint64_t now = now_ns();
	polled[0] = (struct pollfd){
		follow->is_steered ? follow->server->config->capture->socket : -1, POLLIN, 0};
	polled[1] = (struct pollfd){follow->job.pid ? follow->job.pipe : -1, POLLIN, 0};
	if (follow->has_more || follow->next_ns <= now)
		return 0;
	return (int)((follow->next_ns - now) / NS_PER_MS) + 1;
}

void follow_turn(struct follow *follow, const struct pollfd polled[FOLLOW_POLLED])
{
	const uint64_t now = now_ns();
	if (polled[0].revents)
		take_answer(follow);
	if (polled[1].revents || (follow->job.pid && follow->job.deadline_ns <= now))
		end_report(follow);
	if (follow->next_ns <= now)
		tick(follow);
	if (follow->has_more)
		read_on(follow);
	if (!follow->has_more)
		start_report(follow);
}

/* --- begin and end --------------------------------------------------------------------------- */

struct ht_err *follow_init(struct follow *follow, struct server *server)
{
	static const char *const member[] = {"schema", "capture", "window", "totals", "rss", "heap",
		"timeline", "marks", "pauses", "warnings", "suspects", "frames", NULL};
	static char json[] = "--json", end[] = "--";
	const struct serve_config *config = server->config;
	char *const word[] = {json, end, config->traces->path[0]};
	*follow = (struct follow){.server = server, .is_steered = true, .has_more = true};
	follow->question = (struct serve_question){.kind = ROUTE_EVENTS,
		.command = option_find_command(config->table, "report"),
		.member = member};
	return option_parse(config->table, follow->question.command, HT_ARRAY_SIZE(word), word,
		&follow->question.values);
}

void follow_end(struct follow *follow)
{
	follow->has_ended = true;
	for (size_t i = 0; i < follow->asked_count; i++)
		if (follow->asked[i])
			end_exchange(follow->asked[i], follow, "heaptap serve ends");
	follow->asked_count = 0;
	stream_wake_all(follow);
}

void follow_deinit(struct follow *follow)
{
	int output;
	if (follow->job.pid) {
		follow->job.deadline_ns = 0;
		ht_err_free(job_finish(&follow->job, &output));
		if (output >= 0)
			close(output);
	}
	free(follow->report);
	free(follow->message);
	option_values_deinit(&follow->question.values);
}
