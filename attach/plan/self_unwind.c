/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/self_unwind.h"

#include <stdlib.h>
#include <string.h>

#include "attach/elf/distance.h"
#include "attach/elf/modules.h"
#include "attach/memory/memory.h"
#include "attach/plan/codewalk.h"
#include "format/array.h"

#define WORDS_MAX 96u
#define ENTRIES_MAX                                                                                \
	(2 * SELF_UNWIND_ENTRIES_MAX) /* with functions that are called through a word */
#define FUNCTIONS_MAX 1024u
#define CALLS_MAX     2048u
#define MODULES_MAX   8u /* whose code is followed */
#define STUB_BYTES    16u
#define PAGES_MAX     64u /* pages of code that are kept */

static const char *const names[] = {
	/* libgcc's, and functions that call it */
	"_Unwind_Backtrace", "backtrace",
	/* libunwind's */
	"unw_backtrace", "unw_step", "_ULx86_64_step", "_Ux86_64_step", "_ULx86_64_init_local",
	/* functions that do not return */
	"abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail", "__assert",
	"__stack_chk_fail", "__fortify_fail", "__chk_fail", "longjmp", "siglongjmp",
	"__longjmp_chk", "pthread_exit", "__cxa_throw", "__cxa_rethrow", "_Unwind_Resume",
	"_ZSt9terminatev", "_ZSt17__throw_bad_allocv"};

#define NAME_OTHER    2u
#define NAME_NORETURN 7u

bool self_unwind_is_name(const char *name)
{
	for (size_t i = 0; i < NAME_OTHER; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

bool self_unwind_is_system(const struct module *module)
{
	static const char *const beginnings[] = {"libc.so", "libc-2.", "ld-", "ld.so", "libpthread",
		"libm.so", "libdl.so", "librt.so", "libstdc++", "libc++", "libgcc_s", "libasan",
		"liblsan", "libtsan", "libubsan", "libhwasan", "libclang_rt", "libc_malloc_debug",
		"libunwind"};
	const char *base = strrchr(module->path, '/');
	base = base ? base + 1 : module->path;
	for (size_t i = 0; i < HT_ARRAY_SIZE(beginnings); i++)
		if (!strncmp(base, beginnings[i], strlen(beginnings[i])))
			return true;
	return module->interpreter || module->vdso;
}

struct ht_err *self_unwind_find(
	const struct proc *proc, const struct modules *modules, struct self_unwind *ret)
{
	*ret = (struct self_unwind){.proc = proc, .modules = modules};
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		for (size_t n = 0; n < NAME_OTHER && self_unwind_is_system(module); n++) {
			raddr_t addr = 0;
			HT_TRY(module_symbol(proc, module, names[n], NULL, &addr));
			if (addr && ret->function_count < SELF_UNWIND_FUNCTIONS_MAX)
				ret->function[ret->function_count++] = addr;
		}
	}
	return NULL;
}

void self_unwind_add_linked(struct self_unwind *unwinds, raddr_t function)
{
	if (unwinds->function_count == SELF_UNWIND_FUNCTIONS_MAX)
		return;
	unwinds->function[unwinds->function_count++] = function;
	unwinds->linked_count++;
}

struct hit {
	raddr_t function; /* calls a function that unwinds */
	enum self_unwind_by by;
};

struct call {
	raddr_t from, to;
};

struct page {
	raddr_t at; /* 0: none */
	size_t bytes;
	uint8_t data[HT_PAGE_BYTES];
};

struct walk {
	const struct self_unwind *unwinds;
	struct page page[PAGES_MAX];
	struct reloc_word word[WORDS_MAX];
	size_t word_count;
	uint64_t read_id[MODULES_MAX]; /* modules whose words are known */
	size_t read_count;
	raddr_t entry[ENTRIES_MAX]; /* to be followed */
	size_t entry_count;
	struct hit hit[FUNCTIONS_MAX];
	size_t hit_count;
	struct call call[CALLS_MAX];
	size_t call_count;
	raddr_t returns[FUNCTIONS_MAX]; /* functions that were seen to return */
	size_t return_count;
	struct ht_err *err;
};

static struct page *read_page(struct walk *walk, raddr_t at)
{
	struct page *page = &walk->page[at / HT_PAGE_BYTES % PAGES_MAX];
	if (page->at == at)
		return page;
	struct ht_err *err = memory_read_some(
		walk->unwinds->proc, at, page->data, sizeof(page->data), &page->bytes);
	page->at = at;
	if (err)
		page->bytes = 0;
	walk->err = ht_err_first(walk->err, err);
	return page;
}

/* Reads through kept pages: a system call for each look would cost a second for a large
 * allocator. */
static size_t read_code(void *context, raddr_t addr, uint8_t *buffer, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		raddr_t at = ht_align_down(addr + done, HT_PAGE_BYTES);
		const struct page *page = read_page(context, at);
		size_t skip = addr + done - at;
		size_t left = page->bytes > skip ? page->bytes - skip : 0;
		size_t part = bytes - done < left ? bytes - done : left;
		memcpy(buffer + done, page->data + skip, part);
		done += part;
		if (part == left && page->bytes < HT_PAGE_BYTES)
			break;
	}
	return done;
}

