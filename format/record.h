/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a trace (FORMAT.md): what each holds, and their bytes. A record is
 *
 *      kind (1 byte) | payload length (LEB128, at most TRACE_RECORD_MAX) | payload
 *
 * Inside payloads numbers are LEB128 unless FORMAT.md says otherwise; strings are length + bytes
 * (any bytes but at most TRACE_STRING_MAX of them). Unknown kinds are skipped by the reader.
 * Nothing is dereferenced while decoding: views point into the payload.
 */
#pragma once

#include "format/base.h"
#include "format/bytes.h"
#include "format/err.h"

#define TRACE_BLOCK_MAX	   (2u << 20) /* whole records of one block */
#define TRACE_RECORD_MAX   (1u << 20) /* payload */
#define TRACE_STRING_MAX   4096u
#define TRACE_SEGMENTS_MAX 64u
#define TRACE_BUILD_ID_MAX 64u
#define TRACE_INLINE_MAX   256u
#define TRACE_ACCOUNTS_MAX 16u
#define TRACE_RANGES_MAX   256u
#define TRACE_MEMORY_MAX   256u

enum rec_kind {
	REC_TARGET = 1, /* the profiled process; once, first */
	REC_CAPTURE,	/* when and how it was recorded; once, second */
	REC_MODULE,	/* a loaded module; before the first node whose pc lies in it */
	REC_MODULE_GONE,
	REC_THREAD, /* tid and name, again when the name changes */
	REC_NODES,  /* stack nodes first_id, first_id + 1, ... ; before the first event with them */
	REC_EVENTS, /* a piece of one slot's stream */
	REC_SYNC,   /* clock pair, and how far the streams are complete */
	REC_RSS,    /* before version 2.2; REC_MEMORY since */
	REC_LOSS,   /* running total of one counter; the last one counts */
	REC_SYMBOL, /* names for one (module, offset) */
	REC_MARK,   /* a user's text at a time */
	REC_END,    /* why the capture ended; once, last but for SYMBOL and NAMES */
	REC_HEAP,   /* what the allocators hold, by their own counters */
	REC_MAPPED, /* mappings when the window began; before the first event */
	REC_COLUMNS, /* REC_EVENTS sorted by field; trace_writer_put makes it, trace_reader_next
			turns it back unless trace_reader_keep_columns was called */
	REC_SCRIPTS, /* until when numbers of interpreted functions are valid; before the SYNC that
			completes the events up to that time */
	REC_NAMES,   /* why names of a module are missing; after END */
	REC_MEMORY,  /* how much memory of each kind is in use at a time (format/memory.h) */
	REC_PAUSE,   /* recording of new blocks stops or resumes here */
	REC_LEFT,    /* how the detach ended; before END */
	REC_SETTLE,  /* the window is over; from here on frees of its blocks alone are recorded */
	REC_CULLED,  /* sums of events that a filter left out (format/cull/culled.h) */
};

struct rec_string {
	const char *data; /* not terminated */
	size_t length;
};

struct rec_target {
	uint64_t pid, uid, start_ticks; /* start_ticks: field 22 of /proc/PID/stat */
	struct rec_string comm, exe, kernel, heaptap_version;
};

struct rec_capture {
	uint64_t start_unix_ns, start_mono_ns, start_tsc;
	uint64_t slots_tapped, modules;
	uint64_t memory_total_bytes; /* of the machine */
	uint64_t sample_bytes; /* mean distance of samples in bytes; 0: every allocation is recorded
				*/
	uint64_t flags;	       /* REC_CAPTURE_*; since version 1.1 */
	uint64_t cull_ns; /* blocks that lived shorter are only in CULLED records; 0: no block is */
};

#define REC_CAPTURE_MAPPINGS 1u /* mappings were recorded too */

struct rec_segment {
	uint64_t vaddr, memsz, offset, flags; /* PT_LOAD as in the ELF file; flags PF_* */
};

struct rec_module {
	uint64_t id;	 /* from 1 */
	uint64_t epoch;	 /* nodes of this epoch and later, until MODULE_GONE, may refer to it */
	uint64_t bias;	 /* address in the target = vaddr + bias */
	uint64_t lo, hi; /* addresses it spans */
	struct rec_string path, build_id;
	uint64_t flags; /* REC_MODULE_* */
	uint64_t segment_count;
	struct rec_segment segment[TRACE_SEGMENTS_MAX];
};

