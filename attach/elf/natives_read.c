/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/elf/natives_read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/allocators/given.h"
#include "attach/elf/elf_symbols.h"
#include "attach/elf/startcode.h"
#include "attach/memory/memory.h"
#include "attach/proc/fd.h"
#include "format/arch.h"
#include "format/array.h"

#define NATIVES_MAX    512u
#define WORDS_MAX      4096u
#define NEEDS_MAX      128u
#define NAME_MAX_BYTES GIVEN_NAME_BYTES
#define RELAS_MAX      16u /* linkers make two */

/* Functions found of one family. */
struct presence {
	uint32_t hooks; /* bit by enum abi_hook */
	bool proved;
	unsigned release; /* bits of family_is_release */
};

struct reading {
	const struct module *module;
	struct natives *natives;
	struct presence presence[FAMILIES_MAX];
	raddr_t main_caller;
	raddr_t given[GIVEN_MAX];
	size_t native_capacity, word_capacity, need_capacity;
	struct beginnings wanted; /* the beginnings of all known names, except the user's */
};

#define GUARDED_PRCTL	"prctl"
#define GUARDED_SYSCALL "syscall"
#define V8_INTERPRETER	"Builtins_InterpreterEntryTrampoline"
#define V8_COLLECTOR	"_ZN2v88internal4Heap11MarkCompactEv"
#define V8_SETTER	"_ZN2v88internal4Heap10SetGCStateENS1_9HeapStateE"
#define V8_ISOLATE	"_ZN2v88internal18g_current_isolate_E"
#define LINKER_DEBUG	"_r_debug"

static const char *const own_names[] = {GUARDED_PRCTL, GUARDED_SYSCALL, V8_INTERPRETER,
	V8_COLLECTOR, V8_SETTER, V8_ISOLATE, LINKER_DEBUG};

static void wanted_fill(struct beginnings *wanted)
{
	family_add_beginnings(wanted);
	startcode_add_beginnings(wanted);
	for (size_t i = 0; i < HT_ARRAY_SIZE(own_names); i++)
		beginnings_add(wanted, own_names[i]);
}

/* A compiler's copy of a function that the user has named has a suffix. */
static bool is_wanted(const struct reading *reading, const char *name)
{
	size_t index;
	return beginnings_may_have(&reading->wanted, name) ||
	       given_match(name, &index) != GIVEN_NONE;
}

_Static_assert(GIVEN_MAX <= 32, "natives.given has a bit for each");

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the allocators linked into a module");
}

/* --- functions --- */

static struct ht_err *native_add(struct reading *reading, const struct family_member *member,
	raddr_t addr, uint64_t bytes, const char *name)
{
	struct natives *natives = reading->natives;
	if (natives->count == NATIVES_MAX) {
		natives->partial = true;
		return NULL;
	}
	char *copy = strdup(name);
	if (!copy ||
		!ARRAY_HAS_ROOM(natives->native, natives->count, reading->native_capacity, 8)) {
		free(copy);
		return no_memory();
	}
	natives->native[natives->count++] = (struct native){.family = member->family,
		.name = copy,
		.role = member->role,
		.hook = member->hook,
		.addr = addr,
		.bytes = bytes};
	return NULL;
}

/* Records `name`, which the module takes from another, if it has an allocator's prefix. */
static struct ht_err *need_add(struct reading *reading, const char *name)
{
	struct natives *natives = reading->natives;
	struct family_member member;
	if (!family_find_known(name, &member) || !member.family->hooked ||
		!member.family->prefix[0] || natives_need(natives, name))
		return NULL;
	if (natives->need_count == NEEDS_MAX) {
		natives->partial = true;
		return NULL;
	}
	char *copy = strdup(name);
	if (!copy ||
		!ARRAY_HAS_ROOM(natives->need, natives->need_count, reading->need_capacity, 8)) {
		free(copy);
		return no_memory();
	}
	natives->need[natives->need_count++] = copy;
	return NULL;
}

