/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/ownprofile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/elf/distance.h"
#include "attach/elf/elf_symbols.h"
#include "attach/elf/modules.h"
#include "attach/helper/pulse.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/memory/slow.h"
#include "attach/plan/self_unwind.h"
#include "attach/proc/fd.h"
#include "format/array.h"

#define ENVIRONMENT_MAX_BYTES (256u << 10)
#define SYMBOLS_MAX_BYTES     (512ul << 20)
#define CONF_BYTES	      1024u
#define HOOK_CODE_BYTES	      64u

/* A module that defines allocator functions, and what is read about it. */
struct subject {
	const struct survey *survey;
	const struct module *module;
	struct self_unwind unwinds;
	raddr_t opt_prof, conf; /* jemalloc's variables, by the file's symbols; 0: unknown */
	char environment[ENVIRONMENT_MAX_BYTES];
	size_t environment_bytes;
};

static void note(
	char ret[OWNPROFILE_BYTES], const struct module *module, const char *what, const char *why)
{
	if (!ret[0])
		snprintf(ret, OWNPROFILE_BYTES, "%s in %.180s%s%s", what, module->path,
			why[0] ? ": " : "", why);
}

/* --- what the program was started with --- */

static void read_environment(struct subject *subject)
{
	FD_GUARD int fd = openat(subject->survey->proc.dir_fd, "environ", O_RDONLY | O_CLOEXEC);
	size_t bytes = 0;
	ssize_t got = 1;
	while (fd >= 0 && got > 0 && bytes < ENVIRONMENT_MAX_BYTES - 1) {
		got = read(fd, subject->environment + bytes, ENVIRONMENT_MAX_BYTES - 1 - bytes);
		bytes += got > 0 ? (size_t)got : 0;
	}
	subject->environment[bytes] = '\0';
	subject->environment_bytes = bytes;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t bytes = strlen(end);
	return length >= bytes && !strncmp(text + length - bytes, end, bytes);
}

/* The value of the first variable whose name is `name`, or ends with _`name`; NULL: none. */
static const char *variable(const struct subject *subject, const char *name)
{
	const char *at = subject->environment, *end = at + subject->environment_bytes;
	for (; at < end; at += strlen(at) + 1) {
		const char *sign = strchr(at, '=');
		size_t length = sign ? (size_t)(sign - at) : 0;
		if (!ends_with(at, length, name))
			continue;
		if (length == strlen(name) || at[length - strlen(name) - 1] == '_')
			return sign + 1;
	}
	return NULL;
}

/* --- jemalloc --- */

/* jemalloc's options, "prof:true,lg_prof_sample:0": the last one of a name counts. */
static void apply_conf(const char *conf, bool *prof)
{
	for (const char *at = conf; at && *at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, "prof:true", 9))
			*prof = true;
		else if (!strncmp(at, "prof:false", 10))
			*prof = false;
	}
}

static struct ht_err *read_conf_at(const struct subject *subject, raddr_t pointer, bool *prof)
{
	char text[CONF_BYTES];
	raddr_t at = 0;
	size_t got = 0;
	if (pointer)
		HT_TRY(memory_read_some(&subject->survey->proc, pointer, &at, sizeof(at), &got));
	if (got != sizeof(at) || !at)
		return NULL;
	HT_TRY(memory_read_some(&subject->survey->proc, at, text, sizeof(text) - 1, &got));
	text[got] = '\0';
	apply_conf(text, prof);
	return NULL;
}

static struct ht_err *find_variable(
	const struct subject *subject, const struct module *module, const char *name, raddr_t *ret)
{
	Elf64_Sym symbol[DYNAMIC_VERSIONS_MAX];
	struct dynamic dynamic;
	size_t count = 0;
	*ret = 0;
	if (!module->dynamic)
		return NULL;
	HT_TRY(dynamic_read(&subject->survey->proc, module, &dynamic));
	HT_TRY(dynamic_lookup(&subject->survey->proc, &dynamic, name, NULL, symbol, NULL, &count));
	if (count && symbol[0].st_shndx != SHN_UNDEF)
		*ret = module->bias + symbol[0].st_value;
	return NULL;
}

/* The program's own malloc_conf comes before the library's. */
static struct ht_err *read_conf(const struct subject *subject, bool *ret_prof)
{
	const struct modules *modules = &subject->survey->modules;
	char link[CONF_BYTES];
	raddr_t pointer = subject->conf;
	struct ht_err *err = NULL;
	*ret_prof = false;
	for (size_t i = 0; !err && !pointer && i < modules->count; i++)
		if (modules->module[i].executable)
			err = find_variable(subject, &modules->module[i], "malloc_conf", &pointer);
	if (!err && !pointer)
		err = find_variable(subject, subject->module, "malloc_conf", &pointer);
	HT_THEN(err, read_conf_at(subject, pointer, ret_prof));
	ssize_t length = readlinkat(
		subject->survey->proc.dir_fd, "root/etc/malloc.conf", link, sizeof(link) - 1);
	link[length > 0 ? length : 0] = '\0';
	apply_conf(link, ret_prof);
	apply_conf(variable(subject, "MALLOC_CONF"), ret_prof);
	return err;
}