#define REC_MODULE_EXECUTABLE 1u /* the main program */
#define REC_MODULE_UNTAPPED   2u /* heaptap could not hook it from the window's start */

struct rec_module_gone {
	uint64_t id, epoch; /* nodes of this epoch and later do not refer to it */
};

struct rec_thread {
	uint64_t tid;
	struct rec_string name;
	uint64_t since_tsc; /* the thread has this name from then on; 0: throughout, or an older
			       trace */
};

/* Payload: first_id, count, then per node: epoch, parent, pc (fixed 8 bytes), flags. */
struct rec_nodes {
	uint64_t first_id, count;
	struct bytes body; /* read with rec_node_next, count times */
};

/* The pc of an interpreted function (ABI_NODE_INTERPRETED) is number | generation <<
 * TRACE_SCRIPTS_SHIFT; 0: unknown function. */
#define TRACE_SCRIPTS_SHIFT 32u

struct rec_node {
	uint64_t pc;
	uint32_t parent;
	uint16_t epoch;
	uint8_t flags; /* ABI_NODE_* */
};

struct rec_events {
	uint64_t slot;	    /* identifies the stream */
	uint64_t position;  /* of the first byte in the slot's stream: a jump means loss */
	uint64_t flags;	    /* REC_EVENTS_* */
	struct bytes body;  /* the events; in REC_COLUMNS their columns (columns.h) */
	size_t piece_bytes; /* with REC_COLUMNS: length of the events in bytes; not stored in the
			       trace */
};

#define REC_EVENTS_RESTART 1u /* the piece begins at a buffer start: delta state is reset */

struct rec_sync {
	uint64_t tsc, mono_ns;
	uint64_t complete_tsc; /* every event stamped before complete_tsc precedes this record in
				  the trace */
};

struct rec_rss {
	uint64_t mono_ns, rss_bytes;
};

enum rec_counter {
	REC_COUNTER_LOST_TIMEOUT, /* first four: enum abi_loss */
	REC_COUNTER_LOST_SOCKET,
	REC_COUNTER_LOST_SLOT_FULL,
	REC_COUNTER_LOST_NESTED,
	REC_COUNTER_TRUNC_DEPTH, /* next four: enum abi_trunc */
	REC_COUNTER_TRUNC_NO_RULE,
	REC_COUNTER_TRUNC_STACK,
	REC_COUNTER_TRUNC_NODES,
	REC_COUNTER_FAILED_CALLS, /* allocator calls that returned failure */
	REC_COUNTER_NESTED,	  /* events recorded from within a hook (signal handlers) */
	REC_COUNTER_DAEMON_DROPS, /* events the daemon received and could not write */
	REC_COUNTER_UNTAPPED,	  /* modules hooked after they were loaded, or not at all */
	REC_COUNTER_EVENTS,	  /* events committed by the agent: what the trace should hold */
	REC_COUNTER_DAMAGE,	  /* malformed data in shared memory or messages */
	REC_COUNTER_UNSEEN,	  /* call sites that reach an allocator without a GOT slot */
	REC_COUNTER_SAMPLES_LOST, /* samples dropped for lack of room */
	REC_COUNTER_MAPPINGS,	  /* events of mappings that the trace should hold; no other counter
				     includes them */
	REC_COUNTER_COUNT
};

struct rec_loss {
	uint64_t counter; /* enum rec_counter; unknown ones are kept as numbers */
	uint64_t total;
};

/* One frame of a code address. The frames of an address are a list: inlined functions, the
 * innermost first; the last frame is the function that contains the code. */
struct rec_frame {
	struct rec_string function, file; /* function as demangled; empty: unknown */
	uint64_t line;			  /* 0: unknown */
};

/* A module_id of REC_SYMBOL: no module; `offset` is the number of an interpreted function. */
#define TRACE_MODULE_SCRIPTS UINT32_MAX

struct rec_symbol {
	uint64_t module_id; /* 0: the offset is an address */
	uint64_t offset;    /* address - bias of the looked-up PC (return address - 1) */
	uint64_t frame_count;
	struct rec_frame frame[TRACE_INLINE_MAX];
};

