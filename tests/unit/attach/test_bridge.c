/* SPDX-License-Identifier: Apache-2.0
 *
 * A bridge runs a function's first instructions elsewhere: tested with hand-made cases, and by
 * running the result.
 */
#include "attach/inject/bridge.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/inject/near.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define ENTRY 0x555555560010ull

#ifdef HEAPTAP_ZYDIS

/* --- bytes ------------------------------------------------------------------------------------ */

struct function {
	uint8_t code[64];
	size_t bytes;
	size_t at; /* of the entry in its aligned word */
};

static const char *read_function(const struct function *f, struct bridge *ret)
{
	uint8_t code[128];
	memset(code, 0xcc, sizeof(code));
	memcpy(code + f->at, f->code, f->bytes);
	return bridge_read(code, sizeof(code), ENTRY + f->at, f->bytes, ret);
}

static void check_refused(const struct function *f, const char *why)
{
	struct bridge bridge;
	const char *told = read_function(f, &bridge);
	ck_assert_msg(told && strstr(told, why), "%s instead of: %s", told ? told : "nothing", why);
}

HT_TEST(what_cannot_be_hooked)
{
	check_refused(&(struct function){{0xe8, 1, 0, 0, 0, 0xc3}, 6, 0}, "begins with a call");
	check_refused(&(struct function){{0xff, 0x15, 1, 0, 0, 0, 0xc3}, 7, 0}, "call");
	check_refused(&(struct function){{0x74, 1, 0x90, 0xc3}, 4, 0}, "conditional");
	check_refused(&(struct function){{0xe3, 1, 0x90, 0xc3}, 4, 0}, "conditional");
	check_refused(&(struct function){{0xe2, 1, 0x90, 0xc3}, 4, 0}, "conditional");
	check_refused(&(struct function){{0xcc, 0xc3}, 2, 0}, "moved");
	check_refused(&(struct function){{0x0f, 0x0b}, 2, 0}, "moved");
	check_refused(&(struct function){{0x0f, 0x05, 0xc3}, 3, 0}, "moved");
	check_refused(&(struct function){{0x5f, 0xc3}, 2, 0}, "moved");
	check_refused(&(struct function){{0xc9, 0xc3}, 2, 0}, "moved");
	check_refused(&(struct function){{0x48, 0x83, 0xe4, 0xf0, 0xc3}, 5, 0}, "moved");
	check_refused(&(struct function){{0x48, 0x83, 0xec, 0x0c, 0xc3}, 5, 0}, "moved");
	check_refused(&(struct function){{0xff, 0xe0}, 2, 0}, "moved");
	check_refused(&(struct function){{0x06, 0xc3}, 2, 0}, "decoded");
	check_refused(&(struct function){{0x53, 0x06, 0xc3}, 3, 0}, "decoded");
	check_refused(&(struct function){{0xc3}, 0, 0}, "length");
	/* push rbx ; jmp -3 ; and a jump into the middle of a mov. */
	check_refused(&(struct function){{0x53, 0xeb, 0xfd}, 3, 0}, "loops");
	check_refused(&(struct function){{0x48, 0x89, 0xf8, 0xeb, 0xfc}, 5, 0}, "jumps into");
	struct bridge bridge;
	/* A recursive call enters through the hook like any other, so it is no reason to refuse. */
	ck_assert_ptr_null(read_function(
		&(struct function){{0x53, 0xe8, 0xfa, 0xff, 0xff, 0xff, 0x5b, 0xc3}, 8, 0},
		&bridge));
}

/* A jump must not use bytes behind the end of the segment's file data. */
HT_TEST(end_of_the_segment)
{
	uint8_t code[64] = {0x53, 0xc3};
	struct bridge bridge;
	ck_assert_ptr_null(bridge_read(code, BRIDGE_LOOK_BYTES, ENTRY, 2, &bridge));
	ck_assert_ptr_nonnull(bridge_read(code, BRIDGE_LOOK_BYTES - 1, ENTRY, 2, &bridge));
}

