/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/ehframe_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "attach/memory/memory.h"
#include "attach/unwind/eh_frame.h"

/* .eh_frame_hdr: version, three encodings, a pointer of at most 10 bytes. */
#define HDR_VERSION 1u
#define HDR_READ    14u

#define COMPARE_BYTES (64u << 10) /* compared in one step: fits the processor's cache */

/* Reads the address of .eh_frame from .eh_frame_hdr; false: unusable. */
static bool hdr_parse(const struct eh_section *hdr, uint64_t *ret)
{
	struct bytes in = hdr->bytes;
	uint8_t version, pointer_encoding, count_encoding, table_encoding;
	return bytes_u8(&in, &version) && version == HDR_VERSION &&
	       bytes_u8(&in, &pointer_encoding) && bytes_u8(&in, &count_encoding) &&
	       bytes_u8(&in, &table_encoding) && eh_pointer(&in, hdr, pointer_encoding, ret);
}

/* Bytes from `vaddr` to the end of its segment; 0: it is in none. */
static uint64_t segment_bytes_from(const struct module *module, uint64_t vaddr)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->filesz)
			return segment->filesz - (vaddr - segment->vaddr);
	}
	return 0;
}

/* Finds .eh_frame. `*ret_bytes` is 0 if there is none. Addresses are link-time ones. */
static struct ht_err *eh_frame_find(const struct proc *proc, const struct module *module,
	uint64_t *ret_vaddr, uint64_t *ret_bytes)
{
	uint8_t data[HDR_READ];
	size_t length = 0;

	*ret_vaddr = *ret_bytes = 0;
	if (!module->eh_frame_hdr && module->natives.eh_frame) {
		*ret_vaddr = module->natives.eh_frame - module->bias;
		*ret_bytes = segment_bytes_from(module, *ret_vaddr);
		if (*ret_bytes > module->natives.eh_frame_bytes)
			*ret_bytes = module->natives.eh_frame_bytes;
		return NULL;
	}
	if (!module->eh_frame_hdr)
		return NULL;
	HT_TRY(memory_read_some(proc, module->eh_frame_hdr, data,
		module->eh_frame_hdr_bytes < HDR_READ ? module->eh_frame_hdr_bytes : HDR_READ,
		&length));
	struct eh_section hdr = {
		.bytes = bytes_of(data, length),
		.vaddr = module->eh_frame_hdr - module->bias,
	};
	if (hdr_parse(&hdr, ret_vaddr))
		*ret_bytes = segment_bytes_from(module, *ret_vaddr);
	return NULL;
}

/* Reads the readable part of `bytes` bytes, malloc'd. */
static struct ht_err *eh_frame_read(
	const struct proc *proc, raddr_t addr, uint64_t bytes, uint8_t **ret, size_t *ret_read)
{
	*ret = NULL;
	*ret_read = 0;
	if (bytes > TABLE_EH_FRAME_MAX)
		bytes = TABLE_EH_FRAME_MAX;
	if (!bytes)
		return NULL;
	uint8_t *data = malloc(bytes);
	if (!data)
		return ht_err_new(
			HT_ERR_NOMEM, "no memory for %" PRIu64 " bytes of .eh_frame", bytes);
	struct ht_err *err = memory_read_some(proc, addr, data, bytes, ret_read);
	if (err)
		free(data);
	else
		*ret = data;
	return err;
}

/* Sets everything for a compilation except the bytes; eh_frame_bytes is the maximum. */
static struct ht_err *input_find(
	const struct proc *proc, const struct module *module, struct unwind_input *ret)
{
	uint64_t bytes;
	*ret = (struct unwind_input){
		.text_lo = module->text_lo - module->bias,
		.text_hi = module->text_hi - module->bias,
	};
	struct ht_err *err = eh_frame_find(proc, module, &ret->eh_frame_vaddr, &bytes);
	ret->eh_frame_bytes = bytes;
	return err;
}

