/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of heaptap-analyze: what each is called, which commands take it by its groups, and
 * what it takes. analyzer/commands.c has the commands with their own options.
 */
#pragma once

#include "analyzer/cli/option.h"

extern const struct option_row command_options[OPTION_COUNT];
