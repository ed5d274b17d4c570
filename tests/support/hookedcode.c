/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/hookedcode.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTACH_MS  30000
#define PROGRAM_MS 60000

static uint64_t program_base(pid_t pid)
{
	char path[64];
	uint64_t lo;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	ck_assert_int_eq(fscanf(maps, "%" SCNx64, &lo), 1);
	fclose(maps);
	return lo;
}

void hookedcode_watch(
	struct hookedcode *ret, pid_t pid, const char *program, const char *const names[])
{
	char *text, path[64];
	ck_assert_int_eq(
		run_program((const char *[]){"nm", "-P", program, NULL}, PROGRAM_MS, &text, NULL),
		0);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	*ret = (struct hookedcode){.memory = open(path, O_RDONLY | O_CLOEXEC)};
	for (size_t i = 0; names[i]; i++) {
		char line[80];
		snprintf(line, sizeof(line), "\n%s T ", names[i]);
		const char *found = strstr(text, line);
		ck_assert_msg(found, "%s is not in %s", names[i], program);
		ret->addr[ret->count++] =
			program_base(pid) + strtoull(found + strlen(line), NULL, 16);
	}
	free(text);
}

size_t hookedcode_count(const struct hookedcode *code)
{
	size_t count = 0;
	for (size_t i = 0; i < code->count; i++) {
		uint8_t first;
		ck_assert_int_eq(pread(code->memory, &first, 1, (off_t)code->addr[i]), 1);
		count += first == 0xe9;
	}
	return count;
}

void hookedcode_wait(const struct hookedcode *code, struct tap *tap)
{
	uint64_t end = run_now_ms() + ATTACH_MS;
	while (hookedcode_count(code) < code->count) {
		if (run_has_ended(&tap->run))
			ck_abort_msg("heaptap ended early: %s", run_err(&tap->run));
		ck_assert_msg(run_now_ms() < end, "%zu of %zu functions are hooked",
			hookedcode_count(code), code->count);
		run_pause();
	}
}
