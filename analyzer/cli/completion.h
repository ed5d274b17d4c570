/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the data of bash completion from the tables of commands and options: assignments to the
 * arrays that attach/heaptap.bash declares and reads.
 */
#pragma once

#include <stdio.h>

#include "analyzer/cli/option.h"

/*
 * Writes, for each command that is not hidden: _heaptap_options[COMMAND]='-n --limit ...'
 * _heaptap_values[COMMAND --OPTION]='WORDS', for each form of an option with a value
 * _heaptap_operands[COMMAND]='WORDS', one for each operand; a command without has none WORDS are
 * the choices, or @any, @file, @directory, or @trace (a file *.htap).
 */
void completion_print(FILE *out, const struct option_table *table);
