/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/foreign.h"

struct text text_to(FILE *out)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool wanted = !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
	return (struct text){.out = out, .has_colour = wanted && isatty(fileno(out))};
}

void text_styled(const struct text *text, enum text_style style, const char *string)
{
	static const char *const code[] = {
		[TEXT_BOLD] = "\033[1m",
		[TEXT_DIM] = "\033[2m",
		[TEXT_WARNING] = "\033[33m",
	};
	if (text->has_colour)
		fprintf(text->out, "%s%s\033[0m", code[style], string);
	else
		fputs(string, text->out);
}

/* --- foreign strings ---------------------------------------------------------------------------
 */

static void put_part(const struct text *text, const char *string, size_t length)
{
	for (size_t at = 0; at < length;) {
		uint32_t point;
		size_t size = foreign_decode(string + at, length - at, &point);
		if (size == 0)
			fputc('?', text->out);
		else if (foreign_is_harmless(point))
			fwrite(string + at, 1, size, text->out);
		at += size ? size : 1;
	}
}

void text_foreign(const struct text *text, const char *string, size_t max)
{
	size_t length = strlen(string);
	if (length <= max || max < 8) {
		put_part(text, string, length);
		return;
	}
	size_t head = (max - 3) / 2, tail = max - 3 - head;
	put_part(text, string, head);
	fputs("...", text->out);
	put_part(text, string + length - tail, tail);
}

/* --- numbers ------------------------------------------------------------------------------------
 */

struct text_number text_bytes(uint64_t bytes)
{
	static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct text_number ret;
	if (bytes < 1024) {
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 " B", bytes);
		return ret;
	}
	double value = (double)bytes / 1024;
	size_t i = 0;
	/* 1023.95 would be shown as 1024.0 */
	for (; value >= 1023.95 && i + 1 < HT_ARRAY_SIZE(unit); i++)
		value /= 1024;
	snprintf(ret.text, sizeof(ret.text), "%.1f %s", value, unit[i]);
	return ret;
}

struct text_number text_count(uint64_t count)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	struct text_number ret;
	char *to = ret.text;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return ret;
}

struct text_number text_time(uint64_t time_ns)
{
	struct text_number ret;
	double seconds = (double)time_ns / 1e9;
	uint64_t whole = time_ns / 1000000000;
	if (time_ns < 1000000)
		snprintf(ret.text, sizeof(ret.text), "%.1f us", seconds * 1e6);
	else if (time_ns < 1000000000)
		snprintf(ret.text, sizeof(ret.text), "%.1f ms", seconds * 1e3);
	else if (whole < 300)
		snprintf(ret.text, sizeof(ret.text), "%.1f s", seconds);
	else if (whole < 7200)
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 " min %" PRIu64 " s", whole / 60,
			whole % 60);
	else
		snprintf(ret.text, sizeof(ret.text), "%" PRIu64 " h %" PRIu64 " min", whole / 3600,
			whole / 60 % 60);
	return ret;
}

struct text_number text_percent(uint64_t part, uint64_t whole)
{
	struct text_number ret = {"-"};
	if (whole)
		snprintf(ret.text, sizeof(ret.text), "%.1f %%", 100 * (double)part / (double)whole);
	return ret;
}

void text_heading(const struct text *text, const char *title)
{
	fputc('\n', text->out);
	text_styled(text, TEXT_BOLD, title);
	fputc('\n', text->out);
}
