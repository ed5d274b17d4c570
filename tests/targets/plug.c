/* SPDX-License-Identifier: Apache-2.0
 *
 * libplug.so, which plughost and others load: it allocates `count` blocks and frees them.
 */
#include <stdlib.h>

void plug_work(unsigned long count);

void plug_work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *volatile ptr = malloc(333);
		free(ptr);
	}
}
