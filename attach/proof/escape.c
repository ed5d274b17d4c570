/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/escape.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/elf/distance.h"
#include "attach/memory/memory.h"
#include "attach/memory/pagemap.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/fd.h"
#include "attach/proc/proc_living.h"
#include "attach/proof/sieve.h"
#include "format/arch.h"
#include "format/array.h"

#define CHUNK_BYTES	  (1u << 20)
#define OVERLAP		  16u	      /* bytes; more than the longest pattern */
#define BLOCK_WORDS	  512u	      /* that the sieve passes or rejects together */
#define SWAPPED_MAX_BYTES (64u << 20) /* that one search may bring back into memory */
#define CALL_OPCODE	  0xff
#define MODRM_CALL	  0x15 /* call *disp32(%rip) */
#define CALL_NEAR	  0xe8 /* call disp32 */
#define JUMP_NEAR	  0xe9
#define GUARD_OFFSET	  8u   /* of the pointer guard in the bytes of AT_RANDOM: rtld.c */
#define MODRM_JMP	  0x25 /* jmp *disp32(%rip) */
#define REX_W		  0x48 /* 0x49 with REX.B, for registers 8 to 15 */
#define MOV_OPCODE	  0xb8 /* mov imm64, register: its number is in the low three bits */
#define MODULE_MAX_BYTES  (1ll << 47)

static bool is_libc(const struct module *module)
{
	const char *name = strrchr(module->path, '/');
	return name && (strncmp(name, "/libc.so.", 9) == 0 || strncmp(name, "/libc-2.", 8) == 0);
}

/* The GOT slots of one module that lead to hooks, ascending by address. */
struct targets {
	raddr_t *addr;
	bool *called; /* some code calls or jumps through the slot */
	size_t count;
};

/* Compares addresses, or structs that begin with an address. */
static int compare(const void *a, const void *b)
{
	raddr_t x = *(const raddr_t *)a, y = *(const raddr_t *)b;
	return (x > y) - (x < y);
}

static const raddr_t *find(const struct targets *targets, raddr_t addr)
{
	if (addr < targets->addr[0] || addr > targets->addr[targets->count - 1])
		return NULL;
	return bsearch(&addr, targets->addr, targets->count, sizeof(addr), compare);
}

/* If an instruction begins at `code`, its RIP-relative displacement is at `code` + 2. Does that
 * operand name a target, and is the instruction neither a call nor a jump? */
static bool loads_target(const uint8_t *code, raddr_t at, const struct targets *targets)
{
	const raddr_t *target = find(targets, distance_target(code + 2, at + 2 + sizeof(int32_t)));
	if (!target)
		return false;
	bool transfer = code[0] == CALL_OPCODE && (code[1] == MODRM_CALL || code[1] == MODRM_JMP);
	if (transfer)
		targets->called[target - targets->addr] = true;
	return !transfer;
}

/* In the large code model code loads a slot's distance from the GOT's base, and which register
 * the distance is added to is not known. No compiler loads another number that small with eight
 * bytes. */
static bool loads_distance(
	const uint8_t *code, const struct module *module, const struct targets *targets)
{
	int64_t distance;
	if ((code[0] & ~1u) != REX_W || (code[1] & ~7u) != MOV_OPCODE)
		return false;
	memcpy(&distance, code + 2, sizeof(distance));
	if (distance % (int64_t)sizeof(raddr_t) || distance >= MODULE_MAX_BYTES ||
		distance <= -MODULE_MAX_BYTES)
		return false;
	for (size_t i = 0; i < targets->count; i++)
		if (targets->addr[i] - (raddr_t)distance - module->lo < module->hi - module->lo)
			return true;
	return false;
}

static bool takes_target(const uint8_t *code, size_t bytes, raddr_t at, const struct module *module,
	const struct targets *targets)
{
	for (size_t i = 0; i + 2 + sizeof(int32_t) <= bytes; i++)
		if (loads_target(code + i, at + i, targets) ||
			(i + 2 + sizeof(int64_t) <= bytes &&
				loads_distance(code + i, module, targets)))
			return true;
	return false;
}

/* Goes on behind `at`, from where nothing could be read: a hole between two segments, or code that
 * stays unknown. */
static struct ht_err *pass_unread_code(
	const struct proc_lookup *lookup, raddr_t at, raddr_t *ret_next, bool *ret_unknown)
{
	struct proc_map map;
	bool found;
	HT_TRY(proc_lookup_next(lookup, at, &map, &found));
	bool mapped = found && map.lo <= at;
	*ret_unknown = mapped && map.exec;
	*ret_next = !found ? UINT64_MAX : mapped ? map.hi : map.lo;
	return NULL;
}