/* One byte changes, wherever it lies in its word, and makes a jump to the pad. */
HT_TEST(where_the_jump_leads_to)
{
	static const struct function cases[] = {
		{{0x53, 0x48, 0x89, 0xfb, 0x10, 0xc3}, 6, 0},
		{{0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0xc3}, 7, 7},
		{{0x48, 0x89, 0xf8, 0x48, 0x8b, 0x15, 1, 2, 3, 0, 0xc3}, 11, 3},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0xc3}, 6, 0},
		{{0x48, 0x81, 0xff, 0, 0x10, 0, 0, 0xc3}, 8, 0},
		{{0xc3}, 1, 0},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(cases); i++) {
		const struct function *f = &cases[i];
		struct bridge bridge;
		uint8_t code[64], *entry = code + f->at;
		int32_t far;
		memset(code, 0xcc, sizeof(code));
		memcpy(entry, f->code, f->bytes);
		ck_assert_ptr_null(read_function(f, &bridge));
		uint64_t word = bridge_word(&bridge);
		uint8_t before = *entry;
		memcpy(code, &word, sizeof(word));
		ck_assert_uint_eq(*entry, 0xe9);
		memcpy(&far, entry + 1, sizeof(far));
		ck_assert_uint_eq(bridge.entry + 5 + (raddr_t)(int64_t)far, bridge.pad);
		*entry = before;
		ck_assert_int_eq(memcmp(code, &bridge.before, sizeof(word)), 0);
	}
}

/* --- run -------------------------------------------------------------------------------------- */

/* A function of two numbers, whose result depends on both and on the effect of its first
 * instructions. */
#define FUNCTION(name, text)                                                                       \
	__asm__(".pushsection .text\n.balign 16\n" #name ":\n" text "\n" #name "_end:\n"           \
		".fill 32, 1, 0x90\n.popsection");                                                 \
	extern uint64_t name(uint64_t x, uint64_t y);                                              \
	extern const uint8_t name##_end[];

uint64_t some_word;
FUNCTION(copied, "mov $0x21000007, %eax\n add %rdi, %rax\n add %rsi, %rax\n ret")
FUNCTION(short_copied, "mov %rdi, %rax\n imul %rsi, %rax\n ret")
FUNCTION(pushing, "push %rbp\n mov %rdi, %rbp\n lea (%rbp,%rsi,2), %rax\n pop %rbp\n ret")
FUNCTION(pushing_high, "push %r15\n push %r14\n mov %rdi, %r15\n mov %rsi, %r14\n"
		       " lea 1(%r15,%r14), %rax\n pop %r14\n pop %r15\n ret")
FUNCTION(marked, "endbr64\n lea (%rdi,%rsi), %rax\n ret")
FUNCTION(lowering, "sub $24, %rsp\n mov %rdi, 8(%rsp)\n mov 8(%rsp), %rax\n sub %rsi, %rax\n"
		   " add $24, %rsp\n ret")
FUNCTION(loading, "mov some_word(%rip), %rax\n add %rdi, %rax\n xor %rsi, %rax\n ret")
FUNCTION(comparing, "cmpb $5, some_word(%rip)\n sete %al\n movzbl %al, %eax\n add %rdi, %rax\n ret")
FUNCTION(addressing, "lea some_word(%rip), %rax\n mov (%rax), %rax\n add %rsi, %rax\n ret")
FUNCTION(jumping, "jmp copied")
FUNCTION(jumping_far, ".byte 0xe9\n .long pushing - . - 4")

static const struct {
	const char *name;
	uint64_t (*call)(uint64_t x, uint64_t y);
	const uint8_t *end;
} functions[] = {
#define F(name)                                                                                    \
	{                                                                                          \
#name, name, name##_end                                                            \
	}
	F(copied), F(short_copied), F(pushing), F(pushing_high), F(marked), F(lowering), F(loading),
	F(comparing), F(addressing), F(jumping), F(jumping_far)};