static struct ht_err *is_jemalloc(const struct subject *subject, bool *ret)
{
	const struct natives *natives = &subject->module->natives;
	raddr_t mallctl = 0;
	*ret = subject->opt_prof != 0;
	for (size_t i = 0; !*ret && i < natives->count; i++)
		*ret = !strcmp(natives->native[i].family->allocator, "jemalloc");
	struct ht_err *err = *ret ? NULL
				  : module_symbol(&subject->survey->proc, subject->module,
					    "mallctl", NULL, &mallctl);
	*ret |= mallctl != 0;
	return err;
}

static struct ht_err *look_at_jemalloc(
	const struct subject *subject, bool starting, struct ownprofile *ret)
{
	uint8_t value = 0;
	size_t got = 0;
	bool conf = false, unwinds = false;
	if (subject->opt_prof && !starting)
		HT_TRY(memory_read_some(
			&subject->survey->proc, subject->opt_prof, &value, 1, &got));
	if (value == 1)
		note(ret->active, subject->module, "jemalloc", "opt.prof is on");
	if (got == 1)
		return NULL;
	HT_TRY(read_conf(subject, &conf));
	/* A jemalloc without a profiler ignores the setting. */
	if (conf)
		HT_TRY(self_unwind_has(&subject->unwinds, subject->module, &unwinds));
	if (conf && unwinds)
		note(ret->active, subject->module, "jemalloc", "prof:true in its settings");
	return NULL;
}

/* --- gperftools --- */

/* Reads the first word of gperftools' list of malloc hooks, which counts them.
 * MallocHook_AddNewHook loads the list's address (lea list(%rip), %rdi). */
static struct ht_err *has_hooks(const struct subject *subject, bool *ret)
{
	uint8_t code[HOOK_CODE_BYTES];
	raddr_t add = 0;
	size_t got = 0;
	*ret = false;
	const struct proc *proc = &subject->survey->proc;
	HT_TRY(module_symbol(proc, subject->module, "MallocHook_AddNewHook", NULL, &add));
	if (add)
		HT_TRY(memory_read_some(proc, add, code, sizeof(code), &got));
	for (size_t i = 0; i + 7 <= got; i++) {
		uint64_t count = 0;
		size_t read = 0;
		if (code[i] != 0x48 || code[i + 1] != 0x8d || code[i + 2] != 0x3d)
			continue;
		raddr_t list = distance_target(code + i + 3, add + i + 7);
		if (list < subject->module->lo || list >= subject->module->hi)
			continue;
		HT_TRY(memory_read_some(proc, list, &count, sizeof(count), &read));
		*ret = read == sizeof(count) && count > 0;
		break;
	}
	return NULL;
}

static struct ht_err *look_at_gperftools(
	const struct subject *subject, bool starting, struct ownprofile *ret)
{
	static const char *const variables[] = {"HEAPPROFILE", "HEAPCHECK"};
	bool hooks = false;
	for (size_t i = 0; i < HT_ARRAY_SIZE(variables); i++) {
		const char *value = variable(subject, variables[i]);
		if (value && value[0])
			note(ret->active, subject->module, "gperftools", variables[i]);
	}
	const char *sample = variable(subject, "TCMALLOC_SAMPLE_PARAMETER");
	if (sample && strtoll(sample, NULL, 10) > 0)
		note(ret->active, subject->module, "gperftools", "TCMALLOC_SAMPLE_PARAMETER");
	/* Before its first allocation gperftools has a hook of its own in the list. */
	struct ht_err *err = starting ? NULL : has_hooks(subject, &hooks);
	if (hooks)
		note(ret->active, subject->module, "gperftools", "a hook of malloc is installed");
	return err;
}

/* --- any allocator --- */

static struct ht_err *note_symbol(void *context, const Elf64_Sym *symbol, const char *name)
{
	struct subject *subject = context;
	size_t length = strlen(name);
	raddr_t addr = subject->module->bias + symbol->st_value;
	if (symbol->st_shndx == SHN_UNDEF)
		return NULL;
	if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT) {
		if (symbol->st_size == 1 && ends_with(name, length, "opt_prof"))
			subject->opt_prof = addr;
		if (symbol->st_size == sizeof(raddr_t) && ends_with(name, length, "malloc_conf"))
			subject->conf = addr;
	} else if (self_unwind_is_name(name)) {
		self_unwind_add_linked(&subject->unwinds, addr);
	}
	return NULL;
}

