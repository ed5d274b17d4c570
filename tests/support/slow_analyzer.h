/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of heaptap whose heaptap-analyze does nothing until the test lets it end.
 */
#pragma once

/* run_built("heaptap") is the copy from here on, until slow_analyzer_end. */
void slow_analyzer_begin(void);
void slow_analyzer_end(void);
/* All copies of heaptap-analyze end with status 0, and those that start later at once. */
void slow_analyzer_let_go(void);