static struct ht_err *scan_code(const struct proc_lookup *lookup, const struct module *module,
	const struct targets *targets, uint8_t *buffer, bool *ret)
{
	*ret = false;
	for (raddr_t at = module->text_lo; at < module->text_hi && !*ret;) {
		size_t want =
			module->text_hi - at < CHUNK_BYTES ? module->text_hi - at : CHUNK_BYTES;
		size_t got = 0;
		HT_TRY(memory_read_some(lookup->proc, at, buffer, want, &got));
		*ret = takes_target(buffer, got, at, module, targets);
		at += got;
		if (got == want && at < module->text_hi)
			at -= OVERLAP;
		else if (got < want && !*ret)
			HT_TRY(pass_unread_code(
				lookup, ht_align_down(at, HT_PAGE_BYTES), &at, ret));
	}
	/* No call or jump through this slot was found: code uses it in a way that the search does
	 * not know. */
	for (size_t i = 0; i < targets->count && !*ret; i++)
		*ret = !targets->called[i];
	return NULL;
}

static void collect(const struct module *module, const struct slots *slots,
	const struct journal *journal, struct targets *ret, bool *ret_data)
{
	ret->count = 0;
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slot[i];
		if (slot->module_id != module->id || !journal_has(journal, slot->addr))
			continue;
		if (slot->type == ARCH_RELOC_WORD)
			*ret_data = true;
		ret->called[ret->count] = false;
		ret->addr[ret->count++] = slot->addr;
	}
}

_Static_assert(offsetof(struct slot, addr) == 0, "compare");

static bool is_known(const struct slots *slots, raddr_t addr)
{
	return slots->count &&
	       bsearch(&addr, slots->slot, slots->count, sizeof(*slots->slot), compare);
}

/* Does the journal have a slot that `slots` lacks? Its module, or its relocation, could not be read
 * again, so the module's code is not searched. */
static bool any_unknown(const struct slots *slots, const struct journal *journal)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++) {
		const struct journal_slot *entry = &journal->slot[i];
		if (entry->state != JOURNAL_SLOT_GONE && !entry->code_bytes &&
			!is_known(slots, entry->addr))
			return true;
	}
	return false;
}

static struct ht_err *search_modules(const struct proc_lookup *lookup,
	const struct modules *modules, const struct slots *slots, const struct journal *journal,
	bool *ret)
{
	HT_FREED raddr_t *addr = calloc(slots->count + 1, sizeof(*addr));
	HT_FREED bool *called = calloc(slots->count + 1, sizeof(*called));
	HT_FREED uint8_t *buffer = malloc(CHUNK_BYTES);
	struct targets targets = {.addr = addr, .called = called};

	if (!addr || !called || !buffer)
		return ht_err_new(HT_ERR_NOMEM, "no memory to look for escaped addresses");
	for (size_t i = 0; !*ret && i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		if (is_libc(module))
			continue;
		collect(module, slots, journal, &targets, ret);
		if (!*ret && targets.count)
			HT_TRY(scan_code(lookup, module, &targets, buffer, ret));
	}
	return NULL;
}

struct ht_err *escape_is_possible(const struct proc *proc, const struct modules *modules,
	const struct slots *slots, const struct journal *journal, bool *ret)
{
	HT_CLEANUP(proc_lookup_end) struct proc_lookup lookup = {.fd = -1};
	*ret = any_unknown(slots, journal);
	if (*ret)
		return NULL;
	HT_TRY(proc_lookup_begin(proc, &lookup));
	return search_modules(&lookup, modules, slots, journal, ret);
}

struct scan {
	const struct proc *proc;
	const struct escape_search *search;
	const struct stackscan_ranges *ranges;
	int pagemap_fd;	  /* -1: not readable */
	uint64_t *buffer; /* the last word of the chunk before, a chunk, a zero, SIEVE_PADDING */
	raddr_t end;	  /* of the last chunk, and the last word in it */
	uint64_t last;
	raddr_t failed; /* the page that could not be read last; a second failure counts */
	uint64_t guard;
	struct sieve sieve;
	uint64_t swapped_bytes; /* read so far */
	struct escape_found found;
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Reading a device may have an effect or take for ever. Shared memory with such a name is not a
 * device: see is_shared_memory. */
static bool is_device(const struct proc_map *map)
{
	return starts_with(map->name, "/dev/") || starts_with(map->name, "/sys/") ||
	       starts_with(map->name, "anon_inode:");
}

/* Files that are memory: the program may have written them through another mapping that is gone, as
 * a JIT compiler does that maps its code twice. */
static bool is_shared_memory(const struct proc_map *map)
{
	return starts_with(map->name, "/memfd:") || starts_with(map->name, "/SYSV") ||
	       starts_with(map->name, "/dev/zero") || starts_with(map->name, "/dev/shm/");
}

static bool may_hold(const struct scan *scan, const struct proc_map *map)
{
	if (map->write && map->read)
		return true;
	return scan->pagemap_fd < 0 ? !map->shared && !map->inode
				    : !map->shared || map->write || is_shared_memory(map);
}

/*
 * Can the program have written this page, whatever its protection is now? A page that a private
 * mapping still shares with its file has the file's content, so the program did not write it,
 * unless the file itself is memory. A page that does not exist is not read, since reading would
 * create it: gigabytes of shared memory that the target has only reserved.
 */
enum escape_page escape_page_of(const struct proc_map *map, uint64_t entry)
{
	bool is_file = entry & PAGEMAP_FILE;

