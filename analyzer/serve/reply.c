/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/reply.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/export/json.h"

static void add(struct MHD_Response *response, const char *name, const char *value)
{
	/* This fails only if memory is out; the answer is then sent without this header. reply_page
	 * checks its own header, the policy. */
	(void)MHD_add_response_header(response, name, value);
}

enum MHD_Result reply_send(
	struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
	if (!response)
		return MHD_NO;
	add(response, "Cache-Control", "no-store");
	add(response, "X-Content-Type-Options", "nosniff");
	add(response, "X-Frame-Options", "DENY");
	add(response, "Referrer-Policy", "no-referrer");
	add(response, "Cross-Origin-Resource-Policy", "same-origin");
	add(response, "Cross-Origin-Opener-Policy", "same-origin");
	enum MHD_Result ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

void reply_type(struct MHD_Response *response, const char *type)
{
	add(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (strcmp(type, "text/html; charset=utf-8") != 0)
		add(response, "Content-Security-Policy", "default-src 'none'; sandbox");
}

static struct MHD_Response *with_type(struct MHD_Response *response, const char *type)
{
	if (response)
		reply_type(response, type);
	return response;
}

enum MHD_Result reply_error(struct MHD_Connection *connection, unsigned status, const char *message)
{
	json_t *object =
		json_pack("{ss so}", "schema", "heaptap.error/1", "error", json_text(message));
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_decref(object);
	if (!text)
		return MHD_NO;
	struct MHD_Response *response = with_type(
		MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE),
		"application/json");
	if (response && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		add(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD, POST");
	if (response && status == MHD_HTTP_SERVICE_UNAVAILABLE)
		add(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	return reply_send(connection, status, response);
}

static unsigned status_of(const struct ht_err *err)
{
	switch (err->code) {
	case HT_ERR_USAGE:
		return MHD_HTTP_BAD_REQUEST;
	case HT_ERR_PERMISSION:
		return MHD_HTTP_FORBIDDEN;
	case HT_ERR_REFUSED:
	case HT_ERR_NOMEM:
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	case HT_ERR_TARGET_GONE:
		return MHD_HTTP_CONFLICT;
	case HT_ERR_SYS:
	case HT_ERR_INTERNAL:
	case HT_ERR_INCOMPLETE:
	case HT_ERR_FORMAT:
		break;
	}
	return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

enum MHD_Result reply_failure(struct MHD_Connection *connection, struct ht_err *err)
{
	enum MHD_Result ret = reply_error(connection, status_of(err), err->message);
	ht_err_free(err);
	return ret;
}

enum MHD_Result reply_page(struct MHD_Connection *connection, const char *page, const char *policy)
{
	struct MHD_Response *response =
		with_type(MHD_create_response_from_buffer(
				  strlen(page), (void *)(uintptr_t)page, MHD_RESPMEM_PERSISTENT),
			"text/html; charset=utf-8");
	if (response &&
		MHD_add_response_header(response, "Content-Security-Policy", policy) != MHD_YES) {
		MHD_destroy_response(response);
		return MHD_NO;
	}
	return reply_send(connection, MHD_HTTP_OK, response);
}

enum MHD_Result reply_file(struct MHD_Connection *connection, int fd, const char *type,
	const char *etag, const char *name)
{
	struct stat status;
	char disposition[128];
	struct MHD_Response *response = NULL;
	if (fstat(fd, &status) == 0)
		response = MHD_create_response_from_fd64((uint64_t)status.st_size, fd);
	if (!response) {
		close(fd);
		return MHD_NO;
	}
	with_type(response, type);
	if (etag)
		add(response, MHD_HTTP_HEADER_ETAG, etag);
	if (name) {
		snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"", name);
		add(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, disposition);
	}
	return reply_send(connection, MHD_HTTP_OK, response);
}

enum MHD_Result reply_unchanged(struct MHD_Connection *connection, const char *etag)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	if (response)
		add(response, MHD_HTTP_HEADER_ETAG, etag);
	return reply_send(connection, MHD_HTTP_NOT_MODIFIED, response);
}
