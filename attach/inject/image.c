/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/allocators/hooks.h"
#include "attach/elf/elf_file.h"
#include "attach/inject/journal.h"
#include "format/array.h"

extern const uint8_t agent_elf_begin[] HT_HIDDEN, agent_elf_end[] HT_HIDDEN;

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct ht_err *bad_agent(const char *why)
{
	return ht_err_new(HT_ERR_INTERNAL, "the embedded agent is broken: %s", why);
}

/* Returns [offset, offset + bytes) of the embedded file; NULL: outside the file. */
static const void *view(uint64_t offset, uint64_t bytes)
{
	uint64_t size = (uint64_t)(agent_elf_end - agent_elf_begin);
	if (offset > size || bytes > size - offset)
		return NULL;
	return agent_elf_begin + offset;
}

/* Stores `value` in `off` at the index of the hook in [lo, hi) whose symbol is `name`: `prefix`,
 * and the hook's name without "operator ". */
static void take_symbol(const char *name, uint64_t value, const char *prefix, unsigned lo,
	unsigned hi, uint64_t *off)
{
	size_t length = strlen(prefix);
	if (strncmp(name, prefix, length) != 0)
		return;
	for (unsigned i = lo; i < hi; i++) {
		const char *hook = hook_name((enum abi_hook)i);
		if (!strcmp(name + length, abi_is_new(i) ? strchr(hook, ' ') + 1 : hook))
			off[i] = value;
	}
}

static void take_symbols(struct agent_elf *elf, const char *name, uint64_t value)
{
	take_symbol(name, value, "heaptap_hook_", 0, ABI_ALLOCATOR_COUNT, elf->hook_off);
	take_symbol(name, value, "heaptap_guard_", ABI_ALLOCATOR_COUNT, ABI_MAPPING_MMAP,
		elf->hook_off);
	take_symbol(name, value, "heaptap_hook_", ABI_MAPPING_MMAP, ABI_TAP_COUNT, elf->hook_off);
	take_symbol(name, value, "heaptap_sample_", 0, ABI_ALLOCATOR_COUNT, elf->sample_off);
	take_symbol(name, value, "heaptap_sampled_", ABI_HOOK_COUNT, ABI_NEW_END,
		elf->sample_frame_off);
}

static bool in_text(const struct agent_elf *elf, uint64_t offset)
{
	return offset >= ABI_TEXT_OFF && offset < ABI_TEXT_OFF + elf->text_bytes;
}

static struct ht_err *read_symbols(const Elf64_Ehdr *ehdr, struct agent_elf *elf)
{
	const Elf64_Shdr *sections = view(ehdr->e_shoff, ehdr->e_shnum * sizeof(*sections));
	if (!sections)
		return bad_agent("no section headers");
	for (size_t i = 0; i < ehdr->e_shnum; i++) {
		const Elf64_Shdr *s = &sections[i];
		if (s->sh_type != SHT_SYMTAB || s->sh_link >= ehdr->e_shnum)
			continue;
		const Elf64_Sym *sym = view(s->sh_offset, s->sh_size);
		const Elf64_Shdr *str = &sections[s->sh_link];
		const char *names = view(str->sh_offset, str->sh_size);
		if (!sym || !names || str->sh_size == 0 || names[str->sh_size - 1] != '\0')
			return bad_agent("symbol table out of bounds");
		for (size_t n = 0; n < s->sh_size / sizeof(*sym); n++)
			if (sym[n].st_name < str->sh_size)
				take_symbols(elf, names + sym[n].st_name, sym[n].st_value);
	}
	for (size_t i = 0; i < ABI_TAP_COUNT; i++)
		if (!in_text(elf, elf->hook_off[i]))
			return bad_agent("a hook is missing");
	for (size_t i = 0; i < ABI_ALLOCATOR_COUNT; i++)
		if (!in_text(elf, elf->sample_off[i]) ||
			(abi_is_new(i) && !in_text(elf, elf->sample_frame_off[i])))
			return bad_agent("a hook for samples is missing");
	return NULL;
}

static void read_build_id(const Elf64_Phdr *note, struct agent_elf *elf)
{
	const uint8_t *data = view(note->p_offset, note->p_filesz);
	size_t bytes;
	const uint8_t *id = data ? elf_build_id(data, note->p_filesz, 4, &bytes) : NULL;
	if (id && bytes == sizeof(elf->build_id))
		memcpy(elf->build_id, id, bytes);
}

