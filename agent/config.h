/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's access to abi_config and abi_control, found through a thunk; and the check that this
 * process is not a forked child of the target.
 */
#pragma once

#include "agent/atomic.h"
#include "format/abi_control.h"
#include "format/abi_thunk.h"

static inline const struct abi_config *config_of(const struct abi_thunk *self)
{
	return (const struct abi_config *)self->config;
}

/* Address of byte `offset` of the image (abi_control.h). */
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

/* False in a forked child: the slots belong to its parent, and the child must not write them. */
static inline bool config_alive(const struct abi_config *config)
{
	return load_relaxed(&config_state(config)->alive) != ABI_FORKED;
}

/* Whether calls are recorded. False in a forked child, and if the agent is mute. */
static inline bool config_recording(const struct abi_config *config)
{
	return load_relaxed(&config_state(config)->alive) == ABI_ALIVE;
}

/* Which new blocks are recorded: enum abi_paused. Frees are recorded in any case. */
static inline uint64_t config_paused(const struct abi_config *config)
{
	return load_relaxed(&config->paused);
}

/* Stops recording in this process. The caller must store the reason in abi_control first: from now
 * on no slot counts lost calls, so the daemon needs the reason. */
static inline void config_mute(const struct abi_config *config)
{
	uint64_t alive = ABI_ALIVE;
	compare_swap(&config_state(config)->alive, &alive, ABI_MUTE);
}

/* Stops recording because the stream has no reader and will not get one. */
static inline void config_give_up(const struct abi_config *config)
{
	(void)exchange(&config_control(config)->given_up, ABI_GIVEN_UP);
	config_mute(config);
}

/* Notes that some or all threads of the target are forbidden to do `what` (enum abi_forbidden) from
 * now on. */
static inline void config_forbid(const struct abi_config *config, uint64_t what)
{
	fetch_or(&config_control(config)->forbidden, what);
	if (what & ABI_FORBIDDEN_CLOCK)
		config_mute(config);
}
