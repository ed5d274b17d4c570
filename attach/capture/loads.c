/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/loads.h"

#include "attach/capture/bring_in.h"
#include "attach/elf/linkmap.h"
#include "attach/got/unlock.h"
#include "attach/proc/clock.h"

#define WAIT_MAX_NS (100 * CLOCK_NS_PER_MS)
#define BUSY_NS	    CLOCK_NS_PER_S

static const struct module *find_linker(const struct session *s)
{
	const struct modules *modules = &s->survey.modules;
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].interpreter)
			return &modules->module[i];
	return NULL;
}

static bool is_loaded_hooked(const struct session *s)
{
	const struct slots *slots = &s->survey.slots;
	for (size_t i = 0; i < slots->count; i++)
		if (slots->slot[i].hook == ABI_GUARD_LOADED && slots->slot[i].real)
			return true;
	return false;
}

void loads_configure(struct session *s, struct abi_config *config)
{
	const struct module *linker = find_linker(s);
	raddr_t list = linkmap_head(&s->survey.proc, &s->survey.modules);
	struct unlock_locks locks;

	s->loads = (struct loads){0};
	if (!linker || !is_loaded_hooked(s) || list < linker->lo || list >= linker->hi)
		return;
	struct ht_err *err = unlock_locks(&s->survey.proc, &s->survey.modules, &locks);
	if (err || !locks.lists) {
		ht_err_free(err);
		return;
	}
	s->loads.see_constructors = locks.before_constructors;
	config->load_lists_lock = locks.lists;
	config->load_done_lock = locks.done;
	config->linker_lo = linker->lo;
	config->linker_hi = linker->hi;
	config->load_list = list;
	config->load_cycles_max = bring_in_cycles(s, WAIT_MAX_NS);
}

void loads_listen(struct session *s, bool listens)
{
	struct abi_config *config = image_config(&s->image);
	__atomic_store_n(
		&config->load_listens, listens && config->load_list ? 1 : 0, __ATOMIC_RELEASE);
}

bool loads_asked(const struct session *s, uint64_t *ret)
{
	*ret = __atomic_load_n(&image_control(&s->image)->load_asks, __ATOMIC_ACQUIRE);
	return *ret != s->loads.answered;
}

bool loads_see_constructors(const struct session *s)
{
	return s->loads.see_constructors;
}

bool loads_come(const struct session *s)
{
	const struct abi_control *control = image_control(&s->image);
	uint64_t question;
	return __atomic_load_n(&control->load_adding, __ATOMIC_ACQUIRE) != 0 ||
	       loads_asked(s, &question);
}

bool loads_are_busy(const struct session *s)
{
	return clock_mono_ns() < s->loads.busy_until_ns;
}

/* Those that have waited in vain since the last time. */
static uint64_t late_since(struct session *s)
{
	uint64_t late = __atomic_load_n(&image_control(&s->image)->load_late, __ATOMIC_ACQUIRE);
	uint64_t more = late - s->loads.late;
	s->loads.late = late;
	/* The word is the target's. */
	return more > UINT32_MAX ? 1 : more;
}

bool loads_tapped(struct session *s)
{
	s->loads.in_vain += late_since(s);
	return s->loads.in_vain != 0;
}

void loads_answer(struct session *s, uint64_t number)
{
	s->loads.answered = number;
	s->loads.busy_until_ns = clock_mono_ns() + BUSY_NS;
	__atomic_store_n(&image_control(&s->image)->load_seen, number, __ATOMIC_RELEASE);
}

void loads_answer_early(struct session *s, uint64_t number)
{
	s->loads.early = number;
	loads_answer(s, number);
}

void loads_count(struct session *s, uint64_t number, uint64_t counted)
{
	uint64_t asks = __atomic_load_n(&image_control(&s->image)->load_asks, __ATOMIC_ACQUIRE);

	if (s->loads.in_vain > counted)
		s->report->untapped_modules += s->loads.in_vain - counted;
	s->loads.in_vain = 0;
	/* The slots of these were hooked when their wait ended; unless they have loaded something
	 * else since, which no look has found yet. */
	if (s->loads.early != number && asks == number)
		(void)late_since(s);
}

void loads_end(struct session *s)
{
	s->report->untapped_modules += late_since(s);
}
