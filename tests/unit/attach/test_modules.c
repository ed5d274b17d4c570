/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/modules.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/compile.h"
#include "tests/support/elfwriter.h"
#include "tests/support/ht_check.h"
#include "tests/support/machine.h"

/* A process and what was read from it. */
struct view {
	struct proc proc;
	struct proc_maps maps;
	struct modules modules;
};

static void view_reread(struct view *view)
{
	struct modules before = view->modules;
	proc_maps_deinit(&view->maps);
	ck_no_err(proc_maps_read(&view->proc, &view->maps));
	ck_no_err(modules_reread(&view->proc, &view->maps, &before, &view->modules));
	modules_deinit(&before);
}

static struct view view_of(pid_t pid)
{
	struct view view;
	ck_no_err(proc_open(pid, &view.proc));
	ck_no_err(proc_open_mem(&view.proc));
	ck_no_err(proc_maps_read(&view.proc, &view.maps));
	ck_no_err(modules_check_machine(&view.proc, &view.maps));
	ck_no_err(modules_read(&view.proc, &view.maps, &view.modules));
	return view;
}

static void view_deinit(struct view *view)
{
	modules_deinit(&view->modules);
	proc_maps_deinit(&view->maps);
	proc_close(&view->proc);
}

static raddr_t at(const void *pointer)
{
	return (raddr_t)(uintptr_t)pointer;
}

/* Sanitizers define the same names in a library of their own. */
static void *libc_handle(void)
{
	return dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
}

struct expected {
	const struct view *view;
	size_t count;
};

/* Compares a module that was found with what the dynamic linker says about it. */
static int compare_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	struct expected *expected = arg;
	const struct module *module = modules_find(&expected->view->modules, at(info->dlpi_phdr));
	ck_assert_msg(module, "%s is missing", info->dlpi_name);
	ck_assert_uint_eq(module->bias, info->dlpi_addr);
	size_t segments = 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		raddr_t addr = info->dlpi_addr + phdr->p_vaddr;
		if (phdr->p_type == PT_LOAD)
			ck_assert_uint_eq(module->segment[segments++].vaddr, phdr->p_vaddr);
		if (phdr->p_type == PT_LOAD && (phdr->p_flags & PF_X))
			ck_assert(
				module->text_lo <= addr && addr + phdr->p_memsz <= module->text_hi);
		if (phdr->p_type == PT_DYNAMIC)
			ck_assert_uint_eq(module->dynamic, addr);
		if (phdr->p_type == PT_GNU_EH_FRAME)
			ck_assert_uint_eq(module->eh_frame_hdr, addr);
	}
	ck_assert_uint_eq(module->segment_count, segments);
	expected->count++;
	return 0;
}

HT_TEST(own_modules_are_those_of_the_dynamic_linker)
{
	ck_assert_ptr_nonnull(dlopen("libjansson.so.4", RTLD_NOW));
	struct view view = view_of(getpid());
	struct expected expected = {.view = &view};
	dl_iterate_phdr(compare_loaded, &expected);
	ck_assert_uint_eq(view.modules.count, expected.count);
	size_t executables = 0, interpreters = 0, vdsos = 0;
	for (size_t i = 0; i < view.modules.count; i++) {
		const struct module *module = &view.modules.module[i];
		ck_assert_uint_ne(module->id, 0);
		ck_assert_ptr_eq(modules_find(&view.modules, module->lo), module);
		ck_assert_ptr_eq(modules_find(&view.modules, module->hi - 1), module);
		executables += module->executable;
		interpreters += module->interpreter;
		vdsos += module->vdso;
	}
	ck_assert_uint_eq(executables, 1);
	ck_assert_uint_eq(interpreters, 1);
	ck_assert_uint_eq(vdsos, getauxval(AT_SYSINFO_EHDR) ? 1 : 0);
	const struct module *own = modules_find(&view.modules, at((void *)compare_loaded));
	ck_assert(own->executable && !own->interpreter && !own->vdso);
	ck_assert_ptr_nonnull(strstr(own->path, "test_modules"));
	ck_assert_ptr_null(modules_find(&view.modules, at(&view)));
	ck_assert_ptr_null(modules_find(&view.modules, 0));
	view_deinit(&view);
}

