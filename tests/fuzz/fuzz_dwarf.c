/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer entry (make fuzz): the input is an ELF file with debug information. Names and lines are
 * looked up at addresses of its code.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/dwarf.h"

#define ADDRESSES 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(struct dwarf *dwarf, const struct symtab *symtab)
{
	struct strings strings = {0};
	struct rec_frame frame[TRACE_INLINE_MAX];
	struct ht_err *err = NULL;
	for (uint64_t i = 0; i < ADDRESSES && !err; i++) {
		uint64_t count = 0;
		/* Code of object files begins at 0, that of small programs at 0x1000 or
		 * 0x401000. */
		const uint64_t lo = i % 4 == 0 ? 0x1000 : i % 4 == 1 ? 0x401000 : 0;
		err = dwarf_frames(dwarf, symtab, &strings, lo + i, frame, &count);
		if (!err && count > TRACE_INLINE_MAX)
			abort();
	}
	if (err && err->code != HT_ERR_FORMAT)
		abort();
	ht_err_free(err);
	strings_deinit(&strings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dwarf_note note;
	struct elf_file file = {.fd = -1};
	struct finder finder;
	struct symtab symtab = {0};
	struct dwarf *dwarf = NULL;
	char *copy = malloc(size + 1);
	struct ht_err *err = finder_init(&finder, "");
	if (!copy || err)
		abort();
	memcpy(copy, data, size);
	elf_file_take_memory(&file, copy, size);
	memset(&note, 0, sizeof(note));
	if (file.elf) {
		err = symtab_add(&symtab, file.elf);
		symtab_sort(&symtab);
	}
	if (!err && file.elf && elf_file_has_section(&file, ".debug_info"))
		err = dwarf_create(&file, &finder, "/none", &note, &dwarf);
	if (!err && dwarf)
		look_up(dwarf, &symtab);
	ht_err_free(err);
	dwarf_destroy(dwarf);
	symtab_deinit(&symtab);
	elf_file_close(&file);
	finder_deinit(&finder);
	return 0;
}
