/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ehwriter.h"

#include <dwarf.h>
#include <string.h>

#include "tests/support/ht_check.h"

static void put(struct ehwriter *writer, const void *data, size_t length)
{
	ck_no_err(bytes_out_put(&writer->out, data, length));
}

static void put_u8(struct ehwriter *writer, uint8_t value)
{
	put(writer, &value, sizeof(value));
}

static void put_u32(struct ehwriter *writer, uint32_t value)
{
	put(writer, &value, sizeof(value));
}

static void put_value(struct ehwriter *writer, uint8_t format, uint64_t value)
{
	switch (format) {
	case DW_EH_PE_uleb128:
		ck_no_err(bytes_out_uleb(&writer->out, value));
		return;
	case DW_EH_PE_sleb128:
		/* Always 10 bytes, which are enough for 64 bits. */
		for (int i = 0; i < 9; i++, value = (uint64_t)((int64_t)value >> 7))
			put_u8(writer, (uint8_t)(value | 0x80));
		put_u8(writer, value & 0x7f);
		return;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		put(writer, &value, 2);
		return;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		put(writer, &value, 4);
		return;
	default:
		put(writer, &value, 8);
		return;
	}
}

/* Ends the entry that begins at `start`: pads it to 4 bytes with nops, and writes its length. */
static void entry_finish(struct ehwriter *writer, size_t start)
{
	while ((writer->out.length - start) % 4 != 0)
		put_u8(writer, DW_CFA_nop);
	uint32_t length = (uint32_t)(writer->out.length - start - 4);
	memcpy(writer->out.data + start, &length, sizeof(length));
}

static void put_augmentation_data(struct ehwriter *writer, const struct ehcie *cie)
{
	size_t length_at = writer->out.length;
	put_u8(writer, 0);
	for (const char *letter = cie->augmentation + 1; *letter; letter++) {
		if (*letter == 'R')
			put_u8(writer, cie->encoding);
		if (*letter == 'L')
			put_u8(writer, DW_EH_PE_pcrel | DW_EH_PE_sdata4);
		if (*letter == 'P') {
			put_u8(writer, cie->personality);
			if (cie->personality != DW_EH_PE_omit)
				put_value(writer, cie->personality & 0x0f, 0x1234);
		}
	}
	writer->out.data[length_at] = (uint8_t)(writer->out.length - length_at - 1);
}

void ehwriter_deinit(struct ehwriter *writer)
{
	bytes_out_deinit(&writer->out);
}

size_t ehwriter_cie(struct ehwriter *writer, const struct ehcie *cie)
{
	size_t start = writer->out.length;
	put_u32(writer, 0);
	put_u32(writer, 0);
	put_u8(writer, cie->version);
	put(writer, cie->augmentation, strlen(cie->augmentation) + 1);
	put_u8(writer, cie->code_align);
	put_u8(writer, cie->data_align);
	put_u8(writer, cie->ra_column);
	if (cie->augmentation[0] == 'z')
		put_augmentation_data(writer, cie);
	put(writer, cie->program.data, cie->program.length);
	entry_finish(writer, start);
	return start;
}

void ehwriter_fde(struct ehwriter *writer, size_t cie_offset, const struct ehcie *cie, uint64_t lo,
	uint64_t range, struct ehprogram program)
{
	size_t start = writer->out.length;
	uint8_t encoding = strchr(cie->augmentation, 'R') ? cie->encoding : DW_EH_PE_absptr;
	put_u32(writer, 0);
	put_u32(writer, (uint32_t)(start + 4 - cie_offset));
	uint64_t base = encoding & DW_EH_PE_pcrel ? writer->vaddr + writer->out.length : 0;
	put_value(writer, encoding & 0x0f, lo - base);
	put_value(writer, encoding & 0x0f, range);
	if (cie->augmentation[0] == 'z')
		put_u8(writer, 0);
	put(writer, program.data, program.length);
	entry_finish(writer, start);
}

void ehwriter_end(struct ehwriter *writer)
{
	put_u32(writer, 0);
}