HT_TEST(symbols_are_those_of_dlsym)
{
	static const char *const names[] = {"malloc", "free", "calloc", "realloc",
		"malloc_usable_size", "posix_memalign", "aligned_alloc", "reallocarray", "fopen"};
	struct view view = view_of(getpid());
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		void *wanted = dlsym(libc_handle(), names[i]);
		const struct module *libc = modules_find(&view.modules, at(wanted));
		raddr_t found;
		ck_assert_ptr_nonnull(libc);
		ck_no_err(module_symbol(&view.proc, libc, names[i], NULL, &found));
		ck_assert_uint_eq(found, at(wanted));
	}
	const struct module *libc = modules_find(&view.modules, at(dlsym(libc_handle(), "malloc")));
	static const char *const absent[] = {
		"", "mallo", "malloc2", "strlen" /* indirect */, "stdout" /* data */};
	for (size_t i = 0; i < HT_ARRAY_SIZE(absent); i++) {
		raddr_t found = 1;
		ck_no_err(module_symbol(&view.proc, libc, absent[i], NULL, &found));
		ck_assert_uint_eq(found, 0);
	}
	/* The kernel's image keeps link-time addresses in its dynamic section. */
	const struct module *vdso = modules_find(&view.modules, getauxval(AT_SYSINFO_EHDR));
	if (vdso) {
		raddr_t found;
		ck_no_err(module_symbol(&view.proc, vdso, "__vdso_clock_gettime", NULL, &found));
		ck_assert(found >= vdso->text_lo && found < vdso->text_hi);
	}
	view_deinit(&view);
}

HT_TEST(second_namespace_is_a_second_module)
{
	void *copy = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
	ck_assert_ptr_nonnull(copy);
	struct view view = view_of(getpid());
	const struct module *first =
		modules_find(&view.modules, at(dlsym(libc_handle(), "malloc")));
	const struct module *second = modules_find(&view.modules, at(dlsym(copy, "malloc")));
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_ne(first, second);
	ck_assert_uint_eq(first->inode, second->inode);
	ck_assert_uint_gt(first->build_id_bytes, 0);
	ck_assert_mem_eq(first->build_id, second->build_id, first->build_id_bytes);
	ck_assert_uint_ne(first->id, second->id);
	view_deinit(&view);
}

HT_TEST(ids_are_kept_and_never_reused)
{
	struct view view = view_of(getpid());
	uint64_t own = modules_find(&view.modules, at((void *)compare_loaded))->id;
	void *library = dlopen("libjansson.so.4", RTLD_NOW);
	raddr_t inside = at(dlsym(library, "json_object"));
	view_reread(&view);
	ck_assert_uint_eq(modules_find(&view.modules, at((void *)compare_loaded))->id, own);
	const struct module *loaded = modules_find(&view.modules, inside);
	uint64_t first = loaded->id;
	/* Another image at the place of the first: a new module. */
	struct elfwriter writer;
	elfwriter_init(&writer);
	elfwriter_protect(&writer);
	view_reread(&view);
	const struct module *written = modules_find(&view.modules, at(writer.image));
	ck_assert_ptr_nonnull(written);
	uint64_t second = written->id;
	ck_assert_uint_gt(second, first);
	elfwriter_open(&writer);
	writer.image[0x800 + sizeof(Elf64_Nhdr) + 4] ^= 1;
	elfwriter_protect(&writer);
	view_reread(&view);
	ck_assert_uint_gt(modules_find(&view.modules, at(writer.image))->id, second);
	elfwriter_deinit(&writer);
	view_deinit(&view);
}

static const char sleeper[] = "#include <stdlib.h>\n"
			      "#include <unistd.h>\n"
			      "int main(void) { free(malloc(1)); for (;;) pause(); }\n";

static void check_kind(const char *const compiler[], bool pie, bool linker)
{
	char *path = compile_or_skip("modules", compiler, sleeper);
	if (!path)
		return;
	struct child child = child_exec((const char *[]){path, NULL}, NULL);
	struct view view = view_of(child.pid);
	size_t executables = 0;
	for (size_t i = 0; i < view.modules.count; i++) {
		const struct module *module = &view.modules.module[i];
		executables += module->executable;
		if (!module->executable)
			continue;
		ck_assert_str_eq(module->path, path);
		ck_assert_int_eq(module->pie, pie);
		ck_assert_int_eq(module->bias != 0, pie);
		ck_assert_uint_lt(module->text_lo, module->text_hi);
		ck_assert(!module->interpreter);
	}
	ck_assert_uint_eq(executables, 1);
	size_t interpreters = 0;
	for (size_t i = 0; i < view.modules.count; i++)
		interpreters += view.modules.module[i].interpreter;
	ck_assert_uint_eq(interpreters, linker);
	/* The file goes, the module stays. */
	unlink(path);
	view_reread(&view);
	ck_assert_uint_eq(view.modules.module[0].id, 1);
	view_deinit(&view);
	child_kill(&child);
	free(path);
}

