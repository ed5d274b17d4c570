/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of heaptap-analyze: names, values, and the groups by which commands accept them.
 * analyzer/commands.c has the commands and their own options.
 */
#pragma once

#include "analyzer/cli/option.h"

extern const struct option_row command_options[OPTION_COUNT];
