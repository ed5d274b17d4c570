/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the daemon and the agent share: one memfd, created by the target and named
 * "heaptap-<daemon pid>", mapped from one base address; an offset in the mapping is the same offset
 * in the file. Only the state is no part of the file:
 *
 *      ABI_THUNKS_OFF   r-x private  thunk page (abi_thunk.h)
 *      ABI_TEXT_OFF     r-x shared   agent code and constants
 *      ABI_STATE_OFF    rw- private anonymous, MADV_WIPEONFORK: struct abi_state
 *      ABI_TABLES_OFF   r-- shared   struct abi_config, the journal, unwind snapshots and tables
 *      ABI_SHARED_OFF   rw- shared   struct abi_control, PC caches, stacks, nodes, functions,
 *                                    marks, samples, deep areas, slots
 *
 * The target can write only state and shared: the daemon treats both as hostile input (reads each
 * word once, bounds-checks, never follows an address found there). Everything is little-endian
 * x86-64; both sides come from one build, checked by `build_id`.
 *
 * Ownership of a word is in its comment: [A] only the agent writes, [D] only the daemon writes.
 */
#pragma once

#include "format/abi_event.h"

#define ABI_MAGIC   0x5041545041454821ull
#define ABI_VERSION 18u

#define ABI_THUNKS_OFF 0x0u
#define ABI_TEXT_OFF   0x1000u
#define ABI_TEXT_MAX   0x1f000u
#define ABI_STATE_OFF  0x20000u
#define ABI_TABLES_OFF 0x40000u
#define ABI_TABLES_BYTES                                                                           \
	0x4000000u /* 64 MiB of address space, pages appear as they are written                    \
		    */
#define ABI_SHARED_OFF (ABI_TABLES_OFF + ABI_TABLES_BYTES)

/* --- state page: zero in a forked child ----------------------------------------------------- */

enum abi_alive {
	ABI_FORKED = 0,
	ABI_ALIVE = 1,
	ABI_MUTE = 2, /* nothing more is recorded, calls are only forwarded; abi_control.forbidden
			 or .given_up holds the reason */
};

struct abi_state {
	uint64_t alive; /* enum abi_alive: ALIVE [D, once], MUTE [A] */
};

/* --- near areas: where the first instruction of a hooked function leads ----------------------- */

/*
 * Parts of the memfd that are mapped a second time, r-x and private, within reach of a jump from
 * the patched function (abi_config.near). They occupy the end of the table area. An area begins
 * with pads: jumps to thunks, at any byte offset. Its last page holds bridges. Code here makes no
 * calls, so only a live or saved PC can point into an area, never a return address.
 */
#define ABI_NEAR_MAX	     20u
#define ABI_NEAR_BYTES	     0x40000u
#define ABI_NEAR_BRIDGES_OFF (ABI_NEAR_BYTES - HT_PAGE_BYTES)
#define ABI_NEAR_OFF	     (ABI_SHARED_OFF - ABI_NEAR_MAX * ABI_NEAR_BYTES)

#define ABI_BRIDGE_STEPS 2u

/* The instruction that the entry jump replaced, preceded by what must run before it and followed by
 * a jump to the next instruction. */
struct abi_bridge {
	/* From byte `from` of `code` on, `words` words lie on the stack below the return address.
	 * `from` 0: the step is unused. */
	struct abi_bridge_step {
		uint16_t from, words;
	} step[ABI_BRIDGE_STEPS];
	uint8_t code[56];
};

/* A pad may begin with lea N(%rsp),%rsp, which drops what the function has pushed. These are the
 * bytes before N. */
#define ABI_PAD_DROP                                                                               \
	{                                                                                          \
		0x48, 0x8d, 0x64, 0x24                                                             \
	}
#define ABI_PAD_DROP_BYTES 4u

_Static_assert(sizeof(struct abi_bridge) == 64, "bridges are found by their address");

/* --- tables: written by the daemon, read-only in the target ----------------------------------- */

