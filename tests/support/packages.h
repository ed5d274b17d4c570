/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports read by programs that only npm has: speedscope's schema, Firefox Profiler's command line.
 */
#pragma once

/* `HEAPTAP_NODE_MODULES` names a directory with the packages speedscope, ajv, node (24 or later)
 * and
 * @firefox-devtools/profiler-cli. Without it the function prints that it skips. */
void packages_check(const char *trace);
