/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of heaptap whose heaptap-analyze does nothing until the test lets it end.
 */
#pragma once

/* Until slow_analyzer_end, run_built("heaptap") is the copy; run_built finds no other file then. */
void slow_analyzer_begin(void);
void slow_analyzer_end(void);
/* All running copies of heaptap-analyze end with status 0; later ones end at once. */
void slow_analyzer_let_go(void);
