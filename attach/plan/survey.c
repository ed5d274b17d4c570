/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/stub/remote.h"
#include "attach/memory/stalled.h"
#include "attach/plan/given_report.h"
#include "attach/proc/clock.h"
#include "attach/proc/permission.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/cgroup.h"
#include "attach/process/lock.h"
#include "attach/process/proc_open.h"
#include "attach/process/room.h"
#include "format/abi_control.h"
#include "format/array.h"
#include "format/foreign.h"

#define SECCOMP_STRICT	  1 /* as in proc_status.seccomp */
#define MIB		  (1ul << 20)
#define DESCRIPTORS_SPARE 16u /* the stub needs four, and the target may need some meanwhile */
#define MAPPINGS_SPARE	  64u /* the image has eight, and entry hooks need up to 20 */
/* The most memory that a capture uses in the target's name: for stacks, and for buffers per
 * thread. */
#define COMMON_BYTES (ABI_DEEP_OFF - ABI_TABLE_OFF - ABI_FUNCTIONS_BYTES)
#define THREAD_BYTES ABI_SLOT_BYTES

#define LOADING_PATIENCE_NS (CLOCK_NS_PER_S / 10)

static struct ht_err *check_pid(pid_t pid)
{
	if (pid == getpid())
		return ht_err_new(HT_ERR_REFUSED, "process %d is heaptap itself", pid);
	return NULL;
}

static void name_process(pid_t pid, char comm[64])
{
	struct proc_status status;
	bool unknown = ht_err_drop(proc_status_of(pid, &status));
	snprintf(comm, 64, "%s", unknown ? "?" : status.comm);
}

static struct ht_err *check_status(const struct proc *proc, const struct proc_status *status)
{
	pid_t pid = proc->pid;

	if (status->tracer != 0) {
		char comm[64];
		name_process(status->tracer, comm);
		/* The guardian of the tracing heaptap may hold a thread for a while: do not advise
		 * the user to end it. */
		if (!strncmp(comm, "heaptap", strlen("heaptap")) && lock_is_held(proc))
			return lock_refuse(proc);
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is traced by process %d (%s); end that first", pid,
			status->tracer, comm);
	}
	if (status->state == 'T')
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is stopped; continue it first (kill -CONT %d)", pid, pid);
	if (status->seccomp == SECCOMP_STRICT)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d runs under strict seccomp, which forbids every system call "
			"that heaptap needs",
			pid);
	if (status->shadow_stack)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d uses a shadow stack (CET), which is not supported yet", pid);
	return NULL;
}

/* A frozen process would stop on request, but then run nothing. */
static struct ht_err *check_frozen(const struct proc *proc)
{
	if (!cgroup_is_frozen(proc))
		return NULL;
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is frozen (freezer of its control group); thaw it first", proc->pid);
}

static struct ht_err *check_threads(const struct proc *proc, struct survey *survey)
{
	HT_CLEANUP(proc_tids_deinit) struct proc_tids tids = {0};
	HT_TRY(proc_tids_read(proc, &tids));
	for (size_t i = 0; i < tids.count; i++) {
		struct proc_status status;
		bool lives;
		HT_TRY(proc_status_listed(proc, tids.tid[i], &status, &lives));
		if (!lives)
			continue;
		survey->any_seccomp |= status.seccomp != 0;
		/* Strict mode forbids the thread the clock that the agent reads. */
		if (status.tracer != 0 || status.seccomp == SECCOMP_STRICT)
			HT_TRY(check_status(proc, &status));
	}
	return NULL;
}

static struct ht_err *check_space(pid_t pid, const struct room *room)
{
	uint64_t image = abi_image_bytes(ABI_SLOT_MAX);

	/* The kernel ends a process that makes a file longer than its limit, and the agent's memory
	 * is a file that the process makes. */
	if (room->file_bytes < image)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d may not make a file of %lu MiB, which heaptap needs (ulimit "
			"-f); raise that first: prlimit --pid %d --fsize=unlimited:unlimited",
			pid, image / MIB, pid);
	/* As much again must stay free, so that the target does not miss what heaptap reserves. */
	if (room->address_bytes < 2 * image)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d may map only %lu MiB more (ulimit -v), and heaptap reserves "
			"%lu MiB of its address space; raise that first: prlimit --pid %d "
			"--as=unlimited",
			pid, room->address_bytes / MIB, image / MIB, pid);
	if (room->data_bytes < MIB)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d has used up its limit on data (ulimit -d); raise that first: "
			"prlimit --pid %d --data=unlimited",
			pid, pid);
	if (room->locked_bytes < 2 * image)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d locks its memory (mlockall) and may lock only %lu MiB more "
			"(ulimit -l), and heaptap reserves %lu MiB of its address space; raise "
			"that first: prlimit --pid %d --memlock=unlimited",
			pid, room->locked_bytes / MIB, image / MIB, pid);
	return NULL;
}

