/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/version.h"

#include <string.h>

#include "attach/memory/memory.h"

#define INDEX_MASK   0x7fffu
#define HIDDEN_BIT   0x8000u
#define FIRST_INDEX  2u	   /* below: local symbols and the module itself */
#define ENTRIES_MAX  1024u /* of a table: a hostile one may be endless */
#define UNSURE_INDEX 3u	   /* glibc accepts a lower one for a reference without a version */

struct reading {
	const struct proc *proc;
	const struct dynamic *dynamic;
	struct budget *budget;
	struct ht_err *err;
};

static bool part_read(struct reading *reading, raddr_t at, void *ret, size_t bytes)
{
	const struct dynamic *dynamic = reading->dynamic;
	size_t got = 0;
	if (reading->err || at < dynamic->lo || at >= dynamic->hi || bytes > dynamic->hi - at ||
		!budget_step(reading->budget))
		return false;
	reading->err = memory_read_some(reading->proc, at, ret, bytes, &got);
	return got == bytes;
}

/* A longer name is cut; the hash tells such names apart. */
static void name_take(struct reading *reading, uint32_t offset, struct version *ret)
{
	const struct dynamic_table *strtab = &reading->dynamic->strtab;
	size_t bytes = sizeof(ret->name) - 1;
	if (offset >= strtab->bytes)
		return;
	if (bytes > strtab->bytes - offset)
		bytes = strtab->bytes - offset;
	if (!part_read(reading, strtab->addr + offset, ret->name, bytes))
		memset(ret->name, 0, sizeof(ret->name));
	ret->name[strnlen(ret->name, bytes)] = '\0';
	memset(ret->name + strlen(ret->name), 0, sizeof(ret->name) - strlen(ret->name));
}

static bool find_defined(struct reading *reading, struct version *ret)
{
	Elf64_Verdef def;
	raddr_t at = reading->dynamic->verdef;
	for (unsigned i = 0; at && i < ENTRIES_MAX && part_read(reading, at, &def, sizeof(def));
		i++) {
		Elf64_Verdaux aux;
		if ((def.vd_ndx & INDEX_MASK) == ret->index && !(def.vd_flags & VER_FLG_BASE)) {
			ret->hash = def.vd_hash;
			if (part_read(reading, at + def.vd_aux, &aux, sizeof(aux)))
				name_take(reading, aux.vda_name, ret);
			return true;
		}
		if (!def.vd_next)
			break;
		at += def.vd_next;
	}
	return false;
}

static bool find_needed(struct reading *reading, struct version *ret)
{
	Elf64_Verneed need;
	raddr_t at = reading->dynamic->verneed;
	for (unsigned i = 0; at && i < ENTRIES_MAX && part_read(reading, at, &need, sizeof(need));
		i++) {
		Elf64_Vernaux aux;
		raddr_t aux_at = at + need.vn_aux;
		for (unsigned k = 0;
			k < ENTRIES_MAX && part_read(reading, aux_at, &aux, sizeof(aux)); k++) {
			if ((aux.vna_other & INDEX_MASK) == ret->index) {
				ret->hash = aux.vna_hash;
				ret->hidden = aux.vna_other & HIDDEN_BIT;
				name_take(reading, aux.vna_name, ret);
				return true;
			}
			if (!aux.vna_next)
				break;
			aux_at += aux.vna_next;
		}
		if (!need.vn_next)
			break;
		at += need.vn_next;
	}
	return false;
}

struct ht_err *version_read(const struct proc *proc, const struct dynamic *dynamic, uint32_t index,
	struct budget *budget, struct version *ret)
{
	struct reading reading = {.proc = proc, .dynamic = dynamic, .budget = budget};
	uint16_t word;
	*ret = (struct version){0};
	if (!dynamic->versym ||
		!part_read(&reading, dynamic->versym + index * sizeof(word), &word, sizeof(word)))
		return reading.err;
	ret->has_versions = true;
	ret->hidden = word & HIDDEN_BIT;
	ret->index = word & INDEX_MASK;
	if (ret->index >= FIRST_INDEX && !find_defined(&reading, ret))
		(void)find_needed(&reading, ret);
	return reading.err;
}

enum version_match version_match(const struct version *wanted, const struct version *defined)
{
	if (!defined->has_versions)
		return VERSION_SAME;
	if (!wanted->hash)
		return defined->index < UNSURE_INDEX ? VERSION_SAME : VERSION_UNSURE;
	if (wanted->hash == defined->hash && !strcmp(wanted->name, defined->name))
		return VERSION_SAME;
	bool is_base = !wanted->hidden && !defined->hash && !defined->hidden;
	return is_base ? VERSION_SAME : VERSION_OTHER;
}
