/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer entry: the input is an .eh_frame section as a hostile target could hold it.
 *
 *      clang -g -fsanitize=fuzzer,address,undefined -iquote . -o fuzz_eh_frame \
 *              tests/fuzz/fuzz_eh_frame.c attach/unwind/{eh_frame,cfa,table}.c \
 *              format/{bytes,err}.c
 */
#include <stdlib.h>

#include "attach/unwind/table.h"

#define TEXT_LO	   0x1000u
#define TEXT_BYTES 0x10000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_input input = {
		.eh_frame = data,
		.eh_frame_bytes = size,
		.eh_frame_vaddr = 0x100000,
		.text_lo = TEXT_LO,
		.text_hi = TEXT_LO + TEXT_BYTES,
	};
	struct abi_table *table;
	struct unwind_stats stats;
	struct ht_err *err = table_compile(&input, &table, &stats);
	if (err) {
		ht_err_free(err);
		return 0;
	}
	for (uint64_t pc = TEXT_LO; pc < TEXT_LO + TEXT_BYTES; pc += 61) {
		if (table_lookup(table, pc) >> ABI_RULE_BITS)
			__builtin_trap();
	}
	free(table);
	return 0;
}
