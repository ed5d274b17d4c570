/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/loads.h"

#include "attach/elf/linkmap.h"
#include "attach/got/unlock.h"
#include "attach/proc/clock.h"

#define BUSY_NS CLOCK_NS_PER_S

static const struct module *find_linker(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].interpreter)
			return &modules->module[i];
	return NULL;
}

static bool is_loaded_hooked(const struct slots *slots)
{
	for (size_t i = 0; i < slots->count; i++)
		if (slots->slot[i].hook == ABI_GUARD_LOADED && slots->slot[i].real)
			return true;
	return false;
}

void loads_configure(struct loads *loads, const struct survey *survey, const struct image *image,
	uint64_t wait_cycles)
{
	struct abi_config *config = image_config(image);
	const struct module *linker = find_linker(&survey->modules);
	raddr_t list = linkmap_head(&survey->proc, &survey->modules);
	struct unlock_locks locks;

	*loads = (struct loads){.image = image};
	if (!linker || !is_loaded_hooked(&survey->slots) || list < linker->lo || list >= linker->hi)
		return;
	struct ht_err *err = unlock_locks(&survey->proc, &survey->modules, &locks);
	if (err || !locks.lists) {
		ht_err_free(err);
		return;
	}
	loads->see_constructors = locks.before_constructors;
	config->load_lists_lock = locks.lists;
	config->load_done_lock = locks.done;
	config->linker_lo = linker->lo;
	config->linker_hi = linker->hi;
	config->load_list = list;
	config->load_cycles_max = wait_cycles;
}

void loads_listen(const struct loads *loads, bool listens)
{
	struct abi_config *config = image_config(loads->image);
	__atomic_store_n(
		&config->load_listens, listens && config->load_list ? 1 : 0, __ATOMIC_RELEASE);
}

bool loads_asked(const struct loads *loads, uint64_t *ret)
{
	*ret = __atomic_load_n(&image_control(loads->image)->load_asks, __ATOMIC_ACQUIRE);
	return *ret != loads->answered;
}

bool loads_see_constructors(const struct loads *loads)
{
	return loads->see_constructors;
}

bool loads_come(const struct loads *loads)
{
	const struct abi_control *control = image_control(loads->image);
	uint64_t question;
	return __atomic_load_n(&control->load_adding, __ATOMIC_ACQUIRE) != 0 ||
	       loads_asked(loads, &question);
}

bool loads_are_busy(const struct loads *loads)
{
	return clock_mono_ns() < loads->busy_until_ns;
}

/* Returns how many threads' waits have timed out since the last call. */
static uint64_t late_since(struct loads *loads)
{
	uint64_t late = __atomic_load_n(&image_control(loads->image)->load_late, __ATOMIC_ACQUIRE);
	uint64_t more = late - loads->late;
	loads->late = late;
	/* The target can write this word. */
	return more > UINT32_MAX ? 1 : more;
}

bool loads_tapped(struct loads *loads)
{
	loads->in_vain += late_since(loads);
	return loads->in_vain != 0;
}

void loads_answer(struct loads *loads, uint64_t number)
{
	loads->answered = number;
	loads->busy_until_ns = clock_mono_ns() + BUSY_NS;
	__atomic_store_n(&image_control(loads->image)->load_seen, number, __ATOMIC_RELEASE);
}

void loads_answer_early(struct loads *loads, uint64_t number)
{
	loads->early = number;
	loads_answer(loads, number);
}

uint64_t loads_count(struct loads *loads, uint64_t number, uint64_t counted)
{
	uint64_t asks = __atomic_load_n(&image_control(loads->image)->load_asks, __ATOMIC_ACQUIRE);
	uint64_t more = loads->in_vain > counted ? loads->in_vain - counted : 0;

	loads->in_vain = 0;
	/* These waits timed out after the last look, whose slots are hooked, so they are not late;
	 * unless a library was loaded since, which no look has found yet. */
	if (loads->early != number && asks == number)
		(void)late_since(loads);
	return more;
}

uint64_t loads_end(struct loads *loads)
{
	return late_since(loads);
}