#define ABI_CONFIG_OFF	  ABI_TABLES_OFF
#define ABI_CONFIG_BYTES  0x1000u
#define ABI_JOURNAL_OFF	  (ABI_CONFIG_OFF + ABI_CONFIG_BYTES)
#define ABI_JOURNAL_BYTES 0x101000u
#define ABI_UNWIND_OFF	  (ABI_JOURNAL_OFF + ABI_JOURNAL_BYTES) /* snapshots and tables from here */

enum abi_config_flag {
	ABI_FLAG_NO_SYSCALL = 1 << 0, /* seccomp target: the agent makes no system call at all */
	ABI_FLAG_LOSSLESS = 1 << 1,   /* wait for the daemon however long it takes */
	/* never splice a stored stack: the plain walk, as an oracle */
	ABI_FLAG_FULL_UNWIND = 1 << 2,
};

/* Which new blocks the hooks record. Frees are recorded in any case. In a pause, thunks of
 * functions that only allocate bypass the agent. */
enum abi_paused {
	ABI_PAUSED_NO,	   /* no pause: every block */
	ABI_PAUSED_ALL,	   /* no block: a realloc ends the old block and begins none */
	ABI_PAUSED_SETTLE, /* only the new block of a realloc whose old block was recorded */
};

#define ABI_USABLE_MAX 16u
#define ABI_PLAIN_MAX  16u

struct abi_config {
	uint64_t magic;
	uint32_t version;
	uint32_t flags;	      /* enum abi_config_flag */
	uint8_t build_id[20]; /* of the agent image */
	uint32_t tid_offset;  /* the thread's tid as a uint32_t at %fs:tid_offset; 0: unknown */
	uint64_t unwind;      /* struct abi_snapshot in force; 0: record the caller only. The daemon
				 replaces it by one aligned store; the old snapshot stays unchanged for
				 several turns (attach/unwind/publish.c) */
	uint64_t table_mask;  /* of words of the stack table (below) */
	uint64_t slot_mask;   /* number of slots minus 1; the number is a power of two */
	uint32_t node_max;
	int32_t socket_fd;	  /* the agent's end, a SOCK_SEQPACKET unix socket; -1: none */
	uint32_t frames_max;	  /* deepest stack kept, at most ABI_FRAMES_MAX */
	uint64_t socket_cookie;	  /* SO_COOKIE of that socket */
	uint64_t wait_cycles_max; /* longest time that a stalled daemon may delay a thread, in TSC
				     cycles */
	uint64_t near[ABI_NEAR_MAX];	 /* addresses of the near areas; 0: none */
	uint64_t usable[ABI_USABLE_MAX]; /* malloc_usable_size of each allocator; 0: none */
	uint64_t stop;			 /* 1: record nothing more, forward calls */
	/* Mean distance of samples; thunks then lead to the sampling hooks. 0: record every call */
	uint64_t sample_bytes;
	uint64_t functions;	/* uint64_t[node_max] (below); 0: do not collect */
	int64_t function_words; /* where a frame of JIT code holds its function: words from rbp */
	int64_t interpreted_words; /* the offset of FRAME rules that have one (abi_unwind.h) */
	uint64_t follow; /* pid of the followed process, in its own pid namespace: its threads ask
			    to be held before an exec (below); 0: threads do not ask */
	/* 1: threads of that process also ask before they make a child [D] */
	uint64_t follow_forks;
	uint64_t plain[ABI_PLAIN_MAX]; /* plain functions that hooks call instead of ABI_NEWS; 0:
					  none */
	uint64_t thunks;	       /* the thunk page in force; 0: unknown */
	/* Loading of libraries (agent/load.c): the dynamic linker's first list, and the range of
	 * its module, which contains all lists */
	uint64_t load_list, linker_lo, linker_hi;
	uint64_t load_lists_lock,
		load_done_lock;	  /* the dynamic linker's locks (attach/got/unlock.h) */
	uint64_t load_cycles_max; /* longest wait of a thread until its library is hooked */
	uint64_t load_listens;	  /* 1: the daemon answers waiting threads [D] */
	uint64_t paused;	  /* enum abi_paused [D] */
};