static struct ht_err *input_compile(const struct proc *proc, const struct module *module,
	struct unwind_input *input, struct cache *cache, struct abi_table **ret,
	struct unwind_stats *ret_stats)
{
	uint8_t *data;
	HT_TRY(eh_frame_read(proc, module->bias + input->eh_frame_vaddr, input->eh_frame_bytes,
		&data, &input->eh_frame_bytes));
	input->eh_frame = data;
	struct ht_err *err = table_compile(input, ret, ret_stats);
	/* Without a terminator the table depends on how much could be read: do not store it. */
	if (!err && ret_stats->section_bytes) {
		input->eh_frame_bytes = ret_stats->section_bytes;
		cache_store(cache, &(struct cache_key){module->build_id, module->build_id_bytes},
			input, *ret);
	}
	free(data);
	return err;
}

/* Are the `bytes` bytes at `addr` of the target equal to these? */
static struct ht_err *bytes_compare(const struct proc *proc, raddr_t addr, const uint8_t *expected,
	size_t bytes, bool *ret_equal)
{
	uint8_t here[COMPARE_BYTES];
	*ret_equal = false;
	for (size_t done = 0; done < bytes;) {
		size_t step = bytes - done < sizeof(here) ? bytes - done : sizeof(here);
		size_t got;
		struct ht_err *err = memory_read_some(proc, addr + done, here, step, &got);
		if (err || got < step || memcmp(here, expected + done, step) != 0)
			return err;
		done += step;
	}
	*ret_equal = true;
	return NULL;
}

/* Does the entry have exactly the .eh_frame of the target? */
static struct ht_err *entry_compare(const struct proc *proc, const struct module *module,
	const struct unwind_input *input, const struct unwind_input *kept, bool *ret_equal)
{
	*ret_equal = false;
	if (kept->text_lo != input->text_lo || kept->text_hi != input->text_hi ||
		kept->eh_frame_vaddr != input->eh_frame_vaddr ||
		kept->eh_frame_bytes > input->eh_frame_bytes)
		return NULL;
	return bytes_compare(proc, module->bias + kept->eh_frame_vaddr, kept->eh_frame,
		kept->eh_frame_bytes, ret_equal);
}

/* `*ret` is NULL if the cache has no table for this module with this .eh_frame. */
static struct ht_err *table_recall(const struct proc *proc, const struct module *module,
	const struct unwind_input *input, struct cache *cache, struct abi_table **ret)
{
	struct cache_entry entry;
	bool equal;
	*ret = NULL;
	if (!cache_load(
		    cache, &(struct cache_key){module->build_id, module->build_id_bytes}, &entry))
		return NULL;
	struct ht_err *err = entry_compare(proc, module, input, &entry.input, &equal);
	if (!err && equal) {
		*ret = entry.table;
		entry.table = NULL;
	}
	cache_entry_deinit(&entry);
	return err;
}

static struct ht_err *name_module(struct ht_err *err, const struct module *module)
{
	return ht_err_wrap(err, "%s", *module->path ? module->path : "unnamed module");
}

struct ht_err *ehframe_memory_table(const struct proc *proc, const struct module *module,
	struct cache *cache, struct abi_table **ret, bool *ret_cached)
{
	struct unwind_input input;
	struct unwind_stats stats;
	struct ht_err *err = input_find(proc, module, &input);
	HT_THEN(err, table_recall(proc, module, &input, cache, ret));
	*ret_cached = !err && *ret;
	if (!err && !*ret)
		err = input_compile(proc, module, &input, cache, ret, &stats);
	return name_module(err, module);
}

struct ht_err *ehframe_memory_compile(const struct proc *proc, const struct module *module,
	struct abi_table **ret, struct unwind_stats *ret_stats)
{
	struct unwind_input input;
	struct ht_err *err = input_find(proc, module, &input);
	HT_THEN(err, input_compile(proc, module, &input, NULL, ret, ret_stats));
	return name_module(err, module);
}