/* Records prctl and syscall, which a static program calls without a slot. */
static void guard_take(struct natives *natives, raddr_t addr, uint64_t bytes, const char *name)
{
	enum abi_hook hook;
	if (!strcmp(name, GUARDED_PRCTL))
		hook = ABI_GUARD_PRCTL;
	else if (!strcmp(name, GUARDED_SYSCALL))
		hook = ABI_GUARD_SYSCALL;
	else
		return;
	for (size_t i = 0; i < natives->guard_count && i < NATIVE_GUARDS_MAX; i++)
		if (natives->guard[i].addr == addr)
			return;
	if (natives->guard_count < NATIVE_GUARDS_MAX)
		natives->guard[natives->guard_count] = (struct native_guard){hook, addr, bytes};
	if (natives->guard_count <= NATIVE_GUARDS_MAX)
		natives->guard_count++;
}

static void v8_note(struct natives_v8 *v8, raddr_t addr, uint64_t bytes, const char *name)
{
	if (!strcmp(name, V8_INTERPRETER)) {
		v8->interpreter = addr;
		v8->interpreter_bytes = bytes;
	} else if (!strcmp(name, V8_COLLECTOR)) {
		v8->collector = addr;
		v8->collector_bytes = bytes;
	} else if (!strcmp(name, V8_SETTER)) {
		v8->setter = addr;
		v8->setter_bytes = bytes;
	}
}

static void isolate_note(struct reading *reading, const Elf64_Sym *symbol, const char *name)
{
	if (!reading->module->executable || symbol->st_size != sizeof(raddr_t) ||
		strcmp(name, V8_ISOLATE) != 0)
		return;
	reading->natives->v8.has_isolate = true;
	reading->natives->v8.isolate = symbol->st_value;
}

/* Static functions of several files may share a name. */
static void given_note(struct reading *reading, raddr_t addr, const char *name)
{
	size_t index;
	if (given_match(name, &index) != GIVEN_FUNCTION)
		return;
	uint32_t bit = 1u << index;
	if (reading->natives->given & bit && reading->given[index] != addr)
		reading->natives->given_twice |= bit;
	reading->natives->given |= bit;
	reading->given[index] = addr;
}

static struct ht_err *symbol_take(void *context, const Elf64_Sym *symbol, const char *name)
{
	struct reading *reading = context;
	const struct module *module = reading->module;
	raddr_t addr = module->bias + symbol->st_value;
	struct family_member member;
	if (!is_wanted(reading, name))
		return NULL;
	if (symbol->st_shndx == SHN_UNDEF) {
		reading->natives->operators += family_is_operator(name);
		return need_add(reading, name);
	}
	if (ELF64_ST_TYPE(symbol->st_info) == STT_TLS) {
		isolate_note(reading, symbol, name);
		return NULL;
	}
	if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT) {
		if (module->executable && !strcmp(name, LINKER_DEBUG))
			reading->natives->debug = addr;
		return NULL;
	}
	const struct family *family;
	for (size_t i = 0; (family = family_at(i)); i++) {
		reading->presence[i].proved |= family_is_proved(family, name);
		reading->presence[i].release |= family_is_release(family, name);
	}
	if (addr < module->text_lo || addr >= module->text_hi)
		return NULL;
	if (module->executable) {
		guard_take(reading->natives, addr, symbol->st_size, name);
		startcode_note(&reading->natives->start, &reading->main_caller, addr,
			symbol->st_size, name);
	}
	if (module->executable && family_frees_again(name)) {
		reading->natives->frees_again = addr;
		reading->natives->frees_again_bytes = symbol->st_size;
	}
	v8_note(&reading->natives->v8, addr, symbol->st_size, name);
	given_note(reading, addr, name);
	if (!family_find(name, &member) || strnlen(name, NAME_MAX_BYTES) == NAME_MAX_BYTES)
		return NULL;
	return native_add(reading, &member, addr, symbol->st_size, name);
}

