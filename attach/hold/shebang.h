/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter that a script names in its first line, as the kernel reads it.
 */
#pragma once

#include "format/base.h"

#define SHEBANG_BYTES 256u /* of the line: the kernel's BINPRM_BUF_SIZE */

/* `ret` becomes the interpreter of the file `path`; "": the file is no such script. False: the file
 * cannot be read. */
bool shebang_read(const char *path, char ret[SHEBANG_BYTES]);