HT_TEST(all_kinds_of_executables)
{
	check_kind((const char *[]){"gcc", "-pie", "-fPIE", NULL}, true, true);
	check_kind((const char *[]){"gcc", "-no-pie", NULL}, false, true);
	check_kind((const char *[]){"gcc", "-static", NULL}, false, false);
	check_kind((const char *[]){"gcc", "-static-pie", "-fPIE", NULL}, true, false);
	check_kind((const char *[]){"gcc", "-fuse-ld=lld", NULL}, true, true);
	check_kind((const char *[]){"gcc", "-fuse-ld=gold", NULL}, true, true);
	check_kind((const char *[]){"gcc", "-Wl,-z,noseparate-code", NULL}, true, true);
	check_kind((const char *[]){"gcc", "-Wl,--build-id=none,-s", NULL}, true, true);
	check_kind((const char *[]){"musl-gcc", NULL}, true, true);
}

static const struct module *linker_of(const struct view *view)
{
	for (size_t i = 0; i < view->modules.count; i++)
		if (view->modules.module[i].interpreter)
			return &view->modules.module[i];
	return NULL;
}

static void check_by_hand(const char *const compiler[], const char *linker, const char *name)
{
	char *path = compile_or_skip("modules", compiler, sleeper);
	if (!path)
		return;
	struct child child = child_exec((const char *[]){linker, path, NULL}, NULL);
	child_mapped(&child, "libc.so");
	struct view view = view_of(child.pid);
	const struct module *found = linker_of(&view);
	ck_assert_ptr_nonnull(found);
	ck_assert_ptr_nonnull(strstr(found->path, name));
	ck_assert(!modules_are_static(&view.modules));
	view_deinit(&view);
	child_kill(&child);
	free(path);
}

HT_TEST(linker_started_by_hand)
{
	check_by_hand((const char *[]){"gcc", "-pie", "-fPIE", NULL}, "/lib64/ld-linux-x86-64.so.2",
		"ld-linux");
	/* musl's dynamic linker is also its C library. */
	check_by_hand((const char *[]){"musl-gcc", NULL}, "/lib/ld-musl-x86_64.so.1", "/libc.so");
}

/* In a program without a dynamic linker, its own C library has loaded all modules. */
HT_TEST(modules_without_a_loader_are_foreign)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	elfwriter_protect(&writer);
	struct view view = view_of(getpid());
	const struct module *linker = linker_of(&view);
	ck_assert_ptr_null(modules_first_foreign(&view.modules));
	view.modules.module[linker - view.modules.module].interpreter = false;
	ck_assert(modules_are_static(&view.modules));
	ck_assert_ptr_eq(modules_first_foreign(&view.modules),
		modules_find(&view.modules, at(writer.image)));
	for (size_t i = 0; i < view.modules.count; i++) {
		const struct module *module = &view.modules.module[i];
		ck_assert_int_eq(module_is_foreign(&view.modules, module),
			module->lo <= at(writer.image) && at(writer.image) < module->hi);
	}
	view_deinit(&view);
	elfwriter_deinit(&writer);
}

HT_TEST(thirty_two_bits_are_refused)
{
	char *path = compile_or_skip("modules",
		(const char *[]){"gcc", "-m32", "-nostdlib", "-static", NULL},
		"void _start(void) { for (;;) __asm__ volatile(\"pause\"); }");
	if (!path || !machine_runs_32_bits("modules"))
		return;
	struct child child = child_exec((const char *[]){path, NULL}, NULL);
	struct proc proc;
	struct proc_maps maps;
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(proc_maps_read(&proc, &maps));
	ck_err_says(modules_check_machine(&proc, &maps), HT_ERR_REFUSED, "not an x86-64 program");
	proc_maps_deinit(&maps);
	proc_close(&proc);
	child_kill(&child);
	free(path);
}

static bool found(struct elfwriter *writer)
{
	elfwriter_protect(writer);
	struct view view = view_of(getpid());
	const struct module *module = modules_find(&view.modules, at(writer->image));
	bool there = module != NULL;
	if (module) {
		ck_assert_uint_ge(module->lo, at(writer->image));
		ck_assert_uint_le(module->hi, at(writer->image) + ELFWRITER_BYTES);
		ck_assert_uint_le(module->build_id_bytes, MODULE_BUILD_ID_MAX);
	}
	view_deinit(&view);
	elfwriter_open(writer);
	return there;
}