_Static_assert(sizeof(struct abi_config) <= ABI_CONFIG_BYTES, "config fits its page");

/* --- control: first page of the shared area --------------------------------------------------- */

/* Why events are missing; counted per slot, or in abi_control if the thread has no slot. */
enum abi_loss {
	ABI_LOSS_TIMEOUT,   /* the daemon was too slow: a buffer was dropped */
	ABI_LOSS_SOCKET,    /* the socket is closed or is no longer heaptap's */
	ABI_LOSS_SLOT_FULL, /* no thread slot left */
	ABI_LOSS_NESTED,    /* nested deeper than ABI_NEST_MAX */
	ABI_LOSS_COUNT
};

/* Why a stack is incomplete. The event is recorded with the frames found. */
enum abi_trunc {
	ABI_TRUNC_DEPTH,   /* more than frames_max frames */
	ABI_TRUNC_NO_RULE, /* no unwind rule for a PC, and no frame pointer to follow */
	ABI_TRUNC_STACK,   /* the stack left its bounds or is not readable */
	ABI_TRUNC_NODES,   /* the node array is full */
	ABI_TRUNC_COUNT
};

#define ABI_SLOT_MAX   2048u /* a power of two */
#define ABI_DEEP_COUNT 16u

/* abi_control.forbidden: the target has forbidden its threads this during the window. */
enum abi_forbidden {
	ABI_FORBIDDEN_SYSCALL = 1 << 0, /* as ABI_FLAG_NO_SYSCALL */
	ABI_FORBIDDEN_CLOCK = 1 << 1,	/* the TSC may not be read: nothing more is recorded */
};

struct abi_control {
	uint64_t magic;
	uint64_t node_count; /* nodes[1] .. nodes[node_count] are claimed; failed claims may push it
				past node_max - 1. A node may stay unready for ever: skip it [A] */
	/* walks that met a PC in no module: the daemon rereads the maps [A] */
	uint64_t unknown_pcs;
	uint64_t unknown_pc;	       /* the PC of one of these walks [A] */
	uint64_t lost[ABI_LOSS_COUNT]; /* events lost where no slot could count them [A] */
	uint64_t taken;	     /* the stub waits, for a limited time, until it is not 0. 1: the daemon
				has taken the descriptors; 2: the daemon refuses, or the time is over */
	int32_t stub_fds[4]; /* of the stub: agent's socket, memfd, both ends of a socket pair */
	int64_t stub_status; /* 0 running, 1 ready, 2 done */
	int64_t stub_time[2]; /* of the stub: struct timespec */
	int32_t stub_tsc;     /* of the stub: PR_GET_TSC of its thread; 0: unknown */
	/* Bit i: slot i has been claimed at least once. The daemon reads only these: reading an
	 * untouched slot would allocate its pages. */
	uint64_t claimed[ABI_SLOT_MAX / 64]; /* [A] */
	/* Key of the only slot that records: its events need no fence before their time stamp.
	 * Every other slot clears it before its event. When all others have been idle, the daemon
	 * sets it again in two steps, first with ABI_SOLE_PROPOSED. [A, D] It has its own cache
	 * line because every event reads it. */
	_Alignas(64) uint64_t sole;
	uint64_t tick; /* the daemon increments it at each look: a coarse clock [D] */
	_Alignas(64) uint64_t forbidden; /* enum abi_forbidden; bits are only added [A] */
	/* ABI_GIVEN_UP: the stream has no reader; nothing more is recorded [A] */
	uint64_t given_up;
	uint64_t samples_lost; /* allocations drawn for the sample for which the set had no room [A]
				*/
	/* The thread that is about to exec or to make a child and waits for the daemon, for about
	 * three seconds; 0: none [A, D: 0 lets it go on]. ABI_EXEC_ASKING: a thread is still
	 * checking whether it must ask, or the daemon did not answer the last one. */
	uint64_t exec_asks;
	uint64_t exec_calling; /* that thread is in a system call or about to make one [A] */
	uint64_t exec_held;    /* the thread that need not wait any longer [D] */
	uint64_t exec_forks;   /* 1: that thread makes a child; 0: it execs [A] */
	uint64_t forks;	       /* calls that make children, whether or not a thread asked [A] */
	/* The owner of each deep area (below): abi_deep_owner; 0: free. Taken by compare-and-swap,
	 * also from a thread that has ended. [A] */
	uint64_t deep_owner[ABI_DEEP_COUNT];
	/* A thread that has loaded a library asks the daemon to hook it, and waits. */
	uint64_t load_adding;  /* thread pointer of the loading thread [A] */
	uint64_t load_asks;    /* the number of the last question [A] */
	uint64_t load_seen;    /* all questions up to this number are answered [D] */
	uint64_t load_late;    /* questions whose thread waited in vain or did not wait [A] */
	uint64_t load_calling; /* such a thread is in a system call or about to make one [A] */
	uint64_t load_tick;    /* `tick` when a thread waited in vain: if unchanged, the daemon has
				  stopped [A] */
};