/* False: there are too many modules. */
static bool know_words(struct walk *walk, const struct module *module)
{
	size_t count = 0;
	if (array_has_word(walk->read_id, walk->read_count, module->id))
		return true;
	if (walk->read_count == MODULES_MAX)
		return false;
	walk->read_id[walk->read_count++] = module->id;
	struct ht_err *err = relocs_words(walk->unwinds->proc, module, names, HT_ARRAY_SIZE(names),
		walk->word + walk->word_count, WORDS_MAX - walk->word_count, &count);
	walk->err = ht_err_first(walk->err, err);
	walk->word_count += count;
	return true;
}

static const struct reloc_word *find_word(const struct walk *walk, raddr_t addr)
{
	for (size_t i = 0; i < walk->word_count; i++)
		if (walk->word[i].addr == addr)
			return &walk->word[i];
	return NULL;
}

static void add_hit(struct walk *walk, raddr_t function, enum self_unwind_by by)
{
	if (walk->hit_count < FUNCTIONS_MAX)
		walk->hit[walk->hit_count++] = (struct hit){function, by};
}

static bool does_return(const struct walk *walk, raddr_t function)
{
	return array_has_word(walk->returns, walk->return_count, function);
}

static void add_return(struct walk *walk, raddr_t function)
{
	if (walk->return_count < FUNCTIONS_MAX && !does_return(walk, function))
		walk->returns[walk->return_count++] = function;
}

static void add_call(struct walk *walk, raddr_t from, raddr_t to)
{
	for (size_t i = 0; i < walk->call_count; i++)
		if (walk->call[i].from == from && walk->call[i].to == to)
			return;
	if (walk->call_count < CALLS_MAX)
		walk->call[walk->call_count++] = (struct call){from, to};
}

/* Adds a function to be followed; a call of it is taken to return. */
static void add_entry(struct walk *walk, raddr_t addr)
{
	const struct module *module = modules_find(walk->unwinds->modules, addr);
	if (!module || self_unwind_is_system(module) || addr < module->text_lo ||
		addr >= module->text_hi || !know_words(walk, module))
		return;
	if (walk->entry_count < ENTRIES_MAX &&
		!array_has_word(walk->entry, walk->entry_count, addr))
		walk->entry[walk->entry_count++] = addr;
}

static bool is_unwinder(const struct self_unwind *unwinds, raddr_t addr)
{
	return array_has_word(unwinds->function, unwinds->function_count, addr);
}

/* Adds a call or jump to a function that the code does not name directly. */
static void lead_to(struct walk *walk, raddr_t function, raddr_t to)
{
	if (is_unwinder(walk->unwinds, to))
		add_hit(walk, function, SELF_UNWIND_LIBGCC);
	else
		add_entry(walk, to);
	add_call(walk, function, to);
}

static void hit_by_word(struct walk *walk, raddr_t function, const struct reloc_word *word)
{
	if (word->name < NAME_NORETURN)
		add_hit(walk, function,
			word->name < NAME_OTHER ? SELF_UNWIND_LIBGCC : SELF_UNWIND_OTHER);
}

/* Handles a call or jump through the word at `at`. */
static enum codewalk_answer through_word(
	struct walk *walk, const struct codewalk_instruction *instruction, raddr_t at)
{
	const struct reloc_word *word = find_word(walk, at);
	bool jumps = instruction->kind == CODEWALK_JUMP;
	uint64_t to;
	if (word && word->name >= NAME_NORETURN)
		return CODEWALK_LEAVE;
	/* A tail call returns on behalf of its function. */
	if (jumps)
		add_return(walk, instruction->function);
	if (word)
		hit_by_word(walk, instruction->function, word);
	else if (read_code(walk, at, (uint8_t *)&to, sizeof(to)) == sizeof(to))
		lead_to(walk, instruction->function, to);
	return CODEWALK_PASS;
}

