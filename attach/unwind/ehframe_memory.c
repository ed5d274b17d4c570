/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/ehframe_memory.h"

#include <inttypes.h>
#include <stdlib.h>

#include "attach/unwind/eh_frame.h"

/* Of .eh_frame_hdr: version, three encodings, a pointer of at most 10 bytes. */
#define HDR_VERSION 1u
#define HDR_READ    14u

/* The address where .eh_frame_hdr says that .eh_frame begins; false when it says nothing usable. */
static bool hdr_parse(const struct eh_section *hdr, uint64_t *ret)
{
	struct bytes in = hdr->bytes;
	uint8_t version, pointer_encoding, count_encoding, table_encoding;
	return bytes_u8(&in, &version) && version == HDR_VERSION &&
	       bytes_u8(&in, &pointer_encoding) && bytes_u8(&in, &count_encoding) &&
	       bytes_u8(&in, &table_encoding) && eh_pointer(&in, hdr, pointer_encoding, ret);
}

/* Bytes from `vaddr` to the end of the segment that holds it; 0: none does. */
static uint64_t segment_bytes_from(const struct module *module, uint64_t vaddr)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->filesz)
			return segment->filesz - (vaddr - segment->vaddr);
	}
	return 0;
}

/* Finds .eh_frame; *ret_bytes 0 when there is none. Addresses are link-time ones. */
static struct ht_err *eh_frame_find(const struct proc *proc, const struct module *module,
	uint64_t *ret_vaddr, uint64_t *ret_bytes)
{
	uint8_t data[HDR_READ];
	size_t length = 0;

	*ret_vaddr = *ret_bytes = 0;
	if (!module->eh_frame_hdr)
		return NULL;
	struct ht_err *err = memory_read_some(proc, module->eh_frame_hdr, data,
		module->eh_frame_hdr_bytes < HDR_READ ? module->eh_frame_hdr_bytes : HDR_READ,
		&length);
	if (err)
		return err;
	struct eh_section hdr = {
		.bytes = bytes_of(data, length),
		.vaddr = module->eh_frame_hdr - module->bias,
	};
	if (hdr_parse(&hdr, ret_vaddr))
		*ret_bytes = segment_bytes_from(module, *ret_vaddr);
	return NULL;
}

/* Reads what is readable of `bytes` bytes, malloc'd. */
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

struct ht_err *ehframe_memory_compile(const struct proc *proc, const struct module *module,
	struct abi_table **ret, struct unwind_stats *ret_stats)
{
	uint64_t vaddr, bytes;
	uint8_t *data = NULL;
	size_t length = 0;

	struct ht_err *err = eh_frame_find(proc, module, &vaddr, &bytes);
	if (!err)
		err = eh_frame_read(proc, module->bias + vaddr, bytes, &data, &length);
	if (!err) {
		struct unwind_input input = {
			.eh_frame = data,
			.eh_frame_bytes = length,
			.eh_frame_vaddr = vaddr,
			.text_lo = module->text_lo - module->bias,
			.text_hi = module->text_hi - module->bias,
		};
		err = table_compile(&input, ret, ret_stats);
	}
	free(data);
	return ht_err_wrap(err, "%s", *module->path ? module->path : "unnamed module");
}
