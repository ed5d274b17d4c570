/* SPDX-License-Identifier: Apache-2.0
 *
 * The GOT slots and the modules of a process.
 */
#pragma once

#include <string.h>

#include "attach/elf/modules.h"
#include "attach/got/slots.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

struct view {
	struct proc proc;
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
};

static inline struct view view_of(pid_t pid, raddr_t thunk_lo, raddr_t thunk_hi)
{
	struct view view;
	ck_no_err(proc_open(pid, &view.proc));
	ck_no_err(proc_open_mem(&view.proc));
	ck_no_err(proc_maps_read(&view.proc, &view.maps));
	ck_no_err(modules_read(&view.proc, &view.maps, &view.modules));
	ck_no_err(slots_read(&view.proc, &view.modules, thunk_lo, thunk_hi, true, &view.slots));
	return view;
}

static inline void view_deinit(struct view *view)
{
	slots_deinit(&view->slots);
	modules_deinit(&view->modules);
	proc_maps_deinit(&view->maps);
	proc_close(&view->proc);
}

static inline const struct slot *slot_at(const struct view *view, raddr_t addr)
{
	for (size_t i = 0; i < view->slots.count; i++)
		if (view->slots.slot[i].addr == addr)
			return &view->slots.slot[i];
	return NULL;
}

static inline const struct module *module_named(const struct view *view, const char *part)
{
	for (size_t i = 0; i < view->modules.count; i++)
		if (strstr(view->modules.module[i].path, part))
			return &view->modules.module[i];
	ck_abort_msg("no module %s", part);
}
