/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/target/clock.h"
#include "format/abi_control.h"

static struct ht_err *check_pid(pid_t pid)
{
	if (pid == getpid())
		return ht_err_new(HT_ERR_REFUSED, "process %d is heaptap itself", pid);
	return NULL;
}

static void name_process(pid_t pid, char comm[64])
{
	struct proc other;
	struct proc_status status;
	struct ht_err *err = proc_open(pid, &other);

	snprintf(comm, 64, "?");
	if (!err) {
		err = proc_status(&other, 0, &status);
		if (!err)
			memcpy(comm, status.comm, sizeof(status.comm));
		proc_close(&other);
	}
	ht_err_free(err);
}

static struct ht_err *check_status(pid_t pid, const struct proc_status *status)
{
	if (status->tracer != 0) {
		char comm[64];
		name_process(status->tracer, comm);
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is traced by process %d (%s); end that first", pid,
			status->tracer, comm);
	}
	if (status->state == 'T')
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is stopped; continue it first (kill -CONT %d)", pid, pid);
	if (status->seccomp == 1)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d runs under strict seccomp, which leaves no safe way in", pid);
	if (status->shadow_stack)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d uses a shadow stack (CET), which is not supported yet", pid);
	return NULL;
}

static struct ht_err *check_threads(const struct proc *proc, struct survey *survey)
{
	struct proc_tids tids;
	struct ht_err *err = proc_tids_read(proc, &tids);
	if (err)
		return err;
	for (size_t i = 0; !err && i < tids.count; i++) {
		struct proc_status status;
		struct ht_err *gone = proc_status(proc, tids.tid[i], &status);
		if (gone) {
			ht_err_free(gone);
			continue;
		}
		survey->any_seccomp |= status.seccomp != 0;
		if (status.tracer != 0)
			err = check_status(proc->pid, &status);
	}
	proc_tids_deinit(&tids);
	return err;
}

/* The kernel ends a process that makes a file longer than its limit, and the agent's memory is a
 * file that the process makes. */
static struct ht_err *check_file_size(const struct proc *proc)
{
	uint64_t need = abi_image_bytes(ABI_SLOT_MAX);
	if (proc_limit(proc, "Max file size") >= need)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"process %d may not make a file of %lu MiB, which the agent needs (ulimit -f); "
		"raise "
		"that first: prlimit --pid %d --fsize=unlimited:unlimited",
		proc->pid, (unsigned long)(need >> 20), proc->pid);
}

static struct ht_err *refuse_without_slots(const struct survey *survey)
{
	char *allocators;
	struct ht_err *err = slots_static_allocators(&survey->proc, &survey->modules, &allocators);
	if (err)
		return err;
	bool named = allocators[0] != '\0';
	err = ht_err_new(HT_ERR_REFUSED,
		"process %d calls its allocator directly%s%s%s: it is linked in statically, and "
		"there is no "
		"slot to tap",
		survey->proc.pid, named ? " (" : "", allocators, named ? ")" : "");
	free(allocators);
	return err;
}

static struct ht_err *check_found(const struct survey *survey)
{
	if (!survey->found.image)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is already tapped, by heaptap %d; stop that one, or run heaptap "
		"recover -p %d if "
		"it is dead",
		survey->proc.pid, survey->found.daemon_pid, survey->proc.pid);
}

static void count_slots(struct survey *survey)
{
	survey->tap_count = survey->foreign_count = survey->unresolved_count = 0;
	for (size_t i = 0; i < survey->slots.count; i++) {
		enum slot_verdict verdict = survey->slots.slot[i].verdict;
		survey->tap_count += verdict == SLOT_TAP;
		survey->foreign_count += verdict == SLOT_FOREIGN;
		survey->unresolved_count += verdict == SLOT_UNRESOLVED;
	}
}

static struct ht_err *read_contents(struct survey *survey)
{
	struct ht_err *err = proc_maps_read(&survey->proc, &survey->maps);
	if (!err)
		err = modules_check_machine(&survey->proc, &survey->maps);
	if (!err)
		err = modules_read(&survey->proc, &survey->maps, &survey->modules);
	if (!err)
		err = recover_find(&survey->proc, &survey->found);
	if (!err)
		err = check_found(survey);
	if (!err)
		err = slots_read(&survey->proc, &survey->modules, 0, 0, &survey->slots);
	if (err)
		return err;
	count_slots(survey);
	return survey->tap_count + survey->unresolved_count ? NULL : refuse_without_slots(survey);
}

struct ht_err *survey_take(pid_t pid, struct survey *ret)
{
	struct survey survey = {0};
	struct ht_err *err = check_pid(pid);

	if (err)
		return err;
	err = proc_open(pid, &survey.proc);
	if (err)
		return err;
	err = proc_status(&survey.proc, 0, &survey.status);
	if (!err)
		err = check_status(pid, &survey.status);
	if (!err)
		err = proc_open_mem(&survey.proc);
	if (!err)
		err = check_file_size(&survey.proc);
	if (!err)
		err = check_threads(&survey.proc, &survey);
	if (!err)
		err = read_contents(&survey);
	if (err)
		survey_deinit(&survey);
	else
		*ret = survey;
	return err;
}

void survey_deinit(struct survey *survey)
{
	slots_deinit(&survey->slots);
	modules_deinit(&survey->modules);
	proc_maps_deinit(&survey->maps);
	proc_close(&survey->proc);
}

struct ht_err *survey_refresh(struct survey *survey, raddr_t thunk_lo, raddr_t thunk_hi)
{
	struct proc_maps maps;
	struct modules modules;
	struct slots slots;
	struct ht_err *err = proc_maps_read(&survey->proc, &maps);
	if (err)
		return err;
	err = modules_reread(&survey->proc, &maps, &survey->modules, &modules);
	if (err) {
		proc_maps_deinit(&maps);
		return err;
	}
	err = slots_read(&survey->proc, &modules, thunk_lo, thunk_hi, &slots);
	if (err) {
		modules_deinit(&modules);
		proc_maps_deinit(&maps);
		return err;
	}
	slots_deinit(&survey->slots);
	modules_deinit(&survey->modules);
	proc_maps_deinit(&survey->maps);
	survey->maps = maps;
	survey->modules = modules;
	survey->slots = slots;
	count_slots(survey);
	return NULL;
}