/* The reason why names of a module are missing. */
enum rec_names_state {
	REC_NAMES_WHOLE, /* nothing is missing */
	/* In these states the module has no names, or only names from a debug file. */
	REC_NAMES_NO_FILE,	/* its file is deleted, or the module never had one */
	REC_NAMES_OTHER_FILE,	/* another build replaced its file */
	REC_NAMES_UNREADABLE,	/* its file cannot be opened */
	REC_NAMES_UNIDENTIFIED, /* it has no build-id, so the file with its name may differ */
	REC_NAMES_NO_SYMBOLS,	/* stripped, without any symbol of a function */
	REC_NAMES_STRIPPED,	/* only the functions that it exports have names */
	/* In these states debug information exists but was not read. */
	REC_NAMES_SPLIT,      /* detail: a .dwo or .dwp file that was not found */
	REC_NAMES_COMPRESSED, /* compressed in a way that this libdw cannot read; detail: the file
			       */
	REC_NAMES_DEBUG_FILE, /* detail: a debug file that belongs to another build */
	REC_NAMES_ALTERNATE,  /* detail: a file of dwz that was not found */
	REC_NAMES_DAMAGED,    /* the debug information is malformed */
};

struct rec_names {
	uint64_t module_id;
	uint64_t state; /* enum rec_names_state */
	struct rec_string detail;
};

struct rec_scripts {
	uint64_t generation;
	uint64_t until_tsc;
};

struct rec_pause {
	uint64_t mono_ns;
	uint64_t paused; /* 1: a pause begins, 0: it ends */
};

struct rec_settle {
	uint64_t tsc, mono_ns; /* the window's end, both read together */
	uint64_t wanted_ns;    /* how long frees are to be recorded after it */
};

enum rec_left_result {
	REC_LEFT_UNCHANGED, /* the comparison found no difference */
	REC_LEFT_PAGE,	    /* one page stays */
	REC_LEFT_CODE,	    /* the agent stays and only forwards calls */
	REC_LEFT_DIFFERS,   /* nothing stays, but the comparison found a difference */
	REC_LEFT_ENDED,	    /* the process had ended or exec'd another program */
};

struct rec_left {
	uint64_t result;       /* enum rec_left_result */
	uint64_t checks;       /* number of parts of the process compared; 0: no comparison */
	struct rec_string why; /* the reason of PAGE, CODE and DIFFERS */
};

/* Sums of one interval of TRACE_CULLED_NS, counted from the window's start. */
struct rec_culled {
	uint64_t interval; /* number of the interval, from 0 */
	uint64_t end_tsc;  /* all events stamped before end_tsc precede this record */
	uint64_t events;   /* number of events that were left out */
	uint64_t inferred_frees, absorbed_frees; /* as in the analyzer's replay */
	uint64_t live_max_bytes; /* most live bytes in the interval; 0: not stated */
	/* If has_peak is 1: the most live bytes since the window's start. CULLED_PEAK entries
	 * change the sites' shares of peak_bytes. */
	uint64_t has_peak, peak_ns, peak_bytes, peak_blocks;
	/* If has_highest is 1: the greatest value since the window's start of live bytes less bytes
	 * of older blocks that were freed. */
	uint64_t has_highest, highest_ns;
	uint64_t highest_bytes; /* an int64_t, as (n << 1) ^ (n >> 63) */
	struct bytes body;	/* culled_next */
};

#define TRACE_CULLED_NS 1024000000u

struct rec_mark {
	uint64_t mono_ns;
	struct rec_string text;
};

enum rec_end_reason {
	REC_END_DURATION,
	REC_END_SIGNAL, /* Ctrl-C, SIGTERM, SIGHUP */
	REC_END_TARGET_EXIT,
	REC_END_TARGET_EXEC,
	REC_END_DISK_FULL,
	REC_END_ERROR,
	REC_END_STOP,	   /* heaptap stop */
	REC_END_FORBIDDEN, /* the target forbade its threads to read the clock (strict seccomp,
			      PR_SET_TSC) */
	REC_END_RSS,	   /* --until-rss */
	REC_END_GROWTH,	   /* --until-growth */
	REC_END_SIZE,	   /* --max-size */
	REC_END_COMMAND,   /* heaptap recorded while a command ran, and the command ended */
	REC_END_SNAPSHOT,  /* the trace is a snapshot of a trace that is still being written */
};