uint64_t survey_memory_bytes(const struct survey *survey)
{
	uint64_t threads = survey->status.threads;
	uint64_t deep = threads < ABI_DEEP_COUNT ? threads : ABI_DEEP_COUNT;
	return COMMON_BYTES + threads * THREAD_BYTES + deep * ABI_DEEP_BYTES;
}

static struct ht_err *check_room(const struct survey *survey)
{
	pid_t pid = survey->proc.pid;
	uint64_t memory = survey_memory_bytes(survey);
	struct room room;
	HT_TRY(room_read(&survey->proc, &survey->maps, &room));

	HT_TRY(check_space(pid, &room));
	if (room.descriptors < DESCRIPTORS_SPARE)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d may open only %lu more descriptors (ulimit -n), and %u are "
			"needed; raise that first: prlimit --pid %d --nofile=NUMBER",
			pid, (unsigned long)room.descriptors, DESCRIPTORS_SPARE, pid);
	if (room.mappings < MAPPINGS_SPARE)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d has %zu mappings, nearly as many as the kernel allows "
			"(vm.max_map_count); raise that first: sysctl vm.max_map_count=NUMBER",
			pid, survey->maps.count);
	if (room.memory_bytes < memory)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d may use only %lu MiB more of memory (memory limit of its "
			"control group), and a capture may take %lu MiB there; raise that limit "
			"first",
			pid, room.memory_bytes / MIB, memory / MIB);
	/* As much again must stay free, for the target and for new threads. */
	if (room.commit_bytes < 2 * memory)
		return ht_err_new(HT_ERR_REFUSED,
			"the system promises its processes only %lu MiB more of memory "
			"(vm.overcommit_memory=2), and a capture of process %d may take %lu MiB; "
			"raise vm.overcommit_ratio first",
			room.commit_bytes / MIB, pid, memory / MIB);
	return NULL;
}

static struct ht_err *refuse_without_slots(const struct survey *survey)
{
	HT_FREED char *unseen = coverage_unseen(&survey->coverage);
	bool named = unseen && unseen[0];
	return ht_err_new(HT_ERR_REFUSED,
		"process %d calls its allocator directly%s%s%s: it is linked in statically; record "
		"such calls with --hook auto",
		survey->proc.pid, named ? " (" : "", named ? unseen : "", named ? ")" : "");
}

/* An emulator maps libraries of its guest, which the processor does not run: the guest would call
 * thunks that the emulator does not know, and the emulator might map over the image. */
static struct ht_err *check_linked(const struct survey *survey)
{
	const struct module *strange = modules_first_foreign(&survey->modules);
	char path[160];
	if (!strange)
		return NULL;
	foreign_copy(path, sizeof(path), strange->path);
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is statically linked, but its own C library did not load %s: the "
		"process emulates the program that uses this file (valgrind), loads it by other "
		"means, or has no symbols (stripped)",
		survey->proc.pid, path[0] ? path : "code without a name");
}

/* Does the static program have an allocator that is known by its names? */
static bool is_named(const struct survey *survey)
{
	for (size_t i = 0; i < survey->coverage.count; i++)
		if (survey->coverage.function[i].native->role == FAMILY_HOOKED &&
			survey->coverage.function[i].module->executable)
			return true;
	return false;
}

/* Names an allocator of the program for which there are no hooks; NULL: none is known. Functions
 * that a program may have beside other allocators (operator new, Rust's) do not count. */
static const char *other_allocator(const struct survey *survey)
{
	for (size_t i = 0; i < survey->coverage.count; i++) {
		const struct family *family = survey->coverage.function[i].native->family;
		if (survey->coverage.function[i].module->executable && !family->hooked &&
			!family->everywhere && !family->given)
			return family->allocator;
	}
	return NULL;
}

static struct ht_err *refuse_without_names(const struct survey *survey)
{
	const char *other = other_allocator(survey);
	if (other)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is statically linked, and its symbols name only one allocator, "
			"%s, which heaptap does not record (for Go use pprof)",
			survey->proc.pid, other);
	return ht_err_new(HT_ERR_REFUSED,
		"process %d is statically linked, and its file has no symbols that name its "
		"allocator (stripped?)",
		survey->proc.pid);
}

struct ht_err *survey_check_tapped(const struct proc *proc, struct ourmaps *ret)
{
	HT_TRY(ourmaps_read(proc, ret));
	if (ret->image)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is already recorded by heaptap %d; stop that one, or run "
			"heaptap recover -p %d if it has ended",
			proc->pid, ret->daemon_pid, proc->pid);
	return NULL;
}

static struct ht_err *check_stub(const struct survey *survey)
{
	struct choose_slack place;

	/* A stub is left, in which a thread may still be. */
	return remote_find_stub(&survey->proc, &survey->modules, &survey->maps, &place)
		       ? remote_slack_refuse(&survey->proc)
		       : NULL;
}

static void count_slots(struct survey *survey)
{
	survey->tap_count = survey->foreign_count = survey->unresolved_count = 0;
	for (size_t i = 0; i < survey->slots.count; i++) {
		enum slot_verdict verdict = survey->slots.slot[i].verdict;
		if (!abi_is_allocator(survey->slots.slot[i].hook))
			continue;
		survey->tap_count += verdict == SLOT_TAP;
		survey->foreign_count += verdict == SLOT_FOREIGN;
		survey->unresolved_count += verdict == SLOT_UNRESOLVED;
	}
}

