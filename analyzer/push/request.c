/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/push/request.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/export/export.h"

#define MAGIC "heaptap-push 1 "

/* Below the limits of Pyroscope 2.2 without options (pkg/validation/limits.go): 16,000 samples, and
 * 2 MiB, the burst of its rate limiter. */
#define PROFILE_SAMPLES_MAX 15000u
#define PROFILE_BYTES_MAX   (1900u << 10)

/* Units and aggregation of a sample's types, in Pyroscope's format. The order must be that of
 * analyzer/export/pprof.c. */
static const char sample_types[] =
	"{\"alloc_objects\":{\"units\":\"objects\",\"aggregation\":\"sum\"},"
	"\"alloc_space\":{\"units\":\"bytes\",\"aggregation\":\"sum\"},"
	"\"inuse_objects\":{\"units\":\"objects\",\"aggregation\":\"average\"},"
	"\"inuse_space\":{\"units\":\"bytes\",\"aggregation\":\"average\"},"
	"\"peak_space\":{\"units\":\"bytes\",\"aggregation\":\"average\"},"
	"\"temp_objects\":{\"units\":\"objects\",\"aggregation\":\"sum\"}}";

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-_.~", *text))
			putc(*text, out);
		else
			fprintf(out, "%%%02X", (unsigned char)*text);
	}
}

/* Replaces each character by "_", except letters, digits and `others`. */
static void put_name(FILE *out, const char *name, const char *others)
{
	for (; *name; name++) {
		const char one[] = {*name, '\0'};
		put_escaped(
			out, isalnum((unsigned char)*name) || strchr(others, *name) ? one : "_");
	}
}

/* A comma or a brace would end the value. */
static void put_label(FILE *out, const char *value)
{
	put_name(out, value, "-_./:");
}

/* Pyroscope 2.2 by its source: `format=pprof` would make it take the whole form as the profile
 * (ingest_handler.go); application names have letters, digits and .-_ alone (validate.go; a slash
 * since 1.11). */
static void put_target(FILE *out, const struct push_window *window)
{
	fputs("/ingest?name=", out);
	put_name(out, *window->service ? window->service : "unknown", "-_.");
	fputs("%7Bhost%3D", out);
	put_label(out, window->host);
	if (*window->build) {
		fputs("%2Cbuild%3D", out);
		put_label(out, window->build);
	}
	fprintf(out, "%%7D&from=%" PRIu64 "&until=%" PRIu64 "&spyName=heaptap\n", window->begin_s,
		window->end_s);
}

static struct ht_err *write_profile(FILE *out, const struct push_window *window)
{
	const char *part = "--heaptap-%s\r\nContent-Disposition: form-data; name=\"%s\"; "
			   "filename=\"%s\"\r\nContent-Type: %s\r\n\r\n";
	static const struct export_server server = {PROFILE_SAMPLES_MAX, PROFILE_BYTES_MAX};
	struct export_job job = {
		.view = window->view, .metric = METRIC_OUTSTANDING, .name = "", .server = &server};
	fprintf(out, MAGIC "%s\nmultipart/form-data; boundary=heaptap-%s\n", window->key,
		window->key);
	put_target(out, window);
	fprintf(out, part, window->key, "sample_type_config", "config.json", "application/json");
	fprintf(out, "%s\r\n", sample_types);
	fprintf(out, part, window->key, "profile", "profile.pprof", "application/octet-stream");
	struct ht_err *err = export_pprof(out, &job);
	fprintf(out, "\r\n--heaptap-%s--\r\n", window->key);
	return err;
}

static struct ht_err *write_rows(
	FILE *out, const struct push_address *address, const struct push_window *window)
{
	char statement[512];
	snprintf(statement, sizeof(statement), "INSERT INTO `%s`.`%s` FORMAT JSONEachRow",
		address->database, address->table);
	/* An older table may lack columns that this heaptap fills. */
	fprintf(out, MAGIC "%s\napplication/x-ndjson\n/?input_format_skip_unknown_fields=1&query=",
		window->key);
	put_escaped(out, statement);
	putc('\n', out);
	return push_rows_write(out, window);
}

struct ht_err *push_request_write(
	FILE *out, const struct push_address *address, const struct push_window *window)
{
	switch (address->kind) {
	case PUSH_PYROSCOPE:
		return write_profile(out, window);
	case PUSH_CLICKHOUSE:
		return write_rows(out, address, window);
	}
	return ht_err_new(HT_ERR_INTERNAL, "no such endpoint");
}

/* Copies the line at *at, and moves *at behind it. False: the line is too long, has no end, or has
 * a character that it must not have. */
static bool take_line(char **at, char *line, size_t line_bytes)
{
	const size_t length = strcspn(*at, "\n");
	if ((*at)[length] != '\n' || length >= line_bytes)
		return false;
	memcpy(line, *at, length);
	line[length] = '\0';
	*at += length + 1;
	/* The line becomes part of curl's configuration, where these characters have a meaning. */
	return !strpbrk(line, "\"\\\r");
}

bool push_request_read(int fd, struct push_head *ret)
{
	char text[3 * PUSH_LINE_BYTES], first[sizeof(MAGIC) + PUSH_KEY_BYTES], *at = text;
	const ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
	if (got <= 0)
		return false;
	text[got] = '\0';
	if (!take_line(&at, first, sizeof(first)) || strncmp(first, MAGIC, strlen(MAGIC)) != 0 ||
		strlen(first) != strlen(MAGIC) + PUSH_KEY_BYTES - 1)
		return false;
	memcpy(ret->key, first + strlen(MAGIC), PUSH_KEY_BYTES);
	return take_line(&at, ret->type, sizeof(ret->type)) &&
	       take_line(&at, ret->target, sizeof(ret->target)) &&
	       lseek(fd, at - text, SEEK_SET) >= 0;
}
