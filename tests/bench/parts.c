/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the cost of each part of the agent, beside costs that no profiler avoids: a call through
 * a pointer, a cache miss, a message of 64 KiB. Links the agent's object files as shipped; only the
 * target around them is simulated (stage.h).
 *
 * usage: parts [-s] [PART...]      -s: short samples
 *
 * Prints for each part: name, description, nanoseconds per operation (median, least, 9th decile of
 * all samples; CPU of the thread). The work around an operation (`base`) is measured in alternation
 * and subtracted. Under callgrind it counts each part's instructions instead: one dump for the
 * operation and one for `base`.
 */
#include "agent/hooks.h"
#include "agent/intern.h"
#include "agent/send.h"
#include "agent/stream.h"
#include "agent/trace.h"
#include "tests/bench/loads.h"
#include "tests/bench/meter.h"
#include "tests/bench/stage.h"

/* --- calls ---------------------------------------------------------------------------------- */

static uint8_t blocks[16][32];

/* Returns the last freed block, as allocators do; there is only one block. */
static HT_NOINLINE void *real_malloc(size_t size)
{
	KEEP(size);
	return blocks[0];
}

static HT_NOINLINE void real_free(void *block)
{
	KEEP(block);
}

static const void *volatile slots[3];

static HT_NOINLINE void call_slot(uint64_t times, unsigned slot)
{
	for (uint64_t i = 0; i < times; i++)
		KEEP(((void *(*)(size_t))slots[slot])(i));
}

static void setup_call(void)
{
	slots[0] = (const void *)real_malloc;
	slots[1] = stage_entry(2);
}

static void run_call(uint64_t times)
{
	call_slot(times, 0);
}

static void run_thunk(uint64_t times)
{
	call_slot(times, 1);
}

static void run_gate(uint64_t times)
{
	static const struct thread_frame frame;
	for (uint64_t i = 0; i < times; i++) {
		struct abi_slot *slot = thread_enter(&stage_thunks[0], &frame, ABI_SLOT_IN_REAL);
		thread_leave(stage_config, slot);
	}
}

/* --- the clock ------------------------------------------------------------------------------ */

static void run_clock_early(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		KEEP(sys_tsc_early());
}

static void run_clock(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		KEEP(sys_tsc());
}

/* --- stacks --------------------------------------------------------------------------------- */

#define PATTERNS  64u
#define FRESH_MAX 20u

static unsigned fresh_frames;
static uint8_t pattern_site[PATTERNS][FRESH_MAX];
static unsigned pattern;

/*
 * Changes the innermost `fresh_frames` frames: the outermost of these is called from another site
 * than before, the others from random sites.
 */
static inline void replace_frames(void)
{
	pattern = (pattern + 1 + (unsigned)(random_next() % (STAGE_SITES - 1))) % PATTERNS;
	for (unsigned i = 0; i < fresh_frames; i++)
		stage_call_from(i, pattern_site[pattern][i]);
	KEEP(stage_stack);
}

static void setup_stack(unsigned depth, unsigned fresh)
{
	stage_config->flags = 0;
	stage_set_rule(STAGE_RULE);
	stage_forget();
	stage_descend(depth);
	fresh_frames = fresh;
	for (unsigned p = 0; p < PATTERNS; p++) {
		for (unsigned i = 0; i < fresh; i++)
			pattern_site[p][i] =
				(uint8_t)(i + 1 == fresh ? p % STAGE_SITES
							 : random_next() % STAGE_SITES);
	}
}

static void run_stack(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		KEEP(trace_stack(stage_config, stage_slot, stage_start));
}

/*
 * A recursion that allocates at each level, down and up again: the innermost 100 of the frames that
 * were set up, which the agent already knows.
 */
