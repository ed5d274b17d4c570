/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands and options of heaptap: parsing (options.c), help and bash completion (help.c) read
 * this table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum command {
	COMMAND_ATTACH,
	COMMAND_RUN,
	COMMAND_DOCTOR,
	COMMAND_VERIFY,
	COMMAND_RECOVER,
	COMMAND_CLEANUP,
	COMMAND_FIND,
	COMMAND_STATUS, /* COMMAND_STATUS to COMMAND_SNAPSHOT send requests to running captures */
	COMMAND_LIST,
	COMMAND_STOP,
	COMMAND_PAUSE,
	COMMAND_RESUME,
	COMMAND_MARK,
	COMMAND_SNAPSHOT,
	COMMAND_VERSION,
	COMMAND_HELP,
	COMMAND_COMPLETION, /* prints the data of bash completion; the build runs it */
	COMMAND_ANALYZE,    /* all commands of heaptap-analyze: passes argv on unchanged */
};

enum option_id {
	OPTION_PID = 'p',
	OPTION_DURATION = 'd',
	OPTION_OUTPUT = 'o',
	OPTION_BACKGROUND = 'b',
	OPTION_FORCE = 'f',
	OPTION_QUIET = 'q',
	OPTION_VERBOSE = 'v',
	OPTION_HELP = 'h',
	OPTION_JSON = 256,
	OPTION_LOSSLESS,
	OPTION_UNWIND,
	OPTION_SYMBOLIZE,
	OPTION_NO_CACHE,
	OPTION_HOOK,
	OPTION_ALLOC_FN,
	OPTION_SAMPLE,
	OPTION_CULL,
	OPTION_MMAP,
	OPTION_SETTLE,
	OPTION_MAX_OVERHEAD,
	OPTION_FOLLOW_FORKS,
	OPTION_STRICT,
	OPTION_LINGER,
	OPTION_WAIT,
	OPTION_NAME,
	OPTION_UNIT,
	OPTION_CONTAINER,
	OPTION_WAIT_FOR,
	OPTION_METRICS,
	OPTION_MARK_LOG,
	OPTION_HTML,
	OPTION_DELAY,
	OPTION_EVERY,
	OPTION_COUNT,
	OPTION_KEEP,
	OPTION_TRIGGER_RSS,
	OPTION_TRIGGER_GROWTH,
	OPTION_UNTIL_RSS,
	OPTION_UNTIL_GROWTH,
	OPTION_MAX_SIZE,
	OPTION_ON_FULL,
	OPTION_EXEC,
	OPTION_PUSH,
	OPTION_VERSION,
};

struct option_row {
	enum option_id id;
	char letter; /* of the short form; 0: none */
	const char *name;
	const char *argument; /* name of the value in help; NULL: a flag; "[=X]": may be left out */
	const char *words;    /* words that the value can be, separated by blanks; NULL: any */
	const char *help;     /* with newlines that keep each line within 80 columns */
	unsigned commands;    /* the commands that have the option: bits OPTION_IN(command) */
};

struct command_row {
	const char *name;
	enum command command;
	const char *usage;   /* what follows the name */
	const char *help;    /* one line; NULL: not for users */
	const char *example; /* or NULL */
};

#define OPTION_IN(command) (1u << (command))
#define OPTION_IN_PROCESS                                                                          \
	(OPTION_IN(COMMAND_ATTACH) | OPTION_IN(COMMAND_DOCTOR) | OPTION_IN(COMMAND_VERIFY) |       \
		OPTION_IN(COMMAND_RECOVER) | OPTION_IN(COMMAND_CLEANUP) | OPTION_IN(COMMAND_FIND))
/* Commands that send a request to a running capture. */
#define OPTION_IN_STEER                                                                            \
	(OPTION_IN(COMMAND_STATUS) | OPTION_IN(COMMAND_STOP) | OPTION_IN(COMMAND_PAUSE) |          \
		OPTION_IN(COMMAND_RESUME) | OPTION_IN(COMMAND_MARK) | OPTION_IN(COMMAND_SNAPSHOT))
#define OPTION_IN_ALL                                                                              \
	(OPTION_IN_PROCESS | OPTION_IN(COMMAND_RUN) | OPTION_IN_STEER | OPTION_IN(COMMAND_LIST))

extern const struct option_row option_table[];
extern const size_t option_table_row_count;
extern const struct command_row option_table_commands[];
extern const size_t option_table_command_count;

bool option_needs_value(const struct option_row *row);

/* The row of a command by its name, or NULL. */
const struct command_row *option_table_find(const char *name);