	if (!(entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)))
		return ESCAPE_PAGE_NOT;
	if (map->shared ? !is_file && is_device(map) : is_file && !is_shared_memory(map))
		return ESCAPE_PAGE_NOT;
	return entry & PAGEMAP_PRESENT ? ESCAPE_PAGE_SEARCHED : ESCAPE_PAGE_SWAPPED;
}

/* `ret_bytes`: how many bytes from `at` on, at most `want`, have pages of the same kind `ret`. More
 * than `want` where no pages exist, as in the terabytes of a sanitizer's shadow. */
static struct ht_err *like_pages(const struct scan *scan, const struct proc_map *map, raddr_t at,
	size_t want, enum escape_page *ret, size_t *ret_bytes)
{
	uint64_t entry[CHUNK_BYTES / HT_PAGE_BYTES];
	size_t count, same = 1;
	*ret = ESCAPE_PAGE_SEARCHED;
	*ret_bytes = want;
	if (scan->pagemap_fd < 0)
		return NULL;
	HT_TRY(pagemap_read(scan->proc, scan->pagemap_fd, at, entry, want / HT_PAGE_BYTES, &count));
	/* `at` is above the addresses of user space. */
	if (count == 0) {
		*ret = ESCAPE_PAGE_NOT;
		return NULL;
	}
	*ret = escape_page_of(map, entry[0]);
	while (same < count && escape_page_of(map, entry[same]) == *ret)
		same++;
	*ret_bytes = same * HT_PAGE_BYTES;
	if (*ret == ESCAPE_PAGE_NOT && *ret_bytes == want)
		*ret_bytes = pagemap_next(scan->pagemap_fd, at + want, map->hi) - at;
	return NULL;
}

/* glibc mangles the pointers of atexit and some others: it mixes them with a guard, which it takes
 * from the random bytes that the kernel gives at exec (AT_RANDOM), and rotates them. */
static struct ht_err *read_guard(const struct proc *proc, uint64_t *ret)
{
	struct proc_auxv auxv;
	*ret = 0;
	struct ht_err *err = proc_auxv_read(proc, &auxv);
	if (err || !auxv.random)
		return err;
	err = memory_read_u64(proc, auxv.random + GUARD_OFFSET, ret);
	if (err && err->code == HT_ERR_SYS) {
		ht_err_free(err);
		return NULL;
	}
	return err;
}

static uint64_t unmangle(const struct scan *scan, uint64_t word)
{
	return (word >> SIEVE_MANGLE_TURN | word << (64 - SIEVE_MANGLE_TURN)) ^ scan->guard;
}

/* Counts a reference to the thunk entry `entry`, found at the address `addr`. */
static void note(struct scan *scan, raddr_t addr, raddr_t entry)
{
	struct escape_found *found = &scan->found;
	if (found->count == 0)
		found->addr = addr;
	if (found->count < ESCAPE_PLACES_MAX)
		found->place[found->count] = addr;
	found->count++;
	found->thunks |= 1ull << (entry - scan->ranges->thunk_lo) / ABI_THUNK_BYTES;
}

_Static_assert(ABI_THUNK_MAX <= 64, "each thunk has a bit");

/* Returns the thunk entry that the word holds, plain or mangled by glibc; 0: none. */
static raddr_t entry_of(const struct scan *scan, uint64_t word)
{
	uint64_t turned = unmangle(scan, word);
	if (stackscan_is_entry(scan->ranges, word))
		return word;
	return stackscan_is_entry(scan->ranges, turned) ? turned : 0;
}

static void search_words(struct scan *scan, raddr_t at, const uint64_t *word, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		raddr_t entry = entry_of(scan, word[i]);
		if (entry)
			note(scan, at + i * sizeof(*word), entry);
	}
}