/* The stable name of a reason for scripts: "duration", "target_exit", ...; "unknown" for other
 * numbers. */
const char *rec_end_name(uint64_t reason);
/* The reason as a phrase for messages: "the process exited", ...; "an unknown reason" for other
 * numbers. */
const char *rec_end_text(uint64_t reason);

struct rec_end {
	uint64_t reason, mono_ns, tsc;
};

/* Memory that one allocator holds, by its own counters. Without REC_ACCOUNT_KNOWN all numbers are
 * 0. */
struct rec_account {
	struct rec_string allocator;
	uint64_t flags; /* REC_ACCOUNT_* */
	/* held_bytes: blocks that the program has, with their headers; off_bytes: largest error of
	 * held_bytes; system_bytes: memory that the allocator has from the kernel. */
	uint64_t held_bytes, off_bytes, system_bytes;
	uint64_t arenas;
	uint64_t header_bytes;	  /* of a block, not counted in its usable bytes */
	struct rec_string reason; /* why held_bytes is unknown or inexact; empty: it is exact */
};

#define REC_ACCOUNT_KNOWN 1u

struct rec_heap {
	uint64_t begin_tsc, end_tsc; /* the accounts were read between these times */
	uint64_t account_count;
	struct rec_account account[TRACE_ACCOUNTS_MAX];
};

struct rec_range {
	uint64_t lo, bytes;
	uint64_t flags; /* REC_RANGE_* */
};

#define REC_RANGE_USABLE 1u /* accessible; otherwise reserved */
#define REC_RANGE_FILE	 2u /* of a file, not anonymous */

struct rec_mapped {
	uint64_t range_count;
	struct rec_range range[TRACE_RANGES_MAX];
};

/* One figure of a REC_MEMORY. An unknown figure is absent. */
struct rec_value {
	uint64_t kind; /* enum memory_kind; readers skip kinds that they do not know */
	uint64_t number;
};

struct rec_memory {
	uint64_t mono_ns;
	uint64_t value_count;
	struct rec_value value[TRACE_MEMORY_MAX];
};

struct rec {
	/* for a kind that this build does not know, only `kind` and `raw` are set */
	enum rec_kind kind;
	struct rec_string raw; /* the payload; encoded only for a kind that this build does not
				  know */
	union {
		struct rec_target target;
		struct rec_capture capture;
		struct rec_module module;
		struct rec_module_gone module_gone;
		struct rec_thread thread;
		struct rec_nodes nodes;
		struct rec_events events; /* of REC_COLUMNS too */
		struct rec_sync sync;
		struct rec_rss rss;
		struct rec_loss loss;
		struct rec_symbol symbol;
		struct rec_mark mark;
		struct rec_end end;
		struct rec_heap heap;
		struct rec_mapped mapped;
		struct rec_scripts scripts;
		struct rec_names names;
		struct rec_memory memory;
		struct rec_pause pause;
		struct rec_left left;
		struct rec_settle settle;
		struct rec_culled culled;
	};
};

/* Appends kind, length and payload to `out`. Strings longer than TRACE_STRING_MAX are cut; all else
 * must be within the limits above (HT_ERR_INTERNAL otherwise). A `body` is appended as it is: its
 * caller has encoded it. After an error `out` is unchanged. */
HT_MUST_CHECK
struct ht_err *rec_encode(struct bytes_out *out, const struct rec *rec);

/* Appends one node to the body of a REC_NODES under construction. */
HT_MUST_CHECK
struct ht_err *rec_node_append(struct bytes_out *body, const struct rec_node *node);

/* Decodes the record at the front of `in` and moves past it. Views in `ret` live as long as the
 * bytes behind `in`. HT_ERR_FORMAT if malformed: `in` is then unchanged, `ret` undefined. In NODES
 * only first_id and count are checked (ids fit 32 bits, count is bounded by the body). */
HT_MUST_CHECK
struct ht_err *rec_decode(struct bytes *in, struct rec *ret);

/* Takes the next node of nodes.body. HT_ERR_FORMAT if it is malformed; `body` is then unchanged. */
HT_MUST_CHECK
struct ht_err *rec_node_next(struct bytes *body, struct rec_node *ret);
