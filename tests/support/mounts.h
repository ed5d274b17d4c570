/* SPDX-License-Identifier: Apache-2.0
 *
 * Mounts that only this process and its children see.
 */
#pragma once

#include <stdbool.h>

/* Moves this process to a new mount namespace, as root or with a new user namespace. False: not
 * allowed on this machine. */
bool mounts_unshare(void);
/* Like mounts_unshare, and mounts a tmpfs with `options` at `directory`. */
bool mounts_small(const char *directory, const char *options);
