/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets that stub_code.S and stub.c agree on; stub.c checks them against its structs.
 */
#pragma once

#define STUB_REG(n)   ((n)*8) /* rax rbx rcx rdx rsi rdi rbp r8 .. r15 */
#define STUB_RIP      120
#define STUB_FLAGS_AH 128 /* SF ZF AF PF CF as sahf takes them */
#define STUB_FLAG_OF  136
#define STUB_FLAG_DF  144
#define STUB_CONTROL  152
#define STUB_LEASE    160
#define STUB_MASK_ALL 168
#define STUB_MASK_OWN 176
#define STUB_NO_MASK  184
#define STUB_HOLD     192 /* struct timespec */
#define STUB_PAIR     208 /* address of abi_control.stub_fds[2], for socketpair's result */
#define STUB_SPIN     216 /* ns to spin; STUB_NAP: us to sleep; 32 bits each */
#define STUB_NAP      220
#define STUB_CALLS    224
/* The offset of rbp from the data's start: offsets from there fit one byte. */
#define STUB_BASE 128

/* A call. It has only the fields that the stub's calls need, as there is little room for a stub. */
#define CALL_ARG(n)	((n)*8) /* the first three */
#define CALL_ARG3	24	/* signed; with STUB_SAVE_PAIR: STUB_PAIR */
#define CALL_ARG5	28	/* the sixth; fifth: -1, or the saved descriptor (STUB_ARG4_FD) */
#define CALL_NR		32
#define CALL_FLAGS	34
#define CALL_UNDO	36
#define STUB_CALL_BYTES 40

/* CALL_FLAGS */
#define STUB_ARG0_FD	0x001 /* first argument: the saved descriptor */
#define STUB_ARG4_FD	0x002 /* fifth argument: the same */
#define STUB_ARG0_HIGH	0x004 /* first argument: the second saved descriptor */
#define STUB_ARG0_LEFT	0x008 /* first argument: left end of the saved socket pair */
#define STUB_ARG0_RIGHT 0x010
#define STUB_SAVE_FD	0x020 /* save the result as the descriptor, and mark its file */
#define STUB_SAVE_HIGH	0x040
#define STUB_SAVE_PAIR	0x080 /* socketpair: save and mark its two descriptors, at STUB_PAIR */
#define STUB_MAY_FAIL	0x100
/* Make the call only if the descriptor in its first argument has the mark; else the call counts as
 * failed. */
#define STUB_IF_MARKED 0x200
/* The call maps a near area, which is unmapped if a later call fails. The first such call has the
 * number STUB_AREAS, and the others follow it. */
#define STUB_IS_AREA 0x400
#define STUB_AREAS   3

/* CALL_NR at the end of a list */
#define STUB_END_SETUP -1 /* handshake: "ready", then wait for "taken" */
#define STUB_END_TAKEN -2 /* say "done" */
#define STUB_END_PLAIN -3 /* go back */

/* Words of struct abi_control, from its start */
#define STUB_TAKEN_OFF	(8 + 8 + 8 + 8 + 4 * 8)
#define STUB_FDS_OFF	(STUB_TAKEN_OFF + 8)
#define STUB_STATUS_OFF (STUB_FDS_OFF + 16)
#define STUB_TIME_OFF	(STUB_STATUS_OFF + 8)
#define STUB_TSC_OFF	(STUB_TIME_OFF + 16)

/* abi_control.stub_status and abi_control.taken */
#define STUB_RUNNING 0
#define STUB_READY   1
#define STUB_DONE    2
#define STUB_TAKEN   1
#define STUB_EXPIRED 2

/* The mark of a file of heaptap's: the F_SETSIG value of its open file description. Without O_ASYNC
 * the kernel does not use the value, and F_GETSIG needs no memory. */
#define STUB_MARK 63

#define STUB_SYS_MUNMAP	       11
#define STUB_SYS_SELECT	       23
#define STUB_SYS_SCHED_YIELD   24
#define STUB_SYS_FCNTL	       72
#define STUB_F_SETSIG	       10
#define STUB_F_GETSIG	       11
#define STUB_SYS_PRCTL	       157
#define STUB_PR_GET_TSC	       25
#define STUB_SYS_CLOCK_GETTIME 228
#define STUB_CLOCK_MONOTONIC   1