/*
 * A packed structure has addresses at any byte. The upper bits of each thunk entry are known;
 * comparing four bytes of these rejects nearly all other words. The first word was searched with
 * the block before; it completes addresses that cross the border.
 */
static void search_bytes(struct scan *scan, raddr_t at, const uint64_t *words, size_t count)
{
	uint32_t known = (uint32_t)(scan->ranges->thunk_lo >> 16);
	const uint8_t *bytes = (const uint8_t *)words;
	const uint8_t *from = bytes + 3, *end = bytes + count * sizeof(*words) - 2;
	while ((from = memmem(from, (size_t)(end - from), &known, sizeof(known)))) {
		uint64_t word;
		size_t i = (size_t)(from++ - bytes) - 2;
		memcpy(&word, bytes + i, sizeof(word));
		if (i % sizeof(word) && stackscan_is_entry(scan->ranges, word))
			note(scan, at + i, word);
	}
}

/* Is the byte before the distance at `code` the opcode of a call or jump? */
static bool is_jump(const uint8_t *code)
{
	return code[-1] == CALL_NEAR || code[-1] == JUMP_NEAR;
}

/* Code that the program made itself may jump to a thunk by a distance, at any byte. */
static void search_code(struct scan *scan, raddr_t at, const uint64_t *words, size_t count)
{
	const uint8_t *code = (const uint8_t *)words;
	for (size_t i = 1; i + sizeof(uint64_t) <= count * sizeof(*words); i++) {
		raddr_t to = distance_target(code + i, at + i + sizeof(int32_t));
		if (stackscan_is_entry(scan->ranges, to) && is_jump(code + i))
			note(scan, at + i, to);
	}
}

/* `words`: the word before the first one at `at`, `count` words, and a zero. */
static void search_data(struct scan *scan, raddr_t at, const uint64_t *words, size_t count)
{
	for (size_t from = 0; from < count; from += BLOCK_WORDS) {
		const bool is_last = count - from <= BLOCK_WORDS;
		const size_t own = is_last ? count - from : BLOCK_WORDS;
		const uint64_t *block = words + from;
		const raddr_t block_at = at + from * sizeof(*words);
		const size_t all = 1 + own + is_last;
		if (!sieve_may_hold(&scan->sieve, block, all))
			continue;
		search_words(scan, block_at, block + 1, own);
		search_bytes(scan, block_at - sizeof(*words), block, all);
	}
}

static struct ht_err *scan_pages(
	struct scan *scan, const struct proc_map *map, raddr_t at, size_t want, size_t *ret_got)
{
	uint64_t *word = scan->buffer + 1;
	struct ht_err *err = memory_read_some(scan->proc, at, word, want, ret_got);
	size_t count = *ret_got / sizeof(*word);
	if (err || !count)
		return err;
	scan->buffer[0] = at == scan->end ? scan->last : 0;
	scan->end = at + count * sizeof(*word);
	scan->last = word[count - 1];
	word[count] = 0;
	search_data(scan, at, scan->buffer, count);
	if (map->exec)
		search_code(scan, at - sizeof(*word), scan->buffer, count + 2);
	return NULL;
}

/* Swapped pages are read up to a limit: bringing them back may take minutes and push out memory
 * that is in use. */
static bool is_read(struct scan *scan, enum escape_page page, size_t bytes)
{
	if (page != ESCAPE_PAGE_SWAPPED)
		return page == ESCAPE_PAGE_SEARCHED;
	bool read = scan->swapped_bytes + bytes <= SWAPPED_MAX_BYTES;
	*(read ? &scan->swapped_bytes : &scan->found.unread_bytes) += bytes;
	return read;
}

static struct ht_err *is_mapped(const struct proc *proc, raddr_t addr, bool *ret)
{
	HT_CLEANUP(proc_lookup_end) struct proc_lookup lookup = {.fd = -1};
	struct proc_map map;
	HT_TRY(proc_lookup_begin(proc, &lookup));
	*ret = proc_lookup_find(&lookup, addr, &map);
	return NULL;
}

/* The kernel's own mappings ([vdso], [vvar], [vsyscall]) and devices. */
static bool is_never_read(const struct proc_map *map)
{
	return starts_with(map->name, "[v") || (is_device(map) && !is_shared_memory(map));
}

/* Nothing could be read from the page at `at` on. The first time the page is read again: it may
 * have been unmapped since, or a single read may have failed. If a mapped page cannot be read twice
 * (memfd_secret), it counts as unread. `ret_bytes`: how far to go on. */
