/* SPDX-License-Identifier: Apache-2.0
 *
 * Between commands the only thread makes no system call, so heaptap must run its stub in this
 * thread. The thread holds canaries in all its state: general registers, flags, red zone, x87 with
 * its control word, vector registers. A command comes with SIGIO: then the thread compares all of
 * them, and the program ends with "WRONG" if anything differs.
 */
#include <cpuid.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/targets/speak.h"

#define AREA_BYTES   16384 /* of XSAVE; 11,008 with AMX tiles, which are not used here */
#define COMPONENTS   0xe7  /* x87, SSE, AVX, and the three parts of AVX-512 */
#define FIRST_BEYOND 2	   /* the first component outside of FXSAVE's area */
#define LAST	     7
#define FLAGS	     0xcd7 /* all status flags, DF, and bit 1, which is always 1 */
#define ZONE_WORDS   16
#define REGISTERS    14 /* all but rsp, and rcx, which ends the loop */
#define ZONE_WORD    0x1122334400000000u
#define REGISTER     0x8877665500000000u

enum area { FRESH, PATTERN, BEFORE, AFTER, AREAS };

_Alignas(64) uint8_t canaries_area[AREAS][AREA_BYTES];
uint64_t canaries_zone[ZONE_WORDS], canaries_register[REGISTERS], canaries_flags;
uint64_t canaries_asked;
uint32_t canaries_mask;
void canaries_hold(void);

/* From popfq on no instruction changes a flag, until pushfq. */
__asm__(".set area, canaries_area\n"
	".set area_bytes, 16384\n"
	".text\n"
	"canaries_hold:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	mov canaries_mask(%rip), %eax\n"
	"	xor %edx, %edx\n"
	"	xrstor64 area+1*area_bytes(%rip)\n"
	"	xsave64 area+2*area_bytes(%rip)\n"
	"	pushq canaries_flags(%rip)\n"
	"	popfq\n"
	"	.set n, 0\n"
	"	.rept 16\n"
	"	movabs $0x1122334400000000+n, %rax\n"
	"	mov %rax, -128+8*n(%rsp)\n"
	"	.set n, n+1\n"
	"	.endr\n"
	"	.set n, 0\n"
	"	.irp r, rax, rbx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	movabs $0x8877665500000000+n, %\\r\n"
	"	.set n, n+1\n"
	"	.endr\n"
	"1:	mov canaries_asked(%rip), %rcx\n"
	"	jrcxz 1b\n"
	"	.set n, 0\n"
	"	.irp r, rax, rbx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov %\\r, canaries_register+8*n(%rip)\n"
	"	.set n, n+1\n"
	"	.endr\n"
	"	.set n, 0\n"
	"	.rept 16\n"
	"	mov -128+8*n(%rsp), %rax\n"
	"	mov %rax, canaries_zone+8*n(%rip)\n"
	"	.set n, n+1\n"
	"	.endr\n"
	"	pushfq\n"
	"	popq canaries_flags(%rip)\n"
	"	cld\n"
	"	mov canaries_mask(%rip), %eax\n"
	"	xor %edx, %edx\n"
	"	xsave64 area+3*area_bytes(%rip)\n"
	"	xrstor64 area(%rip)\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbp\n	pop %rbx\n"
	"	ret\n");

static void on_input(int signal)
{
	(void)signal;
	canaries_asked = 1;
}

static void fill(uint8_t *area, unsigned at, unsigned end)
{
	for (; at < end && end <= AREA_BYTES; at++)
		area[at] = (uint8_t)(at * 7 + 1);
}

/* Fills the XSAVE area in the processor's layout. All exceptions of SSE and x87 stay masked; both
 * have unusual rounding modes. */
static void prepare(void)
{
	static const uint16_t control = 0x0f7f;
	static const uint32_t usual_mxcsr = 0x1f80, mxcsr = 0x7fc0;
	uint8_t *area = canaries_area[PATTERN];
	unsigned eax, ebx, ecx, edx;
	uint64_t has = 0;
	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
		speak_fail("the processor has no XSAVE");
	__cpuid_count(0xd, 0, eax, ebx, ecx, edx);
	canaries_mask = eax & COMPONENTS;
	has = canaries_mask;
	memcpy(canaries_area[FRESH] + 24, &usual_mxcsr, sizeof(usual_mxcsr));
	fill(area, 32, 416);
	memcpy(area, &control, sizeof(control));
	area[4] = 0xff; /* no register of x87 is empty */
	memcpy(area + 24, &mxcsr, sizeof(mxcsr));
	memcpy(area + 512, &has, sizeof(has));
	for (unsigned i = FIRST_BEYOND; i <= LAST; i++)
		if (has >> i & 1) {
			__cpuid_count(0xd, i, eax, ebx, ecx, edx);
			fill(area, ebx, ebx + eax);
		}
}

static void check(void)
{
	if (!canaries_asked)
		speak_fail("rcx changed");
	if ((canaries_flags & FLAGS) != FLAGS)
		speak_fail("the flags changed");
	for (unsigned i = 0; i < REGISTERS; i++)
		if (canaries_register[i] != REGISTER + i)
			speak_fail("general register %u changed", i);
	for (unsigned i = 0; i < ZONE_WORDS; i++)
		if (canaries_zone[i] != ZONE_WORD + i)
			speak_fail("the red zone changed");
	for (unsigned i = 0; i < AREA_BYTES; i++)
		/* Not the x87 instruction and data pointers (bytes 6 to 23), which processors need
		 * not keep without an exception. */
		if ((i < 6 || i >= 24) && canaries_area[BEFORE][i] != canaries_area[AFTER][i])
			speak_fail("x87 or vector registers changed: byte %u of XSAVE", i);
}

static void answer(void)
{
	char line[64];
	ssize_t length = read(STDIN_FILENO, line, sizeof(line) - 1);
	if (length <= 0)
		_exit(0);
	line[length] = '\0';
	if (!strcmp(line, "stop\n"))
		_exit(0);
	speak_add("pong");
	speak_send();
}

int main(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct sigaction action = {.sa_handler = on_input, .sa_flags = SA_RESTART};
	free(malloc(1));
	prepare();
	sigaction(SIGIO, &action, NULL);
	if (fcntl(STDIN_FILENO, F_SETOWN, getpid()) ||
		fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_ASYNC))
		speak_fail("no SIGIO: errno %d", errno);
	speak_ready();
	for (;;) {
		canaries_asked = 0;
		while (poll(&input, 1, 0) > 0)
			answer();
		canaries_flags = FLAGS;
		canaries_hold();
		check();
	}
}
