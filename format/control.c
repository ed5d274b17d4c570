/* SPDX-License-Identifier: Apache-2.0 */
#include "format/control.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GREETING "heaptap/1 "

/* --- place ---------------------------------------------------------------------------------- */

size_t control_directories(uid_t uid, const char *runtime, char (*ret)[CONTROL_PATH_MAX])
{
	size_t count = 0;
	if (uid == 0) {
		snprintf(ret[count++], CONTROL_PATH_MAX, "/run/heaptap");
	} else {
		if (runtime && *runtime == '/' && strlen(runtime) < CONTROL_PATH_MAX - 9)
			snprintf(ret[count++], CONTROL_PATH_MAX, "%s/heaptap", runtime);
		snprintf(ret[count], CONTROL_PATH_MAX, "/run/user/%u/heaptap", (unsigned)uid);
		if (count == 0 || strcmp(ret[0], ret[count]) != 0)
			count++;
	}
	snprintf(ret[count++], CONTROL_PATH_MAX, "/tmp/heaptap-%u", (unsigned)uid);
	return count;
}

int control_open_directory(const char *path, uid_t uid, bool make)
{
	struct stat stat;
	/* The umask can only clear bits, so other users never get access. */
	if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
		return -1;
	int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &stat) == 0 && stat.st_uid == uid && !(stat.st_mode & 022))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

void control_name(pid_t pid, uint64_t start_ticks, pid_t waiter, char ret[CONTROL_NAME_MAX])
{
	int length = snprintf(
		ret, CONTROL_NAME_MAX, "%d.%llu", (int)pid, (unsigned long long)start_ticks);
	if (waiter)
		snprintf(ret + length, CONTROL_NAME_MAX - (size_t)length, ".%d", (int)waiter);
}

/* Takes a decimal number without leading zeros, so that each number has one spelling. */
static bool take_number(const char **at, const char *end, uint64_t *ret)
{
	const char *start = *at;
	*ret = 0;
	for (; *at < end && isdigit((unsigned char)**at); (*at)++)
		if (__builtin_mul_overflow(*ret, 10, ret) ||
			__builtin_add_overflow(*ret, (uint64_t)(**at - '0'), ret))
			return false;
	return *at > start && (*start != '0' || *at == start + 1);
}

static bool take_pid(const char **at, const char *end, pid_t *ret)
{
	uint64_t pid;
	if (!take_number(at, end, &pid) || pid == 0 || pid > INT32_MAX)
		return false;
	*ret = (pid_t)pid;
	return true;
}

bool control_name_parse(
	const char *name, pid_t *ret_pid, uint64_t *ret_start_ticks, pid_t *ret_waiter)
{
	const char *at = name, *end = name + strlen(name);
	*ret_waiter = 0;
	if (!take_pid(&at, end, ret_pid) || *at++ != '.' || !take_number(&at, end, ret_start_ticks))
		return false;
	return at == end || (*at++ == '.' && take_pid(&at, end, ret_waiter) && at == end);
}

/* --- a line --------------------------------------------------------------------------------- */

/* A line under construction; one byte is reserved for the newline. */
struct line {
	char *data;
	size_t length;
	bool is_full;
};

static void line_put(struct line *line, const char *text, size_t length)
{
	if (line->is_full || length > CONTROL_LINE_MAX - 1 - line->length) {
		line->is_full = true;
		return;
	}
	memcpy(line->data + line->length, text, length);
	line->length += length;
}

static void line_word(struct line *line, const char *word)
{
	line_put(line, word, strlen(word));
}

static void line_escaped(struct line *line, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)text[i];
		char escaped[4];
		if (byte > ' ' && byte <= '~' && byte != '%') {
			line_put(line, &text[i], 1);
		} else {
			snprintf(escaped, sizeof(escaped), "%%%02X", byte);
			line_put(line, escaped, 3);
		}
	}
}

/* Appends the whole value or nothing. */
static void line_value(struct line *line, const char *key, const char *text, size_t length)
{
	size_t before = line->length;
	line_word(line, " ");
	line_word(line, key);
	line_word(line, "=");
	line_escaped(line, text, length);
	if (line->is_full)
		*line = (struct line){.data = line->data, .length = before};
}

static size_t line_end(struct line *line)
{
	line->data[line->length++] = '\n';
	return line->length;
}

