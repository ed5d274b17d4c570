/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line as two tables, options and commands, and the parser that reads argv by them.
 * Help, man pages and completion (help.h, man.h, completion.h) print the same tables. The tables of
 * heaptap-analyze are in analyzer/command_options.c and analyzer/commands.c.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

#define OPTION_REPEAT_MAX 16u /* times that a repeatable option may be given */

/* Index of a row of the table of options. A list of them ends with OPTION_NONE. */
enum option_id {
	OPTION_NONE,
	OPTION_FROM,
	OPTION_TO,
	OPTION_ALIVE_AT,
	OPTION_THREAD,
	OPTION_MODULE,
	OPTION_FUNCTION,
	OPTION_EXCLUDE,
	OPTION_SUPPRESSIONS,
	OPTION_MIN_SIZE,
	OPTION_MAX_SIZE,
	OPTION_MIN_AGE,
	OPTION_MAX_AGE,
	OPTION_CLASS,
	OPTION_METRIC,
	OPTION_SORT,
	OPTION_LIMIT,
	OPTION_BY,
	OPTION_STACKS,
	OPTION_SHOW_WRAPPERS,
	OPTION_BRIEF,
	OPTION_WIDE,
	OPTION_BYTES,
	OPTION_UTC,
	OPTION_COLOR,
	OPTION_NO_PAGER,
	OPTION_JSON,
	OPTION_CSV,
	OPTION_SYSROOT,
	OPTION_DEBUG_DIR,
	OPTION_PERF_MAP,
	OPTION_SOURCE_DIR,
	OPTION_BOTTOM_UP,
	OPTION_BY_FRAME,
	OPTION_CALLEES,
	OPTION_CALLERS,
	OPTION_LINES,
	OPTION_SVG,
	OPTION_TOP_DOWN,
	OPTION_FORMAT,
	OPTION_OUTPUT,
	OPTION_FORCE,
	OPTION_DIFF,
	OPTION_EMBED_SOURCE,
	OPTION_STATS,
	OPTION_EMIT,
	OPTION_FD,
	OPTION_FILES,
	OPTION_OWN_MAP,
	OPTION_SINCE,
	OPTION_BASELINE,
	OPTION_MAX_GROWTH,
	OPTION_MAX_OUTSTANDING,
	OPTION_MAX_INCREASE,
	OPTION_RESOLVE,
	OPTION_KEEP_SYSTEM,
	OPTION_PORT,
	OPTION_PID,
	OPTION_NAME,
	OPTION_UNIT,
	OPTION_CONTAINER,
	OPTION_BATCH,
	OPTION_DELAY,
	OPTION_TABLES,
	OPTION_ROWS,
	OPTION_ORDER,
	OPTION_FILTER,
	OPTION_JSON_LINES,
	OPTION_ADDRESS,
	OPTION_SERVICE,
	OPTION_HOST,
	OPTION_SPOOL,
	OPTION_SPOOL_MAX,
	OPTION_TIMEOUT,
	OPTION_QUIET,
	OPTION_HELP,
	OPTION_COUNT,
};

/* Groups of options: a bit set. A command accepts all options of its groups. */
enum option_group {
	OPTIONS_QUERY = 1u << 0,  /* select allocations */
	OPTIONS_SHOW = 1u << 1,	  /* how the result is printed */
	OPTIONS_NAMES = 1u << 2,  /* where names and lines come from */
	OPTIONS_ALL = 1u << 3,	  /* every command has these */
	OPTIONS_FILTER = 1u << 4, /* subset of OPTIONS_QUERY that selects time, blocks and stacks */
};
#define OPTION_GROUPS 5u

enum option_kind {
	OPTION_KIND_FLAG, /* no value */
	OPTION_KIND_NUMBER,
	OPTION_KIND_BYTES,    /* as quantity_size */
	OPTION_KIND_DURATION, /* as quantity_duration */
	OPTION_KIND_CHOICE,
	OPTION_KIND_TEXT, /* any other text; the command checks it */
	OPTION_KIND_FILE,
	OPTION_KIND_DIRECTORY,
};