HT_TEST(written_image)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	elfwriter_function(&writer, "here", 16);
	elfwriter_undefined(&writer, "elsewhere");
	elfwriter_protect(&writer);
	struct view view = view_of(getpid());
	const struct module *module = modules_find(&view.modules, at(writer.image));
	ck_assert_ptr_nonnull(module);
	ck_assert_uint_eq(module->bias, at(writer.image));
	ck_assert_uint_eq(module->hi, at(writer.image) + ELFWRITER_BYTES);
	ck_assert_uint_eq(module->text_lo, at(writer.text));
	ck_assert_uint_eq(module->text_hi, at(writer.text) + 4096);
	ck_assert_uint_eq(module->build_id_bytes, ELFWRITER_BUILD_ID_BYTES);
	ck_assert_uint_eq(module->build_id[0], 0xa0);
	ck_assert_uint_eq(module->build_id[19], 0xb3);
	ck_assert_str_eq(module->path, "");
	raddr_t addr;
	ck_no_err(module_symbol(&view.proc, module, "here", NULL, &addr));
	ck_assert_uint_eq(addr, at(writer.text) + 16);
	ck_no_err(module_symbol(&view.proc, module, "elsewhere", NULL, &addr));
	ck_assert_uint_eq(addr, 0);
	view_deinit(&view);
	elfwriter_deinit(&writer);
}

HT_TEST(malformed_headers_are_left_out)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	Elf64_Ehdr ehdr = *writer.ehdr;
	Elf64_Phdr phdr[ELFWRITER_PHDRS];
	memcpy(phdr, writer.phdr, sizeof(phdr));
	ck_assert(found(&writer));
#define LEFT_OUT(change)                                                                           \
	do {                                                                                       \
		change;                                                                            \
		ck_assert_msg(!found(&writer), "%s", #change);                                     \
		*writer.ehdr = ehdr;                                                               \
		memcpy(writer.phdr, phdr, sizeof(phdr));                                           \
	} while (0)
	LEFT_OUT(writer.ehdr->e_ident[0] = 0);
	LEFT_OUT(writer.ehdr->e_ident[EI_CLASS] = ELFCLASS32);
	LEFT_OUT(writer.ehdr->e_ident[EI_DATA] = ELFDATA2MSB);
	LEFT_OUT(writer.ehdr->e_machine = EM_AARCH64);
	LEFT_OUT(writer.ehdr->e_type = ET_REL);
	LEFT_OUT(writer.ehdr->e_type = ET_EXEC); /* loaded at another address than it states */
	LEFT_OUT(writer.ehdr->e_phentsize = 32);
	LEFT_OUT(writer.ehdr->e_phnum = 0);
	LEFT_OUT(writer.ehdr->e_phnum = 65535);
	LEFT_OUT(writer.ehdr->e_phoff = ELFWRITER_BYTES - 8);
	LEFT_OUT(writer.ehdr->e_phoff = UINT64_MAX - 8);
	LEFT_OUT(writer.phdr[0].p_type = PT_NULL);
	LEFT_OUT(writer.phdr[0].p_filesz = 10);
	LEFT_OUT(writer.phdr[1].p_vaddr = 0);	     /* overlap */
	LEFT_OUT(writer.phdr[0].p_memsz = 0x2001);   /* overlap by a byte */
	LEFT_OUT(writer.phdr[2].p_filesz = 0x1001);  /* more file than memory */
	LEFT_OUT(writer.phdr[2].p_vaddr = 1u << 30); /* not mapped */
	LEFT_OUT(writer.phdr[2].p_vaddr = UINT64_MAX - 4095);
	LEFT_OUT(writer.phdr[2].p_memsz = UINT64_MAX);
	LEFT_OUT(writer.phdr[2].p_memsz = INT64_MAX);
	LEFT_OUT(writer.phdr[2].p_offset += 8);	     /* not congruent */
	LEFT_OUT(writer.phdr[0].p_flags |= PF_X);    /* not executable in memory */
	LEFT_OUT(writer.phdr[3].p_vaddr = 0x4000);   /* dynamic section behind the end */
	LEFT_OUT(writer.phdr[3].p_memsz = 0x1001);   /* dynamic section across the end */
	LEFT_OUT(writer.phdr[5].p_vaddr = ~4095ull); /* eh_frame_hdr before the start */
#undef LEFT_OUT
	/* These headers are valid, but unusual. */
	Elf64_Phdr swapped = writer.phdr[1];
	writer.phdr[1] = writer.phdr[2];
	writer.phdr[2] = swapped;
	ck_assert(found(&writer));
	writer.phdr[4].p_vaddr = ELFWRITER_BYTES;
	ck_assert(found(&writer));
	elfwriter_deinit(&writer);
}

