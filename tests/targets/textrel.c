/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with a text relocation next to its entry point: the dynamic linker writes to that page
 * of code before the program begins. Exits with 0 if the relocated word is correct.
 */
#include <stdlib.h>

int number;

__asm__(".text\n"
	".globl relocated\n"
	".balign 8\n"
	"relocated: .quad number\n");
extern int *const relocated;

int main(void)
{
	free(malloc(100));
	return *(int *const volatile *)&relocated == &number ? 0 : 9;
}
