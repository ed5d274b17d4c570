/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap verify`: is anything of heaptap in this process? Looks at the process as it is now and
 * believes no record of any capture. Reads only, stops nothing.
 */
#pragma once

#include "attach/got/slots.h"
#include "attach/memory/proc_map.h"
#include "attach/proc/proc.h"

enum verify_part {
	VERIFY_MAPPINGS,    /* mappings of a memfd of heaptap's */
	VERIFY_DESCRIPTORS, /* such a memfd, or a socket that leads to a heaptap */
	VERIFY_SLOTS,	    /* allocator slots that lead to the agent, or to unmapped memory */
	VERIFY_CODE,	    /* bytes of a stub behind a module's code, or an entry hook */
	VERIFY_THREADS,	    /* threads that heaptap traces, or that sleep inside its code */
	VERIFY_PARTS,
};

enum verify_state {
	VERIFY_CLEAN,  /* nothing of heaptap is there */
	VERIFY_TAPPED, /* something of heaptap is there, and a heaptap or its guardian is at work */
	VERIFY_ABANDONED, /* an agent is mapped, and no heaptap looks after it */
	VERIFY_TOMBSTONE, /* the jump page is mapped, no agent */
	VERIFY_REMAINS,	  /* something else of heaptap is there */
};

#define VERIFY_TEXT_BYTES 240u

struct verify_finding {
	bool ours;		       /* something of heaptap was found */
	char text[VERIFY_TEXT_BYTES];  /* what was compared, or what was found */
	char other[VERIFY_TEXT_BYTES]; /* a difference that is not heaptap's; "": none */
};

struct verify_report {
	enum verify_state state;
	char comm[64];
	unsigned threads;
	pid_t daemon_pid; /* from the memfd's name; 0: no memfd */
	struct verify_finding part[VERIFY_PARTS];
};

/* Requires proc_open_mem. A worker process reads the files, with a deadline of a minute.
 * HT_ERR_TARGET_GONE if the process has ended or runs another program: `ret` means nothing then. */
HT_MUST_CHECK
struct ht_err *verify_run(const struct proc *proc, struct verify_report *ret);

/* The part of verify_run that compares code with the files it is mapped from. */
HT_MUST_CHECK
struct ht_err *verify_code(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *modules, struct verify_finding *ret);
