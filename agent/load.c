/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/load.h"

#include "agent/config.h"
#include "agent/gate.h"
#include "agent/sys.h"

#define LOAD_STEP_NS  200000
#define LOAD_LISTS    16u /* namespaces: glibc has 16 */
#define LOAD_EXTENDED 2	  /* version of the list from which on `next` exists */

/* struct r_debug_extended of <link.h>. */
struct load_list {
	int32_t version;
	uint64_t map, brk;
	int32_t state;
	uint64_t ldbase, next;
};

#define LOAD_DELETING 2

/* Whether the dynamic linker is unloading a library in any namespace. The lists can be read at any
 * time: they lie in the linker's module, which stays mapped. */
static bool is_deleting(const struct abi_config *config)
{
	uint64_t at = config->load_list;
	for (unsigned i = 0; i < LOAD_LISTS; i++) {
		uint64_t room = config->linker_hi - config->linker_lo - sizeof(struct load_list);
		if (at % sizeof(uint64_t) || at - config->linker_lo > room)
			break;
		const struct load_list *list = (const struct load_list *)at;
		if (load_relaxed(&list->state) == LOAD_DELETING)
			return true;
		at = load_relaxed(&list->version) >= LOAD_EXTENDED ? load_relaxed(&list->next) : 0;
	}
	return false;
}

static bool is_listening(const struct abi_config *config)
{
	return config_recording(config) && load_acquire(&config->load_listens) &&
	       !load_acquire(&config->stop);
}

static void ask(const struct abi_config *config)
{
	struct abi_control *control = config_control(config);
	uint64_t number = fetch_add(&control->load_asks, 1) + 1;
	uint64_t tick = load_acquire(&control->tick), began = sys_tsc_early();
	bool has_stopped = tick && tick == load_relaxed(&control->load_tick);
	while (!has_stopped && (int64_t)(load_acquire(&control->load_seen) - number) < 0) {
		if (!is_listening(config))
			return;
		if (sys_tsc_early() - began > config->load_cycles_max) {
			if (load_acquire(&control->tick) == tick)
				store_release(&control->load_tick, tick);
			has_stopped = true;
		} else if (gate_enter_by(config, &control->load_calling)) {
			sys_wait_writable(-1, (struct sys_timespec){.nsec = LOAD_STEP_NS});
			store_release(&control->load_calling, 0);
		} else {
			sys_pause();
		}
	}
	if (has_stopped)
		fetch_add(&control->load_late, 1);
}

/*
 * glibc unlocks its lists after it has added a library, and another lock after it has relocated all
 * added libraries: before their constructors run (2.35), or at the end of dlopen. The thread waits
 * at this second unlock.
 */
void guard_load(uint64_t lock, const struct abi_thunk *self)
{
	const struct abi_config *config = config_of(self);
	struct abi_control *control = config_control(config);
	uint64_t thread = sys_thread_pointer();
	bool is_lists = lock == config->load_lists_lock, is_done = lock == config->load_done_lock;

	if ((!is_lists && !is_done) || !is_listening(config))
		return;
	if (is_deleting(config)) {
		/* A failing dlopen removes the libraries that it has added. */
		if (load_relaxed(&control->load_adding) == thread)
			store_release(&control->load_adding, 0);
	} else if (is_lists) {
		store_release(&control->load_adding, thread);
	} else if (load_relaxed(&control->load_adding) == thread) {
		store_release(&control->load_adding, 0);
		ask(config);
	}
}
