/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/unwind/eh_frame.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ehwriter.h"
#include "tests/support/ht_check.h"

#define SECTION_VADDR 0x3000

static struct eh_reader reader_of(const struct ehwriter *writer)
{
	struct eh_section section = {
		.bytes = bytes_of(writer->out.data, writer->out.length),
		.vaddr = writer->vaddr,
	};
	struct eh_reader reader;
	eh_reader_init(&reader, &section);
	return reader;
}

static void expect_fde(struct eh_reader *reader, uint64_t lo, uint64_t hi, struct eh_fde *ret)
{
	ck_assert_int_eq(eh_frame_next(reader, ret), EH_FDE);
	ck_assert_uint_eq(ret->lo, lo);
	ck_assert_uint_eq(ret->hi, hi);
}

static void expect_result(struct eh_reader *reader, enum eh_result result)
{
	struct eh_fde fde;
	ck_assert_int_eq(eh_frame_next(reader, &fde), result);
}

/* Reads the FDE of a section with one CIE and one FDE for the code at 0x1000. If the result is
 * EH_FDE, `*ret` is its CIE as it was read. */
static enum eh_result read_one(const struct ehcie *cie, struct eh_cie *ret)
{
	struct ehwriter writer = {.vaddr = SECTION_VADDR};
	struct eh_fde fde;
	size_t at = ehwriter_cie(&writer, cie);
	ehwriter_fde(&writer, at, cie, 0x1000, 0x20, EHPROGRAM(DW_CFA_nop));
	struct eh_reader reader = reader_of(&writer);
	enum eh_result result = eh_frame_next(&reader, &fde);
	if (result == EH_FDE) {
		ck_assert_uint_eq(fde.lo, 0x1000);
		ck_assert_uint_eq(fde.hi, 0x1020);
		*ret = *fde.cie;
	}
	ehwriter_deinit(&writer);
	return result;
}

HT_TEST(gives_fdes_in_order_with_their_programs)
{
	struct ehwriter writer = {.vaddr = SECTION_VADDR};
	struct ehcie cie = EHCIE_USUAL;
	size_t at = ehwriter_cie(&writer, &cie);
	ehwriter_fde(&writer, at, &cie, 0x2000, 0x10, EHPROGRAM(1, 2, 3, 4, 5, 6, 7));
	ehwriter_fde(&writer, at, &cie, 0x1000, 0x80, EHPROGRAM(9, 9, 9));
	ehwriter_end(&writer);
	ehwriter_fde(&writer, at, &cie, 0x5000, 0x80, EHPROGRAM(9, 9, 9));

	struct eh_reader reader = reader_of(&writer);
	struct eh_fde fde;
	expect_fde(&reader, 0x2000, 0x2010, &fde);
	ck_assert_uint_eq(bytes_left(&fde.program), 7);
	ck_assert_mem_eq(fde.program.at, ((uint8_t[]){1, 2, 3, 4, 5, 6, 7}), 7);
	ck_assert_uint_eq(fde.cie->code_align, 1);
	ck_assert_int_eq(fde.cie->data_align, -8);
	ck_assert_mem_eq(fde.cie->program.at, EHPROGRAM_CIE.data, EHPROGRAM_CIE.length);
	expect_fde(&reader, 0x1000, 0x1080, &fde);
	expect_result(&reader, EH_END);
	expect_result(&reader, EH_END);
	ehwriter_deinit(&writer);
}

HT_TEST(needs_no_terminator)
{
	struct ehwriter writer = {.vaddr = SECTION_VADDR};
	struct ehcie cie = EHCIE_USUAL;
	size_t at = ehwriter_cie(&writer, &cie);
	ehwriter_fde(&writer, at, &cie, 0x2000, 0x10, EHPROGRAM(DW_CFA_nop));
	struct eh_reader reader = reader_of(&writer);
	struct eh_fde fde;
	expect_fde(&reader, 0x2000, 0x2010, &fde);
	expect_result(&reader, EH_END);
	ehwriter_deinit(&writer);
}

HT_TEST(reads_every_encoding_of_addresses)
{
	static const uint8_t encodings[] = {
		DW_EH_PE_absptr,
		DW_EH_PE_uleb128,
		DW_EH_PE_udata2,
		DW_EH_PE_udata4,
		DW_EH_PE_udata8,
		DW_EH_PE_sleb128,
		DW_EH_PE_sdata2,
		DW_EH_PE_sdata4,
		DW_EH_PE_sdata8,
		DW_EH_PE_pcrel | DW_EH_PE_absptr,
		DW_EH_PE_pcrel | DW_EH_PE_sleb128,
		DW_EH_PE_pcrel | DW_EH_PE_sdata2,
		DW_EH_PE_pcrel | DW_EH_PE_sdata4,
		DW_EH_PE_pcrel | DW_EH_PE_sdata8,
	};
	for (size_t i = 0; i < sizeof(encodings); i++) {
		struct ehcie cie = EHCIE_USUAL;
		struct eh_cie found;
		cie.encoding = encodings[i];
		ck_assert_msg(read_one(&cie, &found) == EH_FDE, "encoding %#x", encodings[i]);
	}
}