struct ht_err *agent_elf_read(struct agent_elf *ret)
{
	struct agent_elf elf = {0};
	const Elf64_Ehdr *ehdr = view(0, sizeof(*ehdr));
	if (!ehdr || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0)
		return bad_agent("not an ELF file");
	const Elf64_Phdr *phdr = view(ehdr->e_phoff, ehdr->e_phnum * sizeof(*phdr));
	if (!phdr)
		return bad_agent("no program headers");
	for (size_t i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type == PT_NOTE)
			read_build_id(&phdr[i], &elf);
		if (phdr[i].p_type != PT_LOAD)
			continue;
		if (elf.text || phdr[i].p_vaddr != ABI_TEXT_OFF || phdr[i].p_memsz > ABI_TEXT_MAX ||
			phdr[i].p_memsz != phdr[i].p_filesz)
			return bad_agent("it must have one segment, at the text's place");
		elf.text = view(phdr[i].p_offset, phdr[i].p_filesz);
		elf.text_bytes = phdr[i].p_filesz;
	}
	if (!elf.text)
		return bad_agent("no segment");
	HT_TRY(read_symbols(ehdr, &elf));
	*ret = elf;
	return NULL;
}

/* Seals the memfd: a target that shrank it would kill the daemon with SIGBUS. The size is read
 * after the sealing, as it may change before. */
static struct ht_err *fix_size(int memfd, uint64_t *ret)
{
	struct stat stat;
	(void)fcntl(memfd, F_ADD_SEALS, SIZE_SEALS);
	int seals = fcntl(memfd, F_GET_SEALS);
	if (seals < 0 || (seals & SIZE_SEALS) != SIZE_SEALS || fstat(memfd, &stat) < 0)
		return ht_err_sys(EPERM, "cannot seal the memory of heaptap's code");
	*ret = (uint64_t)stat.st_size;
	return NULL;
}

/* Without a memfd, maps empty memory. */
static struct ht_err *map_here(
	struct image *image, raddr_t base, uint64_t bytes, int memfd, bool forked)
{
	int flags = (forked ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED) |
		    (memfd < 0 ? MAP_ANONYMOUS : 0);
	struct stat stat = {0};
	struct abi_thunk *thunk = calloc(ABI_THUNK_MAX, sizeof(*thunk));
	void *local = MAP_FAILED;
	errno = ENOMEM;
	if (thunk)
		local = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, memfd, 0);
	if (local == MAP_FAILED || (memfd >= 0 && fstat(memfd, &stat) < 0)) {
		int sys = errno;
		free(thunk);
		close(memfd);
		return ht_err_sys(sys,
			"cannot map the memory of heaptap's code (%lu MiB of address space)",
			(unsigned long)(bytes >> 20));
	}
	*image = (struct image){.base = base,
		.bytes = bytes,
		.slot_max = (uint32_t)((bytes - ABI_SLOTS_OFF) / ABI_SLOT_BYTES),
		.memfd = memfd,
		.file = {.dev = stat.st_dev, .inode = stat.st_ino},
		.local = local,
		.thunks = base + ABI_THUNKS_OFF,
		.thunk = thunk,
		.forked = forked};
	return NULL;
}

struct ht_err *image_init(struct image *image, const struct agent_elf *elf, raddr_t base,
	uint32_t slot_max, int memfd)
{
	uint64_t bytes;
	struct ht_err *err = fix_size(memfd, &bytes);
	if (!err && bytes != abi_image_bytes(slot_max))
		err = ht_err_new(HT_ERR_REFUSED,
			"the process changed the size of the memory that it shares with heaptap");
	if (err) {
		close(memfd);
		return err;
	}
	HT_TRY(map_here(image, base, bytes, memfd, false));
	memcpy(image->local + ABI_TEXT_OFF, elf->text, elf->text_bytes);
	image_configure(image, elf);
	return NULL;
}

static size_t count_thunks(const struct image *image)
{
	size_t count = 0;
	while (count < ABI_THUNK_MAX && image->thunk[count].real)
		count++;
	return count;
}

static bool was_tapped(int memfd)
{
	struct journal_header header;
	return pread(memfd, &header, sizeof(header), ABI_JOURNAL_OFF) == sizeof(header) &&
	       header.magic == JOURNAL_MAGIC && header.phase >= JOURNAL_TAPPED;
}

