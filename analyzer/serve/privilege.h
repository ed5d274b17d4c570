/* SPDX-License-Identifier: Apache-2.0
 *
 * Drops root rights when the server's files are open: it continues as the user that called sudo.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* If run as root, becomes SUDO_UID and SUDO_GID, or the user "nobody", without other groups. Sets
 * no_new_privs. Irrevocable. */
HT_MUST_CHECK
struct ht_err *privilege_drop(void);
