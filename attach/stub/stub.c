/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/stub.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "attach/stub/stub_layout.h"
#include "format/abi_control.h"

extern const uint8_t stub_begin[] HT_HIDDEN, stub_data[] HT_HIDDEN, stub_end[] HT_HIDDEN;

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct stub_call {
	uint64_t arg[3];
	int32_t arg3;
	uint32_t arg5;
	int16_t nr;
	uint16_t flags;
	uint16_t undo; /* offset in the data of the call where undoing begins */
};

struct stub_regs {
	uint64_t gpr[15]; /* rax rbx rcx rdx rsi rdi rbp r8 .. r15; rsp is never changed */
	uint64_t rip;
	uint64_t flags_ah; /* in bits 8-15 */
	uint64_t flag_of, flag_df;
	uint64_t control;
	uint64_t lease_ns;
	uint64_t mask_all, mask_own, mask_none;
	struct timespec hold;
	uint64_t pair;
	uint32_t spin_ns, nap_us;
};

_Static_assert(sizeof(struct stub_call) == STUB_CALL_BYTES, "stub_layout.h");
_Static_assert(offsetof(struct stub_call, arg3) == CALL_ARG3, "stub_layout.h");
_Static_assert(offsetof(struct stub_call, arg5) == CALL_ARG5, "stub_layout.h");
_Static_assert(offsetof(struct stub_call, nr) == CALL_NR, "stub_layout.h");
_Static_assert(offsetof(struct stub_call, flags) == CALL_FLAGS, "stub_layout.h");
_Static_assert(offsetof(struct stub_call, undo) == CALL_UNDO, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, rip) == STUB_RIP, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, flags_ah) == STUB_FLAGS_AH, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, lease_ns) == STUB_LEASE, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, mask_all) == STUB_MASK_ALL, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, mask_own) == STUB_MASK_OWN, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, mask_none) == STUB_NO_MASK, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, hold) == STUB_HOLD, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, pair) == STUB_PAIR, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, spin_ns) == STUB_SPIN, "stub_layout.h");
_Static_assert(offsetof(struct stub_regs, nap_us) == STUB_NAP, "stub_layout.h");
_Static_assert(sizeof(struct stub_regs) == STUB_CALLS, "stub_layout.h");
_Static_assert(offsetof(struct abi_control, taken) == STUB_TAKEN_OFF, "stub_layout.h");
_Static_assert(offsetof(struct abi_control, stub_fds) == STUB_FDS_OFF, "stub_layout.h");
_Static_assert(offsetof(struct abi_control, stub_status) == STUB_STATUS_OFF, "stub_layout.h");
_Static_assert(offsetof(struct abi_control, stub_time) == STUB_TIME_OFF, "stub_layout.h");
_Static_assert(offsetof(struct abi_control, stub_tsc) == STUB_TSC_OFF, "stub_layout.h");

_Static_assert(STUB_BYTES_MAX <= UINT16_MAX, "offsets within a stub are of 16 bits");
_Static_assert(ABI_SHARED_OFF <= UINT32_MAX, "offsets of what is mapped are of 32 bits");

#define CALLS_MAX   (28u + ABI_NEAR_MAX)
#define RESERVATION 2u /* position of the call that reserves the range */

_Static_assert(STUB_AREAS == RESERVATION + 1, "areas are mapped next");

#define CODE_MAX                                                                                   \
	(STUB_BYTES_MAX - sizeof(struct stub_regs) - CALLS_MAX * sizeof(struct stub_call) -        \
		STUB_NAME_MAX)

/* The shares of the lease in which the thread waits without giving its core away: about a
 * millisecond; 50 us if heaptap waits on the same core. */
#define SPIN_PART	   64u
#define SPIN_PART_TOGETHER 1024u
#define NAP_US		   1u /* plus the slack of the thread's timers: some 50 us */

enum { EFLAGS_STATUS = 0xd5, EFLAGS_DF = 1 << 10, EFLAGS_OF = 1 << 11 };

static size_t code_bytes(void)
{
	return (size_t)(stub_data - stub_begin);
}