static int compare_natives(const void *a, const void *b)
{
	const struct native *left = a, *right = b;
	if (left->addr != right->addr)
		return left->addr < right->addr ? -1 : 1;
	/* If one address has several names, the plainest comes first: other modules may use any of
	 * them. */
	if (left->role != right->role)
		return left->role < right->role ? -1 : 1;
	return (left->hook > right->hook) - (left->hook < right->hook);
}

#define HOOK(id)  (1u << ABI_HOOK_##id)
#define ALLOCATES (HOOK(MALLOC) | HOOK(CALLOC) | HOOK(MALLOCX))
#define GIVES_BACK                                                                                 \
	(HOOK(FREE) | HOOK(DALLOCX) | HOOK(SDALLOCX) | HOOK(FREE_SIZED) | HOOK(FREE_ALIGNED_SIZED))
#define WHOLE (HOOK(MALLOC) | HOOK(CALLOC) | HOOK(REALLOC) | HOOK(FREE))

/* A function that is merely called free, or tc_delete, may do anything and have any signature: only
 * an allocator that is plainly present counts. A program may use a prefix for its own functions,
 * such as a mi_malloc(context, size), whose further arguments a hook of malloc would not pass
 * on. */
static bool is_believed(const struct presence *presence, const struct family *family)
{
	if (!family->hooked)
		return true;
	if (!family->prefix[0])
		return (presence->hooks & WHOLE) == WHOLE;
	return presence->proved && presence->hooks & ALLOCATES && presence->hooks & GIVES_BACK;
}

static void presence_note(struct presence *presence, const struct native *native)
{
	if (native->role == FAMILY_HOOKED)
		presence->hooks |= 1u << native->hook;
}

static raddr_t usable_of(const struct natives *natives, const struct family *family)
{
	for (size_t i = 0; i < natives->count; i++)
		if (natives->native[i].family == family && natives->native[i].role == FAMILY_USABLE)
			return natives->native[i].addr;
	return 0;
}

static raddr_t plain_of(const struct natives *natives, const struct native *native)
{
	struct family_member member;
	if (!family_find(native->name, &member) || !member.plain)
		return 0;
	for (size_t i = 0; i < natives->count; i++)
		if (natives->native[i].family == native->family &&
			family_is_plain(native->family, member.plain, natives->native[i].name))
			return natives->native[i].addr;
	return 0;
}

/* A member with `if_released` gets no hook unless the family's release functions are there and, for
 * ABI_NEWS, its plain function. */
static void news_settle(struct natives *natives, const struct presence presence[FAMILIES_MAX])
{
	for (size_t i = 0; i < natives->count; i++) {
		struct native *native = &natives->native[i];
		const struct family *family = native->family;
		struct family_member member;
		if (!family_find(native->name, &member) || !member.if_released)
			continue;
		if (presence[family_index(family)].release != family_whole_release(family))
			native->role = FAMILY_UNSEEN;
		else if (abi_is_new(native->hook))
			native->plain = plain_of(natives, native);
		if (abi_is_new(native->hook) && !native->plain)
			native->role = FAMILY_UNSEEN;
	}
}

/* Now that all names are known: sets usable_size and plain, and drops functions of no allocator,
 * functions that only return a size, and further names at one address. */
static void natives_settle(struct natives *natives, struct presence presence[FAMILIES_MAX])
{
	size_t kept = 0;
	for (size_t i = 0; i < natives->count; i++)
		natives->native[i].usable_size = usable_of(natives, natives->native[i].family);
	news_settle(natives, presence);
	if (natives->count)
		qsort(natives->native, natives->count, sizeof(*natives->native), compare_natives);
	for (size_t i = 0; i < natives->count; i++)
		presence_note(
			&presence[family_index(natives->native[i].family)], &natives->native[i]);
	for (size_t i = 0; i < natives->count; i++) {
		struct native *native = &natives->native[i];
		bool again = kept && natives->native[kept - 1].addr == native->addr;
		bool is_believable =
			is_believed(&presence[family_index(native->family)], native->family);
		if (is_believable && !again && native->role != FAMILY_USABLE)
			natives->native[kept++] = *native;
		else
			free(native->name);
	}
	natives->count = kept;
}

/* --- words --- */