static atomic_ulong passed;
static uint64_t (*bridge_code)(uint64_t x, uint64_t y);

/* Stands for the agent's hook. */
static uint64_t hook(uint64_t x, uint64_t y)
{
	atomic_fetch_add(&passed, 1);
	return bridge_code(x, y);
}

static void store_word(raddr_t at, uint64_t word)
{
	static int memory = -1;
	if (memory < 0)
		memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(pwrite(memory, &word, sizeof(word), (off_t)at), (int)sizeof(word));
}

struct installed {
	struct bridge bridge;
	uint64_t after;
};

/* Installs area, pad and bridge in this process as the daemon does. Returns false if no memory near
 * the code is free. */
static bool install_place(struct installed *ret)
{
	struct proc proc;
	struct proc_maps maps;
	raddr_t near[ABI_NEAR_MAX];
	size_t count;
	struct abi_bridge made;
	struct near_hook place = {.bridge = &ret->bridge, .count = 1};
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_maps_read(&proc, &maps));
	ck_no_err(near_place(&maps, ABI_NEAR_MAX, &place, 1, near, &count));
	proc_maps_deinit(&maps);
	proc_close(&proc);
	if (!place.at)
		return false;
	ck_assert_uint_eq(count, 1);
	void *area = mmap((void *)near[0], ABI_NEAR_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_eq(area, (void *)near[0]);
	ck_assert(bridge_make(&ret->bridge, place.at, &made));
	memcpy((void *)place.at, &made, sizeof(made));
	bridge_make_pad(&ret->bridge, place.at, (raddr_t)hook, (uint8_t *)ret->bridge.pad);
	bridge_code = (void *)(place.at + offsetof(struct abi_bridge, code));
	ret->after = bridge_word(&ret->bridge);
	return true;
}

static bool install(size_t i, struct installed *ret)
{
	raddr_t entry = (raddr_t)functions[i].call;
	const char *why = bridge_read((const uint8_t *)(entry & ~7ull), 128, entry,
		(size_t)(functions[i].end - (const uint8_t *)entry), &ret->bridge);
	ck_assert_msg(!why, "%s: %s", functions[i].name, why);
	return install_place(ret);
}

HT_TEST(runs_the_same)
{
	unsigned hooked = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(functions); i++) {
		struct installed in;
		some_word = 5;
		uint64_t before = functions[i].call(1000, 3), other = functions[i].call(77, 5);
		if (!install(i, &in))
			continue;
		unsigned long passes = atomic_load(&passed);
		store_word(in.bridge.word, in.after);
		ck_assert_msg(functions[i].call(1000, 3) == before, "%s", functions[i].name);
		ck_assert_msg(functions[i].call(77, 5) == other, "%s", functions[i].name);
		ck_assert_uint_eq(atomic_load(&passed), passes + 2);
		store_word(in.bridge.word, in.bridge.before);
		ck_assert_uint_eq(functions[i].call(1000, 3), before);
		ck_assert_uint_eq(atomic_load(&passed), passes + 2);
		hooked++;
	}
	printf("%u of %zu functions had room where they jump to\n", hooked,
		HT_ARRAY_SIZE(functions));
	ck_assert_uint_ge(hooked, 5);
}

/* --- hooks at a later instruction ---------------------------------------------------------------
 */

/* These begin like glibc's free, calloc and syscall in a static program. */
FUNCTION(checking, "test %rdi, %rdi\n je 1f\n push %rbp\n lea -0x10(%rdi), %rax\n push %rbx\n"
		   " mov %rax, %rbx\n lea (%rbx,%rsi), %rax\n pop %rbx\n pop %rbp\n ret\n"
		   "1: xor %eax, %eax\n ret")
FUNCTION(saving, "push %r13\n mov %rdi, %rax\n push %r12\n push %rbp\n push %rbx\n"
		 " mov %rsi, %r13\n mov %rax, %r12\n lea (%r12,%r13), %rax\n"
		 " pop %rbx\n pop %rbp\n pop %r12\n pop %r13\n ret")