/* Takes over `maps` and `modules`; the caller then owns those that the survey had. */
static void exchange(struct survey *survey, struct proc_maps *maps, struct modules *modules)
{
	struct proc_maps old_maps = survey->maps;
	struct modules old_modules = survey->modules;
	survey->maps = *maps;
	survey->modules = *modules;
	*maps = old_maps;
	*modules = old_modules;
}

static struct ht_err *reread_modules(struct survey *survey)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	HT_TRY(stalled_read_maps(&survey->proc, &maps));
	HT_TRY(modules_reread(&survey->proc, &maps, &survey->modules, &modules));
	exchange(survey, &maps, &modules);
	return NULL;
}

/* Reads again for a short time while there is a foreign module: a library is mapped before it is in
 * the dynamic linker's list, or may have been unloaded between two reads. */
static struct ht_err *read_modules(struct survey *survey)
{
	uint64_t end_ns = clock_mono_ns() + LOADING_PATIENCE_NS;
	struct ht_err *err = modules_read(&survey->proc, &survey->maps, &survey->modules);
	while (!err && modules_first_foreign(&survey->modules) && clock_mono_ns() < end_ns) {
		clock_sleep_ns(CLOCK_NS_PER_MS);
		err = reread_modules(survey);
	}
	survey->is_static = !err && modules_are_static(&survey->modules);
	return err;
}

static struct ht_err *read_contents(struct survey *survey)
{
	HT_TRY(check_room(survey));
	HT_TRY(modules_check_machine(&survey->proc, &survey->maps));
	HT_TRY(read_modules(survey));
	HT_TRY(survey_check_tapped(&survey->proc, &survey->found));
	HT_TRY(check_linked(survey));
	HT_TRY(check_stub(survey));
	HT_TRY(slots_read(
		&survey->proc, &survey->modules, 0, 0, survey->with_mappings, &survey->slots));
	HT_TRY(coverage_read(
		&survey->proc, &survey->maps, &survey->modules, &survey->slots, &survey->coverage));
	if (!survey->given_optional)
		HT_TRY(given_check(survey->proc.pid, &survey->modules, &survey->slots));
	count_slots(survey);
	if (survey->is_static)
		return is_named(survey) ? NULL : refuse_without_names(survey);
	return survey->tap_count + survey->unresolved_count ? NULL : refuse_without_slots(survey);
}

struct ht_err *survey_open(pid_t pid, struct survey *ret)
{
	struct survey survey = {0};
	HT_TRY(check_pid(pid));

	HT_TRY(proc_open(pid, &survey.proc));
	struct ht_err *err = proc_status(&survey.proc, 0, &survey.status);
	HT_THEN(err, check_status(&survey.proc, &survey.status));
	HT_THEN(err, check_frozen(&survey.proc));
	HT_THEN(err, proc_open_mem(&survey.proc));
	HT_THEN(err, permission_check_writing(pid));
	HT_THEN(err, check_threads(&survey.proc, &survey));
	if (err)
		survey_deinit(&survey);
	else
		*ret = survey;
	return err;
}

struct ht_err *survey_read(struct survey *survey)
{
	HT_TRY(stalled_read_maps(&survey->proc, &survey->maps));
	return read_contents(survey);
}

struct ht_err *survey_take(pid_t pid, struct survey *ret)
{
	HT_TRY(survey_open(pid, ret));
	struct ht_err *err = survey_read(ret);
	if (err)
		survey_deinit(ret);
	return err;
}

void survey_deinit(struct survey *survey)
{
	coverage_deinit(&survey->coverage);
	slots_deinit(&survey->slots);
	modules_deinit(&survey->modules);
	proc_maps_deinit(&survey->maps);
	proc_close(&survey->proc);
}

static void note_partial(
	struct survey *survey, const struct modules *modules, const struct slots *slots)
{
	size_t count;
	const struct module *partial =
		coverage_partial_since(modules, slots, survey->modules.next_id, &count);

	survey->partial_count += count;
	if (partial)
		foreign_copy(survey->partial_path, sizeof(survey->partial_path), partial->path);
}

struct ht_err *survey_refresh(struct survey *survey, raddr_t thunk_lo, raddr_t thunk_hi)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_CLEANUP(modules_deinit) struct modules modules = {0};
	struct slots slots;
	HT_TRY(stalled_read_maps_later(&survey->proc, &maps));
	HT_TRY(modules_reread(&survey->proc, &maps, &survey->modules, &modules));
	HT_TRY(slots_read(
		&survey->proc, &modules, thunk_lo, thunk_hi, survey->with_mappings, &slots));
	note_partial(survey, &modules, &slots);
	coverage_deinit(&survey->coverage);
	slots_deinit(&survey->slots);
	exchange(survey, &maps, &modules);
	survey->slots = slots;
	count_slots(survey);
	return NULL;
}
