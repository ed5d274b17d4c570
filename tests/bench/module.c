/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with its own GOT slots of malloc and free. bench/many loads copies of it.
 */
#include <stdlib.h>

void module_pair(size_t bytes);

void module_pair(size_t bytes)
{
	void *volatile p = malloc(bytes);
	free(p);
}
