/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs first on a busy machine. While a thread of the target is held or waited for, each turn
 * that we wait for a processor is one that it waits too. Best effort: without the privilege the
 * process only gets short, early turns. Never in real time: we poll, and the threads that are to
 * come to a stop have to run.
 */
#pragma once

/* Before what other programs compute. Returns what priority_restore takes. */
int priority_raise(void);
void priority_restore(int before);