/* A file that cannot be read gives no symbols: no error. */
static struct ht_err *read_symbols(struct subject *subject)
{
	const struct module *module = subject->module;
	const struct proc_map *map = proc_maps_find(&subject->survey->maps, module->lo);
	struct budget budget = {.bytes = SYMBOLS_MAX_BYTES, .steps = UINT64_MAX};
	struct elf_file file;
	FD_GUARD int fd = -1;
	if (!map || !map->inode || slow_is_in(map->lo, map->hi - map->lo))
		return NULL;
	pulse_enter();
	struct ht_err *err = proc_open_mapped(&subject->survey->proc, map, &fd);
	pulse_leave();
	if (err && err->code == HT_ERR_TARGET_GONE)
		return err;
	if (ht_err_drop(err))
		return NULL;
	HT_TRY(elf_file_open(fd, module->build_id, module->build_id_bytes, &budget, &file));
	err = elf_symbols_each(&file, note_symbol, subject);
	elf_file_close(&file);
	return err;
}

/* Does the module, or a library that it may call, have a function that unwinds? */
static struct ht_err *is_worth_following(const struct subject *subject, bool *ret)
{
	const struct modules *modules = &subject->survey->modules;
	HT_TRY(self_unwind_has(&subject->unwinds, subject->module, ret));
	for (size_t i = 0; !*ret && i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		if (!self_unwind_is_system(module) && !module->executable)
			HT_TRY(self_unwind_has(&subject->unwinds, module, ret));
	}
	return NULL;
}

/* Follows the code from the module's functions to which slots lead. */
static struct ht_err *follow_code(const struct subject *subject, struct ownprofile *ret)
{
	const struct slots *slots = &subject->survey->slots;
	enum self_unwind_by by = SELF_UNWIND_NOT;
	raddr_t entry[SELF_UNWIND_ENTRIES_MAX];
	size_t count = 0;
	bool worth = false;
	struct ht_err *err = is_worth_following(subject, &worth);
	if (err || !worth)
		return err;
	for (size_t i = 0; i < slots->function_count && count < SELF_UNWIND_ENTRIES_MAX; i++) {
		const struct allocator_function *f = &slots->function[i];
		if (f->module_id == subject->module->id && abi_is_allocator(f->hook))
			entry[count++] = f->addr;
	}
	err = self_unwind_from(&subject->unwinds, subject->module, entry, count, &by);
	if (by == SELF_UNWIND_LIBGCC)
		note(ret->active, subject->module, "the allocator",
			"it unwinds the stack of its callers");
	else if (by == SELF_UNWIND_OTHER)
		note(ret->unsure, subject->module, "the allocator",
			"it unwinds the stack of its callers by libunwind");
	return err;
}

static struct ht_err *look_at(struct subject *subject, bool starting, struct ownprofile *ret)
{
	raddr_t profiler = 0;
	bool jemalloc = false;
	struct ht_err *err = read_symbols(subject);
	HT_THEN(err, is_jemalloc(subject, &jemalloc));
	if (err || jemalloc)
		return err ? err : look_at_jemalloc(subject, starting, ret);
	err = module_symbol(
		&subject->survey->proc, subject->module, "HeapProfilerStart", NULL, &profiler);
	if (err || profiler)
		return err ? err : look_at_gperftools(subject, starting, ret);
	return follow_code(subject, ret);
}

/* Does the module contain a hooked function? */
static bool is_allocator(const struct survey *survey, const struct module *module)
{
	const struct slots *slots = &survey->slots;
	for (size_t i = 0; i < slots->function_count; i++)
		if (slots->function[i].module_id == module->id &&
			abi_is_allocator(slots->function[i].hook))
			return true;
	for (size_t i = 0; i < survey->coverage.count; i++)
		if (survey->coverage.function[i].module->id == module->id &&
			!survey->coverage.function[i].native->family->everywhere)
			return true;
	return false;
}

struct ht_err *ownprofile_find(const struct survey *survey, bool starting, struct ownprofile *ret)
{
	HT_FREED struct subject *subject = NULL;
	*ret = (struct ownprofile){{0}, {0}};
	for (size_t i = 0; i < survey->modules.count; i++) {
		const struct module *module = &survey->modules.module[i];
		if (self_unwind_is_system(module) || !is_allocator(survey, module))
			continue;
		if (!subject)
			subject = malloc(sizeof(*subject));
		if (!subject)
			return ht_err_new(HT_ERR_NOMEM, "no memory to look at allocators");
		memset(subject, 0, offsetof(struct subject, environment));
		subject->survey = survey;
		subject->module = module;
		read_environment(subject);
		HT_TRY(self_unwind_find(&survey->proc, &survey->modules, &subject->unwinds));
		HT_TRY(look_at(subject, starting, ret));
	}
	return NULL;
}

struct ht_err *ownprofile_judge(
	const struct survey *survey, bool starting, bool force, struct ownprofile *ret)
{
	struct ht_err *err = ownprofile_find(survey, starting, ret);
	if (err || force || !ret->active[0])
		return err;
	return ht_err_new(HT_ERR_REFUSED,
		"process %d profiles its own heap (%s). While heaptap records, the stacks in that "
		"profile would be cut. Turn that profiler off, or use --force to record all the "
		"same",
		survey->proc.pid, ret->active);
}
