/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks exports with programs that only npm distributes: speedscope's schema, and the command line
 * of Firefox Profiler.
 */
#pragma once

/* `HEAPTAP_NODE_MODULES` names a directory with the packages speedscope, ajv, node (24 or later)
 * and
 * @firefox-devtools/profiler-cli. Without it the function prints that it skips. */
void packages_check(const char *trace);