struct option_row {
	/* Without "--". Several rows may share a name if no command accepts two of them. */
	const char *name;
	const char *alias;  /* a second name, or NULL */
	char letter;	    /* of the short form, or 0 */
	bool is_repeatable; /* if false, the last value counts */
	enum option_kind kind;
	const char *value;	    /* name of the value in help: TIME; NULL: a flag */
	const char *const *choices; /* the words of a choice, ended by NULL */
	uint64_t most;		    /* the largest number; 0: UINT64_MAX */
	unsigned groups;	    /* 0: only commands that list the option in `own` accept it */
	const char *help;	    /* one line; choices are added to it */
};

struct option_values;

/* An operand of a command. `name` appears in the usage line ("FILE"), `what` in errors ("trace
 * file"). */
struct option_operand {
	const char *name, *what;
	enum option_kind kind; /* text, file or directory */
	bool is_trace;	       /* a file whose name ends with .htap */
};

#define OPTION_OWN_MAX	    24u
#define OPTION_OPERANDS_MAX 3u
#define OPTION_EXAMPLES_MAX 4u

struct option_command {
	const char *name;
	const char *summary;	 /* one line, begins with a small letter, no full stop */
	const char *description; /* one or two sentences */
	const char *needs;	 /* required options, as shown in the usage line; NULL: none */
	struct option_operand operand[OPTION_OPERANDS_MAX]; /* up to the first without a name */
	unsigned least, most; /* least and most number of operands; if `most` exceeds the number of
				 names, the last name repeats */
	unsigned groups;      /* groups of accepted options */
	enum option_id own[OPTION_OWN_MAX + 1]; /* further options, ended by OPTION_NONE */
	const char *example[OPTION_EXAMPLES_MAX + 1];
	bool is_hidden; /* for scripts and other programs; not in help, man pages and completion */
	struct ht_err *(*run)(const struct option_values *values);
};

struct option_table {
	const struct option_row *option; /* OPTION_COUNT of them, by option_id */
	const struct option_command *command;
	size_t command_count;
	const char *program; /* the name that users type: "heaptap" */
};

/* One option of a command line. */
struct option_value {
	enum option_id id;
	const char *text; /* NULL for a flag; points into argv */
	uint64_t number; /* number, bytes, nanoseconds, or index of the choice; 0 for other kinds */
};

/* A command line. Its texts point into argv; option_values_deinit frees the rest. */
struct option_values {
	const struct option_command *command;
	struct option_value *value; /* in the order of argv */
	size_t count;
	const char **operand;
	size_t operand_count;
	bool wants_help; /* --help is among the options; later words are not read */
};

/* The command of this name, or NULL. */
const struct option_command *option_find_command(
	const struct option_table *table, const char *name);
/* The name of the command that is nearest to the mistyped `name`, without hidden ones; NULL: none
 * is near. */
const char *option_closest_command(const struct option_table *table, const char *name);
/* Whether `command` accepts this option. */
bool option_is_of(
	const struct option_table *table, const struct option_command *command, enum option_id id);

/* Parses the `count` words that follow the command's name. Options and operands may be mixed; "--"
 * ends the options. HT_ERR_USAGE names command, option, reason and remedy. After an error `ret` is
 * empty. */
HT_MUST_CHECK
struct ht_err *option_parse(const struct option_table *table, const struct option_command *command,
	int count, char *const *word, struct option_values *ret);
void option_values_deinit(struct option_values *values);

/* The next value of this option after `after`; `after` NULL: the first. Returns NULL if there are
 * no more. */
const struct option_value *option_next(
	const struct option_values *values, enum option_id id, const struct option_value *after);
bool option_is_given(const struct option_values *values, enum option_id id);
/* The text, and the number, of the option's last value; `otherwise` if the option is not given. */
const char *option_text(
	const struct option_values *values, enum option_id id, const char *otherwise);
uint64_t option_number(const struct option_values *values, enum option_id id, uint64_t otherwise);