struct ht_err *image_open(
	struct image *image, const struct proc *proc, raddr_t base, raddr_t thunks, int memfd)
{
	struct abi_state state;
	uint64_t bytes;
	struct ht_err *err = memory_read(proc, base + ABI_STATE_OFF, &state, sizeof(state));
	HT_THEN(err, fix_size(memfd, &bytes));
	if (!err && (bytes <= ABI_SLOTS_OFF || bytes > abi_image_bytes(ABI_SLOT_MAX)))
		err = ht_err_new(HT_ERR_REFUSED,
			"the memory that process %d shares with heaptap is damaged", proc->pid);
	if (err) {
		close(memfd);
		return err;
	}
	/* The state page is 0 in a forked child; in the target itself it is 0, too, until the first
	 * slot is hooked. */
	bool forked = thunks && !state.alive && was_tapped(memfd);
	HT_TRY(map_here(image, base, bytes, memfd, forked));
	if (thunks && (forked || thunks != image->thunks)) {
		err = image_adopt(image, proc, thunks);
		if (err)
			image_deinit(image);
		return err;
	}
	memcpy(image->thunk, image->local + ABI_THUNKS_OFF, HT_PAGE_BYTES);
	image->thunk_count = count_thunks(image);
	return NULL;
}

struct ht_err *image_open_forked(struct image *image, const struct proc *proc, raddr_t base,
	raddr_t thunks, const struct image_file *file)
{
	HT_TRY(map_here(image, base, abi_image_bytes(ABI_SLOT_MAX), -1, true));
	image->file = *file;
	return thunks ? image_adopt(image, proc, thunks) : NULL;
}

void image_deinit(struct image *image)
{
	if (!image->local)
		return;
	free(image->thunk);
	munmap(image->local, image->bytes);
	if (image->memfd >= 0)
		close(image->memfd);
	*image = (struct image){.memfd = -1};
}

void image_configure(struct image *image, const struct agent_elf *elf)
{
	struct abi_config *config = image_config(image);

	config->version = ABI_VERSION;
	memcpy(config->build_id, elf->build_id, sizeof(config->build_id));
	config->table_mask = ABI_TABLE_WORDS - 1;
	config->node_max = ABI_NODE_MAX;
	config->slot_mask = image->slot_max - 1;
	config->socket_fd = -1;
	config->frames_max = ABI_FRAMES_MAX;
	config->magic = ABI_MAGIC;
	image_control(image)->magic = ABI_MAGIC;
}

_Static_assert(ABI_THUNKS_OFF == 0, "everything but the thunks lies behind them");

void image_keep_thunks(struct image *image)
{
	/* Best effort: memory that cannot be given back does no harm. */
	const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	if (image->forked)
		return;
	/* Keep the bridges: children may still run them. */
	uint64_t end = image_config(image)->near[0] ? ABI_NEAR_OFF : image->bytes;
	fallocate(image->memfd, punch, HT_PAGE_BYTES, (off_t)end - HT_PAGE_BYTES);
	if (end < image->bytes)
		fallocate(
			image->memfd, punch, ABI_SHARED_OFF, (off_t)image->bytes - ABI_SHARED_OFF);
}

/* The instruction "lea disp32(%rip), %<register>" without its displacement. */
#define LEA_BYTES 3u

static const uint8_t *hook_lea(enum abi_hook hook)
{
	static const uint8_t by_arity[][LEA_BYTES] = {[1] = {0x48, 0x8d, 0x35} /* rsi */,
		[2] = {0x48, 0x8d, 0x15} /* rdx */,
		[3] = {0x48, 0x8d, 0x0d} /* rcx */,
		[4] = {0x4c, 0x8d, 0x05} /* r8 */,
		[5] = {0x4c, 0x8d, 0x0d} /* r9 */,
		[6] = {0x4c, 0x8d, 0x1d} /* r11: no argument is in it */};
	static const uint8_t mapping_arity[] = {
#define X(id, name, arity) arity,
		ABI_MAPPINGS(X)
#undef X
	};
	if (abi_is_mapping(hook))
		return by_arity[mapping_arity[hook - ABI_MAPPING_MMAP]];
	return by_arity[abi_is_guard(hook) ? 6 : abi_arity_of(hook)];
}

/* endbr64 ; lea thunk(%rip), %<register> ; jmp *target(%rip) */
static void make_code(uint8_t ret[ABI_THUNK_CODE_BYTES], enum abi_hook hook)
{
	const uint8_t *lea = hook_lea(hook);
	uint8_t code[ABI_THUNK_CODE_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa, lea[0], lea[1], lea[2], 0, 0,
		0, 0, 0xff, 0x25, 0, 0, 0, 0, 0x0f, 0x0b};
	/* Both relative to the end of their instruction, bytes 11 and 17 of the code. */
	int32_t to_start = -(int32_t)(ABI_THUNK_ENTRY + 11);
	int32_t to_target =
		(int32_t)offsetof(struct abi_thunk, target) - (int32_t)(ABI_THUNK_ENTRY + 17);

	memcpy(&code[7], &to_start, sizeof(to_start));
	memcpy(&code[13], &to_target, sizeof(to_target));
	memcpy(ret, code, sizeof(code));
}