static struct ht_err *pass_unread(
	struct scan *scan, const struct proc_map *map, raddr_t at, size_t *ret_bytes)
{
	bool mapped = true;
	*ret_bytes = scan->failed == at ? HT_PAGE_BYTES : 0;
	scan->failed = at;
	if (!*ret_bytes || is_never_read(map))
		return NULL;
	/* The page map shows unmapped memory as absent. */
	struct ht_err *err = scan->pagemap_fd < 0 ? is_mapped(scan->proc, at, &mapped) : NULL;
	if (mapped)
		scan->found.unread_bytes += HT_PAGE_BYTES;
	return err;
}

static struct ht_err *check_wanted(const struct scan *scan)
{
	const struct escape_search *search = scan->search;
	return search->is_cancelled && search->is_cancelled(search->context)
		       ? ht_err_new(HT_ERR_REFUSED, "the search of process %d was cancelled",
				 scan->proc->pid)
		       : NULL;
}

static struct ht_err *scan_map(struct scan *scan, const struct proc_map *map)
{
	for (raddr_t at = map->lo; at < map->hi;) {
		size_t want = map->hi - at < CHUNK_BYTES ? map->hi - at : CHUNK_BYTES;
		size_t got;
		enum escape_page page;
		struct ht_err *err = check_wanted(scan);
		HT_THEN(err, like_pages(scan, map, at, want, &page, &want));
		got = want;
		if (!err && is_read(scan, page, want))
			err = scan_pages(scan, map, at, want, &got);
		if (err)
			return err;
		got = ht_align_down(got, HT_PAGE_BYTES);
		if (!got)
			err = pass_unread(scan, map, at, &got);
		if (err)
			return err;
		at += got;
	}
	return NULL;
}

static bool is_near(const struct stackscan_ranges *ranges, const struct proc_map *map)
{
	for (size_t i = 0; i < ABI_NEAR_MAX && ranges->near[i]; i++)
		if (map->lo >= ranges->near[i] && map->hi <= ranges->near[i] + ABI_NEAR_BYTES)
			return true;
	return false;
}

struct ht_err *escape_scan_memory(const struct escape_search *search, struct escape_found *ret)
{
	const struct proc *proc = search->proc;
	const struct stackscan_ranges *ranges = search->ranges;
	HT_CLEANUP(proc_maps_deinit) struct proc_maps maps = {0};
	HT_TRY(proc_maps_read(proc, &maps));
	HT_FREED uint64_t *buffer = calloc(1, CHUNK_BYTES + 2 * sizeof(*buffer) + SIEVE_PADDING);
	if (!buffer)
		return ht_err_new(HT_ERR_NOMEM, "no memory to search the target");
	struct scan scan = {.proc = proc,
		.search = search,
		.ranges = ranges,
		.pagemap_fd = -1,
		.buffer = buffer};
	struct ht_err *err = pagemap_open(proc, &scan.pagemap_fd);
	HT_THEN(err, read_guard(proc, &scan.guard));
	scan.sieve = sieve_make(ranges, scan.guard);
	for (size_t i = 0; !err && i < maps.count; i++) {
		const struct proc_map *map = &maps.map[i];
		bool ours = (map->lo >= search->own_lo && map->hi <= search->own_hi) ||
			    (map->lo >= ranges->thunk_lo && map->hi <= ranges->thunk_hi) ||
			    is_near(ranges, map);
		if (!ours && may_hold(&scan, map))
			err = scan_map(&scan, map);
	}
	fd_close(&scan.pagemap_fd);
	if (!err)
		*ret = scan.found;
	return err;
}

/* A reference at a place is identified by the opcode byte before it, and the word. */
#define PLACE_BYTES (1 + sizeof(uint64_t))

struct ht_err *escape_still(const struct proc *proc, const struct stackscan_ranges *ranges,
	const raddr_t *place, size_t count, size_t *ret)
{
	struct scan scan = {.proc = proc, .ranges = ranges};
	struct ht_err *err = read_guard(proc, &scan.guard);

	*ret = 0;
	for (size_t i = 0; !err && i < count; i++) {
		uint8_t bytes[PLACE_BYTES] = {0};
		uint64_t word;
		size_t got;
		err = memory_read_some(proc, place[i], bytes + 1, sizeof(word), &got);
		if (err || got != sizeof(word))
			continue;
		memcpy(&word, bytes + 1, sizeof(word));
		bool leads = entry_of(&scan, word) != 0;
		if (!leads && stackscan_is_entry(ranges,
				      distance_target(bytes + 1, place[i] + sizeof(int32_t))))
			err = memory_read_some(proc, place[i] - 1, bytes, 1, &got);
		*ret += leads || is_jump(bytes + 1);
	}
	return err;
}