FUNCTION(rotating, "mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
		   " mov %r8, %r10\n mov %r9, %r8\n mov 8(%rsp), %r9\n"
		   " lea (%rax,%rdi), %rax\n ret")
FUNCTION(comparing_first, "cmp %rsi, %rdi\n push %rbx\n mov %rdi, %rax\n jae 1f\n"
			  " mov %rsi, %rax\n1: pop %rbx\n ret")

/* As mimalloc's: loads a number, then moves its two arguments to registers that hold no argument.
 */
FUNCTION(numbering, "mov $-16, %rax\n mov %rsi, %rdx\n mov %rdi, %rsi\n mov $7, %ecx\n"
		    " lea (%rsi,%rdx), %rax\n add %rcx, %rax\n ret")

/* As tcmalloc's: reads a variable of the program, and one of the thread. */
uint64_t loaded = 11;
FUNCTION(reading, "mov loaded(%rip), %rax\n test %rax, %rax\n mov $0, %rcx\n mov %fs:(%rcx), %r8\n"
		  " mov %fs:0, %rdx\n je 1f\n sub %rdx, %r8\n lea (%rdi,%rsi), %rdi\n"
		  " add %r8, %rax\n add %rdi, %rax\n1: ret")

static const struct {
	const char *name;
	uint64_t (*call)(uint64_t x, uint64_t y);
	const uint8_t *end;
	unsigned places;
} later[] = {{"checking", checking, checking_end, 2}, {"saving", saving, saving_end, 2},
	{"rotating", rotating, rotating_end, 6},
	{"comparing_first", comparing_first, comparing_first_end, 2},
	{"numbering", numbering, numbering_end, 4}, {"reading", reading, reading_end, 4}};

static size_t read_later(size_t i, bool frees, struct bridge ret[BRIDGE_PLACES_MAX])
{
	raddr_t entry = (raddr_t)later[i].call;
	unsigned arity =
		later[i].call == numbering || later[i].call == reading ? 2 : BRIDGE_ARITY_MAX;
	return bridge_read_later((const uint8_t *)(entry & ~7ull), 128, entry,
		(size_t)(later[i].end - (const uint8_t *)entry), arity, frees, ret);
}

HT_TEST(later_instructions_run_the_same)
{
	unsigned hooked = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(later); i++) {
		struct bridge place[BRIDGE_PLACES_MAX];
		size_t count = read_later(i, i == 0, place);
		ck_assert_msg(count == later[i].places, "%s: %zu", later[i].name, count);
		for (size_t n = 0; n < count; n++) {
			struct installed in = {.bridge = place[n]};
			uint64_t before = later[i].call(1000, 3), other = later[i].call(77, 500);
			ck_assert_uint_gt(in.bridge.entry, in.bridge.function);
			if (!install_place(&in))
				continue;
			unsigned long passes = atomic_load(&passed);
			store_word(in.bridge.word, in.after);
			ck_assert_msg(later[i].call(1000, 3) == before, "%s", later[i].name);
			ck_assert_msg(later[i].call(77, 500) == other, "%s", later[i].name);
			ck_assert_uint_eq(atomic_load(&passed), passes + 2);
			store_word(in.bridge.word, in.bridge.before);
			ck_assert_uint_eq(later[i].call(1000, 3), before);
			ck_assert_uint_eq(atomic_load(&passed), passes + 2);
			hooked++;
		}
	}
	printf("%u later instructions had room where they jump to\n", hooked);
	ck_assert_uint_ge(hooked, 4);
}

/* Calls from one given function bypass the hook, whatever their arguments. */
FUNCTION(calling, "call checking\n ret")

