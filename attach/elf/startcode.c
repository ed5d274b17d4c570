/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/startcode.h"

#include <stdlib.h>
#include <string.h>

#include "attach/elf/distance.h"
#include "attach/proc/proc_living.h"
#include "format/array.h"

#define CODE_MAX    (64u << 10)
#define STACK_BYTES 4096u /* from the start of a program's stack to the frame of that code */
#define CALL_BYTES  5u
#define STACK_FIELD 28u /* in /proc/PID/stat */
#define NAME_FIELD  2u

#define STARTS	   "__libc_start_main"
#define CALLS_MAIN "__libc_start_call_main"

void startcode_add_beginnings(struct beginnings *beginnings)
{
	beginnings_add(beginnings, STARTS);
	beginnings_add(beginnings, CALLS_MAIN);
}

void startcode_note(
	struct startcode *found, raddr_t *call, raddr_t addr, uint64_t bytes, const char *name)
{
	if (!strcmp(name, STARTS)) {
		found->addr = addr;
		found->bytes = bytes;
	} else if (!strcmp(name, CALLS_MAIN)) {
		*call = addr;
	}
}

static raddr_t find_call(const uint8_t *code, size_t bytes, raddr_t at, raddr_t to)
{
	raddr_t found = 0;
	for (size_t i = 0; i + CALL_BYTES <= bytes; i++) {
		raddr_t next = at + i + CALL_BYTES;
		if (code[i] != 0xe8 || distance_target(code + i + 1, next) != to)
			continue;
		if (found)
			return 0;
		found = next;
	}
	return found;
}

/* `*ret` is the offset in the file of the code that is loaded at [addr, addr + bytes); false: no
 * segment has it. */
static bool find_offset(const struct module *module, raddr_t addr, uint64_t bytes, uint64_t *ret)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		uint64_t at = addr - module->bias - segment->vaddr;
		if (addr - module->bias < segment->vaddr || at > segment->filesz ||
			bytes > segment->filesz - at || !(segment->flags & PF_X))
			continue;
		*ret = segment->offset + at;
		return true;
	}
	return false;
}

void startcode_settle(
	struct startcode *found, raddr_t call, const struct module *module, struct elf_file *file)
{
	uint64_t offset;
	HT_FREED uint8_t *code = NULL;
	if (found->addr && call && found->bytes <= CODE_MAX &&
		find_offset(module, found->addr, found->bytes, &offset))
		code = malloc(found->bytes + 1);
	if (code && elf_file_bytes(file, offset, code, found->bytes) == found->bytes)
		found->return_to = find_call(code, found->bytes, found->addr, call);
	if (!found->return_to)
		*found = (struct startcode){0};
}

/* The process's name, in parentheses, may contain spaces and parentheses: skip it. */
static raddr_t stack_start(const char *stat)
{
	const char *at = strrchr(stat, ')');
	for (unsigned field = NAME_FIELD; at && field < STACK_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* The stack is empty when the program begins, and only the last call of the start code puts this
 * return address on it: if the address is there, the call was made. */
struct ht_err *startcode_is_over(const struct proc *proc, const struct startcode *code, bool *ret)
{
	raddr_t word[STACK_BYTES / sizeof(raddr_t)];
	HT_FREED char *stat = NULL;
	size_t got = 0;
	*ret = false;
	if (!code->return_to)
		return NULL;
	HT_TRY(proc_text(proc, "stat", &stat));
	raddr_t start = ht_align_down(stack_start(stat), sizeof(raddr_t));
	if (start < sizeof(word))
		return NULL;
	struct ht_err *err = memory_read_some(proc, start - sizeof(word), word, sizeof(word), &got);
	for (size_t i = 0; !err && i < got / sizeof(word[0]); i++)
		*ret |= word[i] == code->return_to;
	return err;
}
