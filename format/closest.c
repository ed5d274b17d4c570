/* SPDX-License-Identifier: Apache-2.0 */
#include "format/closest.h"

#include <string.h>

#define WORD_MAX  31u
#define BEGIN_MIN 3u /* a shorter word is not accepted as a beginning */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Number of edits from `a` to `b`; a swap of two neighbouring letters counts as one edit (optimal
 * string alignment). */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t row[3][WORD_MAX + 1] = {0};
	for (size_t j = 0; j <= b_length; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]),
				least(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
	}
	return row[a_length % 3][b_length];
}

void closest_try(struct closest *closest, const char *candidate)
{
	size_t length = strlen(closest->word), other = strlen(candidate);
	if (!length || length > WORD_MAX || other > WORD_MAX)
		return;
	size_t edits = distance(closest->word, length, candidate, other);
	bool begins = length >= BEGIN_MIN && strncmp(closest->word, candidate, length) == 0;
	size_t allowed = length / 3 > 1 ? length / 3 : 1;
	if (begins)
		edits = least(edits, allowed);
	/* A word of one or two letters is near to too many candidates. */
	if (edits > allowed || (length < BEGIN_MIN && edits > 0))
		return;
	if (closest->match && edits >= closest->distance)
		return;
	closest->match = candidate;
	closest->distance = edits;
}