HT_TEST(notes_lie)
{
	static const uint32_t lengths[] = {0, 1, 65, 4096, INT32_MAX, UINT32_MAX - 3, UINT32_MAX};
	struct elfwriter writer;
	elfwriter_init(&writer);
	Elf64_Nhdr *note = (void *)(writer.image + writer.phdr[4].p_vaddr), saved = *note;
	for (size_t i = 0; i < HT_ARRAY_SIZE(lengths); i++) {
		note->n_descsz = lengths[i];
		ck_assert(found(&writer));
		*note = saved;
		note->n_namesz = lengths[i];
		ck_assert(found(&writer));
		*note = saved;
	}
	writer.phdr[4].p_memsz = 3;
	ck_assert(found(&writer));
	elfwriter_deinit(&writer);
}

HT_TEST(corrupt_bytes_do_no_harm)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	elfwriter_function(&writer, "malloc", 16);
	unsigned seed = 1;
	for (unsigned round = 0; round < 400; round++) {
		uint8_t saved[ELFWRITER_BYTES];
		memcpy(saved, writer.image, sizeof(saved));
		elfwriter_protect(&writer);
		elfwriter_open(&writer);
		for (unsigned i = 0; i < 1 + round % 8; i++) {
			seed = seed * 1103515245 + 12345;
			unsigned where = seed >> 8;
			static const unsigned start[] = {16, 64, 4096, 3 * 4096};
			static const unsigned length[] = {48, 6 * 56, 3200, 208};
			writer.image[start[where % 4] + (where >> 2) % length[where % 4]] =
				(uint8_t)(seed >> 3);
		}
		mprotect(writer.image, 8192, PROT_READ);
		mprotect(writer.text, 4096, PROT_READ | PROT_EXEC);
		struct view view = view_of(getpid());
		const struct module *module = modules_find(&view.modules, at(writer.image));
		raddr_t addr;
		if (module)
			ck_no_err(module_symbol(&view.proc, module, "malloc", NULL, &addr));
		view_deinit(&view);
		elfwriter_open(&writer);
		memcpy(writer.image, saved, sizeof(saved));
	}
	elfwriter_deinit(&writer);
}

HT_TEST(a_file_mapped_as_data_is_no_module)
{
	FILE *file = fopen("/proc/self/exe", "re");
	fseek(file, 0, SEEK_END);
	size_t bytes = (size_t)ftell(file);
	void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fileno(file), 0);
	ck_assert_ptr_ne(data, MAP_FAILED);
	fclose(file);
	struct view view = view_of(getpid());
	ck_assert_ptr_null(modules_find(&view.modules, at(data)));
	view_deinit(&view);
}

/* Maps `fd` again over the page with this number. */
static void map_page(
	struct elfwriter *writer, int fd, size_t page, size_t file_page, int protection)
{
	void *wanted = writer->image + page * 4096;
	ck_assert_ptr_eq(mmap(wanted, 4096, protection, MAP_PRIVATE | MAP_FIXED, fd,
				 (off_t)file_page * 4096),
		wanted);
}

static bool written_is_found(struct elfwriter *writer)
{
	struct view view = view_of(getpid());
	bool there = modules_find(&view.modules, at(writer->image)) != NULL;
	view_deinit(&view);
	return there;
}

HT_TEST(segments_come_from_one_file)
{
	struct elfwriter writer;
	elfwriter_init(&writer);
	elfwriter_protect(&writer);
	int fd = memfd_create("image", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
	ck_assert_int_eq(write(fd, writer.image, ELFWRITER_BYTES), ELFWRITER_BYTES);
	ck_assert_int_eq(write(other, writer.image, ELFWRITER_BYTES), ELFWRITER_BYTES);
	map_page(&writer, fd, 0, 0, PROT_READ);
	map_page(&writer, fd, 1, 1, PROT_READ);
	map_page(&writer, fd, 2, 2, PROT_READ | PROT_EXEC);
	map_page(&writer, fd, 3, 3, PROT_READ | PROT_WRITE);
	ck_assert(written_is_found(&writer));
	map_page(&writer, fd, 3, 2, PROT_READ | PROT_WRITE);
	ck_assert(!written_is_found(&writer));
	map_page(&writer, other, 3, 3, PROT_READ | PROT_WRITE);
	ck_assert(!written_is_found(&writer));
	/* Text that was moved to huge pages has no file any more. */
	map_page(&writer, fd, 3, 3, PROT_READ | PROT_WRITE);
	ck_assert_ptr_ne(mmap(writer.text, 4096, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		MAP_FAILED);
	ck_assert(written_is_found(&writer));
	elfwriter_deinit(&writer);
}

HT_SUITE("attach/elf/modules")