static raddr_t thunk_addr(const struct image *image, size_t index)
{
	return image->thunks + index * ABI_THUNK_BYTES;
}

/* Index of the thunk with entry `addr`; ABI_THUNK_MAX: no thunk has it. */
static size_t thunk_index(const struct image *image, raddr_t addr)
{
	uint64_t offset = addr - image->thunks;
	if (offset >= HT_PAGE_BYTES || offset % ABI_THUNK_BYTES != ABI_THUNK_ENTRY)
		return ABI_THUNK_MAX;
	return offset / ABI_THUNK_BYTES;
}

static bool is_thunk(const struct abi_thunk *thunk)
{
	uint8_t code[ABI_THUNK_CODE_BYTES];
	if (thunk->hook >= ABI_TAP_COUNT)
		return false;
	make_code(code, (enum abi_hook)thunk->hook);
	return memcmp(code, thunk->code, sizeof(code)) == 0;
}

struct ht_err *image_adopt(struct image *image, const struct proc *proc, raddr_t thunks)
{
	HT_FREED struct abi_thunk *page = malloc(HT_PAGE_BYTES);
	if (!page)
		return ht_err_new(HT_ERR_NOMEM, "no memory for a page of jumps");
	HT_TRY(memory_read(proc, thunks, page, HT_PAGE_BYTES));
	/* A page without a first thunk was never left behind by heaptap. */
	for (size_t i = 0; i < ABI_THUNK_MAX && (i == 0 || page[i].real); i++)
		if (!is_thunk(&page[i]))
			return ht_err_new(HT_ERR_REFUSED,
				"the page at %lx in process %d was not left by this version of "
				"heaptap",
				(unsigned long)thunks, proc->pid);
	free(image->thunk);
	image->thunk = page;
	page = NULL;
	image->thunks = thunks;
	image->adopted_in = proc;
	image->thunk_count = count_thunks(image);
	return NULL;
}

/* The address to which heaptap writes thunk `index` of the image's own page. */
static struct abi_thunk *shared_thunk(const struct image *image, size_t index)
{
	return (struct abi_thunk *)(image->local + ABI_THUNKS_OFF) + index;
}

/* Does the adopted page still hold what heaptap wrote? The target may have mapped something else in
 * its place. */
static struct ht_err *is_in_place(const struct image *image, size_t index, bool *ret)
{
	struct abi_thunk now;
	size_t got;
	struct ht_err *err = memory_read_some(
		image->adopted_in, thunk_addr(image, index), &now, sizeof(now), &got);

	*ret = !err && got == sizeof(now) && memcmp(&now, &image->thunk[index], sizeof(now)) == 0;
	return err;
}

/* Writes thunk `index` where the target reads it, and keeps a copy. */
static struct ht_err *publish_thunk(
	struct image *image, size_t index, const struct abi_thunk *thunk)
{
	bool in_place;
	if (!image->adopted_in) {
		image->thunk[index] = *shared_thunk(image, index) = *thunk;
		return NULL;
	}
	HT_TRY(is_in_place(image, index, &in_place));
	if (!in_place)
		return ht_err_new(HT_ERR_REFUSED,
			"the page of an earlier capture at %lx has been changed by the process",
			(unsigned long)image->thunks);
	image->thunk[index] = *thunk;
	return memory_write(image->adopted_in, thunk_addr(image, index), thunk, sizeof(*thunk));
}

/* If an adopted page is unmapped nothing is written: no call can come through it. */
static struct ht_err *set_target(struct image *image, size_t index, uint64_t value)
{
	bool in_place;
	if (!image->adopted_in) {
		image->thunk[index].target = value;
		__atomic_store_n(&shared_thunk(image, index)->target, value, __ATOMIC_RELEASE);
		return NULL;
	}
	struct ht_err *err = is_in_place(image, index, &in_place);
	if (err || !in_place)
		return err;
	image->thunk[index].target = value;
	return memory_write_u64(image->adopted_in,
		thunk_addr(image, index) + offsetof(struct abi_thunk, target), value);
}

/* Returns the index of `addr` in the table of `count` words, and adds it if needed. 0: `addr` is 0,
 * or the table is full; entry 0 stays unused. */
static uint8_t table_index(uint64_t *table, uint8_t count, raddr_t addr)
{
	uint8_t i;

	if (!addr)
		return 0;
	for (i = 1; i < count && table[i]; i++)
		if (table[i] == addr)
			return i;
	if (i == count)
		return 0;
	table[i] = addr;
	return i;
}

