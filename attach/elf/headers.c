/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/headers.h"

#include <string.h>

#include "attach/elf/elf_file.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "format/arch.h"

#define PHDRS_MAX	128u
#define NOTES_MAX_BYTES 65536u

static bool header_valid(const Elf64_Ehdr *ehdr)
{
	return !memcmp(ehdr->e_ident, ELFMAG, SELFMAG) && ehdr->e_ident[EI_CLASS] == ELFCLASS64 &&
	       ehdr->e_ident[EI_DATA] == ELFDATA2LSB && ehdr->e_machine == ARCH_ELF_MACHINE &&
	       (ehdr->e_type == ET_DYN || ehdr->e_type == ET_EXEC) &&
	       ehdr->e_phentsize == sizeof(Elf64_Phdr) && ehdr->e_phnum > 0 &&
	       ehdr->e_phnum <= PHDRS_MAX && ehdr->e_phoff < INT32_MAX;
}

/* Keeps the segments ascending: the kernel accepts executables in which they are not. */
static bool segment_add(struct module *module, const Elf64_Phdr *phdr)
{
	if (phdr->p_memsz == 0)
		return true;
	if (module->segment_count == MODULE_SEGMENTS_MAX || phdr->p_filesz > phdr->p_memsz ||
		phdr->p_vaddr > INT64_MAX || phdr->p_memsz > INT64_MAX - phdr->p_vaddr ||
		(phdr->p_vaddr - phdr->p_offset) % HT_PAGE_BYTES)
		return false;
	size_t at = module->segment_count++;
	for (; at > 0 && module->segment[at - 1].vaddr > phdr->p_vaddr; at--)
		module->segment[at] = module->segment[at - 1];
	module->segment[at] = (struct module_segment){.vaddr = phdr->p_vaddr,
		.memsz = phdr->p_memsz,
		.filesz = phdr->p_filesz,
		.offset = phdr->p_offset,
		.flags = phdr->p_flags};
	return true;
}

static bool segments_overlap(const struct module *module)
{
	for (size_t i = 1; i < module->segment_count; i++) {
		const struct module_segment *before = &module->segment[i - 1];
		if (before->vaddr + before->memsz > module->segment[i].vaddr)
			return true;
	}
	return false;
}

/* The segment that contains the first page of the file, and so the ELF header. */
static const struct module_segment *header_segment(const struct module *module)
{
	for (size_t i = 0; i < module->segment_count; i++)
		if (module->segment[i].offset < HT_PAGE_BYTES &&
			module->segment[i].filesz + module->segment[i].offset >= sizeof(Elf64_Ehdr))
			return &module->segment[i];
	return NULL;
}

static void text_span(struct module *module)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		if (!(segment->flags & PF_X))
			continue;
		if (module->text_lo == module->text_hi)
			module->text_lo =
				module->bias + ht_align_down(segment->vaddr, HT_PAGE_BYTES);
		module->text_hi =
			module->bias + ht_align_up(segment->vaddr + segment->memsz, HT_PAGE_BYTES);
	}
}

static bool place(struct module *module, raddr_t header)
{
	const struct module_segment *first = header_segment(module);
	if (!first || segments_overlap(module))
		return false;
	module->bias = header - ht_align_down(first->vaddr, HT_PAGE_BYTES);
	if (!module->pie && module->bias != 0)
		return false;
	const struct module_segment *last = &module->segment[module->segment_count - 1];
	module->lo = module->bias + ht_align_down(module->segment[0].vaddr, HT_PAGE_BYTES);
	module->hi = module->bias + ht_align_up(last->vaddr + last->memsz, HT_PAGE_BYTES);
	text_span(module);
	return module->lo <= header && header < module->hi && module->hi <= INT64_MAX;
}

/* The address of what `phdr` describes; 0: outside of the image. */
static raddr_t inside(const struct module *module, const Elf64_Phdr *phdr)
{
	raddr_t addr = module->bias + phdr->p_vaddr;
	return addr >= module->lo && addr < module->hi && phdr->p_memsz <= module->hi - addr ? addr
											     : 0;
}

static struct ht_err *notes_read(
	const struct proc *proc, struct module *module, const Elf64_Phdr *phdr)
{
	uint8_t notes[4096];
	size_t bytes, length = phdr->p_memsz < sizeof(notes) ? phdr->p_memsz : sizeof(notes);
	raddr_t addr = inside(module, phdr);
	if (!addr || module->build_id_bytes)
		return NULL;
	HT_TRY(memory_read_some(proc, addr, notes, length, &length));
	const uint8_t *id = elf_build_id(notes, length, phdr->p_align == 8 ? 8 : 4, &bytes);
	if (id && bytes <= sizeof(module->build_id)) {
		memcpy(module->build_id, id, bytes);
		module->build_id_bytes = bytes;
	}
	return NULL;
}

static struct ht_err *extras_read(const struct proc *proc, struct module *module,
	const Elf64_Phdr *phdr, size_t count, bool *ret_valid)
{
	for (size_t i = 0; i < count; i++) {
		raddr_t addr = inside(module, &phdr[i]);
		if (phdr[i].p_type == PT_DYNAMIC) {
			module->dynamic = addr;
			module->dynamic_bytes = phdr[i].p_memsz;
			*ret_valid &= addr != 0;
		} else if (phdr[i].p_type == PT_GNU_EH_FRAME) {
			module->eh_frame_hdr = addr;
			module->eh_frame_hdr_bytes = phdr[i].p_memsz;
			*ret_valid &= addr != 0;
		} else if (phdr[i].p_type == PT_TLS && phdr[i].p_align &&
			   phdr[i].p_vaddr % phdr[i].p_align == 0) {
			module->tls_bytes = ht_align_up(phdr[i].p_memsz, phdr[i].p_align);
		} else if (phdr[i].p_type == PT_NOTE) {
			HT_TRY(notes_read(proc, module, &phdr[i]));
		}
	}
	return NULL;
}

struct ht_err *headers_read(
	const struct proc *proc, raddr_t header, struct module *ret, bool *ret_valid)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[PHDRS_MAX];
	size_t got;
	*ret = (struct module){0};
	*ret_valid = false;
	struct ht_err *err = memory_read_some(proc, header, &ehdr, sizeof(ehdr), &got);
	if (err || got < sizeof(ehdr) || !header_valid(&ehdr))
		return err;
	size_t phdr_bytes = ehdr.e_phnum * sizeof(Elf64_Phdr);
	err = memory_read_some(proc, header + ehdr.e_phoff, phdr, phdr_bytes, &got);
	if (err || got < phdr_bytes)
		return err;
	ret->pie = ehdr.e_type == ET_DYN;
	for (size_t i = 0; i < ehdr.e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && !segment_add(ret, &phdr[i]))
			return NULL;
	*ret_valid = place(ret, header);
	return *ret_valid ? extras_read(proc, ret, phdr, ehdr.e_phnum, ret_valid) : NULL;
}

bool headers_are_loaded(
	const struct module *module, const struct proc_maps *maps, const struct proc_map *file)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		const struct proc_map *map = proc_maps_find(maps, module->bias + segment->vaddr);
		if (!map || ((segment->flags & PF_X) && !map->exec))
			return false;
		/* A mapping without a file: text moved to huge pages, or an image that never had a
		 * file. */
		if (map->inode && (map->inode != file->inode || map->dev_major != file->dev_major ||
					  map->dev_minor != file->dev_minor))
			return false;
		raddr_t offset = module->bias + segment->vaddr - map->lo + map->offset;
		if (map->inode && offset != segment->offset)
			return false;
	}
	return true;
}
