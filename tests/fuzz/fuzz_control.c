/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer entry (make fuzz): the input is a line as a hostile client or a hostile capture may
 * send it, or the name of a socket. If a parser accepts it, the encoder must turn the result into
 * an equivalent line.
 */
#include <stdlib.h>
#include <string.h>

#include "format/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void need(bool condition)
{
	if (!condition)
		abort();
}

static void try_request(const char *line, size_t length)
{
	static struct control_request request, again;
	char encoded[CONTROL_LINE_MAX];
	if (control_request_parse(line, length, &request))
		return;
	need(request.verb < CONTROL_VERBS && request.text_length <= CONTROL_MARK_MAX);
	size_t bytes = control_request_encode(&request, encoded);
	need(bytes <= CONTROL_LINE_MAX && encoded[bytes - 1] == '\n');
	need(!control_request_parse(encoded, bytes - 1, &again));
	need(again.verb == request.verb);
	if (request.verb == CONTROL_MARK)
		need(again.text_length == request.text_length &&
			!memcmp(again.text, request.text, request.text_length));
	if (request.verb == CONTROL_STOP)
		need(again.wait == request.wait);
}

static void try_reply(const char *line, size_t length)
{
	static struct control_reply reply, again;
	char encoded[CONTROL_LINE_MAX];
	if (control_reply_parse(line, length, &reply))
		return;
	need(memchr(reply.comm, 0, sizeof(reply.comm)) != NULL);
	need(memchr(reply.trace, 0, sizeof(reply.trace)) != NULL);
	need(memchr(reply.message, 0, sizeof(reply.message)) != NULL);
	size_t bytes = control_reply_encode(&reply, encoded);
	need(bytes <= CONTROL_LINE_MAX && encoded[bytes - 1] == '\n');
	need(!control_reply_parse(encoded, bytes - 1, &again));
	need(again.ok == reply.ok && again.events == reply.events);
	need(!strcmp(again.comm, reply.comm) && !strcmp(again.message, reply.message));
}

static void try_name(const char *line, size_t length)
{
	char text[64], name[CONTROL_NAME_MAX];
	pid_t pid, waiter;
	uint64_t ticks;
	if (length >= sizeof(text))
		return;
	memcpy(text, line, length);
	text[length] = '\0';
	if (!control_name_parse(text, &pid, &ticks, &waiter))
		return;
	control_name(pid, ticks, waiter, name);
	need(!strcmp(name, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	/* An allocation of the exact size, so that the sanitizer finds reads beyond the end. */
	char *line = malloc(length ? length : 1);
	if (!line)
		return 0;
	memcpy(line, data, length);
	try_request(line, length);
	try_reply(line, length);
	try_name(line, length);
	free(line);
	return 0;
}
