/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a function preserves registers that the ABI does not demand, so that its callers may rely
 * on them, is read from the function's code.
 */
#include "attach/plan/clobbers.h"

#include <string.h>

#include "attach/inject/bridge.h"
#include "tests/support/ht_check.h"

#define FUNCTION(name, text)                                                                       \
	__asm__(".pushsection .text\n.balign 16\n" #name ":\n" text "\n.popsection");              \
	extern const uint8_t name[];

FUNCTION(leaf, "test %rdi, %rdi\n je 1f\n movb $1, -1(%rdi)\n 1: ret\n call *%rax\n ret")
FUNCTION(looping, "1: dec %rdi\n jnz 1b\n jmp leaf")
FUNCTION(switching, "lea leaf(%rip), %rax\n jmp *%rax")
FUNCTION(by_table, "jmp *8(%rdi,%rsi,8)")
FUNCTION(recursive, "call recursive\n call leaf\n ret")
FUNCTION(trapping, "ud2\n call *%rax\n ret")
FUNCTION(undecodable, ".byte 0x06\n call *%rax\n ret")
FUNCTION(by_register, "cmp $9, %rdi\n ja 1f\n ret\n 1: call *%rax\n ret")
FUNCTION(by_word, "call *some_word(%rip)\n ret")
FUNCTION(by_table_of_functions, "mov (%rdi), %rax\n call *8(%rax)\n ret")
FUNCTION(by_other_register, "mov (%rdi), %rcx\n call *(%rcx)\n ret")
FUNCTION(by_index, "call *(%rax,%rdi,8)\n ret")
FUNCTION(by_descriptor, "lea some_word(%rip), %rax\n call *(%rax)\n mov %fs:(%rax), %rax\n ret")
FUNCTION(by_descriptor_in_loop,
	"lea some_word(%rip), %r8\n 1: mov %r8, %rax\n call *(%rax)\n dec %rdi\n jne 1b\n ret")
FUNCTION(behind_descriptor, "lea some_word(%rip), %rax\n call *(%rax)\n call *%rdi\n ret")
FUNCTION(to_word, "jmp *some_word(%rip)")
FUNCTION(deep, "call leaf\n jmp 1f\n ret\n 1: call 2f\n ret\n 2: call by_word\n ret")
FUNCTION(gives_up, "ud2")
FUNCTION(gives_up_elsewhere, "test %rdi, %rdi\n je 1f\n jmp gives_up\n 1: call gives_up\n ret")
FUNCTION(checking, "test %rdi, %rdi\n je 1f\n ret\n 1: call gives_up\n call *%rax\n ret")
FUNCTION(checking_elsewhere, "call leaf\n call gives_up_elsewhere\n call *%rax\n ret")
FUNCTION(returning_late, "call 1f\n call *%rax\n ret\n 1: call 2f\n jmp leaf\n 2: call leaf\n ret")
FUNCTION(exits, "mov $231, %eax\n mov $1, %edi\n syscall")
FUNCTION(behind_exit, "ret")
FUNCTION(exits_its_thread, "mov $60, %rax\n test %rdi, %rdi\n jz 1f\n mov %rdi, %rsi\n 1: syscall")
FUNCTION(behind_exit_of_thread, "ret")
FUNCTION(halts, "hlt\n call *%rax\n ret")
FUNCTION(traps_with_a_reason, "ud1 2(%eax), %eax\n call *%rax\n ret")
FUNCTION(ends_by_exit, "mov $60, %eax\n syscall\n call *%rax\n ret")
FUNCTION(checking_by_exit, "test %rdi, %rdi\n je 1f\n ret\n 1: call exits\n call *%rax\n ret")
FUNCTION(checking_by_exit_of_thread, "call exits_its_thread\n call *%rax\n ret")
FUNCTION(calls_what_is_asked, "mov %rdi, %rax\n syscall\n call *%rax\n ret")
FUNCTION(forgets_its_number, "mov $9, %eax\n call leaf\n syscall\n call *%rax\n ret")
FUNCTION(asks_for_memory, "mov $9, %eax\n xor %edi, %edi\n syscall\n cmp $-4095, %rax\n jae 1f\n"
			  " ret\n 1: call *%rdi\n ret")
const void *some_word;

static size_t read_own(void *context, raddr_t addr, uint8_t *buffer, size_t bytes)
{
	(void)context;
	memcpy(buffer, (const void *)(uintptr_t)addr, bytes);
	return bytes;
}

static size_t read_nothing(void *context, raddr_t addr, uint8_t *buffer, size_t bytes)
{
	(void)context;
	(void)addr;
	(void)buffer;
	(void)bytes;
	return 0;
}

static bool all(const uint8_t *function)
{
	return clobbers_all(read_own, NULL, (raddr_t)(uintptr_t)function);
}

HT_TEST(callee_with_known_code)
{
	ck_assert(!all(leaf));
	ck_assert(!all(looping));
	ck_assert(!all(switching));
	ck_assert(!all(by_table));
	ck_assert(!all(recursive));
	ck_assert(!all(trapping));
	ck_assert(!all(undecodable));
	ck_assert(!all(by_descriptor));
	ck_assert(!all(by_descriptor_in_loop));
}

HT_TEST(callee_with_unknown_code)
{
	ck_need(bridge_is_supported());
	ck_assert(all(by_register));
	ck_assert(all(by_word));
	ck_assert(all(by_table_of_functions));
	ck_assert(all(by_other_register));
	ck_assert(all(by_index));
	ck_assert(all(behind_descriptor));
	ck_assert(all(to_word));
	ck_assert(all(deep));
}

/* Bytes after a call that never returns belong to another function. */
HT_TEST(behind_what_does_not_return)
{
	ck_need(bridge_is_supported());
	ck_assert(!all(checking));
	ck_assert(!all(checking_elsewhere));
	ck_assert(all(returning_late));
}

/* Likewise after a system call that never returns, or whose number is unknown. */
HT_TEST(behind_a_call_of_the_system)
{
	ck_need(bridge_is_supported());
	ck_assert(!all(ends_by_exit));
	ck_assert(!all(checking_by_exit));
	ck_assert(!all(checking_by_exit_of_thread));
	ck_assert(!all(calls_what_is_asked));
	ck_assert(!all(forgets_its_number));
	ck_assert(all(asks_for_memory));
}

HT_TEST(behind_what_traps)
{
	ck_need(bridge_is_supported());
	ck_assert(!all(halts));
	ck_assert(!all(traps_with_a_reason));
}

HT_TEST(unreadable_code)
{
	ck_assert(!clobbers_all(read_nothing, NULL, (raddr_t)(uintptr_t)by_word));
}

HT_SUITE("attach/plan/clobbers")
