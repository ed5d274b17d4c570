/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/steered.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/steer/usersignals.h"
#include "attach/control/place.h"
#include "attach/control/rate.h"
#include "attach/control/server.h"

#define MARKS_MAX  10000u /* of one capture */
#define PAUSES_MAX 1000u

/* Exit statuses of a client (DESIGN section 10). */
#define STATUS_INTERNAL 1u
#define STATUS_REFUSED	3u

struct steered {
	struct place place;
	struct server *server;
	struct usersignals signals;
	struct steered_capture capture; /* zero before steered_open and after steered_close */
	struct rate rate;
	void (*shown)(void *context, const struct control_reply *status); /* NULL: none */
	void *shown_context;
	bool stop_asked, is_detaching, is_naming;
	uint64_t start_unix_ns;	   /* the same in all answers; 0: the window has not begun */
	uint64_t pauses, marks;	   /* made by clients and signals */
	struct control_reply last; /* the answer to status when the socket was removed */
	char trace[PATH_MAX], partial[PATH_MAX];
};

struct steered *steered_create(void)
{
	struct steered *steered = calloc(1, sizeof(*steered));
	if (!steered)
		return NULL;
	steered->place = PLACE_NONE;
	steered->signals = USERSIGNALS_NONE;
	return steered;
}

/* --- answers --------------------------------------------------------------------------------- */

/* Leaves `ret` empty if the path is too long. */
static void make_absolute(const char *path, char ret[PATH_MAX])
{
	char here[PATH_MAX];
	const char *directory = "", *slash = "";
	if (*path != '/' && strcmp(path, "-") != 0) {
		directory = getcwd(here, sizeof(here)) ? here : ".";
		slash = "/";
	}
	int length = snprintf(ret, PATH_MAX, "%s%s%s", directory, slash, path);
	if (length >= PATH_MAX)
		*ret = '\0';
}

static void name_trace(struct steered *steered)
{
	const char *beside = sink_beside(steered->capture.sink), *base;
	make_absolute(steered->capture.options->output, steered->trace);
	base = strrchr(steered->trace, '/');
	if (*beside && base)
		snprintf(steered->partial, sizeof(steered->partial), "%.*s%s",
			(int)(base + 1 - steered->trace), steered->trace, beside);
}

/* Leaves `to` unchanged if the text is too long: a path that is cut would name another file. */
static void copy_text(char *to, size_t room, const char *text)
{
	if (strlen(text) < room)
		snprintf(to, room, "%s", text);
}

static void fill_counts(const struct steered_capture *capture, struct control_reply *ret)
{
	const struct receiver *receiver = *capture->receiver;
	struct receiver_totals totals = {0};
	if (receiver)
		totals = receiver_totals(receiver);
	ret->events = totals.events;
	ret->trace_bytes = sink_bytes(capture->sink);
	const struct sink_filtered filtered = sink_filtered(capture->sink);
	ret->live_blocks = filtered.live_blocks;
	ret->filter_bytes = filtered.table_bytes;
	ret->dropped = sink_dropped_events(capture->sink) + totals.samples_lost;
	for (size_t i = 0; i < ABI_LOSS_COUNT; i++)
		ret->dropped += totals.lost[i];
}

