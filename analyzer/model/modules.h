/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules of a trace. Finds the module that an address belonged to when its node was made.
 */
#pragma once

#include "format/array.h"
#include "format/map.h"
#include "analyzer/model/strings.h"

#define MODULES_MAX  65536u
#define MODULES_NONE UINT32_MAX

struct module {
	uint64_t id, epoch, gone_epoch; /* nodes of [epoch, gone_epoch) may refer to it */
	uint64_t bias, lo, hi, flags;
	const char *path;
	const char *build_id; /* lower-case hex, empty when there is none */
	uint32_t segment_count;
	struct rec_segment *segment;
	uint64_t names;		  /* enum rec_names_state: why names are missing */
	const char *names_detail; /* NULL: none */
	bool is_named;		  /* the trace has names for addresses in this module */
};

/* Zero-initialised is empty and valid. An index stays the same for the life of the table. */
struct modules {
	struct module *module;
	size_t count, capacity;
	struct map by_id;
	/* Sorted by `lo`, then by `epoch`; made by the first modules_find. */
	struct modules_order {
		uint64_t lo, epoch; /* of the module; `lo` first: array_from */
		uint64_t reach;	    /* highest `hi` of the modules up to this one */
		uint32_t index;
	} * order;
	size_t ordered, order_capacity; /* `ordered`: number of modules in `order` */
	uint64_t ignored;		/* repeated ids and modules beyond MODULES_MAX */
};

void modules_deinit(struct modules *modules);
HT_MUST_CHECK
struct ht_err *modules_add(
	struct modules *modules, struct strings *strings, const struct rec_module *rec);
void modules_gone(struct modules *modules, const struct rec_module_gone *rec);
/* Notes why names of a module are missing; the last note counts. */
HT_MUST_CHECK
struct ht_err *modules_note(
	struct modules *modules, struct strings *strings, const struct rec_names *rec);
/* The path of the module with this index; NULL for MODULES_NONE. */
static inline const char *modules_path(const struct modules *modules, uint32_t index)
{
	return index == MODULES_NONE ? NULL : modules->module[index].path;
}
/* Index of the module with this id, or MODULES_NONE. */
uint32_t modules_by_id(const struct modules *modules, uint64_t id);
/* Index of the module that holds `pc` for a node of `epoch`; MODULES_NONE when there is none. */
HT_MUST_CHECK
struct ht_err *modules_find(struct modules *modules, uint64_t pc, uint64_t epoch, uint32_t *ret);
