/* SPDX-License-Identifier: Apache-2.0
 *
 * A library to preload into any program: malloc, calloc and realloc that forward the call, and
 * sometimes record the stack as libunwind finds it (tests/targets/unwound.h). A captured program
 * calls these functions through the agent, so each record belongs to one event of the trace.
 */
#define UNW_LOCAL_ONLY

#include <dlfcn.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "tests/targets/unwound.h"

static struct unwound *unwound;
/* Prevents recursion, because libunwind may allocate. Initial-exec TLS, because other TLS may need
 * an allocation. */
static __thread bool busy __attribute__((tls_model("initial-exec")));

/* UNWOUND_FILE names the file; without it nothing is ever recorded. */
__attribute__((constructor)) static void unwound_open(void)
{
	const char *path = getenv("UNWOUND_FILE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *at = mmap(NULL, UNWOUND_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unwound = at == MAP_FAILED ? NULL : at;
	close(fd);
}

/* The words that rbp points to: the caller's rbp, and the return address into the caller. */
struct unwound_frame {
	uint64_t caller_fp, caller_pc;
	uint64_t caller_stack[];
};

static bool unwound_is_agent(uint64_t pc)
{
	return pc - unwound->agent_lo < unwound->agent_hi - unwound->agent_lo;
}

/*
 * Walks from the caller of the agent's hook, whose frame is `hook`. libunwind cannot begin in the
 * hook itself: without CFI it guesses rsp, and wrongly. Registers other than rip, rsp and rbp keep
 * their current values; only CFAs of hand-written code depend on them.
 */
static uint64_t unwound_walk(const struct unwound_frame *hook, uint64_t *pc)
{
	unw_context_t context;
	unw_cursor_t cursor;
	uint64_t depth = 0;
	unw_getcontext(&context);
	context.uc_mcontext.gregs[REG_RIP] = (greg_t)hook->caller_pc;
	context.uc_mcontext.gregs[REG_RSP] = (greg_t)hook->caller_stack;
	context.uc_mcontext.gregs[REG_RBP] = (greg_t)hook->caller_fp;
	unw_init_local(&cursor, &context);
	do
		unw_get_reg(&cursor, UNW_REG_IP, &pc[depth++]);
	while (depth < UNWOUND_FRAMES_MAX && unw_step(&cursor) > 0);
	return depth;
}

static void unwound_write(const struct unwound_record *head, const uint64_t *pc)
{
	uint64_t words = sizeof(*head) / 8 + head->depth;
	uint64_t room = (UNWOUND_BYTES - sizeof(*unwound)) / 8;
	uint64_t at = __atomic_fetch_add(&unwound->used, words, __ATOMIC_RELAXED);
	if (at > room || words > room - at)
		return;
	memcpy(&unwound->word[at], head, sizeof(*head));
	memcpy(&unwound->word[at + sizeof(*head) / 8], pc, head->depth * 8);
	__atomic_fetch_add(&unwound->records, 1, __ATOMIC_RELEASE);
}

/* Hashes the call's number, so that the choice does not follow a pattern of the program. */
static bool unwound_chosen(uint64_t call)
{
	return (call * 0x9e3779b97f4a7c15ull >> 32) % unwound->every == 0;
}

static __attribute__((noinline)) void unwound_record(
	const struct unwound_frame *hook, void *block, size_t bytes)
{
	uint64_t pc[UNWOUND_FRAMES_MAX];
	busy = true;
	struct unwound_record head = {.address = (uint64_t)block,
		.bytes = bytes,
		.depth = unwound_walk(hook, pc),
		.tid = (uint64_t)gettid()};
	_mm_lfence();
	head.tsc = __rdtsc();
	unwound_write(&head, pc);
	busy = false;
}

/* Notes a call from `caller_pc` with rbp `caller_fp`. Only calls of the agent are recorded. */
static void *unwound_note(uint64_t caller_pc, uint64_t caller_fp, void *block, size_t bytes)
{
	if (!unwound || !block)
		return block;
	uint64_t call = __atomic_fetch_add(&unwound->calls, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&unwound->recording, __ATOMIC_ACQUIRE) && !busy &&
		unwound_is_agent(caller_pc) && unwound_chosen(call))
		unwound_record((const struct unwound_frame *)caller_fp, block, bytes);
	return block;
}

/* The function that the program would call without this library. */
static void *unwound_next(void **function, const char *name)
{
	if (!*function)
		*function = dlsym(RTLD_NEXT, name);
	return *function;
}

#define NEXT(name)                                                                                 \
	({                                                                                         \
		static void *function;                                                             \
		(__typeof__(&name))unwound_next(&function, #name);                                 \
	})
#define CALLER (uint64_t) __builtin_return_address(0), *(uint64_t *)__builtin_frame_address(0)

void *malloc(size_t bytes)
{
	return unwound_note(CALLER, NEXT(malloc)(bytes), bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return unwound_note(CALLER, NEXT(calloc)(count, bytes), count * bytes);
}

void *realloc(void *block, size_t bytes)
{
	return unwound_note(CALLER, NEXT(realloc)(block, bytes), bytes);
}