static void fill(struct steered *steered, struct control_reply *ret)
{
	const struct steered_capture *capture = &steered->capture;
	const struct times *times = capture->times;
	const struct settle *settle = capture->settle;
	uint64_t now = clock_mono_ns();
	uint64_t until = times->end_ns ? times->end_ns : now;
	ret->phase = steered->is_naming		? CONTROL_NAMING
		     : steered->is_detaching	? CONTROL_DETACHING
		     : settle_has_begun(settle) ? CONTROL_SETTLING
						: CONTROL_RECORDING;
	ret->paused = pausing_is_on(capture->pausing) && !steered->is_detaching;
	ret->paused_by_overhead = ret->paused && !capture->pausing->wants[PAUSING_USER];
	ret->overhead_ppm = capture->overhead->ppm;
	ret->overhead_limit_ppm = capture->overhead->limit_ppm;
	ret->pid = (uint64_t)capture->proc->pid;
	ret->start_ticks = capture->proc->start_ticks;
	ret->heaptap_pid = (uint64_t)getpid();
	if (settle_has_begun(settle)) {
		ret->settled_ns = until - settle->begin_ns;
		until = settle->begin_ns;
	}
	ret->settle_ns = settle->wanted_ns;
	ret->elapsed_ns = times->first_tap_ns ? until - times->first_tap_ns : 0;
	const uint64_t unix_ns = clock_read_ns(CLOCK_REALTIME);
	if (times->first_tap_ns && !steered->start_unix_ns)
		steered->start_unix_ns = unix_ns - (now - times->first_tap_ns);
	ret->start_unix_ns = steered->start_unix_ns ? steered->start_unix_ns : unix_ns;
	ret->duration_ns = capture->options->duration_ns;
	ret->pauses = capture->pausing->count;
	ret->paused_ns = pausing_ns(capture->pausing, until);
	ret->marks = steered->marks;
	ret->sample_bytes = capture->options->sample_bytes;
	ret->window = capture->options->window;
	ret->windows = capture->options->windows;
	ret->cull_ns = capture->options->cull_ns;
	ret->user = geteuid();
	ret->rss_bytes = capture->memory->rss_bytes;
	ret->rss_first_bytes = capture->memory->rss_first_bytes;
	fill_counts(capture, ret);
	const struct rate_look look = {now, ret->events, ret->trace_bytes};
	ret->events_per_s = rate_events_per_s(&steered->rate, &look);
	ret->trace_bytes_per_min = rate_bytes_per_min(&steered->rate, &look);
	copy_text(ret->comm, sizeof(ret->comm), capture->comm);
	copy_text(ret->trace, sizeof(ret->trace), steered->trace);
	copy_text(ret->partial, sizeof(ret->partial), steered->partial);
}

/* --- requests -------------------------------------------------------------------------------- */

HT_PRINTF(3, 4)
static void refuse(struct control_reply *ret, uint64_t status, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	*ret = (struct control_reply){.exit_status = status};
	vsnprintf(ret->message, sizeof(ret->message), fmt, args);
	va_end(args);
}

/* Answers with the error, which it takes over; false if there was one. */
static bool complain(struct ht_err *err, struct control_reply *ret)
{
	if (!err)
		return true;
	refuse(ret, STATUS_INTERNAL, "%s", err->message);
	ht_err_free(err);
	return false;
}

static bool put(struct steered *steered, const struct rec *rec, struct control_reply *ret)
{
	return complain(sink_put(steered->capture.sink, rec, 0), ret);
}

static void begin_pause(struct steered *steered, struct control_reply *ret)
{
	if (steered->pauses == PAUSES_MAX)
		refuse(ret, STATUS_REFUSED, "this capture was paused %u times already", PAUSES_MAX);
	else if (complain(pausing_set(steered->capture.pausing, PAUSING_USER, true), ret))
		steered->pauses++;
}

static void end_pause(struct steered *steered, struct control_reply *ret)
{
	struct pausing *pausing = steered->capture.pausing;
	if (complain(pausing_set(pausing, PAUSING_USER, false), ret) && pausing_is_on(pausing))
		refuse(ret, STATUS_REFUSED,
			"--max-overhead has paused this capture, and resumes it by itself");
}

static void put_mark(
	struct steered *steered, const struct control_request *request, struct control_reply *ret)
{
	struct rec rec = {.kind = REC_MARK};
	rec.mark = (struct rec_mark){clock_mono_ns(), {request->text, request->text_length}};
	if (!request->text_length)
		refuse(ret, STATUS_INTERNAL, "a mark needs a text");
	else if (steered->marks == MARKS_MAX)
		refuse(ret, STATUS_REFUSED, "this capture has %u marks already", MARKS_MAX);
	else if (put(steered, &rec, ret))
		steered->marks++;
}

/* For heaptap snapshot, which then copies the trace. */
static void put_totals(struct steered *steered, struct control_reply *ret)
{
	struct receiver *receiver = *steered->capture.receiver;
	if (receiver)
		complain(receiver_put_totals(receiver), ret);
	else
		refuse(ret, STATUS_REFUSED, "nothing of process %d is recorded yet",
			(int)steered->capture.proc->pid);
}

/* When the window is over, only status and stop are answered. */
static bool is_too_late(const struct steered *steered, enum control_verb verb)
{
	bool is_ending = steered->is_detaching || *steered->capture.is_ending;
	return is_ending && verb != CONTROL_STATUS && verb != CONTROL_STOP;
}