static void run_stack_recursion(uint64_t times)
{
	const struct walk_start innermost = stage_start;
	for (uint64_t i = 0; i < times; i++) {
		uint64_t level = i % 200 < 100 ? 99 - i % 200 : i % 200 - 100;
		stage_start.sp = innermost.sp + level * STAGE_WORDS * sizeof(uint64_t);
		stage_start.pc = stage_site((unsigned)level, 1);
		KEEP(trace_stack(stage_config, stage_slot, stage_start));
	}
	stage_start = innermost;
}

static void run_stack_fresh(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		replace_frames();
		KEEP(trace_stack(stage_config, stage_slot, stage_start));
	}
}

static void base_stack_fresh(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		replace_frames();
}

#define STACK_SETUP(depth, fresh)                                                                  \
	static void setup_stack_##depth##_##fresh(void)                                            \
	{                                                                                          \
		setup_stack(depth, fresh);                                                         \
	}
STACK_SETUP(5, 0)
STACK_SETUP(20, 0)
STACK_SETUP(50, 0)
STACK_SETUP(500, 0)
STACK_SETUP(1000, 0)
STACK_SETUP(15000, 0)
STACK_SETUP(20, 1)
STACK_SETUP(20, 3)
STACK_SETUP(20, 10)
STACK_SETUP(20, 19)
STACK_SETUP(50, 3)

/* Frames of code that is compiled with frame pointers. */
static void setup_stack_20_rbp(void)
{
	setup_stack(20, 0);
	stage_set_rule(abi_rule_make(ABI_RULE_RBP, 2, 2));
	stage_save_fps(20);
}

static void setup_stack_full(void)
{
	setup_stack(20, 19);
	stage_config->flags = ABI_FLAG_FULL_UNWIND;
}

/* --- rules ---------------------------------------------------------------------------------- */

/* Returns 0 with a dependency on `value`: the processor must wait for `value` before it goes on. */
static inline uint64_t nothing_of(uint64_t value)
{
	__asm__ volatile("and $0, %0" : "+r"(value));
	return value;
}

static void run_rule_cached(uint64_t times)
{
	uint64_t last = 0;
	for (uint64_t i = 0; i < times; i++) {
		uint64_t pc = stage_site((i + nothing_of(last)) % 16, 0);
		last = rules_find(stage_config, stage_snapshot, pc);
	}
}

static void base_rule(uint64_t times)
{
	uint64_t last = 0;
	for (uint64_t i = 0; i < times; i++)
		last = stage_site((i + nothing_of(last)) % 16, 0);
}

static void run_rule(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		KEEP(rules_find_slow(stage_config, stage_snapshot, stage_site(i % 500, 0)));
}

/* --- ids ------------------------------------------------------------------------------------ */

#define STACKS_FEW  64u
#define STACKS_MANY 500000u

static uint64_t leaf_of(uint64_t i)
{
	return 1 + i * 0x9e3779b97f4a7c15ull % (1ull << 40);
}

static uint64_t hash_of(uint64_t i)
{
	return abi_stack_hash(abi_stack_hash(1, STAGE_CODE), leaf_of(i));
}

static void add_stacks(uint64_t from, uint64_t times)
{
	for (uint64_t i = from; i < from + times; i++) {
		bool cut;
		uint64_t frames[2] = {leaf_of(i), STAGE_CODE};
		KEEP(intern_stack(stage_config, 1, frames, NULL, 2, &cut));
	}
}

static void setup_ids(void)
{
	stage_forget();
	add_stacks(0, STACKS_MANY);
}

static inline __attribute__((always_inline)) void find_ids(
	uint64_t times, uint64_t stacks, bool is_base)
{
	uint64_t last = 0;
	for (uint64_t i = 0; i < times; i++) {
		last = hash_of((random_next() + nothing_of(last)) % stacks);
		if (!is_base)
			last = intern_find(stage_config, last);
	}
}

static void run_id_few(uint64_t times)
{
	find_ids(times, STACKS_FEW, false);
}

static void base_id_few(uint64_t times)
{
	find_ids(times, STACKS_FEW, true);
}

static void run_id_many(uint64_t times)
{
	find_ids(times, STACKS_MANY, false);
}