HT_TEST(a_caller_is_passed_by)
{
	struct bridge place[BRIDGE_PLACES_MAX];
	size_t count = read_later(0, true, place);
	for (size_t n = 0; n < count; n++) {
		struct installed in = {.bridge = place[n]};
		in.bridge.passed = (raddr_t)calling;
		in.bridge.passed_bytes = (uint32_t)(calling_end - (const uint8_t *)calling);
		if (!install_place(&in))
			continue;
		unsigned long passes = atomic_load(&passed);
		store_word(in.bridge.word, in.after);
		ck_assert_uint_eq(calling(1000, 20), 1004);
		ck_assert_uint_eq(atomic_load(&passed), passes);
		ck_assert_uint_eq(checking(1000, 20), 1004);
		ck_assert_uint_eq(atomic_load(&passed), passes + 1);
		store_word(in.bridge.word, in.bridge.before);
	}
}

static size_t count_later_of(const struct function *f, unsigned arity, bool frees)
{
	struct bridge place[BRIDGE_PLACES_MAX];
	uint8_t code[128];
	memset(code, 0xcc, sizeof(code));
	memcpy(code + f->at, f->code, f->bytes);
	return bridge_read_later(code, sizeof(code), ENTRY + f->at, f->bytes, arity, frees, place);
}

static size_t count_later(const struct function *f, bool frees)
{
	return count_later_of(f, BRIDGE_ARITY_MAX, frees);
}

/* An instruction whose effect cannot be undone ends the search. A function that frees may be hooked
 * behind its test for NULL. */
HT_TEST(what_later_instructions_need)
{
	/* test; je over push and ret */
	const struct function checks = {{0x48, 0x85, 0xff, 0x74, 2, 0x53, 0x5b, 0xc3, 0xc3}, 9, 0};
	ck_assert_uint_eq(count_later(&checks, true), 1);
	ck_assert_uint_eq(count_later(&checks, false), 0);
	/* The function tests another register than its argument's. */
	ck_assert_uint_eq(
		count_later(&(struct function){{0x48, 0x85, 0xf6, 0x74, 2, 0x53, 0x5b, 0xc3, 0xc3},
				    9, 0},
			true),
		0);
	/* mov %rdi,%rbx ; nop: rbx is the caller's. */
	ck_assert_uint_eq(
		count_later(&(struct function){{0x48, 0x89, 0xfb, 0x90, 0xc3}, 5, 0}, false), 0);
	/* mov %rdi,%rsi ; ret: the second argument is gone. */
	ck_assert_uint_eq(
		count_later(&(struct function){{0x48, 0x89, 0xfe, 0xc3}, 4, 0}, false), 0);
	/* push ; mov ; jmp to the mov */
	ck_assert_uint_eq(
		count_later(&(struct function){{0x53, 0x48, 0x89, 0xf8, 0xeb, 0xfb}, 6, 0}, false),
		0);
	/* mov $1,%edx ; nop: the third argument is gone, if there is one. */
	const struct function third = {{0xba, 1, 0, 0, 0, 0x90, 0xc3}, 7, 0};
	ck_assert_uint_eq(count_later_of(&third, 3, false), 0);
	ck_assert_uint_eq(count_later_of(&third, 2, false), 1);
	/* mov $1,%ebx ; nop. mov $1,%dl ; nop */
	ck_assert_uint_eq(
		count_later(&(struct function){{0xbb, 1, 0, 0, 0, 0x90, 0xc3}, 7, 0}, false), 0);
	ck_assert_uint_eq(
		count_later_of(&(struct function){{0xb2, 1, 0x90, 0xc3}, 4, 0}, 1, false), 0);
	/* mov %rdi,%rax ; mov $1,%eax ; mov %rsi,%rdi: no register holds the first argument. */
	ck_assert_uint_eq(count_later(&(struct function){{0x48, 0x89, 0xf8, 0xb8, 1, 0, 0, 0, 0x48,
								 0x89, 0xf7, 0xc3},
					      12, 0},
				  false),
		1);
	/* Only a load relative to rip into a scratch register can be moved: not one into rbx, not a
	 * store, not one relative to another register. */
	const uint8_t *const loads[] = {(const uint8_t[]){0x48, 0x8b, 0x05, 0, 0, 0, 0},
		(const uint8_t[]){0x48, 0x8b, 0x1d, 0, 0, 0, 0},
		(const uint8_t[]){0x48, 0x89, 0x05, 0, 0, 0, 0},
		(const uint8_t[]){0x48, 0x8b, 0x87, 0, 0, 0, 0}};
	for (size_t i = 0; i < HT_ARRAY_SIZE(loads); i++) {
		struct function one = {.bytes = 9};
		memcpy(one.code, loads[i], 7);
		one.code[7] = 0x90;
		one.code[8] = 0xc3;
		ck_assert_uint_eq(count_later(&one, false), i == 0);
	}
	/* The bridge can move one such load, not two. */
	ck_assert_uint_eq(count_later(&(struct function){{0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x48, 0x8b,
								 0x05, 0, 0, 0, 0, 0x90, 0xc3},
					      16, 0},
				  false),
		1);
	/* push %rbp ; mov %rdi,%rbp: in a bridge rbp is the caller's. */
	ck_assert_uint_eq(
		count_later(&(struct function){{0x55, 0x48, 0x89, 0xfd, 0x5d, 0xc3}, 6, 0}, false),
		0);
}

