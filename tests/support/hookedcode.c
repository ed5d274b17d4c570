/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/hookedcode.h"

#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTACH_MS  30000
#define PROGRAM_MS 60000

/* The difference between addresses in memory and in the file; 0 for a program linked to fixed
 * addresses. */
static uint64_t program_bias(pid_t pid, const char *program)
{
	char path[64];
	Elf64_Ehdr head;
	uint64_t lo;
	FILE *file = fopen(program, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fread(&head, sizeof(head), 1, file), 1);
	fclose(file);
	if (head.e_type == ET_EXEC)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	char line[4400];
	bool found = false;
	FILE *maps = fopen(path, "re");
	ck_assert_ptr_nonnull(maps);
	/* Not the first mapping: the heap of a static program may lie below the program. */
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, program) && sscanf(line, "%" SCNx64, &lo) == 1;
	ck_assert_msg(found, "%s is not mapped", program);
	fclose(maps);
	return lo;
}

/* Looks up a function in nm's output `text`. First the program's global one (T), then a weak (W) or
 * local (t) one, as those of the C library may be. */
static uint64_t symbol_value(
	const char *text, const char *name, const char *program, size_t *ret_bytes)
{
	for (const char *type = "TWt"; *type; type++) {
		char line[80];
		snprintf(line, sizeof(line), "\n%s %c ", name, *type);
		const char *found = strstr(text, line);
		if (!found)
			continue;
		char *end;
		uint64_t value = strtoull(found + strlen(line), &end, 16);
		*ret_bytes = strtoull(end, NULL, 16);
		return value;
	}
	ck_abort_msg("%s is not in %s", name, program);
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
		size_t bytes;
		uint64_t addr =
			program_bias(pid, program) + symbol_value(text, names[i], program, &bytes);
		ck_assert_int_eq(pread(ret->memory, ret->before[i], HOOKEDCODE_BYTES, (off_t)addr),
			HOOKEDCODE_BYTES);
		ret->bytes[i] = bytes < HOOKEDCODE_BYTES ? bytes : HOOKEDCODE_BYTES;
		ret->addr[ret->count++] = addr;
	}
	free(text);
}

size_t hookedcode_count(const struct hookedcode *code)
{
	size_t count = 0;
	for (size_t i = 0; i < code->count; i++) {
		uint8_t now[HOOKEDCODE_BYTES];
		size_t changed = 0, jumps = 0;
		ck_assert_int_eq(pread(code->memory, now, sizeof(now), (off_t)code->addr[i]),
			(int)sizeof(now));
		for (size_t n = 0; n < code->bytes[i]; n++) {
			changed += now[n] != code->before[i][n];
			jumps += now[n] != code->before[i][n] && now[n] == 0xe9;
		}
		count += changed == 1 && jumps == 1;
	}
	return count;
}

void hookedcode_wait(const struct hookedcode *code, struct tap *tap)
{
	uint64_t end = run_now_ms() + ATTACH_MS;
	while (hookedcode_count(code) < code->count || !tap_is_recording(tap->target)) {
		if (run_has_ended(&tap->run))
			ck_abort_msg("heaptap ended early: %s", run_err(&tap->run));
		ck_assert_msg(run_now_ms() < end, "%zu of %zu functions are hooked",
			hookedcode_count(code), code->count);
		run_pause();
	}
}