static void base_id_many(uint64_t times)
{
	find_ids(times, STACKS_MANY, true);
}

static void run_id_new(uint64_t times)
{
	add_stacks(0, times);
}

/* --- events --------------------------------------------------------------------------------- */

static void setup_alone(void)
{
	stage_drain(1ull << 62);
	stage_control->sole = stage_slot->head.key;
}

static void setup_among(void)
{
	stage_drain(1ull << 62);
	stage_control->sole = 0;
}

static inline __attribute__((always_inline)) void put_pairs(
	uint64_t times, uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < times; i += 2) {
		struct stream_event event = {.kind = ABI_EVENT_ALLOC,
			.hook = ABI_HOOK_MALLOC,
			.addr = first + i / 2 % count * sizeof(blocks[0]),
			.size = 24,
			.stack = 1000};
		stream_put(stage_config, stage_slot, &event);
		event.kind = ABI_EVENT_FREE;
		event.hook = ABI_HOOK_FREE;
		event.size = 0;
		stream_put(stage_config, stage_slot, &event);
	}
}

static void run_events(uint64_t times)
{
	put_pairs(times, (uint64_t)blocks, HT_ARRAY_SIZE(blocks));
}

/* So many different addresses that the agent has forgotten each one before it is used again. */
static void run_events_unknown(uint64_t times)
{
	put_pairs(times, 1ull << 40, 1ull << 20);
}

/* --- the way to the daemon ------------------------------------------------------------------ */

static uint8_t message[sizeof(struct abi_message) + ABI_BUFFER_BYTES];

static void setup_send(void)
{
	stage_drain(0);
	stage_slot->head.committed = stage_slot->head.buffer_start = 1ull << 32;
	stage_slot->head.committed += ABI_BUFFER_BYTES;
}

static void run_send(uint64_t times)
{
	enum abi_loss loss;
	for (uint64_t i = 0; i < times; i++) {
		if (!send_buffer(stage_config, stage_slot, &loss) ||
			recv(stage_peer, message, sizeof(message), 0) < (ssize_t)ABI_BUFFER_BYTES)
			stage_fail("send_buffer");
	}
}

static void run_send_header(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		if (send(stage_config->socket_fd, message, sizeof(struct abi_message), 0) < 0 ||
			recv(stage_peer, message, sizeof(message), 0) < 0)
			stage_fail("send");
	}
}

/* --- all of it ------------------------------------------------------------------------------ */

/*
 * A thread whose frames have one rule: pair_start calls pair_deep, which calls itself `depth`
 * times and then pair_loop, which calls malloc and free `times` times through `slots`.
 */
__asm__(".pushsection .text.pair, \"ax\", @progbits\n"
	".balign 256\n"
	"pair_start:\n"
	"	sub $8, %rsp\n"
	"	call pair_deep\n"
	"	add $8, %rsp\n"
	"	ret\n"
	".balign 256\n"
	"pair_deep:\n"
	"	sub $24, %rsp\n"
	"	test %edi, %edi\n"
	"	jz 1f\n"
	"	dec %edi\n"
	"	call pair_deep\n"
	"	jmp 2f\n"
	"1:	call pair_loop\n"
	"2:	add $24, %rsp\n"
	"	ret\n"
	"pair_loop:\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	mov %rsi, %rbx\n"
	"	mov %rdx, %r12\n"
	"	test %rbx, %rbx\n"
	"	jz 2f\n"
	"1:	mov $24, %edi\n"
	"	call *(%r12)\n"
	"	mov %rax, %rdi\n"
	"	call *8(%r12)\n"
	"	dec %rbx\n"
	"	jnz 1b\n"
	"2:	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	ret\n"
	".balign 256\n"
	"pair_end:\n"
	".popsection\n");

extern const uint8_t pair_end[] HT_HIDDEN;
void pair_start(unsigned depth, uint64_t times, const void *const slots[2]) HT_HIDDEN;

