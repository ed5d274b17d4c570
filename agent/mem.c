/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions to which a compiler may emit implicit calls. The hosted build takes libc's.
 */
#include "format/base.h"

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *to, const void *from, size_t bytes)
{
	void *at = to;
	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	void *at = to;
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
	return to;
}
