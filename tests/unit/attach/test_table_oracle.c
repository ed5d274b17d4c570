/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares compiled tables with libdw's reading of the same files: at every row start and at many
 * random PCs both unwind one frame of an imaginary machine, and must find the same caller.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/unwind/table.h"
#include "tests/support/ht_check.h"
#include "tests/support/random.h"

#define RANDOM_PCS	50000
#define UNSUPPORTED_MAX 0.002 /* share of all rows that may have no rule */
#define GAP_MERGE_MAX	15

enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RA = 16 };

struct elf_file {
	int fd;
	Elf *elf;
	Dwarf_CFI *cfi;
	struct unwind_input input;
};

/* Memory holds a hash of the address: equal values come from equal addresses. */
struct machine {
	uint64_t rsp, rbp, pc;
};

/* The values in which both unwinders' callers must agree. */
struct caller {
	bool outermost, signal, unknown;
	uint64_t cfa, rsp, rbp;
	uint64_t ra_at;
};

struct totals {
	uint64_t files, rows, unsupported_rows, probes, unsupported_probes, differences;
};

static uint64_t memory_at(uint64_t addr)
{
	return random_next(&addr);
}

/* --- the file -------------------------------------------------------------------------------- */

static bool eh_frame_section_find(struct elf_file *file)
{
	size_t names;
	if (elf_getshdrstrndx(file->elf, &names) != 0)
		return false;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file->elf, scn));) {
		GElf_Shdr shdr;
		ck_assert_ptr_nonnull(gelf_getshdr(scn, &shdr));
		const char *name = elf_strptr(file->elf, names, shdr.sh_name);
		if (!name || strcmp(name, ".eh_frame") != 0)
			continue;
		Elf_Data *data = elf_rawdata(scn, NULL);
		ck_assert_ptr_nonnull(data);
		file->input.eh_frame = data->d_buf;
		file->input.eh_frame_bytes = data->d_size;
		file->input.eh_frame_vaddr = shdr.sh_addr;
		return true;
	}
	return false;
}

static void text_find(struct elf_file *file)
{
	size_t count;
	ck_assert_int_eq(elf_getphdrnum(file->elf, &count), 0);
	file->input.text_lo = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr phdr;
		ck_assert_ptr_nonnull(gelf_getphdr(file->elf, (int)i, &phdr));
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X))
			continue;
		uint64_t lo = ht_align_down(phdr.p_vaddr, HT_PAGE_BYTES);
		uint64_t hi = ht_align_up(phdr.p_vaddr + phdr.p_memsz, HT_PAGE_BYTES);
		if (lo < file->input.text_lo)
			file->input.text_lo = lo;
		if (hi > file->input.text_hi)
			file->input.text_hi = hi;
	}
	ck_assert_uint_lt(file->input.text_lo, file->input.text_hi);
}

