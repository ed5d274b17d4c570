/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses a command line that is one string.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "attach/cli/options.h"

#define WORDS_MAX 20

/* Parses the command line of "heaptap" and `words`, which blanks separate: at most 255 bytes and
 * WORDS_MAX - 2 words. The strings in `*ret` live until the next call. */
static struct ht_err *parse(const char *words, struct options *ret)
{
	static char copy[256];
	static char *argv[WORDS_MAX];
	int argc = 1;

	memset(argv, 0, sizeof(argv));
	argv[0] = (char[]){"heaptap"};

	snprintf(copy, sizeof(copy), "%s", words);
	char *rest = NULL;
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	*ret = (struct options){0};
	return options_parse(argc, argv, ret);
}
