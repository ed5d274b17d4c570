/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/eh_frame.h"

#include <string.h>

#define RETURN_ADDRESS_COLUMN 16u
#define AUGMENTATION_MAX      8u

/* Pointer encodings of the Linux Standard Base: low nibble format, high nibble base. */
enum {
	PE_ABSPTR = 0x00,
	PE_ULEB128 = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SLEB128 = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT = 0x0f,
	PE_PCREL = 0x10,
	PE_ALIGNED = 0x50,
	PE_BASE = 0x70,
	PE_INDIRECT = 0x80,
	PE_OMIT = 0xff,
};

static bool value_take(struct bytes *in, uint8_t format, uint64_t *ret)
{
	uint16_t half;
	uint32_t word;

	switch (format) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return bytes_u64(in, ret);
	case PE_UDATA4:
	case PE_SDATA4:
		if (!bytes_u32(in, &word))
			return false;
		*ret = format == PE_SDATA4 ? (uint64_t)(int32_t)word : word;
		return true;
	case PE_UDATA2:
	case PE_SDATA2:
		if (!bytes_u16(in, &half))
			return false;
		*ret = format == PE_SDATA2 ? (uint64_t)(int16_t)half : half;
		return true;
	case PE_ULEB128:
		return bytes_uleb(in, ret);
	case PE_SLEB128:
		return bytes_sleb(in, (int64_t *)ret);
	default:
		return false;
	}
}

bool eh_pointer(struct bytes *in, const struct eh_section *section, uint8_t encoding, uint64_t *ret)
{
	uint8_t base = encoding & PE_BASE;
	if (encoding & PE_INDIRECT || (base && base != PE_PCREL))
		return false;
	uint64_t here = section->vaddr + (uint64_t)(in->at - section->bytes.at);
	uint64_t value;
	if (!value_take(in, encoding & PE_FORMAT, &value))
		return false;
	*ret = base ? here + value : value;
	return true;
}

/* Takes one entry off `in`: a length word and that many bytes. An extended (64-bit) length never
 * fits. */
static bool entry_take(struct bytes *in, struct bytes *ret)
{
	uint32_t length;
	const uint8_t *at;
	if (!bytes_u32(in, &length) || !bytes_take(in, length, &at))
		return false;
	*ret = bytes_of(at, length);
	return true;
}

/* Parses the data that the letters of `augmentation`, which begins with 'z', announce. */
static bool augmentation_data_parse(struct bytes *in, const char *augmentation, struct eh_cie *cie)
{
	for (const char *letter = augmentation + 1; *letter; letter++) {
		uint8_t encoding;
		uint64_t personality;

		switch (*letter) {
		case 'S':
			cie->signal_frame = true;
			break;
		case 'R':
			if (!bytes_u8(in, &cie->pointer_encoding))
				return false;
			break;
		case 'L':
		case 'P':
			if (!bytes_u8(in, &encoding))
				return false;
			if (*letter == 'L' || encoding == PE_OMIT)
				break;
			if ((encoding & PE_BASE) == PE_ALIGNED ||
				!value_take(in, encoding & PE_FORMAT, &personality))
				return false;
			break;
		default:
			return false;
		}
	}
	return true;
}

static bool augmentation_take(struct bytes *in, const char **ret)
{
	size_t limit = bytes_left(in) < AUGMENTATION_MAX ? bytes_left(in) : AUGMENTATION_MAX;
	const uint8_t *end = memchr(in->at, 0, limit);
	if (!end)
		return false;
	*ret = (const char *)in->at;
	in->at = end + 1;
	return true;
}

static bool column_take(struct bytes *in, uint8_t version, uint64_t *ret)
{
	uint8_t column;
	if (version != 1)
		return bytes_uleb(in, ret);
	if (!bytes_u8(in, &column))
		return false;
	*ret = column;
	return true;
}

static bool cie_parse(struct bytes in, struct eh_cie *ret)
{
	struct bytes entry;
	uint32_t id;
	uint8_t version;
	const char *augmentation;
	uint64_t column;

	if (!entry_take(&in, &entry) || bytes_left(&entry) > EH_CIE_MAX)
		return false;
	*ret = (struct eh_cie){.pointer_encoding = PE_ABSPTR};
	if (!bytes_u32(&entry, &id) || id != 0)
		return false;
	if (!bytes_u8(&entry, &version) || (version != 1 && version != 3))
		return false;
	if (!augmentation_take(&entry, &augmentation) || !bytes_uleb(&entry, &ret->code_align) ||
		!bytes_sleb(&entry, &ret->data_align) || !column_take(&entry, version, &column) ||
		column != RETURN_ADDRESS_COLUMN)
		return false;

	ret->augmented = augmentation[0] == 'z';
	if (ret->augmented) {
		uint64_t length;
		const uint8_t *at;
		if (!bytes_uleb(&entry, &length) || !bytes_take(&entry, length, &at))
			return false;
		struct bytes data = bytes_of(at, length);
		if (!augmentation_data_parse(&data, augmentation, ret))
			return false;
	} else if (augmentation[0]) {
		return false;
	}
	ret->program = entry;
	return true;
}

/* Makes the CIE `distance` bytes before `id_at` reader->cie. */
static bool cie_select(struct eh_reader *reader, const uint8_t *id_at, uint32_t distance)
{
	if (distance > (size_t)(id_at - reader->section.bytes.at))
		return false;
	const uint8_t *at = id_at - distance;
	if (at == reader->cie_at)
		return true;
	reader->cie_at = NULL;
	struct bytes in = {.at = at, .end = reader->section.bytes.end};
	if (!cie_parse(in, &reader->cie))
		return false;
	reader->cie.serial = ++reader->cie_serial;
	reader->cie_at = at;
	return true;
}

static bool fde_parse(struct eh_reader *reader, struct bytes in, struct eh_fde *ret)
{
	const struct eh_cie *cie = &reader->cie;
	uint64_t range, length;
	const uint8_t *data;

	if (!eh_pointer(&in, &reader->section, cie->pointer_encoding, &ret->lo) ||
		!value_take(&in, cie->pointer_encoding & PE_FORMAT, &range) ||
		__builtin_add_overflow(ret->lo, range, &ret->hi))
		return false;
	if (cie->augmented && (!bytes_uleb(&in, &length) || !bytes_take(&in, length, &data)))
		return false;
	ret->cie = cie;
	ret->program = in;
	return true;
}

void eh_reader_init(struct eh_reader *reader, const struct eh_section *section)
{
	*reader = (struct eh_reader){.section = *section, .rest = section->bytes};
}

enum eh_result eh_frame_next(struct eh_reader *reader, struct eh_fde *ret)
{
	for (;;) {
		struct bytes entry;
		uint32_t id;

		if (!bytes_left(&reader->rest))
			return EH_END;
		if (!entry_take(&reader->rest, &entry)) {
			reader->rest.at = reader->rest.end;
			return EH_BAD;
		}
		if (!bytes_left(&entry)) {
			reader->rest.end = reader->rest.at;
			reader->terminated = true;
			return EH_END;
		}
		const uint8_t *id_at = entry.at;
		if (!bytes_u32(&entry, &id))
			return EH_BAD;
		if (id == 0)
			continue;
		return cie_select(reader, id_at, id) && fde_parse(reader, entry, ret) ? EH_FDE
										      : EH_BAD;
	}
}
