/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/text.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "format/foreign.h"

struct text text_for(FILE *out, const struct terminal *terminal)
{
	return (struct text){
		.out = out,
		.has_colour = terminal->has_colour,
		.has_utf8 = terminal->has_utf8,
		.columns = terminal->columns,
	};
}

struct text text_to(FILE *out)
{
	const struct terminal terminal = terminal_of(out, TERMINAL_COLOR_AUTO);
	return text_for(out, &terminal);
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

/* One character that text_foreign would write, and its columns. */
struct character {
	size_t size; /* bytes */
	unsigned columns;
};

/* wcwidth depends on the locale; use C.UTF-8, which the C library always has. */
static locale_t use_widths(void)
{
	static locale_t locale;
	if (!locale)
		locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	return uselocale(locale);
}

static struct character decode(const char *at, size_t left)
{
	uint32_t point;
	size_t size = foreign_decode(at, left, &point);
	if (size == 0)
		return (struct character){.size = 1, .columns = 1};
	if (!foreign_is_harmless(point))
		return (struct character){.size = size};
	int columns = wcwidth((wchar_t)point);
	return (struct character){size, columns < 0 ? 1 : (unsigned)columns};
}

static size_t columns_of(const char *string, size_t length)
{
	size_t columns = 0;
	for (size_t at = 0; at < length;) {
		struct character character = decode(string + at, length - at);
		columns += character.columns;
		at += character.size;
	}
	return columns;
}

size_t text_columns(const char *string)
{
	locale_t before = use_widths();
	size_t columns = columns_of(string, strlen(string));
	uselocale(before);
	return columns;
}

/* The end of the first characters that fit into `columns`, with their combining characters. */
static size_t head_end(const char *string, size_t length, size_t columns, size_t *ret_columns)
{
	size_t at = 0;
	for (*ret_columns = 0; at < length;) {
		struct character character = decode(string + at, length - at);
		if (*ret_columns + character.columns > columns)
			break;
		*ret_columns += character.columns;
		at += character.size;
	}
	return at;
}

/* The start of the last characters that fit into `columns`; `all`: columns of the whole string. */
static size_t tail_start(
	const char *string, size_t length, size_t columns, size_t all, size_t *ret_columns)
{
	size_t at = 0;
	*ret_columns = all;
	while (at < length) {
		struct character character = decode(string + at, length - at);
		/* A combining character belongs to the omitted character before it. */
		if (*ret_columns <= columns && character.columns > 0)
			break;
		*ret_columns -= character.columns;
		at += character.size;
	}
	return at;
}

unsigned text_elided(const struct text *text, const char *string, unsigned columns)
{
	size_t length = strlen(string), head_columns, tail_columns;
	locale_t before = use_widths();
	size_t all = columns_of(string, length);
	size_t room = columns > 5 ? columns - 3 : 2;
	size_t head = head_end(string, length, room / 2, &head_columns);
	size_t tail = tail_start(string, length, room - room / 2, all, &tail_columns);
	uselocale(before);
	if (all <= columns) {
		put_part(text, string, length);
		return (unsigned)all;
	}
	put_part(text, string, head);
	fputs("...", text->out);
	put_part(text, string + tail, length - tail);
	return (unsigned)(head_columns + 3 + tail_columns);
}

/* --- drawings -----------------------------------------------------------------------------------
 */

#define LEVELS 8u

static uint64_t highest(const uint64_t *value, size_t count)
{
	uint64_t ret = 0;
	for (size_t i = 0; i < count; i++)
		ret = value[i] > ret ? value[i] : ret;
	return ret;
}

unsigned text_sparkline(const struct text *text, const uint64_t *value, size_t count,
	uint64_t lowest, unsigned columns)
{
	static const char ascii[LEVELS + 1] = "_.:-=+*#";
	uint64_t most = highest(value, count);
	unsigned cells = count < columns ? (unsigned)count : columns;
	for (unsigned i = 0; i < cells; i++) {
		size_t from = count * i / cells, to = count * (i + 1) / cells;
		uint64_t cell = highest(value + from, to - from);
		unsigned level = 0;
		if (cell > lowest)
			level = (unsigned)((unsigned __int128)(cell - lowest) * (LEVELS - 1) /
					   (most - lowest));
		/* U+2581 to U+2588 */
		if (text->has_utf8)
			fprintf(text->out, "\xe2\x96%c", (char)(0x81 + level));
		else
			fputc(ascii[level], text->out);
	}
	return cells;
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
	if (!time_ns)
		snprintf(ret.text, sizeof(ret.text), "0 s");
	else if (time_ns < 1000000)
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

struct text_number text_bound(const struct text *text, int64_t value, int64_t bound)
{
	const double percent = value ? 100 * (double)bound / fabs((double)value) : 0;
	struct text_number ret = {""};
	/* U+00B1 */
	if (bound && value)
		snprintf(ret.text, sizeof(ret.text), percent < 10 ? "%s%.1f %%" : "%s%.0f %%",
			text->has_utf8 ? "\xc2\xb1" : "+-", fmin(percent, 9999));
	return ret;
}

void text_clock(uint64_t unix_ns, bool is_utc, const char *format, char ret[TEXT_CLOCK_BYTES])
{
	const time_t when = (time_t)(unix_ns / 1000000000);
	struct tm tm;
	snprintf(ret, TEXT_CLOCK_BYTES, "?");
	if (is_utc ? gmtime_r(&when, &tm) : localtime_r(&when, &tm))
		strftime(ret, TEXT_CLOCK_BYTES, format, &tm);
}
