/* SPDX-License-Identifier: Apache-2.0 */
#include "format/quantity.h"

#include <stdio.h>

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NS_PER_S      1000000000ull
#define DURATION_MAX  (10ull * 365 * 24 * 3600 * NS_PER_S)
#define SIZE_MAX_BITS 40u
#define FRACTION_MAX  1000000000ull /* nine digits */

/* whole + fraction / scale */
struct number {
	uint64_t whole, fraction, scale;
	bool is_huge;
};

/* Takes the number at `*at` and moves behind it; false if there is none. */
static bool take_number(const char **at, struct number *ret)
{
	*ret = (struct number){.scale = 1};
	if (!isdigit((unsigned char)**at))
		return false;
	for (; isdigit((unsigned char)**at); (*at)++)
		ret->is_huge |=
			__builtin_mul_overflow(ret->whole, 10, &ret->whole) ||
			__builtin_add_overflow(ret->whole, (uint64_t)(**at - '0'), &ret->whole);
	if (**at != '.')
		return true;
	if (!isdigit((unsigned char)*++*at))
		return false;
	for (; isdigit((unsigned char)**at); (*at)++) {
		if (ret->scale == FRACTION_MAX)
			continue;
		ret->fraction = ret->fraction * 10 + (uint64_t)(**at - '0');
		ret->scale *= 10;
	}
	return true;
}

/* Multiplies by `unit`; false if the result exceeds `max`. */
static bool scale(const struct number *number, uint64_t unit, uint64_t max, uint64_t *ret)
{
	if (number->is_huge || number->whole > max / unit)
		return false;
	unsigned __int128 part = (unsigned __int128)number->fraction * unit / number->scale;
	*ret = number->whole * unit + (uint64_t)part;
	return *ret <= max;
}

static const char *sign_problem(const char *text)
{
	return *text == '-' && isdigit((unsigned char)text[1]) ? "it is negative" : NULL;
}

static uint64_t unit_ns(const char **at)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ms", 1000000}, {"s", NS_PER_S}, {"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
		{"d", 24 * 3600 * NS_PER_S}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(units); i++) {
		size_t length = strlen(units[i].name);
		if (strncmp(*at, units[i].name, length) != 0 ||
			isalpha((unsigned char)(*at)[length]))
			continue;
		*at += length;
		return units[i].ns;
	}
	return 0;
}

const char *quantity_duration(const char *text, uint64_t *ret_ns)
{
	uint64_t total = 0;
	const char *at = text, *problem = sign_problem(text);

	while (!problem && *at) {
		struct number number;
		uint64_t part;
		if (!take_number(&at, &number))
			return "a number with a unit is expected, like 500ms 0.5s 5m 1.5h";
		bool is_bare = *at == '\0' && strspn(text, "0123456789.") == strlen(text);
		uint64_t unit = is_bare ? NS_PER_S : unit_ns(&at);
		if (!unit)
			return "its unit is not ms, s, m, h or d";
		if (!scale(&number, unit, DURATION_MAX - total, &part))
			return "it is more than ten years";
		total += part;
	}
	if (problem)
		return problem;
	if (total == 0)
		return *text ? "it is zero" : "it is empty";
	*ret_ns = total;
	return NULL;
}

/* The power of two of a unit, "", "K" or "KiB" and the like; SIZE_MAX_BITS if it is no unit. */
static unsigned unit_bits(const char *text)
{
	static const char letters[] = "KMG";
	if (!*text)
		return 0;
	const char *letter = strchr(letters, toupper((unsigned char)*text));
	if (!letter || (text[1] && strcasecmp(text + 1, "iB") != 0))
		return SIZE_MAX_BITS;
	return 10 * (unsigned)(letter - letters + 1);
}

const char *quantity_size(const char *text, uint64_t *ret_bytes)
{
	struct number number;
	const char *at = text, *problem = sign_problem(text);
	uint64_t bytes;
	if (problem)
		return problem;
	if (!take_number(&at, &number))
		return "a number with a unit is expected, like 64k 512KiB 1.5M";
	unsigned bits = unit_bits(at);
	if (bits == SIZE_MAX_BITS)
		return "its unit is not K, M or G (KiB, MiB, GiB)";
	if (bits == 0 && number.scale > 1)
		return "it is not a whole number of bytes";
	if (!scale(&number, 1ull << bits, 1ull << SIZE_MAX_BITS, &bytes))
		return "it is more than 1024G";
	*ret_bytes = bytes;
	return NULL;
}

const char *quantity_duration_text(uint64_t ns, char ret[QUANTITY_TEXT_BYTES])
{
	static const struct {
		uint64_t ns;
		const char *name;
	} unit[] = {{3600000000000, "h"}, {60000000000, "min"}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(unit); i++)
		if (ns && ns % unit[i].ns == 0) {
			snprintf(ret, QUANTITY_TEXT_BYTES, "%llu %s",
				(unsigned long long)(ns / unit[i].ns), unit[i].name);
			return ret;
		}
	const bool is_short = ns && ns < 1000000000;
	snprintf(ret, QUANTITY_TEXT_BYTES, "%.10g %s", (double)ns / (is_short ? 1e6 : 1e9),
		is_short ? "ms" : "s");
	return ret;
}