/* --- threads run through it meanwhile ----------------------------------------------------------
 */

#define STORES 60000u

static atomic_bool ended;
static size_t called;

#define CALLED_LATER SIZE_MAX

static void *run_through(void *arg)
{
	atomic_ulong *calls = arg;
	for (uint64_t x = 0; !atomic_load_explicit(&ended, memory_order_relaxed); x++) {
		if (called == CALLED_LATER) {
			ck_assert_uint_eq(checking(x, 20), x ? x + 4 : 0);
			atomic_fetch_add_explicit(calls, 1, memory_order_relaxed);
			continue;
		}
		uint64_t right = called == 0   ? 0x21000007 + x + 3
				 : called == 2 ? x + 6
				 : called == 3 ? x + 4
					       : x + 3;
		ck_assert_uint_eq(functions[called].call(x, 3), right);
		atomic_fetch_add_explicit(calls, 1, memory_order_relaxed);
	}
	return NULL;
}

static void storm_through(const struct installed *in, const char *name)
{
	pthread_t thread[2];
	static atomic_ulong calls[2];
	for (size_t i = 0; i < HT_ARRAY_SIZE(thread); i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, run_through, &calls[i]), 0);
	for (unsigned i = 0; i < STORES; i++) {
		store_word(in->bridge.word, in->after);
		store_word(in->bridge.word, in->bridge.before);
	}
	ended = true;
	for (size_t i = 0; i < HT_ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	printf("%s: %u stores, %lu calls, %lu of them through the hook\n", name, 2 * STORES,
		calls[0] + calls[1], passed);
	ck_assert_uint_gt(passed, 0);
	ck_assert_uint_lt(passed, calls[0] + calls[1]);
}

static void storm(size_t function)
{
	struct installed in;
	called = function;
	if (install(function, &in))
		storm_through(&in, functions[function].name);
	else
		printf("skipped: nothing can be mapped where %s jumps to\n",
			functions[function].name);
}

/* The names give the length of the first instruction. */
HT_TEST(storm_of_five_bytes)
{
	storm(0);
}

HT_TEST(storm_of_one_byte)
{
	storm(2);
}

HT_TEST(storm_of_two_bytes)
{
	storm(3);
}

HT_TEST(storm_of_four_bytes)
{
	storm(4);
}

HT_TEST(storm_at_a_later_instruction)
{
	struct bridge place[BRIDGE_PLACES_MAX];
	struct installed in = {0};
	ck_assert_uint_eq(read_later(0, true, place), 2);
	in.bridge = place[1];
	called = CALLED_LATER;
	if (install_place(&in))
		storm_through(&in, "checking");
}

#else

HT_TEST(is_off)
{
	struct bridge bridge;
	ck_assert(!bridge_is_supported());
	ck_assert_ptr_nonnull(bridge_read(NULL, 0, ENTRY, 1, &bridge));
}

#endif

HT_SUITE("attach/bridge")