#define PAIR_DEPTH 20u

static void setup_pair(void)
{
	static struct abi_range before;
	struct abi_range *range = &stage_snapshot->range[STAGE_RANGES];
	struct stage_table *table = (struct stage_table *)range->table;
	uint64_t lo = (uint64_t)pair_start;
	before = *range;
	*range = (struct abi_range){
		.lo = lo, .hi = (uint64_t)pair_end, .bias = lo, .table = before.table};
	/* Code in the range's first granule (pair_start) is the outermost frame. */
	table->row_rule[0] = 1;
	stage_set_rule(STAGE_RULE);
	stage_forget();
	stage_slot->head.stack_lo = (uint64_t)__builtin_frame_address(0) - (1 << 16);
	stage_slot->head.stack_hi = (uint64_t)__builtin_frame_address(0) & -(uint64_t)HT_PAGE_BYTES;
	stage_slot->head.stack_hi += HT_PAGE_BYTES;
	stage_slot->head.bounds_incarnation = stage_slot->head.incarnation;
}

static void setup_pair_alone(void)
{
	setup_pair();
	setup_alone();
}

static void setup_pair_among(void)
{
	setup_pair();
	setup_among();
}

/* Has PAIR_DEPTH frames: pair_start, pair_loop, and pair_deep for all others; -3, because pair_deep
 * has one frame more than `depth`. */
static void run_pair(uint64_t times)
{
	const void *const tapped[2] = {stage_entry(0), stage_entry(1)};
	pair_start(PAIR_DEPTH - 3, times, tapped);
}

static void base_pair(uint64_t times)
{
	const void *const plain[2] = {(const void *)real_malloc, (const void *)real_free};
	pair_start(PAIR_DEPTH - 3, times, plain);
}

/* --- the list ------------------------------------------------------------------------------- */

