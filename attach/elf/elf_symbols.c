/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/elf_symbols.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "attach/helper/pulse.h"
#include "attach/memory/slow.h"
#include "attach/proc/fd.h"

#define DEBUG_FILES    "/usr/lib/debug/.build-id/"
#define BUILD_ID_BYTES 64u

/* Names lie anywhere among megabytes: prefetch, or each costs a cache miss. */
#define AHEAD (8 * sizeof(Elf64_Sym))

static void fetch_name(const struct elf_table *symbols, const struct elf_table *strings, size_t at)
{
	Elf64_Sym symbol;
	if (symbols->bytes < sizeof(symbol) || at > symbols->bytes - sizeof(symbol))
		return;
	memcpy(&symbol, symbols->data + at, sizeof(symbol));
	if (symbol.st_name < strings->bytes)
		__builtin_prefetch(strings->data + symbol.st_name);
}

static struct ht_err *visit_all(const struct elf_table *symbols, const struct elf_table *strings,
	elf_symbols_visit *visit, void *context)
{
	Elf64_Sym symbol;
	struct ht_err *err = NULL;
	for (size_t at = 0; !err && at + sizeof(symbol) <= symbols->bytes; at += sizeof(symbol)) {
		memcpy(&symbol, symbols->data + at, sizeof(symbol));
		unsigned type = ELF64_ST_TYPE(symbol.st_info);
		fetch_name(symbols, strings, at + AHEAD);
		if (symbol.st_name < strings->bytes &&
			(symbol.st_shndx == SHN_UNDEF || type == STT_FUNC || type == STT_OBJECT ||
				type == STT_TLS))
			err = visit(context, &symbol, (const char *)strings->data + symbol.st_name);
	}
	return err;
}

static struct ht_err *visit_table(
	struct elf_file *file, uint32_t type, elf_symbols_visit *visit, void *context)
{
	const Elf64_Shdr *section = elf_file_typed(file, type, NULL);
	const Elf64_Shdr *linked = section ? elf_file_linked(file, section) : NULL;
	HT_CLEANUP(elf_table_deinit) struct elf_table symbols = {0};
	HT_CLEANUP(elf_table_deinit) struct elf_table strings = {0};
	if (!linked)
		return NULL;
	HT_TRY(elf_file_read(file, section, &symbols));
	if (symbols.bytes)
		HT_TRY(elf_file_read(file, linked, &strings));
	return visit_all(&symbols, &strings, visit, context);
}

static int open_debug_file(const struct elf_file *file)
{
	char path[sizeof(DEBUG_FILES) + 2 * BUILD_ID_BYTES + sizeof("/.debug")] = DEBUG_FILES;
	size_t length = strlen(path);
	struct stat stat;
	/* Nothing would end a read that hangs now, and a detach is safe without the file. */
	if (slow_is_avoided() || file->build_id_bytes < 2 || file->build_id_bytes > BUILD_ID_BYTES)
		return -1;
	for (size_t i = 0; i < file->build_id_bytes; i++)
		length += (size_t)snprintf(path + length, sizeof(path) - length,
			i == 1 ? "/%02x" : "%02x", file->build_id[i]);
	snprintf(path + length, sizeof(path) - length, ".debug");
	/* The directory may be on another machine. */
	pulse_enter();
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode)))
		fd_close(&fd);
	pulse_leave();
	return fd;
}

static struct ht_err *visit_debug_file(
	struct elf_file *file, elf_symbols_visit *visit, void *context)
{
	struct elf_file debug;
	FD_GUARD int fd = open_debug_file(file);
	if (fd < 0)
		return NULL;
	struct ht_err *err =
		elf_file_open(fd, file->build_id, file->build_id_bytes, file->budget, &debug);
	HT_THEN(err, visit_table(&debug, SHT_SYMTAB, visit, context));
	file->partial |= debug.partial;
	elf_file_close(&debug);
	return err;
}

struct ht_err *elf_symbols_each(struct elf_file *file, elf_symbols_visit *visit, void *context)
{
	HT_TRY(visit_table(file, SHT_DYNSYM, visit, context));
	return elf_file_typed(file, SHT_SYMTAB, NULL)
		       ? visit_table(file, SHT_SYMTAB, visit, context)
		       : visit_debug_file(file, visit, context);
}