static struct stub_regs regs_of(const struct stub_thread *thread)
{
	const struct user_regs_struct *r = &thread->resume;
	return (struct stub_regs){
		.gpr = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->r8, r->r9,
			r->r10, r->r11, r->r12, r->r13, r->r14, r->r15},
		.rip = r->rip,
		.flags_ah = (r->eflags & EFLAGS_STATUS) << 8,
		.flag_of = !!(r->eflags & EFLAGS_OF),
		.flag_df = !!(r->eflags & EFLAGS_DF),
		.mask_all = UINT64_MAX,
		.mask_own = thread->signal_mask,
		.hold.tv_nsec = thread->hold_ms * 1000000l,
	};
}

/* A stub under construction: its calls, in order. */
struct plan {
	struct stub_call call[CALLS_MAX];
	size_t count;
};

static void add(struct plan *plan, const struct stub_call *call)
{
	if (plan->count < CALLS_MAX)
		plan->call[plan->count] = *call;
	plan->count++;
}

static void add_end(struct plan *plan, int16_t end)
{
	add(plan, &(struct stub_call){.nr = end});
}

static void add_mask(struct plan *plan, raddr_t at, size_t offset)
{
	raddr_t mask = at + code_bytes() + offset;
	add(plan, &(struct stub_call){.nr = SYS_rt_sigprocmask,
			  .arg = {SIG_SETMASK, mask},
			  .arg3 = sizeof(uint64_t),
			  .flags = STUB_MAY_FAIL});
}

static void add_close(struct plan *plan, uint16_t which)
{
	add(plan, &(struct stub_call){
			  .nr = SYS_close, .flags = which | STUB_IF_MARKED | STUB_MAY_FAIL});
}

static void add_mmap(struct plan *plan, const struct stub_map *map, uint64_t offset, uint64_t bytes,
	int prot, int flags)
{
	bool anonymous = flags & MAP_ANONYMOUS;
	add(plan, &(struct stub_call){
			  .nr = SYS_mmap,
			  .arg = {map->image + offset, bytes, (uint64_t)prot},
			  .arg3 = flags | MAP_FIXED,
			  .arg5 = anonymous ? 0 : (uint32_t)offset,
			  .flags = anonymous ? 0 : STUB_ARG4_FD,
		  });
}

static void add_advice(struct plan *plan, raddr_t at, uint64_t bytes, int advice, uint16_t flags)
{
	add(plan, &(struct stub_call){
			  .nr = SYS_madvise, .arg = {at, bytes, (uint64_t)advice}, .flags = flags});
}

/* The range is reserved as a whole, where nothing is mapped: the fixed mappings inside it then
 * replace no other mapping, and one munmap undoes all. The memfd itself is mapped for that, so that
 * a child that is forked at any moment has only mappings that bear its name. */
