/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze version, and what the build makes of the tables of commands and options.
 */
#include "analyzer/cmd.h"

#ifndef HEAPTAP_VERSION
#define HEAPTAP_VERSION "unknown"
#endif

struct ht_err *cmd_version(const struct option_values *values)
{
	(void)values;
	printf("heaptap-analyze %s\n", HEAPTAP_VERSION);
	return NULL;
}
