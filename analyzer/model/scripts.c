/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/scripts.h"

#include <stdlib.h>

#include "analyzer/model/array.h"
#include "format/abi_control.h"

void scripts_deinit(struct scripts *scripts)
{
	free(scripts->until_tsc);
	*scripts = (struct scripts){0};
}

struct ht_err *scripts_take(struct scripts *scripts, const struct rec_scripts *rec)
{
	uint64_t generation = rec->generation;
	if (generation > ABI_SCRIPTS_MAX)
		return NULL;
	HT_TRY(array_reserve(&scripts->until_tsc, &scripts->capacity, generation + 1,
		sizeof(*scripts->until_tsc), "generations of functions"));
	if (scripts->until_tsc[generation] < rec->until_tsc)
		scripts->until_tsc[generation] = rec->until_tsc;
	return NULL;
}

bool scripts_hold(const struct scripts *scripts, uint16_t generation, uint64_t tsc)
{
	return generation < scripts->capacity && tsc < scripts->until_tsc[generation];
}
