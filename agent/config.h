/* SPDX-License-Identifier: Apache-2.0
 *
 * What the daemon tells the agent, found through a thunk, and whether it was told to this process.
 */
#pragma once

#include "agent/atomic.h"
#include "format/abi_control.h"
#include "format/abi_thunk.h"

static inline const struct abi_config *config_of(const struct abi_thunk *self)
{
	return (const struct abi_config *)self->config;
}

/* False in a forked child: its slots are its parent's, and must not be written. */
static inline bool config_alive(const struct abi_config *config)
{
	return load_relaxed(&((const struct abi_state *)config->state)->alive) != ABI_FORKED;
}

/* Whether calls are recorded: not in a forked child, nor where the clock may not be read. */
static inline bool config_recording(const struct abi_config *config)
{
	return load_relaxed(&((const struct abi_state *)config->state)->alive) == ABI_ALIVE;
}

/* Nothing more is recorded in this process. Why stands in abi_control before it: calls that are not
 * recorded are in no slot's books, and the daemon is to know. */
static inline void config_mute(const struct abi_config *config)
{
	uint64_t alive = ABI_ALIVE;
	compare_swap(&((struct abi_state *)config->state)->alive, &alive, ABI_MUTE);
}

/* Nobody reads what is recorded, nor will. */
static inline void config_give_up(const struct abi_config *config)
{
	(void)exchange(&((struct abi_control *)config->control)->given_up, ABI_GIVEN_UP);
	config_mute(config);
}

/* The target's threads may not do this any more, or not all of them: enum abi_forbidden. */
static inline void config_forbid(const struct abi_config *config, uint64_t what)
{
	fetch_or(&((struct abi_control *)config->control)->forbidden, what);
	if (what & ABI_FORBIDDEN_CLOCK)
		config_mute(config);
}
