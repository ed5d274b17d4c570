/* SPDX-License-Identifier: Apache-2.0
 *
 * Mounts that only this process and its children see.
 */
#pragma once

#include <stdbool.h>

/* A mount namespace of our own, as root or by a user namespace; false: not allowed here. */
bool mounts_unshare(void);
/* The same, with a small file system at `directory`; `options` of tmpfs. */
bool mounts_small(const char *directory, const char *options);