static bool elf_file_open(const char *path, struct elf_file *ret)
{
	*ret = (struct elf_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (ret->fd < 0)
		return false;
	ck_assert_uint_ne(elf_version(EV_CURRENT), EV_NONE);
	ret->elf = elf_begin(ret->fd, ELF_C_READ_MMAP, NULL);
	ck_assert_ptr_nonnull(ret->elf);
	ck_assert_msg(eh_frame_section_find(ret), "%s has no .eh_frame", path);
	text_find(ret);
	ret->cfi = dwarf_getcfi_elf(ret->elf);
	ck_assert_ptr_nonnull(ret->cfi);
	return true;
}

static void elf_file_close(struct elf_file *file)
{
	dwarf_cfi_end(file->cfi);
	elf_end(file->elf);
	close(file->fd);
}

/* --- libdw's caller -------------------------------------------------------------------------- */

static uint64_t reg_value(const struct machine *machine, uint64_t reg)
{
	switch (reg) {
	case DWARF_RBP:
		return machine->rbp;
	case DWARF_RSP:
		return machine->rsp;
	case DWARF_RA:
		return machine->pc;
	default:
		return memory_at(reg);
	}
}

struct location {
	bool undefined, same, is_value;
	bool unknown;	/* computed with an operation that location_eval does not know */
	uint64_t value; /* of the register if is_value, else the address where it is saved */
};

static void location_eval(const struct machine *machine, const Dwarf_Op *ops, size_t count,
	uint64_t cfa, struct location *ret)
{
	uint64_t stack[64] = {0};
	size_t n = 2;
	for (size_t i = 0; i < count; i++) {
		const Dwarf_Op *op = &ops[i];
		if (n == 63) {
			ret->unknown = true;
			return;
		}
		if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
			stack[n++] = reg_value(machine, op->atom - DW_OP_breg0) + op->number;
		else if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
			stack[n++] = op->atom - DW_OP_lit0;
		else if (op->atom == DW_OP_bregx)
			stack[n++] = reg_value(machine, op->number) + op->number2;
		else if (op->atom == DW_OP_regx) {
			stack[n++] = reg_value(machine, op->number);
			ret->is_value = true;
		} else if (op->atom == DW_OP_call_frame_cfa)
			stack[n++] = cfa;
		else if (op->atom == DW_OP_stack_value)
			ret->is_value = true;
		else if (op->atom == DW_OP_deref)
			stack[n - 1] = memory_at(stack[n - 1]);
		else if (op->atom == DW_OP_plus_uconst)
			stack[n - 1] += op->number;
		else {
			uint64_t b = stack[--n], *a = &stack[n - 1];
			if (op->atom == DW_OP_plus)
				*a += b;
			else if (op->atom == DW_OP_and)
				*a &= b;
			else if (op->atom == DW_OP_shl)
				*a <<= b;
			else if (op->atom == DW_OP_ge)
				*a = (int64_t)*a >= (int64_t)b;
			else {
				ret->unknown = true;
				return;
			}
		}
	}
	ret->value = stack[n - 1];
}

static void register_eval(const struct machine *machine, Dwarf_Frame *frame, int reg, uint64_t cfa,
	struct location *ret)
{
	Dwarf_Op memory[3], *ops;
	size_t count;
	*ret = (struct location){0};
	if (dwarf_frame_register(frame, reg, memory, &ops, &count) != 0) {
		ret->unknown = true;
		return;
	}
	if (count == 0) {
		ret->undefined = ops == memory;
		ret->same = !ret->undefined;
		return;
	}
	location_eval(machine, ops, count, cfa, ret);
}

/* Returns false if libdw knows no CFI for the PC, or the CFA is undefined. */
static bool oracle_unwind(Dwarf_CFI *cfi, const struct machine *machine, struct caller *ret)
{
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t count;
	struct location cfa = {0}, reg;

	*ret = (struct caller){0};
	if (dwarf_cfi_addrframe(cfi, machine->pc, &frame) != 0)
		return false;
	if (dwarf_frame_info(frame, NULL, NULL, &ret->signal) < 0 ||
		dwarf_frame_cfa(frame, &ops, &count) != 0)
		ck_abort_msg("libdw: %s", dwarf_errmsg(-1));
	location_eval(machine, ops, count, 0, &cfa);
	ret->cfa = cfa.value;
	ret->unknown = cfa.unknown;

	register_eval(machine, frame, DWARF_RA, ret->cfa, &reg);
	ret->unknown |= reg.unknown;
	ret->outermost = reg.undefined;
	ret->ra_at = reg.is_value || reg.same ? 0 : reg.value;
	register_eval(machine, frame, DWARF_RSP, ret->cfa, &reg);
	ret->unknown |= reg.unknown;
	ret->rsp = reg.is_value ? reg.value : memory_at(reg.value);
	register_eval(machine, frame, DWARF_RBP, ret->cfa, &reg);
	ret->unknown |= reg.unknown;
	ret->rbp = reg.undefined || reg.same ? machine->rbp
		   : reg.is_value	     ? reg.value
					     : memory_at(reg.value);
	free(frame);
	return true;
}

/* --- the table's caller ---------------------------------------------------------------------- */

static struct caller rule_unwind(uint32_t rule, const struct machine *machine)
{
	struct caller caller = {0};
	uint64_t offset = (uint64_t)(int64_t)abi_rule_offset(rule);
	uint64_t slot = abi_rule_rbp_slot(rule);

	switch (abi_rule_kind(rule)) {
	case ABI_RULE_RSP:
		caller.cfa = machine->rsp + 8 * offset;
		break;
	case ABI_RULE_RBP:
		caller.cfa = machine->rbp + 8 * offset;
		break;
	case ABI_RULE_DRAP:
		caller.cfa = memory_at(machine->rbp + 8 * offset);
		break;
	case ABI_RULE_PLT:
		caller.cfa = machine->rsp + 8 + ((machine->pc & 15) >= offset ? 8 : 0);
		break;
	case ABI_RULE_SIGNAL:
		caller.signal = true;
		caller.cfa = caller.rsp = memory_at(machine->rsp + 160);
		caller.ra_at = machine->rsp + 168;
		caller.rbp = memory_at(machine->rsp + 120);
		return caller;
	case ABI_RULE_END:
		caller.outermost = true;
		return caller;
	case ABI_RULE_NONE:
	case ABI_RULE_FRAME:
		ck_abort_msg("not a rule from CFI");
	}
	caller.rsp = caller.cfa;
	caller.ra_at = caller.cfa - 8;
	caller.rbp = machine->rbp;
	if (abi_rule_kind(rule) == ABI_RULE_DRAP)
		caller.rbp = memory_at(machine->rbp);
	else if (slot)
		caller.rbp = memory_at(caller.cfa - 8 * slot);
	return caller;
}

static bool callers_equal(const struct caller *a, const struct caller *b)
{
	if (a->outermost || b->outermost)
		return a->outermost == b->outermost;
	return a->signal == b->signal && a->cfa == b->cfa && a->rsp == b->rsp && a->rbp == b->rbp &&
	       a->ra_at == b->ra_at;
}

/* --- comparison ------------------------------------------------------------------------------ */

/* Returns true if the rule is allowed for a PC without CFI: that of a gap, or that of the function
 * which the PC pads. */
static bool gap_rule_allowed(struct elf_file *file, const struct abi_table *table, uint64_t pc)
{
	uint32_t rule = table_lookup(table, pc);
	if (rule == abi_rule_make(ABI_RULE_NONE, 0, 0) ||
		rule == abi_rule_make(ABI_RULE_FRAME, 0, 0))
		return true;
	for (uint64_t back = 1; back <= GAP_MERGE_MAX; back++) {
		Dwarf_Frame *frame;
		if (dwarf_cfi_addrframe(file->cfi, pc - back, &frame) != 0)
			continue;
		free(frame);
		return rule == table_lookup(table, pc - back);
	}
	return false;
}

static bool probe(struct elf_file *file, const struct abi_table *table, uint64_t pc,
	uint64_t *random, struct totals *totals)
{
	struct machine machine = {
		.rsp = random_next(random) & ~7ull,
		.rbp = random_next(random) & ~7ull,
		.pc = pc,
	};
	uint32_t rule = table_lookup(table, pc);
	struct caller expected;

	totals->probes++;
	if (!oracle_unwind(file->cfi, &machine, &expected))
		return gap_rule_allowed(file, table, pc);
	if (abi_rule_kind(rule) == ABI_RULE_FRAME)
		return false;
	if (abi_rule_kind(rule) == ABI_RULE_NONE) {
		totals->unsupported_probes++;
		return true;
	}
	struct caller found = rule_unwind(rule, &machine);
	return !expected.unknown && callers_equal(&found, &expected);
}

static void probe_counted(struct elf_file *file, const struct abi_table *table, uint64_t pc,
	uint64_t *random, struct totals *totals)
{
	if (probe(file, table, pc, random, totals))
		return;
	if (totals->differences++ < 10)
		fprintf(stderr, "  differs at %#" PRIx64 ", rule %#x\n", pc,
			table_lookup(table, pc));
}

static void rows_probe(struct elf_file *file, const struct abi_table *table, uint64_t *random,
	struct totals *totals)
{
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *granule = (const uint32_t *)(base + table->granule_off);
	const uint16_t *row_pc = (const uint16_t *)(base + table->pc_off);
	for (uint32_t g = 0; g < table->granule_count; g++) {
		for (uint32_t row = granule[g]; row < granule[g + 1]; row++)
			probe_counted(file, table, table->lo + g * ABI_GRANULE_BYTES + row_pc[row],
				random, totals);
	}
}

static void file_compare(const char *path, struct totals *totals)
{
	struct elf_file file;
	if (!elf_file_open(path, &file)) {
		printf("skipped: table: %s is not here\n", path);
		return;
	}
	struct abi_table *table;
	struct unwind_stats stats;
	ck_no_err(table_compile(&file.input, &table, &stats));
	ck_assert_uint_eq(stats.bad_fdes, 0);

	uint64_t random = 1, differences = totals->differences, none = totals->unsupported_probes;
	rows_probe(&file, table, &random, totals);
	for (int i = 0; i < RANDOM_PCS; i++) {
		uint64_t offset = random_next(&random) % (table->hi - table->lo);
		probe_counted(&file, table, table->lo + offset, &random, totals);
	}
	fprintf(stderr,
		"%s: %" PRIu64 " rows, %" PRIu64 " rules, %" PRIu64
		" unsupported rows, %u bytes; probes: %" PRIu64 " unsupported, %" PRIu64
		" differ\n",
		path, stats.rows, stats.rules, stats.unsupported_rows, table->bytes,
		totals->unsupported_probes - none, totals->differences - differences);
	totals->files++;
	totals->rows += stats.rows;
	totals->unsupported_rows += stats.unsupported_rows;
	free(table);
	elf_file_close(&file);
}

HT_TEST(equals_libdw)
{
	static const char *const paths[] = {
		"/proc/self/exe",
		"/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/bin/redis-server",
		"/usr/bin/node",
	};
	struct totals totals = {0};
	for (size_t i = 0; i < HT_ARRAY_SIZE(paths); i++)
		file_compare(paths[i], &totals);
	ck_assert_uint_ge(totals.files, 3);
	ck_assert_uint_eq(totals.differences, 0);
	ck_assert_double_lt((double)totals.unsupported_rows / (double)totals.rows, UNSUPPORTED_MAX);
}

HT_SUITE("attach/unwind/table against libdw")