#define ABI_SOLE_PROPOSED 4ull

/* A value of exec_asks that is no thread's tid. */
#define ABI_EXEC_ASKING UINT64_MAX

/* A stray write of the target is unlikely to store this value in given_up. */
#define ABI_GIVEN_UP 0x6e6f207265616465ull

_Static_assert(sizeof(struct abi_control) <= HT_PAGE_BYTES, "the control page");

/* --- stacks: a trie of (parent, pc), interned by hash ----------------------------------------- */

/*
 * nodes[0] is the root (no frame). nodes[i], i >= 1, is a frame whose caller is nodes[parent];
 * parent < i. A node is written once, `ready` last (release): a reader that sees ready == 1 sees
 * the rest. `pc` is the return address, or the interrupted PC of a signal frame (ABI_NODE_EXACT).
 * In an interpreter's frame (both flags; abi_unwind.h) it is the address of the function that the
 * frame ran when the node was made, with its thread's number (abi_scripts_of) from bit 47 on:
 * another function may lie there later. The target controls this word; treat it as hostile.
 *
 * The table holds words of (tag << ABI_NODE_BITS | node id); empty is 0. The hash of a frame is
 * abi_stack_hash(hash of its caller, pc); slot = hash & table_mask, linear probing, tag = the upper
 * 64 - ABI_NODE_BITS bits of the hash (never 0).
 */
#define ABI_NODE_BITS	     24u
#define ABI_NODE_EXACT	     1u
#define ABI_NODE_INTERPRETED 2u

#define ABI_SCRIPTS_SHIFT 47u
#define ABI_SCRIPTS_MAX	  0x7fffu

/*
 * A thread pointer combined with the thread's number, which no other thread has at the same time.
 * The number changes whenever interpreted functions may have moved. Number 0 gives 0: frames of
 * this thread are recorded by PC.
 */
static inline uint64_t abi_scripts_of(uint64_t thread, uint16_t number)
{
	return number ? thread | (uint64_t)(number & ABI_SCRIPTS_MAX) << ABI_SCRIPTS_SHIFT : 0;
}

struct abi_node {
	uint64_t pc;
	uint32_t parent;
	uint8_t ready;
	uint8_t flags;	/* ABI_NODE_* */
	uint16_t epoch; /* abi_snapshot.epoch when the node was made: says to which modules `pc`
			   refers */
};

_Static_assert(sizeof(struct abi_node) == 16, "four nodes per cache line");

/*
 * functions[i] is the word at rbp + 8 * function_words in the frame of nodes[i], when the node was
 * made; only for frames that unwind by rbp alone (ABI_RULE_FRAME), otherwise 0. It is written
 * before `ready`. V8 keeps the JSFunction there. Treat the word as hostile. [A]
 */