/* Only a word in the module's own memory can be one of its GOT slots. */
static struct ht_err *word_add(struct reading *reading, raddr_t addr, const struct native *native)
{
	const struct module *module = reading->module;
	struct natives *natives = reading->natives;
	if (addr < module->lo || addr > module->hi - sizeof(uint64_t) || addr % sizeof(uint64_t))
		return NULL;
	if (natives->word_count == WORDS_MAX) {
		natives->partial = true;
		return NULL;
	}
	if (!ARRAY_HAS_ROOM(natives->word, natives->word_count, reading->word_capacity, 16))
		return no_memory();
	natives->word[natives->word_count++] =
		(struct native_word){addr, (uint32_t)(native - natives->native)};
	return NULL;
}

static int compare_words(const void *a, const void *b)
{
	const struct native_word *left = a, *right = b;
	if (left->addr != right->addr)
		return left->addr < right->addr ? -1 : 1;
	return (left->index > right->index) - (left->index < right->index);
}

/* The file may describe a word twice. */
static void words_settle(struct natives *natives)
{
	size_t kept = 0;
	if (natives->word_count)
		qsort(natives->word, natives->word_count, sizeof(*natives->word), compare_words);
	for (size_t i = 0; i < natives->word_count; i++)
		if (!kept || natives->word[kept - 1].addr != natives->word[i].addr)
			natives->word[kept++] = natives->word[i];
	natives->word_count = kept;
}

static bool holds(const Elf64_Shdr *section, uint64_t vaddr)
{
	return section && vaddr >= section->sh_addr && section->sh_size >= sizeof(uint64_t) &&
	       vaddr - section->sh_addr <= section->sh_size - sizeof(uint64_t);
}

/* The word in the file holds the function's link-time address: in a program without relocations, or
 * with packed ones (DT_RELR). */
static struct ht_err *got_take(
	struct reading *reading, struct elf_file *file, const Elf64_Shdr *got)
{
	const struct module *module = reading->module;
	HT_CLEANUP(elf_table_deinit) struct elf_table table = {0};
	HT_TRY(elf_file_read(file, got, &table));
	for (size_t at = 0; at + sizeof(uint64_t) <= table.bytes; at += sizeof(uint64_t)) {
		uint64_t value;
		memcpy(&value, table.data + at, sizeof(value));
		const struct native *native =
			value ? natives_find(reading->natives, module->bias + value) : NULL;
		if (native)
			HT_TRY(word_add(reading, module->bias + got->sh_addr + at, native));
	}
	return NULL;
}

/* The link-time address that a relocation stores; 0: it names a symbol of another module, or is of
 * another kind. */
static uint64_t value_of(const Elf64_Rela *rela, const struct elf_table *symbols)
{
	Elf64_Sym symbol;
	uint64_t at = ELF64_R_SYM(rela->r_info) * sizeof(symbol);
	switch (ELF64_R_TYPE(rela->r_info)) {
	case ARCH_RELOC_RELATIVE:
		return (uint64_t)rela->r_addend;
	case ARCH_RELOC_GOT:
		if (!at || at + sizeof(symbol) > symbols->bytes)
			return 0;
		memcpy(&symbol, symbols->data + at, sizeof(symbol));
		return symbol.st_shndx == SHN_UNDEF ? 0 : symbol.st_value;
	default:
		return 0;
	}
}

static struct ht_err *rela_take(struct reading *reading, const Elf64_Rela *rela,
	const struct elf_table *symbols, const Elf64_Shdr *const got[2])
{
	const struct module *module = reading->module;
	uint64_t value = value_of(rela, symbols);
	raddr_t addr = module->bias + rela->r_offset;
	const struct native *found =
		value ? natives_find(reading->natives, module->bias + value) : NULL;
	if (!found)
		return NULL;
	if (!holds(got[0], rela->r_offset) && !holds(got[1], rela->r_offset)) {
		reading->natives->native[found - reading->natives->native].pointers++;
		return NULL;
	}
	/* slots_read finds this slot by the name in its relocation, without the file. */
	bool named = ELF64_R_TYPE(rela->r_info) != ARCH_RELOC_RELATIVE && !found->family->prefix[0];
	return named ? NULL : word_add(reading, addr, found);
}

