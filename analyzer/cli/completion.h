/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the data of bash completion from the tables of commands and options: assignments to the
 * arrays that attach/heaptap.bash declares and reads.
 */
#pragma once

#include <stdio.h>

#include "analyzer/cli/option.h"

/* Writes for each command that is not hidden:
 *
 *      _heaptap_options[COMMAND]='-n --limit ...'
 *
 *      _heaptap_values['COMMAND --OPTION']='WORDS', for each form of an option that has a value
 *
 *      _heaptap_operands[COMMAND]='WORDS', a word for each operand; not for a command without
 *
 * WORDS are the choices of the value, or one of @any, @file, @directory and @trace (a file *.htap).
 */
void completion_print(FILE *out, const struct option_table *table);