static void handle(void *context, const struct control_request *request, struct control_reply *ret)
{
	struct steered *steered = context;
	ret->ok = true;
	if (is_too_late(steered, request->verb)) {
		refuse(ret, STATUS_REFUSED,
			settle_has_begun(steered->capture.settle) && !steered->is_detaching
				? "the window of process %d is over; only frees are recorded now"
				: "the capture of process %d is ending",
			(int)steered->capture.proc->pid);
		return;
	}
	switch (request->verb) {
	case CONTROL_STATUS:
	case CONTROL_VERBS:
		break;
	case CONTROL_STOP:
		steered->stop_asked = true;
		break;
	case CONTROL_PAUSE:
		if (!steered->capture.pausing->wants[PAUSING_USER])
			begin_pause(steered, ret);
		break;
	case CONTROL_RESUME:
		if (pausing_is_on(steered->capture.pausing))
			end_pause(steered, ret);
		break;
	case CONTROL_MARK:
		put_mark(steered, request, ret);
		break;
	case CONTROL_SNAPSHOT:
		put_totals(steered, ret);
		break;
	}
	if (ret->ok)
		fill(steered, ret);
}

/* --- when ------------------------------------------------------------------------------------ */

struct ht_err *steered_open(struct steered *steered, const struct steered_capture *capture)
{
	if (!steered)
		return NULL;
	struct ht_err *err =
		place_open(capture->proc->pid, capture->proc->start_ticks, 0, &steered->place);
	steered->capture = *capture;
	if (!err)
		steered->server = server_create(steered->place.listener, handle, steered);
	if (!err && !steered->server) {
		place_close(&steered->place);
		err = ht_err_new(HT_ERR_NOMEM, "no memory for the socket");
	}
	usersignals_open(&steered->signals);
	name_trace(steered);
	return err;
}

static void note_rate(struct steered *steered, uint64_t now_ns)
{
	struct control_reply reply = {0};
	if (!rate_is_due(&steered->rate, now_ns))
		return;
	fill_counts(&steered->capture, &reply);
	rate_note(&steered->rate, &(struct rate_look){now_ns, reply.events, reply.trace_bytes});
	if (!steered->shown)
		return;
	fill(steered, &reply);
	steered->shown(steered->shown_context, &reply);
}

void steered_watch(struct steered *steered,
	void (*shown)(void *context, const struct control_reply *status), void *context)
{
	if (!steered)
		return;
	steered->shown = shown;
	steered->shown_context = context;
}

/* Carries out signals like requests of a client that needs no answer. */
static void follow_signals(struct steered *steered)
{
	const struct usersignals_taken taken = usersignals_take(&steered->signals);
	struct control_reply reply = {0};
	usersignals_reap(&steered->signals);
	if (taken.pause)
		handle(steered,
			&(struct control_request){
				.verb = steered->capture.pausing->wants[PAUSING_USER]
						? CONTROL_RESUME
						: CONTROL_PAUSE},
			&reply);
	if (taken.snapshot && !is_too_late(steered, CONTROL_SNAPSHOT))
		usersignals_snapshot(&steered->signals, steered->capture.proc->pid, steered->trace);
}

void steered_serve(struct steered *steered)
{
	if (!steered || !steered->capture.proc)
		return;
	uint64_t now_ns = clock_mono_ns();
	note_rate(steered, now_ns);
	follow_signals(steered);
	if (steered->server)
		server_serve(steered->server, now_ns);
}

bool steered_take_stop(struct steered *steered)
{
	bool asked = steered && steered->stop_asked;
	if (asked)
		steered->stop_asked = false;
	return asked;
}

void steered_detaching(struct steered *steered)
{
	if (steered)
		steered->is_detaching = true;
}

void steered_naming(struct steered *steered)
{
	if (steered)
		steered->is_naming = true;
}

void steered_close(struct steered *steered)
{
	if (steered)
		usersignals_close(&steered->signals);
	if (!steered || !steered->server) {
		if (steered)
			steered->capture = (struct steered_capture){0};
		return;
	}
	steered_detaching(steered);
	/* Answer requests that came while names were looked up. */
	server_serve(steered->server, clock_mono_ns());
	fill(steered, &steered->last);
	if (sink_state(steered->capture.sink) == STORE_OK)
		steered->last.partial[0] = '\0';
	server_close_listener(steered->server);
	place_close(&steered->place);
	steered->capture = (struct steered_capture){0};
}

void steered_end(struct steered *steered, unsigned status, const char *message)
{
	if (!steered)
		return;
	struct control_reply *reply = &steered->last;
	reply->ok = true;
	reply->exit_status = status;
	reply->phase = CONTROL_ENDED;
	snprintf(reply->message, sizeof(reply->message), "%s", message);
	if (steered->server)
		server_tell_end(steered->server, reply);
	server_destroy(steered->server);
	free(steered);
}
