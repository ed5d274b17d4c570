/* SPDX-License-Identifier: Apache-2.0
 *
 * Basic types and macros of all parts. Freestanding: the agent includes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address in the target. Never a pointer: dereferencing one in the daemon must not compile. */
typedef uint64_t raddr_t;

#define HT_MUST_CHECK	__attribute__((warn_unused_result))
#define HT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define HT_HIDDEN	__attribute__((visibility("hidden")))
#define HT_CLEANUP(fn)	__attribute__((cleanup(fn)))
#define HT_UNUSED	__attribute__((unused))
#define HT_NOINLINE	__attribute__((noinline))

#define HT_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ht_likely(x)	 __builtin_expect(!!(x), 1)
#define ht_unlikely(x)	 __builtin_expect(!!(x), 0)

#define HT_PAGE_BYTES 4096u /* x86-64 base page */

static inline uint64_t ht_align_up(uint64_t value, uint64_t power_of_two)
{
	return (value + power_of_two - 1) & ~(power_of_two - 1);
}

static inline uint64_t ht_align_down(uint64_t value, uint64_t power_of_two)
{
	return value & ~(power_of_two - 1);
}

/* a + b, at most UINT64_MAX. */
static inline uint64_t ht_plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