static inline uint64_t abi_stack_hash(uint64_t caller_hash, uint64_t pc)
{
	uint64_t h = (caller_hash ^ pc) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

/* --- samples ---------------------------------------------------------------------------------- */

/*
 * With r = `sample_bytes`, an allocation of s bytes is sampled with probability 1 - exp(-(s + 1) /
 * r). Points lie at random on the line of all bytes that a thread requests, r apart on average (a
 * Poisson process); an allocation is sampled when a point lies on its bytes. One byte is added to
 * each allocation, so that those of 0 bytes are sampled too.
 *
 * A free looks for its address in the set of live samples: in two lines of it. A filter in front of
 * the set has one byte per granule of memory, shared by granules ABI_FILTER_BYTES apart, which
 * counts the live samples there and saturates. If the byte is 0, the freed block is not a sample.
 */
#define ABI_FILTER_SHIFT 10u
#define ABI_FILTER_BYTES (1u << 20)
#define ABI_SAMPLE_WORDS 8u
#define ABI_SAMPLE_LINES (1u << 16)

struct abi_sample_line {
	uint64_t addr[ABI_SAMPLE_WORDS]; /* 0: free. Added and removed by compare-and-swap [A] */
};

/* Sampling state of a thread. It has its own cache line because every allocation uses it. All [A].
 */
struct abi_sampler {
	uint64_t key; /* thread pointer + abi_state.alive, so that no key matches in a forked child
		       */
	uint64_t countdown; /* bytes up to the next point; each call subtracts its size plus 1 */
	uint64_t prev_sp, prev_pc; /* of the last allocation that was only forwarded, at its entry:
				    * stack pointer, return address */
	uint64_t random;	   /* state of the generator */
	uint32_t taken;		   /* 1: the call that is in progress is a sample */
	uint32_t gone;		   /* 1: the block that this call reallocates was a sample too */
};

/* --- marks: the slot that recorded a block's last event --------------------------------------- */

/*
 * A mark is a word with a block's address and the slot that recorded the block's last event. If a
 * slot finds its own mark, the block's last event was its own, so no order with other slots is
 * needed. A mark of another block, or 0, gives no information: marks may be lost at any time, but a
 * slot's mark must be replaced when another slot records an event of that block. Marks of
 * neighbouring blocks share a cache line, so threads share lines of marks only if they share lines
 * of blocks. [A]; the daemon clears all of them before one thread records alone, which leaves no
 * marks. [D]
 */
#define ABI_LAST_BITS	  14u
#define ABI_LAST_WORDS	  (1u << ABI_LAST_BITS)
#define ABI_LAST_UNIT	  8u  /* only multiples have a mark */
#define ABI_LAST_SHIFT	  11u /* bits of a slot's index */
#define ABI_LAST_PER_LINE 8u

static inline uint64_t abi_last_index(uint64_t addr)
{
	uint64_t line = (addr >> 7) * 0x9e3779b97f4a7c15ull >> (64 - (ABI_LAST_BITS - 3));
	return line * ABI_LAST_PER_LINE + (addr >> 4) % ABI_LAST_PER_LINE;
}

static inline uint64_t abi_last_mark(uint64_t addr, uint64_t slot_index)
{
	return addr / ABI_LAST_UNIT << ABI_LAST_SHIFT | slot_index;
}

_Static_assert(ABI_SLOT_MAX <= 1u << ABI_LAST_SHIFT, "a slot's index fits its mark");

/* Whether two marks are of one block. */
static inline bool abi_last_is_same(uint64_t a, uint64_t b)
{
	return (a ^ b) >> ABI_LAST_SHIFT == 0;
}

/* --- slots: one per thread and nesting level -------------------------------------------------- */

#define ABI_NEST_MAX                                                                               \
	4u /* levels: 0: a thread; 1: a signal handler that interrupted its hook; and so on */
#define ABI_BUFFER_BYTES 65536u
#define ABI_FRAMES_MAX	 16384u
#define ABI_COPY_BYTES	 16384u
#define ABI_MEMO_BYTES	 20608u
#define ABI_SLOT_DEAD	 8ull /* in abi_slot_head.key: the thread is gone, the slot may be claimed */
#define ABI_SLOT_BYTES	 0x40000u

enum abi_slot_state {
	ABI_SLOT_IDLE,
	ABI_SLOT_RECORDING,    /* between taking a time stamp and committing its event */
	ABI_SLOT_IN_REAL,      /* inside the allocator's own function */
	ABI_SLOT_IN_MAPPING,   /* inside mmap, madvise or mprotect */
	ABI_SLOT_IN_UNMAPPING, /* inside munmap or mremap; the time stamp is taken */
};

/*
 * A slot's events are one endless byte stream. `buffer` holds the part [buffer_start, committed),
 * at buffer[0 .. committed - buffer_start). When it is full, the agent sends that part as one
 * message (abi_event.h), moves buffer_start up to `committed`, and only then writes at buffer[0]
 * again. The daemon may copy the committed part at any time; it must drop the copy if buffer_start
 * has changed meanwhile.
 */
struct abi_slot_head {
	/* identity; key is claimed by compare-and-swap from 0 or from a dead key */
	uint64_t key; /* thread pointer (multiple of 16) + nesting level 0..3 [A]; |DEAD [D] */
	uint32_t tid; /* in the target's innermost pid namespace [A] */
	uint32_t incarnation; /* changes with each new thread here; odd while `tid` changes [A] */
	uint32_t state;	      /* enum abi_slot_state [A] */
	uint32_t gave_up;  /* 1: the last full buffer was not taken in time; do not wait again until
			      a buffer is taken [A] */
	uint64_t entry_sp; /* stack pointer of the hook in progress [A] */
	uint64_t calling;  /* 1: the agent is in a system call or about to make one [A] */
	uint64_t committed;    /* stream position after the last whole event (release) [A] */
	uint64_t buffer_start; /* stream position of buffer[0] [A] */
	uint64_t last_tsc;     /* of the last committed event [A] */
	uint64_t last_tick;    /* abi_control.tick when last_tsc was read [A] */

	uint64_t last_addr; /* address of the last committed event that has one; 0 at each buffer
			       start [A] */
	uint64_t events;    /* committed since the slot was made [A] */
	uint64_t lost[ABI_LOSS_COUNT];	 /* events [A] */
	uint64_t trunc[ABI_TRUNC_COUNT]; /* stacks [A] */
	uint64_t failed_calls;		 /* allocator calls that returned failure [A] */
	uint64_t first_event;		 /* `events` when the buffer began [A] */
	uint64_t silent_since; /* time since when full buffers find no reader while `tick` does not
				  change [A] */
	uint64_t silent_tick;  /* the value of `tick` at that time [A] */

	/* written by the daemon: primary stack of the thread `bounds_incarnation` */
	uint64_t stack_lo;	     /* [D] */
	uint64_t stack_hi;	     /* [D] 0: unknown, every stack is foreign */
	uint64_t bounds_incarnation; /* [D] valid only if equal to `incarnation` */
	uint64_t drained;	     /* [D] stream position up to which the daemon has copied */

	/* Empty at each buffer start: abi_event.h. Bits 0 and 1: ENCODE_ALLOCATED, ENCODE_SMALL.
	 * [A] */
	uint64_t recent[ABI_RECENT_COUNT];

	uint64_t mappings; /* committed events of mappings; `events` does not count them [A] */

	uint64_t abandoned; /* hooks of this thread that were presumably left by a longjmp [A] */
	/* Range of the stack pointers at which hooks without a slot began: no entry_sp records
	 * them, and a coroutine may wait in one. 0, 0: none [A] */
	uint64_t unbooked_lo, unbooked_hi;

	_Alignas(64) struct abi_sampler sampler;
};

_Static_assert(sizeof(struct abi_slot_head) <= HT_PAGE_BYTES, "a slot's head fits its page");

struct abi_slot {
	union {
		struct abi_slot_head head;
		uint8_t head_page[HT_PAGE_BYTES];
	};
	uint8_t buffer[ABI_BUFFER_BYTES];
	uint64_t frames[ABI_FRAMES_MAX]; /* scratch of the walk [A] */
	uint8_t copy[ABI_COPY_BYTES];	 /* scratch: part of a foreign stack [A] */
	uint8_t memo[ABI_MEMO_BYTES];	 /* recent stacks (agent/memo.c) [A] */
	uint8_t walk[ABI_SLOT_BYTES - HT_PAGE_BYTES - ABI_BUFFER_BYTES - 8 * ABI_FRAMES_MAX -
		     ABI_COPY_BYTES - ABI_MEMO_BYTES];
};

_Static_assert(offsetof(struct abi_slot, buffer) == HT_PAGE_BYTES, "the buffer starts on a page");
_Static_assert(sizeof(struct abi_slot) == ABI_SLOT_BYTES, "slots are found by multiplication");

/* --- deep stacks ------------------------------------------------------------------------------ */

/*
 * A slot keeps up to TRACE_FRAMES_MAX frames of its thread's last stack (agent/kept.h). A thread
 * with a deeper stack takes a deep area, if one is free; its pages appear as the stack grows, 103
 * bytes a frame. If all ABI_DEEP_COUNT areas are taken, a thread walks its whole deep stack at each
 * event.
 */
struct abi_deep {
	/* The kept stack (agent/kept.h): per frame 35 bytes, and three links of 12. [A] */
	uint8_t walk[71 * ABI_FRAMES_MAX + 176];
	/* Scratch of the walk. [A] */
	uint8_t fresh[32 * ABI_FRAMES_MAX];
	uint8_t pad[0xf50];
};

#define ABI_DEEP_BYTES 0x19d000u

_Static_assert(sizeof(struct abi_deep) == ABI_DEEP_BYTES, "deep areas begin at pages");

static inline uint64_t abi_deep_owner(uint32_t incarnation, uint64_t slot_index)
{
	return (uint64_t)incarnation << 32 | (slot_index + 1);
}

/* --- sizes of the shared area ----------------------------------------------------------------- */

#define ABI_CACHE_SETS	1024u /* two 8-byte entries each (abi_unwind.h) */
#define ABI_CACHE_BYTES (ABI_CACHE_SETS * 16u)
#define ABI_CACHE_COUNT 16u /* snapshots use them in turn */

#define ABI_CONTROL_OFF	    ABI_SHARED_OFF
#define ABI_CACHES_OFF	    (ABI_CONTROL_OFF + 0x1000u)
#define ABI_TABLE_OFF	    (ABI_CACHES_OFF + ABI_CACHE_COUNT * ABI_CACHE_BYTES)
#define ABI_TABLE_WORDS	    (1u << 21)
#define ABI_NODES_OFF	    (ABI_TABLE_OFF + ABI_TABLE_WORDS * 8u)
#define ABI_NODE_MAX	    (1u << 20)
#define ABI_FUNCTIONS_OFF   (ABI_NODES_OFF + ABI_NODE_MAX * 16u)
#define ABI_FUNCTIONS_BYTES (ABI_NODE_MAX * 8u)
#define ABI_LAST_OFF	    (ABI_FUNCTIONS_OFF + ABI_FUNCTIONS_BYTES)
#define ABI_FILTER_OFF	    (ABI_LAST_OFF + ABI_LAST_WORDS * 8u)
#define ABI_SAMPLES_OFF	    (ABI_FILTER_OFF + ABI_FILTER_BYTES)
#define ABI_DEEP_OFF	    (ABI_SAMPLES_OFF + ABI_SAMPLE_LINES * 64u)
#define ABI_SLOTS_OFF	    (ABI_DEEP_OFF + ABI_DEEP_COUNT * ABI_DEEP_BYTES)

/* Bytes of address space (and of sparse memfd) of the whole image with `slot_max` slots. */
static inline uint64_t abi_image_bytes(uint32_t slot_max)
{
	return ABI_SLOTS_OFF + (uint64_t)slot_max * ABI_SLOT_BYTES;
}
