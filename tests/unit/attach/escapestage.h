/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the tests of attach/proof/escape search: this process, with TEXT_BYTES of nop
 * instructions in writable memory, and a page of words behind them.
 */
#pragma once

#include "attach/proof/escape.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define TEXT_BYTES  (3u << 20)
#define CHUNK_BYTES (1u << 20)

static inline raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

struct stage {
	struct proc self;
	uint8_t *code;
	uint64_t *word;
};

static inline struct stage stage_make(void)
{
	struct stage stage;
	ck_no_err(proc_open(getpid(), &stage.self));
	ck_no_err(proc_open_mem(&stage.self));
	stage.code = mmap(NULL, TEXT_BYTES + HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(stage.code, MAP_FAILED);
	memset(stage.code, 0x90, TEXT_BYTES);
	stage.word = (uint64_t *)(void *)(stage.code + TEXT_BYTES);
	return stage;
}