static const struct part parts[] = {
	{"call", "call of an empty function through a slot", setup_call, run_call, NULL, 0, NULL,
		0},
	{"call-thunk", "the same, the slot leads to a thunk", setup_call, run_thunk, NULL, 0, NULL,
		0},
	{"load-16K", "dependent load, 16 KiB in use", setup_chain_near, run_chain, NULL, 0, NULL,
		0},
	{"load-512K", "dependent load, 512 KiB in use", setup_chain_second, run_chain, NULL, 0,
		NULL, 0},
	{"load-256M", "dependent load, 256 MiB in use: a cache miss", setup_chain_far, run_chain,
		NULL, 0, NULL, 0},
	{"load-256M-4K", "the same in pages of 4 KiB: address misses, too", setup_chain_paged,
		run_chain, NULL, 0, NULL, 0},
	{"gate", "thread_enter and thread_leave", NULL, run_gate, NULL, 0, NULL, 0},
	{"clock-early", "rdtsc", NULL, run_clock_early, NULL, 0, NULL, 0},
	{"clock-fenced", "lfence; rdtsc", NULL, run_clock, NULL, 0, NULL, 0},
	{"stack-5", "stack of 5 frames, unchanged", setup_stack_5_0, run_stack, NULL, 0, NULL, 0},
	{"stack-20", "of 20 frames, unchanged", setup_stack_20_0, run_stack, NULL, 0, NULL, 0},
	{"stack-50", "of 50 frames, unchanged", setup_stack_50_0, run_stack, NULL, 0, NULL, 0},
	{"stack-500", "of 500 frames, unchanged", setup_stack_500_0, run_stack, NULL, 0, NULL, 0},
	{"stack-1000", "of 1,000 frames, unchanged", setup_stack_1000_0, run_stack, NULL, 0, NULL,
		0},
	{"stack-15000", "of 15,000 frames, unchanged", setup_stack_15000_0, run_stack, NULL, 0,
		NULL, 0},
	{"recurse-1000", "of 1,000 frames, one more or less each time", setup_stack_1000_0,
		run_stack_recursion, NULL, 0, NULL, 0},
	{"recurse-15000", "of 15,000 frames, one more or less each time", setup_stack_15000_0,
		run_stack_recursion, NULL, 0, NULL, 0},
	{"stack-20-rbp", "of 20 frames that begin at rbp, unchanged", setup_stack_20_rbp, run_stack,
		NULL, 0, NULL, 0},
	{"stack-20-1", "of 20 frames, 1 other than before", setup_stack_20_1, run_stack_fresh,
		base_stack_fresh, 0, NULL, 0},
	{"stack-20-3", "of 20 frames, 3 others", setup_stack_20_3, run_stack_fresh,
		base_stack_fresh, 0, NULL, 0},
	{"stack-20-10", "of 20 frames, 10 others", setup_stack_20_10, run_stack_fresh,
		base_stack_fresh, 0, NULL, 0},
	{"stack-20-19", "of 20 frames, 19 others", setup_stack_20_19, run_stack_fresh,
		base_stack_fresh, 0, NULL, 0},
	{"stack-50-3", "of 50 frames, 3 others", setup_stack_50_3, run_stack_fresh,
		base_stack_fresh, 0, NULL, 0},
	{"stack-20-full", "of 20 frames, 19 others, by the plain walk", setup_stack_full,
		run_stack_fresh, base_stack_fresh, 0, NULL, 0},
	{"rule-cached", "unwind rule of a PC, in the cache", setup_stack_20_0, run_rule_cached,
		base_rule, 0, NULL, 0},
	{"rule", "unwind rule of a PC, among 201 ranges", NULL, run_rule, NULL, 0, NULL, 0},
	{"id-few", "id of a stack, 64 in turn", setup_ids, run_id_few, base_id_few, 0, NULL, 0},
	{"id-many", "id of a stack, 500,000 in turn", setup_ids, run_id_many, base_id_many, 0, NULL,
		0},
	{"id-new", "new stack, one frame of it new", setup_ids, run_id_new, NULL, STACKS_MANY,
		stage_forget, 0},
	{"event-alone", "stamp, encode and commit an event, one thread records", setup_alone,
		run_events, NULL, 0, NULL, 0},
	{"event-among", "the same, several threads record, blocks are this one's", setup_among,
		run_events, NULL, 0, NULL, 0},
	{"event-fenced", "the same, of blocks that any thread may have had before", setup_among,
		run_events_unknown, NULL, 0, NULL, 0},
	{"pair-alone", "malloc+free pair of empty functions, 20 frames, all of it",
		setup_pair_alone, run_pair, base_pair, 0, NULL, 0},
	{"pair-among", "the same, several threads record", setup_pair_among, run_pair, base_pair, 0,
		NULL, 0},
	{"send-64K", "send of 64 KiB and its receipt, on one core", setup_send, run_send, NULL, 0,
		NULL, 1},
	{"send-24", "the same of 24 bytes, without the agent", NULL, run_send_header, NULL, 0, NULL,
		1},
};

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return true;
	}
	return argc == 0;
}

int main(int argc, char **argv)
{
	const void *hooks[2] = {(const void *)heaptap_hook_malloc, (const void *)heaptap_hook_free};
	const void *reals[2] = {(const void *)real_malloc, (const void *)real_free};
	bool is_short = argc > 1 && strcmp(argv[1], "-s") == 0;
	stage_make(hooks, reals);
	for (size_t i = 0; i < HT_ARRAY_SIZE(parts); i++) {
		if (!is_wanted(parts[i].name, argc - 1 - is_short, argv + 1 + is_short))
			continue;
		if (parts[i].setup)
			parts[i].setup();
		if (RUNNING_ON_VALGRIND)
			count_instructions(&parts[i]);
		else if (is_short)
			measure(&parts[i], SAMPLES_SHORT, SAMPLE_NS_SHORT);
		else
			measure(&parts[i], SAMPLES, SAMPLE_NS);
		stage_check(parts[i].name);
	}
	return 0;
}