HT_TEST(refuses_encodings_without_a_base)
{
	static const uint8_t encodings[] = {
		DW_EH_PE_textrel | DW_EH_PE_sdata4,
		DW_EH_PE_datarel | DW_EH_PE_sdata4,
		DW_EH_PE_funcrel | DW_EH_PE_sdata4,
		DW_EH_PE_aligned,
		DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4,
		0x05,
		0x0f,
		DW_EH_PE_omit,
	};
	for (size_t i = 0; i < sizeof(encodings); i++) {
		struct ehcie cie = EHCIE_USUAL;
		struct eh_cie found;
		cie.encoding = encodings[i];
		ck_assert_msg(read_one(&cie, &found) == EH_BAD, "encoding %#x", encodings[i]);
	}
}

HT_TEST(understands_augmentations)
{
	static const struct {
		const char *text;
		enum eh_result result;
		bool augmented, signal_frame;
	} cases[] = {
		{"", EH_FDE, false, false},
		{"z", EH_FDE, true, false},
		{"zR", EH_FDE, true, false},
		{"zRS", EH_FDE, true, true},
		{"zPLR", EH_FDE, true, false},
		{"eh", EH_BAD, false, false},
		{"R", EH_BAD, false, false},
		{"zRx", EH_BAD, false, false},
		{"zRSSSSSSSSSSSS", EH_BAD, false, false},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		struct ehcie cie = EHCIE_USUAL;
		struct eh_cie found;
		cie.augmentation = cases[i].text;
		enum eh_result result = read_one(&cie, &found);
		ck_assert_msg(result == cases[i].result, "\"%s\"", cases[i].text);
		if (result != EH_FDE)
			continue;
		ck_assert_msg(found.augmented == cases[i].augmented, "\"%s\"", cases[i].text);
		ck_assert_msg(found.signal_frame == cases[i].signal_frame, "\"%s\"", cases[i].text);
	}
}

HT_TEST(steps_over_personalities)
{
	static const struct {
		uint8_t encoding;
		enum eh_result result;
	} cases[] = {
		{DW_EH_PE_omit, EH_FDE},
		{DW_EH_PE_absptr, EH_FDE},
		{DW_EH_PE_uleb128, EH_FDE},
		{DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata8, EH_FDE},
		{DW_EH_PE_datarel | DW_EH_PE_sdata4, EH_FDE},
		{DW_EH_PE_aligned, EH_BAD},
		{0x0f, EH_BAD},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		struct ehcie cie = EHCIE_USUAL;
		struct eh_cie found;
		cie.augmentation = "zPLR";
		cie.personality = cases[i].encoding;
		ck_assert_msg(read_one(&cie, &found) == cases[i].result, "encoding %#x",
			cases[i].encoding);
	}
}

HT_TEST(refuses_cies_it_does_not_know)
{
	static uint8_t nops[EH_CIE_MAX];
	struct eh_cie found;
	struct ehcie cie = EHCIE_USUAL;
	cie.version = 3;
	ck_assert_int_eq(read_one(&cie, &found), EH_FDE);
	cie.version = 2;
	ck_assert_int_eq(read_one(&cie, &found), EH_BAD);
	cie = EHCIE_USUAL;
	cie.ra_column = 30;
	ck_assert_int_eq(read_one(&cie, &found), EH_BAD);
	cie = EHCIE_USUAL;
	cie.program = (struct ehprogram){.data = nops, .length = EH_CIE_MAX - 32};
	ck_assert_int_eq(read_one(&cie, &found), EH_FDE);
	cie.program.length = EH_CIE_MAX;
	ck_assert_int_eq(read_one(&cie, &found), EH_BAD);
}

