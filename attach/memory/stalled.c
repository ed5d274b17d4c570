/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/memory/stalled.h"

#include <stdlib.h>

#include "attach/helper/worker.h"
#include "attach/memory/slow.h"
#include "attach/proc/clock.h"

#define PATIENCE_NS	  (10 * CLOCK_NS_PER_S)
#define PATIENCE_LATER_NS (2 * CLOCK_NS_PER_S) /* shorter: heaptap receives no events */

struct files {
	const struct proc *proc;
	const struct proc_maps *maps;
};

static struct ht_err *touch_files(void *context, struct worker_reply *reply)
{
	const struct files *files = context;
	(void)reply;
	return slow_touch(files->proc, files->maps);
}

static struct ht_err *check(
	const struct proc *proc, const struct proc_maps *maps, uint64_t patience_ns)
{
	struct files files = {.proc = proc, .maps = maps};
	struct worker_reply reply;
	char *path;
	struct ht_err *err = slow_find(proc, maps, &path);
	if (err || !path)
		return err;
	err = worker_run(
		"reading mapped files", clock_mono_ns() + patience_ns, touch_files, &files, &reply);
	if (err && err->code == HT_ERR_REFUSED) {
		ht_err_free(err);
		err = ht_err_new(HT_ERR_REFUSED,
			"process %d maps files of a file system that does not answer, such as %s; "
			"try again when it does",
			proc->pid, path);
	}
	free(path);
	return err;
}

struct ht_err *stalled_read_maps(const struct proc *proc, struct proc_maps *ret)
{
	*ret = (struct proc_maps){0};
	struct ht_err *err = proc_maps_read(proc, ret);
	HT_THEN(err, check(proc, ret, PATIENCE_NS));
	if (err)
		proc_maps_deinit(ret);
	return err;
}

/* If a file system does not answer, this process avoids its mappings from now on. */
static struct ht_err *read_maps_later(
	const struct proc *proc, uint64_t patience_ns, struct proc_maps *ret)
{
	struct ht_err *err = proc_maps_read(proc, ret);
	if (err || slow_is_avoided())
		return err;
	err = check(proc, ret, patience_ns);
	if (!err)
		return NULL;
	proc_maps_deinit(ret);
	if (err->code != HT_ERR_REFUSED)
		return err;
	ht_err_free(err);
	slow_avoid();
	return proc_maps_read(proc, ret);
}

struct ht_err *stalled_read_maps_later(const struct proc *proc, struct proc_maps *ret)
{
	return read_maps_later(proc, PATIENCE_LATER_NS, ret);
}

struct ht_err *stalled_check(const struct proc *proc)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	return stalled_read_maps(proc, &maps);
}

struct ht_err *stalled_avoid(const struct proc *proc)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	return read_maps_later(proc, PATIENCE_NS, &maps);
}
