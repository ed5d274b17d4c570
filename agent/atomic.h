/* SPDX-License-Identifier: Apache-2.0
 *
 * Named memory orders. Words of the shared area are read by the daemon, by other threads and by
 * signal handlers at any instruction; on x86-64 the loads and stores here are plain moves, which
 * the compiler may not split; fetch_add, exchange, fetch_or and compare_swap are locked
 * instructions.
 */
#pragma once

#define load_relaxed(p)	    __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define fetch_add(p, v)	    __atomic_fetch_add(p, v, __ATOMIC_RELAXED)
#define exchange(p, v)	    __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define fetch_or(p, v)	    __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST)
#define compare_swap(p, want, v)                                                                   \
	__atomic_compare_exchange_n(p, want, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Put it between two stores whose order a signal handler of the same thread must see. */
#define signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Adds to a counter that only one thread writes: no lock prefix. */
#define count_add(p, v) store_relaxed(p, load_relaxed(p) + (v))
