/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/csv_text.h"

#include <string.h>

void csv_put_text(FILE *out, const char *text)
{
	if (!text)
		return;
	putc('"', out);
	/* Spreadsheets ignore spaces before a formula. */
	const char *first = text;
	while ((*first > 0 && *first <= 0x20) || *first == 0x7f)
		first++;
	if (*first && strchr("=+-@", *first))
		putc('\'', out);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', out);
		putc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, out);
	}
	putc('"', out);
}