/* Makes a thunk that forwards to `want->real`. */
static struct abi_thunk thunk_of(const struct image *image, const struct image_thunk *want)
{
	struct abi_config *config = image_config(image);
	struct abi_thunk thunk = {.target = want->real,
		.config = image->base + ABI_CONFIG_OFF,
		.real_lo = want->real_lo,
		.real_len = want->real_len > UINT32_MAX ? UINT32_MAX : (uint32_t)want->real_len,
		.hook = (uint16_t)want->hook,
		.plain_index = table_index(config->plain, ABI_PLAIN_MAX, want->plain),
		.usable_index = table_index(config->usable, ABI_USABLE_MAX, want->usable),
		.real = want->real};
	make_code(thunk.code, want->hook);
	return thunk;
}

/* Can thunk `index`, which may be in use, serve `want`? A library can be loaded where another was,
 * with the same function beside different ones. */
static bool is_wanted(const struct image *image, size_t index, const struct abi_thunk *want)
{
	const struct abi_thunk *thunk = &image->thunk[index];
	if (thunk->hook != want->hook || thunk->real != want->real)
		return false;
	return thunk->config != want->config ||
	       (thunk->plain_index == want->plain_index &&
		       thunk->usable_index == want->usable_index &&
		       thunk->real_lo == want->real_lo && thunk->real_len == want->real_len);
}

struct ht_err *image_thunk(struct image *image, const struct image_thunk *want, raddr_t *ret)
{
	const struct abi_thunk thunk = thunk_of(image, want);
	size_t i;

	if (abi_is_new(want->hook) && !thunk.plain_index)
		return ht_err_new(HT_ERR_REFUSED, "the process's allocators have more operators "
						  "new than heaptap has room for");
	for (i = 0; i < image->thunk_count && !is_wanted(image, i, &thunk); i++)
		;
	if (i == ABI_THUNK_MAX)
		return ht_err_new(HT_ERR_REFUSED,
			"the process uses more than %u allocator functions at once", ABI_THUNK_MAX);
	/* A thunk of an earlier capture may be replaced, except for its hook and real function. */
	if (image->thunk[i].config != thunk.config)
		HT_TRY(publish_thunk(image, i, &thunk));
	if (i == image->thunk_count)
		image->thunk_count++;
	*ret = thunk_addr(image, i) + ABI_THUNK_ENTRY;
	return NULL;
}

static struct ht_err *enable(struct image *image, const struct agent_elf *elf, size_t index)
{
	unsigned hook = image->thunk[index].hook;
	const struct abi_config *config = image_config(image);
	uint64_t offset = elf->hook_off[hook];
	if (image->paused && abi_only_allocates(hook))
		return set_target(image, index, image->thunk[index].real);
	if (config->sample_bytes && abi_is_allocator(hook))
		offset = abi_is_new(hook) && config->near[0] ? elf->sample_frame_off[hook]
							     : elf->sample_off[hook];
	return set_target(image, index, image->base + offset);
}

struct ht_err *image_enable(struct image *image, const struct agent_elf *elf, raddr_t addr)
{
	image_config(image)->thunks = image->thunks;
	return enable(image, elf, thunk_index(image, addr));
}

struct ht_err *image_pause(struct image *image, const struct agent_elf *elf, enum abi_paused paused)
{
	raddr_t config = image->base + ABI_CONFIG_OFF;
	struct ht_err *first = NULL;
	image->paused = paused;
	__atomic_store_n(&image_config(image)->paused, paused, __ATOMIC_RELEASE);
	for (size_t i = 0; i < image->thunk_count; i++)
		/* Thunks of an earlier capture that this one does not use go on forwarding. */
		if (image->thunk[i].config == config && abi_only_allocates(image->thunk[i].hook))
			first = ht_err_first(first, enable(image, elf, i));
	return first;
}

static struct ht_err *disable(struct image *image, bool guards)
{
	struct ht_err *first = NULL;
	for (size_t i = 0; i < image->thunk_count; i++)
		if (guards || !abi_is_guard(image->thunk[i].hook))
			first = ht_err_first(first, set_target(image, i, image->thunk[i].real));
	return first;
}

struct ht_err *image_disable_hooks(struct image *image)
{
	return disable(image, false);
}

struct ht_err *image_disable_all(struct image *image)
{
	return disable(image, true);
}

raddr_t image_real(const struct image *image, raddr_t addr)
{
	size_t index = thunk_index(image, addr);
	return index < image->thunk_count ? image->thunk[index].real : 0;
}