static int hex_digit(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A view of a line, word by word. */
struct words {
	const char *at, *end;
};

struct word {
	const char *key, *value; /* value: NULL if there is no "=" */
	size_t key_length, value_length;
};

/* Takes the word at the front, which ends at a space or with the line. */
static bool words_next(struct words *words, struct word *ret)
{
	if (words->at >= words->end)
		return false;
	const char *end = memchr(words->at, ' ', (size_t)(words->end - words->at));
	if (!end)
		end = words->end;
	const char *equals = memchr(words->at, '=', (size_t)(end - words->at));
	*ret = (struct word){
		.key = words->at, .key_length = (size_t)((equals ? equals : end) - words->at)};
	if (equals) {
		ret->value = equals + 1;
		ret->value_length = (size_t)(end - ret->value);
	}
	words->at = end < words->end ? end + 1 : end;
	return true;
}

static bool word_is(const struct word *word, const char *key)
{
	return word->key_length == strlen(key) && memcmp(word->key, key, word->key_length) == 0;
}

/* Decodes a value. Returns NULL, or a message that names the fault. */
static const char *word_bytes(const struct word *word, char *ret, size_t room, size_t *ret_length)
{
	const char *at = word->value, *end = at + word->value_length;
	size_t length = 0;
	while (at < end) {
		int byte = (unsigned char)*at++;
		if (byte <= ' ' || byte > '~')
			return "a byte stands as it is that must be written as %XX";
		if (byte == '%') {
			int high = end - at >= 2 ? hex_digit(at[0]) : -1;
			int low = high >= 0 ? hex_digit(at[1]) : -1;
			if (low < 0)
				return "two hexadecimal digits are missing behind a %";
			byte = high << 4 | low;
			at += 2;
		}
		if (length == room)
			return "a text is too long";
		ret[length++] = (char)byte;
	}
	*ret_length = length;
	return NULL;
}

static const char *word_text(const struct word *word, char *ret, size_t room)
{
	size_t length;
	const char *problem = word_bytes(word, ret, room - 1, &length);
	if (problem)
		return problem;
	ret[length] = 0;
	return memchr(ret, 0, length) ? "a text has a zero byte" : NULL;
}

static const char *word_number(const struct word *word, uint64_t *ret)
{
	const char *at = word->value, *end = at + word->value_length;
	return take_number(&at, end, ret) && at == end ? NULL : "a number is none";
}

/* Moves past the greeting. Returns NULL, or a message that names the fault. */
static const char *take_greeting(const char *line, size_t length, struct words *ret)
{
	size_t greeting = strlen(GREETING);
	if (length > CONTROL_LINE_MAX - 1)
		return "the line is too long";
	if (length < greeting || memcmp(line, GREETING, greeting) != 0)
		return "the line does not begin with heaptap/1; both sides must be of the same "
		       "version";
	*ret = (struct words){.at = line + greeting, .end = line + length};
	return NULL;
}

/* --- requests ------------------------------------------------------------------------------- */

static const char *const verb_names[CONTROL_VERBS] = {
	[CONTROL_STATUS] = "status",
	[CONTROL_STOP] = "stop",
	[CONTROL_PAUSE] = "pause",
	[CONTROL_RESUME] = "resume",
	[CONTROL_MARK] = "mark",
	[CONTROL_SNAPSHOT] = "snapshot",
};

const char *control_verb_name(enum control_verb verb)
{
	return (unsigned)verb < CONTROL_VERBS ? verb_names[verb] : NULL;
}

size_t control_request_encode(const struct control_request *request, char ret[CONTROL_LINE_MAX])
{
	struct line line = {.data = ret};
	line_word(&line, GREETING);
	line_word(&line, verb_names[request->verb]);
	if (request->verb == CONTROL_STOP && request->wait)
		line_value(&line, "wait", "1", 1);
	if (request->verb == CONTROL_MARK)
		line_value(&line, "text", request->text,
			request->text_length < CONTROL_MARK_MAX ? request->text_length
								: CONTROL_MARK_MAX);
	return line_end(&line);
}

static const char *take_argument(const struct word *word, struct control_request *ret)
{
	uint64_t number;
	if (!word->value)
		return "a word has no =";
	if (word_is(word, "text"))
		return word_bytes(word, ret->text, CONTROL_MARK_MAX, &ret->text_length);
	if (!word_is(word, "wait"))
		return NULL;
	const char *problem = word_number(word, &number);
	ret->wait = !problem && number != 0;
	return problem;
}

const char *control_request_parse(const char *line, size_t length, struct control_request *ret)
{
	struct words words;
	struct word word;
	*ret = (struct control_request){.verb = CONTROL_VERBS};
	const char *problem = take_greeting(line, length, &words);
	if (problem)
		return problem;
	if (words_next(&words, &word) && !word.value)
		for (unsigned i = 0; i < CONTROL_VERBS; i++)
			if (word_is(&word, verb_names[i]))
				ret->verb = (enum control_verb)i;
	if (ret->verb == CONTROL_VERBS)
		return "the request is none of status, stop, pause, resume, mark, snapshot";
	while (!problem && words_next(&words, &word))
		problem = take_argument(&word, ret);
	return problem;
}

/* --- replies -------------------------------------------------------------------------------- */

#define NUMBER(name)                                                                               \
	{                                                                                          \
#name, offsetof(struct control_reply, name), 0                                     \
	}
#define TEXT(name)                                                                                 \
	{                                                                                          \
#name, offsetof(struct control_reply, name),                                       \
			sizeof((struct control_reply){0}.name)                                     \
	}

/* Long fields last: fields that do not fit are left out. */
static const struct field {
	const char *key;
	size_t offset;
	size_t text_bytes; /* 0: a number */
} fields[] = {
	NUMBER(exit_status),
	NUMBER(phase),
	NUMBER(paused),
	NUMBER(pid),
	NUMBER(start_ticks),
	NUMBER(heaptap_pid),
	NUMBER(start_unix_ns),
	NUMBER(elapsed_ns),
	NUMBER(duration_ns),
	NUMBER(settle_ns),
	NUMBER(settled_ns),
	NUMBER(events),
	NUMBER(trace_bytes),
	NUMBER(dropped),
	NUMBER(events_per_s),
	NUMBER(trace_bytes_per_min),
	NUMBER(paused_by_overhead),
	NUMBER(overhead_ppm),
	NUMBER(overhead_limit_ppm),
	NUMBER(pauses),
	NUMBER(paused_ns),
	NUMBER(marks),
	NUMBER(sample_bytes),
	NUMBER(cull_ns),
	NUMBER(live_blocks),
	NUMBER(filter_bytes),
	NUMBER(rss_bytes),
	NUMBER(rss_first_bytes),
	NUMBER(user),
	NUMBER(window),
	NUMBER(windows),
	NUMBER(next_unix_ns),
	TEXT(message),
	TEXT(waits_for),
	TEXT(comm),
	TEXT(trace),
	TEXT(partial),
};

size_t control_reply_encode(const struct control_reply *reply, char ret[CONTROL_LINE_MAX])
{
	struct line line = {.data = ret};
	char digits[24];
	line_word(&line, GREETING);
	line_word(&line, reply->ok ? "ok" : "error");
	for (size_t i = 0; i < HT_ARRAY_SIZE(fields); i++) {
		const char *at = (const char *)reply + fields[i].offset;
		uint64_t number = 0;
		if (fields[i].text_bytes && *at) {
			line_value(&line, fields[i].key, at, strnlen(at, fields[i].text_bytes));
		} else if (!fields[i].text_bytes) {
			memcpy(&number, at, sizeof(number));
			snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
			line_value(&line, fields[i].key, digits, strlen(digits));
		}
	}
	return line_end(&line);
}

static const char *take_field(const struct word *word, struct control_reply *ret)
{
	if (!word->value)
		return "a word has no =";
	for (size_t i = 0; i < HT_ARRAY_SIZE(fields); i++) {
		char *at = (char *)ret + fields[i].offset;
		if (!word_is(word, fields[i].key))
			continue;
		if (fields[i].text_bytes)
			return word_text(word, at, fields[i].text_bytes);
		return word_number(word, (uint64_t *)(void *)at);
	}
	return NULL;
}

const char *control_reply_parse(const char *line, size_t length, struct control_reply *ret)
{
	struct words words;
	struct word word;
	memset(ret, 0, sizeof(*ret));
	const char *problem = take_greeting(line, length, &words);
	if (problem)
		return problem;
	if (!words_next(&words, &word) || word.value ||
		!(word_is(&word, "ok") || word_is(&word, "error")))
		return "the answer is neither ok nor error";
	ret->ok = word_is(&word, "ok");
	while (!problem && words_next(&words, &word))
		problem = take_field(&word, ret);
	return problem;
}
