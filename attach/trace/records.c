/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "attach/daemon/sink.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_living.h"
#include "format/arch.h"

struct ht_err *records_put_target(const struct records *records)
{
	struct utsname kernel;
	char *exe = NULL;
	struct ht_err *err = proc_link(&records->survey->proc, "exe", &exe);
	ht_err_free(err);
	if (uname(&kernel) < 0)
		snprintf(kernel.release, sizeof(kernel.release), "?");
	struct rec rec = {.kind = REC_TARGET};
	rec.target = (struct rec_target){
		.pid = (uint64_t)records->survey->proc.pid,
		.uid = records->survey->status.ruid,
		.start_ticks = records->survey->proc.start_ticks,
		.comm = records_text(records->survey->status.comm),
		.exe = records_text(exe ? exe : ""),
		.kernel = records_text(kernel.release),
		.heaptap_version = records_text(HEAPTAP_VERSION),
	};
	err = sink_put(records->sink, &rec, 0);
	free(exe);
	return err;
}

struct ht_err *records_put_capture(const struct records *records)
{
	struct rec rec = {.kind = REC_CAPTURE};
	rec.capture = (struct rec_capture){
		.start_unix_ns = clock_read_ns(CLOCK_REALTIME),
		.start_mono_ns = clock_mono_ns(),
		.start_tsc = arch_tsc(),
		.slots_tapped = records->survey->tap_count,
		.modules = records->survey->modules.count,
		.memory_total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * HT_PAGE_BYTES,
		.sample_bytes = records->sample_bytes,
		.flags = records->mappings ? REC_CAPTURE_MAPPINGS : 0,
	};
	return sink_put(records->sink, &rec, 0);
}

struct ht_err *records_put_counter(
	const struct records *records, enum rec_counter counter, uint64_t total)
{
	struct rec rec = {.kind = REC_LOSS};
	rec.loss = (struct rec_loss){.counter = counter, .total = total};
	return sink_put(records->sink, &rec, 0);
}

struct ht_err *records_put_mapped(const struct records *records)
{
	struct rec rec = {.kind = REC_MAPPED};
	struct rec_mapped *mapped = &rec.mapped;
	struct proc_maps maps;
	struct ht_err *err = proc_maps_read(&records->survey->proc, &maps);
	/* A target that has ended has nothing mapped; its trace has the other records. */
	if (err && err->code == HT_ERR_TARGET_GONE) {
		ht_err_free(err);
		return NULL;
	}
	if (err)
		return err;
	for (size_t i = 0; i < maps.count && !err; i++) {
		const struct proc_map *map = &maps.map[i];
		mapped->range[mapped->range_count++] = (struct rec_range){.lo = map->lo,
			.bytes = map->hi - map->lo,
			.flags = (map->read || map->write || map->exec ? REC_RANGE_USABLE : 0) |
				 (map->inode ? REC_RANGE_FILE : 0)};
		if (mapped->range_count < TRACE_RANGES_MAX && i + 1 < maps.count)
			continue;
		err = sink_put(records->sink, &rec, 0);
		mapped->range_count = 0;
	}
	proc_maps_deinit(&maps);
	return err;
}

static struct ht_err *put_module(
	const struct records *records, const struct module *module, bool missed)
{
	const struct proc_map *map = proc_maps_find(&records->survey->maps, module->lo);
	if (map && records->handover)
		handover_add(records->handover, &records->survey->proc, module, map);
	struct rec rec = {.kind = REC_MODULE};
	rec.module = (struct rec_module){
		.id = module->id,
		.epoch = publish_epoch(records->publish),
		.bias = module->bias,
		.lo = module->lo,
		.hi = module->hi,
		.path = records_text(module->path),
		.build_id = {(const char *)module->build_id, module->build_id_bytes},
		.flags = (module->executable ? REC_MODULE_EXECUTABLE : 0) |
			 (missed ? REC_MODULE_UNTAPPED : 0),
		.segment_count = module->segment_count,
	};
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *from = &module->segment[i];
		rec.module.segment[i] =
			(struct rec_segment){from->vaddr, from->memsz, from->offset, from->flags};
	}
	return sink_put(records->sink, &rec, 0);
}

