/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/stream.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/serve/reply.h"

#define BLOCK_BYTES 65536u

struct stream {
	struct stream_hub *hub;
	struct MHD_Connection *connection;
	char *text; /* message that is being sent */
	size_t length, at;
	uint64_t generation;
	bool is_suspended;
	struct stream *next;
};

/* Copies the hub's message if it is new and the former one is sent. True: `text` has bytes to
 * send. */
static bool take_message(struct stream *stream)
{
	const struct stream_hub *hub = stream->hub;
	if (stream->at < stream->length)
		return true;
	if (!hub->message || stream->generation == hub->generation)
		return false;
	free(stream->text);
	stream->text = strdup(hub->message);
	stream->length = stream->text ? strlen(stream->text) : 0;
	stream->at = 0;
	stream->generation = hub->generation;
	return stream->length;
}

static ssize_t give(void *context, uint64_t position, char *to, size_t most)
{
	struct stream *stream = context;
	(void)position;
	if (stream->hub->has_ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!take_message(stream)) {
		stream->is_suspended = true;
		MHD_suspend_connection(stream->connection);
		return 0;
	}
	const size_t left = stream->length - stream->at, part = left < most ? left : most;
	memcpy(to, stream->text + stream->at, part);
	stream->at += part;
	return (ssize_t)part;
}

static void end(void *context)
{
	struct stream *stream = context;
	struct stream **link = &stream->hub->first;
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream->hub->count--;
	free(stream->text);
	free(stream);
}

enum MHD_Result stream_begin(struct stream_hub *hub, struct MHD_Connection *connection)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return MHD_NO;
	*stream = (struct stream){.hub = hub, .connection = connection, .next = hub->first};
	hub->first = stream;
	hub->count++;
	struct MHD_Response *response =
		MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, give, stream, end);
	if (!response) {
		end(stream);
		return MHD_NO;
	}
	reply_type(response, "text/event-stream");
	return reply_send(connection, MHD_HTTP_OK, response);
}

static void wake_all(struct stream_hub *hub)
{
	for (struct stream *stream = hub->first; stream; stream = stream->next)
		if (stream->is_suspended) {
			stream->is_suspended = false;
			MHD_resume_connection(stream->connection);
		}
}

void stream_send_all(struct stream_hub *hub, char *message)
{
	free(hub->message);
	hub->message = message;
	hub->generation++;
	wake_all(hub);
}

void stream_end_all(struct stream_hub *hub)
{
	hub->has_ended = true;
	wake_all(hub);
}

void stream_hub_deinit(struct stream_hub *hub)
{
	free(hub->message);
	hub->message = NULL;
}
