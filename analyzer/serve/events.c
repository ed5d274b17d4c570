/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/events.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/export/json.h"
#include "format/clock.h"

/* --- messages -------------------------------------------------------------------------------- */

static char *capture_text(const struct follow *follow)
{
	const struct control_reply *last = &follow->last;
	const struct capture *capture = follow->config.capture;
	json_t *object = json_pack("{ss ss so sb so so so so so so}", "schema", "heaptap.live/1",
		"state", follow_state(follow), "pid", json_number((uint64_t)capture->pid),
		"started_here", (int)capture->started, "elapsed_ns", json_number(last->elapsed_ns),
		"events", json_number(last->events), "dropped", json_number(last->dropped),
		"trace_bytes", json_number(last->trace_bytes), "marks", json_number(last->marks),
		"trace", json_text(capture->trace));
	char *ret = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	return ret;
}

/* Appends `text` as the data of an event, each line as one data line. */
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

static void send_message(struct events *events)
{
	char *capture = capture_text(&events->follow), *message = NULL;
	size_t length;
	FILE *out = capture ? open_memstream(&message, &length) : NULL;
	if (out) {
		put_event(out, "capture", capture);
		if (events->report)
			put_event(out, "report", events->report);
		if (fclose(out) == 0 && message)
			stream_send_all(&events->hub, message);
	}
	free(capture);
}

/* --- reports --------------------------------------------------------------------------------- */

static struct ht_err *answer(void *context)
{
	const struct events *events = context;
	return events->config->answer(events->config->context, &events->question);
}

static void start_report(struct events *events)
{
	const struct serve_traces *traces = events->config->traces;
	const struct job_task task = {
		.run = answer, .context = events, .kept = traces->fd, .kept_count = traces->count};
	if (events->job.pid || events->follow.read == events->reported || !events->hub.count)
		return;
	struct ht_err *err = job_start(&events->job, &task);
	/* The next turn tries again. */
	if (err)
		events->job.pid = 0;
	else
		events->reported = events->follow.read;
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

static void end_report(struct events *events)
{
	int output;
	struct ht_err *err = job_finish(&events->job, &output);
	/* The trace may have no record yet, or the job exceeded its time: the next report may
	 * succeed. */
	ht_err_free(err);
	char *text = output >= 0 ? read_output(output) : NULL;
	if (output >= 0)
		close(output);
	if (!text)
		return;
	free(events->report);
	events->report = text;
	send_message(events);
}

/* --- requests -------------------------------------------------------------------------------- */

static bool read_verb(const char *name, enum control_verb *ret)
{
	for (enum control_verb verb = 0; verb < CONTROL_VERBS; verb++)
		if (strcmp(control_verb_name(verb), name) == 0) {
			*ret = verb;
			return true;
		}
	return false;
}

static void end_exchange(void *context, const struct follow *follow, const char *problem)
{
	struct exchange *exchange = context;
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

enum MHD_Result events_control(struct events *events, struct exchange *exchange)
{
	const struct follow_asked asked = {.answered = end_exchange, .context = exchange};
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
	if (!follow_ask(&events->follow, &request, &asked))
		return reply_error(exchange->connection, MHD_HTTP_CONFLICT,
			"the capture has ended, or too many requests wait for it");
	exchange->state = EXCHANGE_RUNNING;
	MHD_suspend_connection(exchange->connection);
	return MHD_YES;
}

enum MHD_Result events_listen(struct events *events, struct exchange *exchange)
{
	if (events->hub.count == EVENTS_STREAMS_MAX)
		return reply_error(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			"too many pages follow this capture already");
	return stream_begin(&events->hub, exchange->connection);
}

/* --- turns ----------------------------------------------------------------------------------- */

int events_poll(const struct events *events, struct pollfd polled[EVENTS_POLLED])
{
	polled[1] = (struct pollfd){events->job.pid ? events->job.pipe : -1, POLLIN, 0};
	return follow_poll(&events->follow, &polled[0]);
}

void events_turn(struct events *events, const struct pollfd polled[EVENTS_POLLED])
{
	if (follow_turn(&events->follow, &polled[0]))
		send_message(events);
	events->config->traces->read = events->follow.read;
	if (polled[1].revents || (events->job.pid && events->job.deadline_ns <= clock_mono_ns()))
		end_report(events);
	if (!events->follow.has_more)
		start_report(events);
}

/* --- begin and end --------------------------------------------------------------------------- */

struct ht_err *events_init(struct events *events, const struct serve_config *config)
{
	static const char *const member[] = {"schema", "capture", "window", "totals", "rss", "heap",
		"timeline", "marks", "pauses", "warnings", "suspects", "frames", NULL};
	static char json[] = "--json", end[] = "--";
	char *const word[] = {json, end, config->traces->path[0]};
	*events = (struct events){.config = config};
	follow_init(&events->follow, config->live);
	events->question = (struct serve_question){.kind = ROUTE_EVENTS,
		.command = option_find_command(config->table, "report"),
		.member = member};
	return option_parse(config->table, events->question.command, HT_ARRAY_SIZE(word), word,
		&events->question.values);
}

void events_end(struct events *events)
{
	follow_end(&events->follow, "heaptap serve ends");
	stream_end_all(&events->hub);
}

void events_deinit(struct events *events)
{
	int output;
	if (events->job.pid) {
		events->job.deadline_ns = 0;
		ht_err_free(job_finish(&events->job, &output));
		if (output >= 0)
			close(output);
	}
	free(events->report);
	stream_hub_deinit(&events->hub);
	option_values_deinit(&events->question.values);
}