/* A library without slots has missed nothing. */
static bool has_slots(const struct survey *survey, uint64_t module_id)
{
	for (size_t i = 0; i < survey->slots.count; i++)
		if (survey->slots.slot[i].module_id == module_id)
			return true;
	return false;
}

/* A library that the dynamic linker does not list yet has not run. */
static bool is_coming(const struct records *records, const struct module *module)
{
	return image_config(records->image)->load_list && !module->order;
}

/* The link-time address that the file bytes at `map` would have in the module; false: no segment
 * has them. */
static bool vaddr_of(const struct module *module, const struct proc_map *map, uint64_t *ret)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		if (map->offset < segment->offset ||
			map->offset - segment->offset >= segment->filesz)
			continue;
		*ret = segment->vaddr + (map->offset - segment->offset);
		return true;
	}
	return false;
}

static const struct module *module_of_file(
	const struct modules *modules, const struct proc_map *map)
{
	for (size_t i = 0; i < modules->count; i++)
		if (map->inode && modules->module[i].inode == map->inode &&
			modules->module[i].dev == makedev(map->dev_major, map->dev_minor))
			return &modules->module[i];
	return NULL;
}

static bool is_put(const struct records *records, raddr_t lo)
{
	for (size_t i = 0; i < records->copy_count; i++)
		if (records->copy_lo[i] == lo)
			return true;
	return false;
}

/* Puts second mappings of a module's code, as V8 maps its builtins near the code that it makes. To
 * a reader such a mapping is another module with the same file. */
static struct ht_err *put_copies(struct records *records)
{
	struct modules *modules = &records->survey->modules;

	for (size_t i = 0; i < records->survey->maps.count; i++) {
		const struct proc_map *map = &records->survey->maps.map[i];
		const struct module *module = map->exec ? module_of_file(modules, map) : NULL;
		uint64_t vaddr;
		if (!module || modules_find(modules, map->lo) || is_put(records, map->lo) ||
			records->copy_count == HT_ARRAY_SIZE(records->copy_lo) ||
			!vaddr_of(module, map, &vaddr))
			continue;
		struct module copy = *module;
		copy.id = modules->next_id++;
		copy.bias = map->lo - vaddr;
		copy.lo = map->lo;
		copy.hi = map->hi;
		copy.executable = false;
		records->copy_lo[records->copy_count++] = map->lo;
		HT_TRY(put_module(records, &copy, false));
	}
	return NULL;
}

/* Ids ascend in order of discovery. */
struct ht_err *records_put_new_modules(struct records *records, bool late, uint64_t *missed)
{
	uint64_t highest = records->modules_put;
	for (size_t i = 0; i < records->survey->modules.count; i++) {
		const struct module *module = &records->survey->modules.module[i];
		if (module->id <= records->modules_put)
			continue;
		bool is_missed = late && !is_coming(records, module) &&
				 has_slots(records->survey, module->id);
		HT_TRY(put_module(records, module, is_missed));
		highest = module->id > highest ? module->id : highest;
		*missed += is_missed;
	}
	records->modules_put = highest;
	return put_copies(records);
}

struct ht_err *records_put_gone_modules(
	const struct records *records, const uint64_t *old_id, size_t old_count, bool *ret_any)
{
	*ret_any = false;
	for (size_t i = 0; i < old_count; i++) {
		bool there = false;
		for (size_t m = 0; m < records->survey->modules.count && !there; m++)
			there = records->survey->modules.module[m].id == old_id[i];
		if (there)
			continue;
		*ret_any = true;
		if (records->handover)
			handover_gone(records->handover, old_id[i]);
		struct rec rec = {.kind = REC_MODULE_GONE};
		rec.module_gone = (struct rec_module_gone){
			.id = old_id[i], .epoch = (uint64_t)publish_epoch(records->publish) + 1};
		HT_TRY(sink_put(records->sink, &rec, 0));
	}
	return NULL;
}
