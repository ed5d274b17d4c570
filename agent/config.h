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

/* What lies `offset` bytes from the image's begin on (abi_control.h). */
static inline uint64_t config_at(const struct abi_config *config, uint64_t offset)
{
	return (uint64_t)config - ABI_CONFIG_OFF + offset;
}

static inline uint64_t config_image(const struct abi_config *config)
{
	return config_at(config, 0);
}

static inline struct abi_state *config_state(const struct abi_config *config)
{
	return (struct abi_state *)config_at(config, ABI_STATE_OFF);
}

static inline struct abi_control *config_control(const struct abi_config *config)
{
	return (struct abi_control *)config_at(config, ABI_CONTROL_OFF);
}

static inline struct abi_slot *config_slots(const struct abi_config *config)
{
	return (struct abi_slot *)config_at(config, ABI_SLOTS_OFF);
}

/* False in a forked child: its slots are its parent's, and must not be written. */
static inline bool config_alive(const struct abi_config *config)
{
	return load_relaxed(&config_state(config)->alive) != ABI_FORKED;
}

/* Whether calls are recorded: not in a forked child, nor where the clock may not be read. */
static inline bool config_recording(const struct abi_config *config)
{
	return load_relaxed(&config_state(config)->alive) == ABI_ALIVE;
}

/* Are new blocks to go unrecorded? Ends of blocks are recorded all the same. */
static inline bool config_paused(const struct abi_config *config)
{
	return load_relaxed(&config->paused) != 0;
}

/* Nothing more is recorded in this process. Why stands in abi_control before it: calls that are not
 * recorded are in no slot's books, and the daemon is to know. */
static inline void config_mute(const struct abi_config *config)
{
	uint64_t alive = ABI_ALIVE;
	compare_swap(&config_state(config)->alive, &alive, ABI_MUTE);
}

/* Nobody reads what is recorded, nor will. */
static inline void config_give_up(const struct abi_config *config)
{
	(void)exchange(&config_control(config)->given_up, ABI_GIVEN_UP);
	config_mute(config);
}

/* The target's threads may not do this any more, or not all of them: enum abi_forbidden. */
static inline void config_forbid(const struct abi_config *config, uint64_t what)
{
	fetch_or(&config_control(config)->forbidden, what);
	if (what & ABI_FORBIDDEN_CLOCK)
		config_mute(config);
}
