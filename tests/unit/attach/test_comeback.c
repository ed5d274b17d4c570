/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with a part elsewhere that jumps back into the first instructions of the function.
 */
#include "attach/plan/comeback.h"

#include <string.h>

#include "attach/inject/bridge.h"
#include "tests/support/ht_check.h"

#define FUNCTION(name, text, cold)                                                                 \
	__asm__(".pushsection .text\n.balign 16\n" #name ":\n" text "\n" #name "_end:\n"           \
		".space 64, 0xcc\n" #name "_cold:\n" cold "\nud2\n.popsection");                   \
	extern const uint8_t name[], name##_end[];

/* Instructions of one, three and five bytes: FIRST bytes. A jump may lead back to label 2. */
#define BEGINNING "push %rbx\n mov %rdi, %rbx\n mov $1, %eax\n 2: "
#define FIRST	  9u

FUNCTION(whole, BEGINNING "test %rax, %rax\n jz 2b\n pop %rbx\n ret", "")
FUNCTION(behind, BEGINNING "test %rax, %rax\n jz behind_cold\n 3: pop %rbx\n ret",
	"inc %eax\n jmp 3b")
FUNCTION(to_last, "push %rbx\n mov %rdi, %rbx\n 1: mov $1, %eax\n jz to_last_cold\n ret",
	"inc %edi\n jmp 1b")
FUNCTION(by_condition, "push %rbx\n 1: mov %rdi, %rbx\n mov $1, %eax\n jmp by_condition_cold",
	"dec %edi\n jnz 1b\n ret")
FUNCTION(by_another_part,
	"push %rbx\n 1: mov %rdi, %rbx\n mov $1, %eax\n jz by_another_part_cold\n ret",
	"jmp 3f\n .space 300, 0xcc\n 3: inc %edi\n jmp 1b")
FUNCTION(begins_anew, BEGINNING "jz begins_anew_cold\n ret", "inc %edi\n jmp begins_anew")
FUNCTION(calls, "push %rbx\n 1: mov %rdi, %rbx\n mov $1, %eax\n call calls_cold\n ret", "jmp 1b")

#define NOT_AN_INSTRUCTION ".byte 0x06"
FUNCTION(undecodable, BEGINNING "jz undecodable_cold\n ret", NOT_AN_INSTRUCTION)
FUNCTION(endless, BEGINNING "jz endless_cold\n ret", ".space 20000, 0x90\n ret")
/* The bytes behind the function's last call never run, so they need not be instructions. */
__asm__(".pushsection .text\nlast_call:\n" BEGINNING
	"call calls\nlast_call_end:\n" NOT_AN_INSTRUCTION "\n.popsection");
extern const uint8_t last_call[], last_call_end[];

static size_t read_own(void *context, raddr_t addr, uint8_t *buffer, size_t bytes)
{
	(void)context;
	memcpy(buffer, (const void *)(uintptr_t)addr, bytes);
	return bytes;
}

#define COMES_BACK(name)                                                                           \
	comeback_to(                                                                               \
		read_own, NULL, (raddr_t)(uintptr_t)(name), (size_t)(name##_end - (name)), FIRST)

HT_TEST(a_part_elsewhere_comes_back)
{
	ck_need(bridge_is_supported());
	ck_assert(COMES_BACK(to_last));
	ck_assert(COMES_BACK(by_condition));
	ck_assert(COMES_BACK(by_another_part));
}

HT_TEST(what_cannot_be_seen_whole_comes_back)
{
	ck_need(bridge_is_supported());
	ck_assert(COMES_BACK(undecodable));
	ck_assert(COMES_BACK(endless));
}

/* bridge.c checks the jumps within a function; a call leads to another function. */
HT_TEST(nobody_comes_back)
{
	ck_need(bridge_is_supported());
	ck_assert(!COMES_BACK(whole));
	ck_assert(!COMES_BACK(behind));
	ck_assert(!COMES_BACK(begins_anew));
	ck_assert(!COMES_BACK(calls));
	ck_assert(!COMES_BACK(last_call));
}

HT_SUITE("attach/plan/comeback")
