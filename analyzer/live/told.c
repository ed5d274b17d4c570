/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/live/told.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOLD_BYTES 8192u

static const enum ht_err_code code_of[] = {[1] = HT_ERR_INTERNAL,
	[2] = HT_ERR_USAGE,
	[3] = HT_ERR_REFUSED,
	[4] = HT_ERR_PERMISSION,
	[5] = HT_ERR_TARGET_GONE,
	[6] = HT_ERR_INCOMPLETE};

struct ht_err *told_error(int fd, int status, const char *silent)
{
	static const char program[] = "heaptap: ";
	char text[TOLD_BYTES];
	const ssize_t got = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;
	size_t length = got > 0 ? (size_t)got : 0;
	const bool is_error = status > 0 && status < (int)HT_ARRAY_SIZE(code_of);
	while (length && text[length - 1] == '\n')
		length--;
	text[length] = '\0';
	char *last = is_error ? strrchr(text, '\n') : text + length;
	last = last ? last + (*last == '\n') : text;
	fwrite(text, 1, (size_t)(last - text), stderr);
	if (!is_error) {
		if (length)
			putc('\n', stderr);
		return NULL;
	}
	if (strncmp(last, program, strlen(program)) == 0)
		last += strlen(program);
	return ht_err_new(code_of[status], "%s", *last ? last : silent);
}