HT_TEST(serial_tells_that_the_cie_changed)
{
	struct ehwriter writer = {.vaddr = SECTION_VADDR};
	struct ehcie cie = EHCIE_USUAL, signal_cie = EHCIE_USUAL;
	signal_cie.augmentation = "zRS";
	size_t a = ehwriter_cie(&writer, &cie);
	ehwriter_fde(&writer, a, &cie, 0x1000, 0x10, EHPROGRAM(DW_CFA_nop));
	ehwriter_fde(&writer, a, &cie, 0x1010, 0x10, EHPROGRAM(DW_CFA_nop));
	size_t b = ehwriter_cie(&writer, &signal_cie);
	ehwriter_fde(&writer, b, &signal_cie, 0x1020, 0x10, EHPROGRAM(DW_CFA_nop));
	ehwriter_fde(&writer, a, &cie, 0x1030, 0x10, EHPROGRAM(DW_CFA_nop));

	struct eh_reader reader = reader_of(&writer);
	struct eh_fde fde;
	expect_fde(&reader, 0x1000, 0x1010, &fde);
	uint64_t first = fde.cie->serial;
	ck_assert_uint_ne(first, 0);
	expect_fde(&reader, 0x1010, 0x1020, &fde);
	ck_assert_uint_eq(fde.cie->serial, first);
	expect_fde(&reader, 0x1020, 0x1030, &fde);
	uint64_t second = fde.cie->serial;
	ck_assert_uint_ne(second, first);
	ck_assert(fde.cie->signal_frame);
	expect_fde(&reader, 0x1030, 0x1040, &fde);
	ck_assert_uint_ne(fde.cie->serial, second);
	ck_assert(!fde.cie->signal_frame);
	ehwriter_deinit(&writer);
}

HT_TEST(goes_on_behind_a_bad_entry)
{
	struct ehwriter writer = {.vaddr = SECTION_VADDR};
	struct ehcie cie = EHCIE_USUAL;
	size_t at = ehwriter_cie(&writer, &cie);
	size_t outside = writer.out.length;
	ehwriter_fde(&writer, at, &cie, 0x1000, 0x10, EHPROGRAM(DW_CFA_nop));
	size_t no_cie = writer.out.length;
	ehwriter_fde(&writer, at, &cie, 0x1010, 0x10, EHPROGRAM(DW_CFA_nop));
	ehwriter_fde(&writer, at, &cie, 0x1020, UINT64_MAX, EHPROGRAM(DW_CFA_nop));
	ehwriter_fde(&writer, at, &cie, 0x1030, 0x10, EHPROGRAM(DW_CFA_nop));
	memcpy(writer.out.data + outside + 4, &(uint32_t){0x10000}, 4);
	memcpy(writer.out.data + no_cie + 4, &(uint32_t){(uint32_t)(no_cie + 4 - outside)}, 4);

	struct eh_reader reader = reader_of(&writer);
	struct eh_fde fde;
	expect_result(&reader, EH_BAD);
	expect_result(&reader, EH_BAD);
	expect_result(&reader, EH_BAD);
	expect_fde(&reader, 0x1030, 0x1040, &fde);
	expect_result(&reader, EH_END);
	ehwriter_deinit(&writer);
}

HT_TEST(ends_at_a_length_that_does_not_fit)
{
	static const uint32_t lengths[] = {0x100, 0x7fffffff, 0xffffffff};
	for (size_t i = 0; i < HT_ARRAY_SIZE(lengths); i++) {
		struct ehwriter writer = {.vaddr = SECTION_VADDR};
		struct ehcie cie = EHCIE_USUAL;
		size_t at = ehwriter_cie(&writer, &cie);
		size_t bad = writer.out.length;
		ehwriter_fde(&writer, at, &cie, 0x1000, 0x10, EHPROGRAM(DW_CFA_nop));
		ehwriter_fde(&writer, at, &cie, 0x1010, 0x10, EHPROGRAM(DW_CFA_nop));
		memcpy(writer.out.data + bad, &lengths[i], 4);
		struct eh_reader reader = reader_of(&writer);
		expect_result(&reader, EH_BAD);
		expect_result(&reader, EH_END);
		ehwriter_deinit(&writer);
	}
}

/* The copy ends exactly where the section does: a sanitizer sees every byte read beyond. */
HT_TEST(cut_anywhere_reads_nothing_beyond)
{
	struct ehwriter writer = {.vaddr = SECTION_VADDR};
	struct ehcie cie = EHCIE_USUAL;
	cie.augmentation = "zPLRS";
	size_t at = ehwriter_cie(&writer, &cie);
	ehwriter_fde(&writer, at, &cie, 0x1000, 0x10, EHPROGRAM(DW_CFA_nop));
	size_t first_end = writer.out.length;
	ehwriter_fde(&writer, at, &cie, 0x1010, 0x10, EHPROGRAM(DW_CFA_nop));

	for (size_t length = 1; length < writer.out.length; length++) {
		uint8_t *copy = malloc(length);
		memcpy(copy, writer.out.data, length);
		struct eh_section section = {
			.bytes = bytes_of(copy, length), .vaddr = SECTION_VADDR};
		struct eh_reader reader;
		struct eh_fde fde;
		enum eh_result result;
		size_t fdes = 0;
		eh_reader_init(&reader, &section);
		while ((result = eh_frame_next(&reader, &fde)) != EH_END)
			fdes += result == EH_FDE;
		ck_assert_uint_eq(fdes, length >= first_end);
		free(copy);
	}
	ehwriter_deinit(&writer);
}

HT_SUITE("attach/unwind/eh_frame")