/* Is the code at `addr` an entry of a PLT: `endbr64; bnd jmp *word(%rip)`, or parts of that? */
static bool is_stub(struct walk *walk, raddr_t addr, raddr_t *ret_word)
{
	static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint8_t code[STUB_BYTES];
	size_t at = 0;
	if (read_code(walk, addr, code, sizeof(code)) != sizeof(code))
		return false;
	if (!memcmp(code, endbr, sizeof(endbr)))
		at += sizeof(endbr);
	if (code[at] == 0xf2)
		at++;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	*ret_word = distance_target(code + at + 2, addr + at + 6);
	return true;
}

static enum codewalk_answer visit(void *context, const struct codewalk_instruction *instruction)
{
	struct walk *walk = context;
	bool leads = instruction->kind == CODEWALK_CALL || instruction->kind == CODEWALK_JUMP;
	raddr_t word;
	if (instruction->returns)
		add_return(walk, instruction->function);
	if (instruction->kind == CODEWALK_BRANCH)
		return CODEWALK_FOLLOW;
	if (!leads) {
		/* The code loads the address of a function from the word, to call it. */
		const struct reloc_word *used =
			instruction->operand ? find_word(walk, instruction->operand) : NULL;
		if (used)
			hit_by_word(walk, instruction->function, used);
		return CODEWALK_PASS;
	}
	if (instruction->through_word)
		return through_word(walk, instruction, instruction->to);
	if (!instruction->direct) {
		if (instruction->kind == CODEWALK_JUMP)
			add_return(walk, instruction->function);
		if (instruction->known)
			lead_to(walk, instruction->function, instruction->to);
		return CODEWALK_PASS;
	}
	if (is_unwinder(walk->unwinds, instruction->to)) {
		if (instruction->kind == CODEWALK_JUMP)
			add_return(walk, instruction->function);
		add_hit(walk, instruction->function, SELF_UNWIND_LIBGCC);
		return CODEWALK_PASS;
	}
	if (is_stub(walk, instruction->to, &word))
		return through_word(walk, instruction, word);
	if (instruction->kind == CODEWALK_CALL)
		add_call(walk, instruction->function, instruction->to);
	return CODEWALK_FOLLOW;
}

static enum self_unwind_by by_of(const struct walk *walk, raddr_t function)
{
	enum self_unwind_by by = SELF_UNWIND_NOT;
	for (size_t i = 0; i < walk->hit_count; i++)
		if (walk->hit[i].function == function && walk->hit[i].by > by)
			by = walk->hit[i].by;
	return does_return(walk, function) ? by : SELF_UNWIND_NOT;
}

/* Spreads from the functions that unwind to their callers. A function that never returns unwinds to
 * report the end of the process, not an allocation: it does not count. */
static void spread(struct walk *walk)
{
	for (bool more = walk->hit_count > 0; more;) {
		more = false;
		for (size_t i = 0; i < walk->call_count; i++) {
			const struct call *call = &walk->call[i];
			enum self_unwind_by by = by_of(walk, call->to);
			if (by <= by_of(walk, call->from) || !does_return(walk, call->from) ||
				walk->hit_count == FUNCTIONS_MAX)
				continue;
			add_hit(walk, call->from, by);
			more = true;
		}
	}
}

struct ht_err *self_unwind_has(
	const struct self_unwind *unwinds, const struct module *module, bool *ret)
{
	struct reloc_word word[1];
	size_t count;
	struct ht_err *err = relocs_words(
		unwinds->proc, module, names, NAME_NORETURN, word, HT_ARRAY_SIZE(word), &count);
	*ret = !err && (count > 0 || unwinds->linked_count > 0);
	return err;
}

struct ht_err *self_unwind_from(const struct self_unwind *unwinds, const struct module *module,
	const raddr_t *entry, size_t count, enum self_unwind_by *ret)
{
	HT_FREED struct walk *walk = calloc(1, sizeof(*walk));
	*ret = SELF_UNWIND_NOT;
	if (!walk)
		return ht_err_new(HT_ERR_NOMEM, "no memory to follow an allocator's code");
	walk->unwinds = unwinds;
	const struct codewalk codewalk = {.read = read_code,
		.read_context = walk,
		.visit = visit,
		.visit_context = walk,
		.by_values = true};
	(void)know_words(walk, module);
	for (size_t i = 0; i < count; i++)
		add_entry(walk, entry[i]);
	for (size_t i = 0; i < walk->entry_count && !walk->err; i++)
		(void)codewalk_run(&codewalk, walk->entry[i]);
	spread(walk);
	for (size_t i = 0; i < count; i++)
		if (by_of(walk, entry[i]) > *ret)
			*ret = by_of(walk, entry[i]);
	return walk->err;
}
