/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/eventbuild.h"

#include <string.h>

#include "tests/support/ht_check.h"

void eventbuild_deinit(struct eventbuild *build)
{
	bytes_out_deinit(&build->out);
	*build = (struct eventbuild){0};
}

void eventbuild_restart(struct eventbuild *build)
{
	build->tsc = 0;
	build->addr = 0;
	memset(build->recent, 0, sizeof(build->recent));
}

/* The length code of a number: 0 to 3 for 1, 2, 4 and 8 bytes. */
static unsigned int number_code(uint64_t value)
{
	return value <= UINT8_MAX ? 0 : value <= UINT16_MAX ? 1 : value <= UINT32_MAX ? 2 : 3;
}

/* The length code of a stack: 0 to 3 for 1, 2, 3 and 4 bytes. */
static unsigned int stack_code(uint32_t value)
{
	return value < 1u << 8 ? 0 : value < 1u << 16 ? 1 : value < 1u << 24 ? 2 : 3;
}

static void put_byte(struct eventbuild *build, unsigned int value)
{
	ck_no_err(bytes_out_u8(&build->out, (uint8_t)value));
}

static void put_number(struct eventbuild *build, uint64_t value, unsigned int code)
{
	ck_no_err(bytes_out_put(&build->out, &value, 1u << code));
}

static uint64_t step_time(struct eventbuild *build, uint64_t tsc)
{
	tsc = abi_time_floor(tsc);
	ck_need(tsc >= build->tsc);
	uint64_t delta = tsc - build->tsc;
	build->tsc = tsc;
	return delta >> ABI_TIME_SHIFT;
}

static uint64_t step_addr(struct eventbuild *build, uint64_t addr, unsigned int *ret_code)
{
	uint64_t index = abi_recent_index(addr), folded = abi_addr_fold(addr - build->addr);
	bool is_recent = build->recent[index] == addr;
	build->addr = addr;
	if (addr % 2 == 0)
		build->recent[index] = addr;
	*ret_code = is_recent ? 0 : number_code(folded | (UINT8_MAX + 1));
	return is_recent ? index : folded;
}

/* Puts all parts of an event but the stack. */
static void put_event(struct eventbuild *build, enum abi_event_kind kind, unsigned int tag1,
	uint64_t tsc, uint64_t addr, uint64_t size)
{
	unsigned int code;
	uint64_t time = step_time(build, tsc), word = step_addr(build, addr, &code);
	put_byte(build, kind | number_code(time) << 3 | code << 5);
	bool is_end = kind == ABI_EVENT_FREE || kind == ABI_EVENT_REALLOC_BEGIN;
	put_byte(build, tag1 | number_code(size) | (is_end && !size ? ABI_EVENT_NO_SIZE : 0));
	put_number(build, time, number_code(time));
	put_number(build, word, code);
	if (!is_end || size)
		put_number(build, size, number_code(size));
}

void eventbuild_thread(struct eventbuild *build, uint32_t tid, uint32_t level)
{
	put_byte(build, ABI_EVENT_THREAD);
	ck_no_err(bytes_out_put(&build->out, &tid, sizeof(tid)));
	ck_no_err(bytes_out_put(&build->out, &level, sizeof(level)));
}

void eventbuild_alloc(struct eventbuild *build, enum abi_event_kind kind, uint8_t hook,
	uint64_t tsc, uint64_t addr, uint64_t size, uint32_t stack)
{
	put_event(build, kind, stack_code(stack) << 2 | (unsigned int)hook << 4, tsc, addr, size);
	ck_no_err(bytes_out_put(&build->out, &stack, stack_code(stack) + 1));
}

void eventbuild_free(struct eventbuild *build, enum abi_event_kind kind, uint8_t hook, uint64_t tsc,
	uint64_t addr, uint64_t usable)
{
	put_event(build, kind, (unsigned int)hook << 4, tsc, addr, usable);
}

void eventbuild_realloc_done(struct eventbuild *build, enum abi_event_kind kind, uint64_t tsc)
{
	uint64_t time = step_time(build, tsc);
	put_byte(build, kind | number_code(time) << 3);
	put_number(build, time, number_code(time));
}

void eventbuild_mapping(struct eventbuild *build, uint64_t tsc,
	const struct eventbuild_mapping *mapping, uint32_t tid, uint32_t level)
{
	const uint64_t word[] = {tsc, mapping->addr, mapping->length,
		mapping->stack | (uint64_t)mapping->call << 32 | (uint64_t)mapping->protect << 40,
		mapping->flags};
	for (unsigned i = 0; i < HT_ARRAY_SIZE(word); i++) {
		put_byte(build, ABI_EVENT_THREAD | (i + 1) << 3);
		put_number(build, word[i], 3);
	}
	eventbuild_thread(build, tid, level);
}