static void plan_setup(struct plan *plan, const struct stub_map *map, raddr_t at, raddr_t name)
{
	add_mask(plan, at, STUB_MASK_ALL);
	add(plan, &(struct stub_call){.nr = SYS_memfd_create,
			  .arg = {name, MFD_CLOEXEC | MFD_ALLOW_SEALING | map->memfd_flags},
			  .flags = STUB_SAVE_FD});
	add(plan, &(struct stub_call){.nr = SYS_mmap,
			  .arg = {map->image, map->image_bytes, PROT_NONE},
			  .arg3 = MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			  .flags = STUB_ARG4_FD});
	/* These calls have the numbers from STUB_AREAS on. */
	for (size_t i = 0; i < map->near_count; i++)
		add(plan, &(struct stub_call){.nr = SYS_mmap,
				  .arg = {map->near[i], ABI_NEAR_BYTES, PROT_READ | PROT_EXEC},
				  .arg3 = MAP_PRIVATE | MAP_FIXED_NOREPLACE,
				  .arg5 = (uint32_t)(ABI_NEAR_OFF + i * ABI_NEAR_BYTES),
				  .flags = STUB_ARG4_FD | STUB_IS_AREA});
	add_mmap(plan, map, ABI_THUNKS_OFF, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	add_mmap(plan, map, ABI_TEXT_OFF, ABI_TEXT_MAX, PROT_READ | PROT_EXEC, MAP_SHARED);
	add_mmap(plan, map, ABI_STATE_OFF, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS);
	add_mmap(plan, map, ABI_TABLES_OFF, ABI_TABLES_BYTES, PROT_READ, MAP_SHARED);
	add_mmap(plan, map, ABI_SHARED_OFF, map->image_bytes - ABI_SHARED_OFF,
		PROT_READ | PROT_WRITE, MAP_SHARED);
	/* The file gets its size only now: a process with mlockall would have allocated all of it
	 * at the reservation. And only if the descriptor still leads to the memfd: another thread
	 * of the program may have closed it and opened a file of its own. */
	add(plan, &(struct stub_call){.nr = SYS_ftruncate,
			  .arg = {0, map->image_bytes},
			  .flags = STUB_ARG0_FD | STUB_IF_MARKED});
	add_advice(plan, map->image + ABI_STATE_OFF, HT_PAGE_BYTES, MADV_WIPEONFORK, 0);
	add_advice(plan, map->image + ABI_TABLES_OFF, map->image_bytes - ABI_TABLES_OFF,
		MADV_DONTDUMP, STUB_MAY_FAIL);
	add(plan, &(struct stub_call){.nr = SYS_socketpair,
			  .arg = {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC},
			  .flags = STUB_SAVE_PAIR});
	add(plan, &(struct stub_call){.nr = SYS_fcntl,
			  .arg = {0, F_DUPFD_CLOEXEC, (uint64_t)map->fd_floor},
			  .flags = STUB_ARG0_LEFT | STUB_IF_MARKED | STUB_SAVE_HIGH});
	add_end(plan, STUB_END_SETUP);
}

/* Waits for a signal that never comes, until the tracer puts the thread back. This needs a system
 * call, because strict seccomp forbids reading the TSC. The call must not change how the thread's
 * own call is restarted (current->restart_block), as poll and nanosleep do. */
static void add_hold(struct plan *plan, raddr_t at, const struct stub_thread *thread)
{
	if (thread->hold_ms)
		add(plan, &(struct stub_call){.nr = SYS_rt_sigtimedwait,
				  .arg = {at + code_bytes() + STUB_NO_MASK, 0,
					  at + code_bytes() + STUB_HOLD},
				  .arg3 = sizeof(uint64_t),
				  .flags = STUB_MAY_FAIL});
}

static void plan_taken(struct plan *plan, raddr_t at, const struct stub_thread *thread)
{
	add_close(plan, STUB_ARG0_FD);
	add_close(plan, STUB_ARG0_LEFT);
	add_close(plan, STUB_ARG0_RIGHT);
	add_end(plan, STUB_END_TAKEN);
	add_hold(plan, at, thread);
	/* Last of all: a handler of a signal that has waited may jump away now. */
	add_mask(plan, at, STUB_MASK_OWN);
	add_end(plan, STUB_END_PLAIN);
}

/* Closing -1, a descriptor that was not made yet, does nothing. A descriptor may lead to another
 * file by now, as another thread may have closed it and reused the number: those are not closed. */
static void plan_undo(struct plan *plan, const struct stub_map *map, raddr_t at)
{
	add(plan, &(struct stub_call){.nr = SYS_munmap,
			  .arg = {map->image, map->image_bytes},
			  .flags = STUB_MAY_FAIL});
	add_close(plan, STUB_ARG0_FD);
	add_close(plan, STUB_ARG0_HIGH);
	add_close(plan, STUB_ARG0_LEFT);
	add_close(plan, STUB_ARG0_RIGHT);
	add_mask(plan, at, STUB_MASK_OWN);
	add_end(plan, STUB_END_PLAIN);
}

static uint16_t call_offset(size_t index)
{
	return (uint16_t)(sizeof(struct stub_regs) + index * sizeof(struct stub_call));
}

static struct ht_err *assemble(
	const struct plan *plan, const struct stub_regs *regs, const char *name, struct stub *ret)
{
	size_t name_bytes = name ? strlen(name) + 1 : 0;
	size_t calls_bytes = plan->count * sizeof(struct stub_call);

	if (plan->count > CALLS_MAX || code_bytes() > CODE_MAX || name_bytes > STUB_NAME_MAX)
		return ht_err_new(HT_ERR_INTERNAL, "the attach code does not fit its limits");
	uint8_t *at = ret->bytes;
	memcpy(at, stub_begin, code_bytes());
	at += code_bytes();
	memcpy(at, regs, sizeof(*regs));
	at += sizeof(*regs);
	memcpy(at, plan->call, calls_bytes);
	at += calls_bytes;
	if (name_bytes)
		memcpy(at, name, name_bytes);
	ret->length = (size_t)(at - ret->bytes) + name_bytes;
	ret->call_count = plan->count;
	return NULL;
}

static size_t map_plan(
	const struct stub_map *map, raddr_t at, const struct stub_thread *thread, struct plan *plan)
{
	/* The first pass counts the calls, which do not depend on the name's address: the name
	 * follows the calls. */
	plan_setup(plan, map, at, 0);
	size_t setup_count = plan->count;
	plan_taken(plan, at, thread);
	size_t undo = plan->count;
	plan_undo(plan, map, at);
	size_t count = plan->count;
	raddr_t name = at + code_bytes() + call_offset(count);
	plan->count = 0;
	plan_setup(plan, map, at, name);
	plan->count = count;
	/* If the reservation fails, something of the target's is in the range: do not unmap it. A
	 * near area that fails is not unmapped either; those before it are. */
	for (size_t i = 0; i < setup_count; i++)
		plan->call[i].undo = call_offset(undo + (i <= RESERVATION));
	return setup_count;
}

struct ht_err *stub_make_map(
	const struct stub_map *map, raddr_t at, const struct stub_thread *thread, struct stub *ret)
{
	struct plan plan = {0};
	struct stub_regs regs = regs_of(thread);

	map_plan(map, at, thread, &plan);
	regs.control = map->image + ABI_CONTROL_OFF;
	regs.pair = regs.control + offsetof(struct abi_control, stub_fds[2]);
	regs.lease_ns = map->lease_ns;
	uint64_t spin_ns = map->lease_ns / (thread->together ? SPIN_PART_TOGETHER : SPIN_PART);
	regs.spin_ns = spin_ns < UINT32_MAX ? (uint32_t)spin_ns : UINT32_MAX;
	regs.nap_us = thread->together ? NAP_US : 0;
	return assemble(&plan, &regs, map->name, ret);
}

struct ht_err *stub_make_unmap(const struct stub_unmap *unmap, raddr_t at,
	const struct stub_thread *thread, struct stub *ret)
{
	struct plan plan = {0};
	struct stub_regs regs = regs_of(thread);

	add_mask(&plan, at, STUB_MASK_ALL);
	for (size_t i = 0; i < unmap->fd_count; i++)
		add(&plan, &(struct stub_call){.nr = SYS_close,
				   .arg = {(uint64_t)unmap->fd[i]},
				   .flags = STUB_IF_MARKED | STUB_MAY_FAIL});
	for (size_t i = 0; i < HT_ARRAY_SIZE(unmap->lo); i++)
		if (unmap->lo[i] < unmap->hi[i])
			add(&plan, &(struct stub_call){.nr = SYS_munmap,
					   .arg = {unmap->lo[i], unmap->hi[i] - unmap->lo[i]},
					   .flags = STUB_MAY_FAIL});
	add_hold(&plan, at, thread);
	add_mask(&plan, at, STUB_MASK_OWN);
	add_end(&plan, STUB_END_PLAIN);
	return assemble(&plan, &regs, NULL, ret);
}

bool stub_is_at_start(const uint8_t *bytes, size_t length)
{
	return length >= code_bytes() && memcmp(bytes, stub_begin, code_bytes()) == 0;
}

size_t stub_map_bytes(size_t near_count)
{
	struct plan plan = {0};
	map_plan(&(struct stub_map){.near_count = near_count}, 0,
		&(struct stub_thread){.hold_ms = 1}, &plan);
	return code_bytes() + call_offset(plan.count) + STUB_NAME_MAX;
}
