/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/compile.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define COMPILE_LIMIT_MS 60000

static void append(const char **argv, size_t *count, const char *const options[])
{
	for (; options && *options; options++) {
		ck_assert_uint_lt(*count, COMPILE_OPTIONS_MAX * 2);
		argv[(*count)++] = *options;
	}
}

char *compile(const char *const command[], const char *source, const char *const libraries[])
{
	static unsigned made;
	char name[32];
	snprintf(name, sizeof(name), "made%u.c", made);
	char *input = tmpdir_path(name);
	snprintf(name, sizeof(name), "made%u", made++);
	char *output = tmpdir_path(name);
	FILE *file = fopen(input, "we");
	ck_assert_ptr_nonnull(file);
	fputs(source, file);
	fclose(file);

	const char *argv[COMPILE_OPTIONS_MAX * 2 + 4] = {0};
	size_t count = 0;
	append(argv, &count, command);
	append(argv, &count, (const char *[]){"-w", "-o", output, input, NULL});
	append(argv, &count, libraries);
	bool done = run_program(argv, COMPILE_LIMIT_MS, NULL, NULL) == 0;
	free(input);
	if (done)
		return output;
	free(output);
	return NULL;
}

char *compile_or_skip(const char *what, const char *const command[], const char *source)
{
	char *output = compile(command, source, NULL);
	if (output)
		return output;
	printf("skipped: %s:", what);
	for (size_t i = 0; command[i]; i++)
		printf(" %s", command[i]);
	printf(": cannot compile here\n");
	return NULL;
}