static struct ht_err *relas_take(struct reading *reading, struct elf_file *file,
	const Elf64_Shdr *section, const Elf64_Shdr *const got[2])
{
	const Elf64_Shdr *linked = elf_file_linked(file, section);
	HT_CLEANUP(elf_table_deinit) struct elf_table relas = {0};
	HT_CLEANUP(elf_table_deinit) struct elf_table symbols = {0};
	Elf64_Rela rela;
	HT_TRY(elf_file_read(file, section, &relas));
	if (relas.bytes && linked && linked->sh_type == SHT_DYNSYM)
		HT_TRY(elf_file_read(file, linked, &symbols));
	for (size_t at = 0; at + sizeof(rela) <= relas.bytes; at += sizeof(rela)) {
		memcpy(&rela, relas.data + at, sizeof(rela));
		HT_TRY(rela_take(reading, &rela, &symbols, got));
	}
	return NULL;
}

static struct ht_err *words_take(struct reading *reading, struct elf_file *file)
{
	const Elf64_Shdr *const got[] = {
		elf_file_named(file, ".got"), elf_file_named(file, ".got.plt")};
	const Elf64_Shdr *section = NULL;
	struct ht_err *err = NULL;
	size_t relas = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(got) && !err; i++)
		if (got[i] && got[i]->sh_addr % sizeof(uint64_t) == 0)
			err = got_take(reading, file, got[i]);
	while (!err && (section = elf_file_typed(file, SHT_RELA, section ? section + 1 : NULL))) {
		if (!(section->sh_flags & SHF_ALLOC))
			continue;
		if (relas++ == RELAS_MAX) {
			reading->natives->partial = true;
			break;
		}
		err = relas_take(reading, file, section, got);
	}
	words_settle(reading->natives);
	return err;
}

/* A program linked without --eh-frame-hdr finds .eh_frame by its own start code. */
static void eh_frame_take(struct reading *reading, const struct elf_file *file)
{
	const struct module *module = reading->module;
	const Elf64_Shdr *section = elf_file_named(file, ".eh_frame");
	raddr_t addr = section ? module->bias + section->sh_addr : 0;
	if (!section || !(section->sh_flags & SHF_ALLOC) || addr < module->lo ||
		addr >= module->hi || section->sh_size > module->hi - addr)
		return;
	reading->natives->eh_frame = addr;
	reading->natives->eh_frame_bytes = section->sh_size;
}

static struct ht_err *file_take(struct reading *reading, int fd, struct budget *budget)
{
	const struct module *module = reading->module;
	struct elf_file file;
	struct ht_err *err =
		elf_file_open(fd, module->build_id, module->build_id_bytes, budget, &file);
	HT_THEN(err, elf_symbols_each(&file, symbol_take, reading));
	natives_settle(reading->natives, reading->presence);
	startcode_settle(&reading->natives->start, reading->main_caller, module, &file);
	if (!module->eh_frame_hdr)
		eh_frame_take(reading, &file);
	if (!err && reading->natives->count)
		err = words_take(reading, &file);
	reading->natives->partial |= file.partial;
	elf_file_close(&file);
	return err;
}

struct ht_err *natives_read(const struct proc *proc, const struct proc_map *map,
	const struct module *module, struct budget *budget, struct natives *ret)
{
	struct reading reading = {.module = module, .natives = ret};
	FD_GUARD int fd = -1;
	*ret = (struct natives){0};
	wanted_fill(&reading.wanted);
	if (!map->inode || module->vdso || module->interpreter)
		return NULL;
	ret->owners = malloc(sizeof(*ret->owners));
	if (!ret->owners)
		return no_memory();
	*ret->owners = 1;
	struct ht_err *err = memory_open_file(proc, map, &fd);
	if (!err && fd >= 0)
		err = file_take(&reading, fd, budget);
	if (err)
		natives_deinit(ret);
	return err;
}
