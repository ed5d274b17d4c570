/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with allocator slots of its own, of which `many` loads copies.
 */
#include <stdlib.h>

void module_pair(size_t bytes);

void module_pair(size_t bytes)
{
	void *volatile p = malloc(bytes);
	free(p);
}
