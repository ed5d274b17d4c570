/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server may do when its files are open: as root, no more than the user that called sudo.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

/* As root becomes the user of SUDO_UID and SUDO_GID, or nobody, without other groups. Gains no
 * rights by any program from now on. Cannot be undone. */
HT_MUST_CHECK
struct ht_err *privilege_drop(void);
