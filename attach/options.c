/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/naming.h"
#include "format/quantity.h"
#include "format/closest.h"

#define NS_PER_S  1000000000ull
#define LINGER_NS (30 * NS_PER_S)

static const struct {
	const char *name;
	enum command command;
	const char *help;
} commands[] = {
	{"attach", COMMAND_ATTACH, "record the allocations of a running process, then leave it"},
	{"run", COMMAND_RUN, "start a command and record it from its first allocation to its end"},
	{"doctor", COMMAND_DOCTOR, "print what attach would do to a process; touch nothing"},
	{"verify", COMMAND_VERIFY, "check whether anything of heaptap is in a process"},
	{"recover", COMMAND_RECOVER, "remove what a killed heaptap left in a process"},
	{"cleanup", COMMAND_CLEANUP, "remove the page that a capture had to leave"},
	{"report", COMMAND_ANALYZE,
		"print totals and call chains of a trace (heaptap FILE is the same)"},
	{"export", COMMAND_ANALYZE, "write a trace in another tool's format"},
	{"info", COMMAND_ANALYZE, "print what a trace holds"},
	{"dump", COMMAND_ANALYZE, "print each record of a trace"},
	{"symbols", COMMAND_ANALYZE, "print names for the addresses of a trace"},
	{"version", COMMAND_VERSION, "print the version"},
	{"help", COMMAND_HELP, "print this"},
};

enum option_id {
	OPTION_PID = 'p',
	OPTION_DURATION = 'd',
	OPTION_OUTPUT = 'o',
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
	OPTION_MMAP,
	OPTION_FOLLOW_FORKS,
	OPTION_STRICT,
	OPTION_LINGER,
	OPTION_VERSION,
};

#define IN(command) (1u << (command))
#define IN_CAPTURE  (IN(COMMAND_ATTACH) | IN(COMMAND_RUN))
#define IN_SURVEY   (IN_CAPTURE | IN(COMMAND_DOCTOR))
#define IN_PROCESS                                                                                 \
	(IN(COMMAND_ATTACH) | IN(COMMAND_DOCTOR) | IN(COMMAND_VERIFY) | IN(COMMAND_RECOVER) |      \
		IN(COMMAND_CLEANUP))
#define IN_ALL (IN_PROCESS | IN(COMMAND_RUN))

static const struct option_row {
	enum option_id id;
	char letter;
	const char *name, *argument, *help;
	unsigned commands;
} rows[] = {
	{OPTION_PID, 'p', "pid", "PID", "the process", IN_PROCESS},
	{OPTION_DURATION, 'd', "duration", "TIME",
		"time to record: 0.5s 30s 5m 1.5h (default: until Ctrl-C, or the end)", IN_CAPTURE},
	{OPTION_OUTPUT, 'o', "output", "FILE",
		"the trace; - is stdout (default: heaptap.%c.%p.%t.htap)", IN_CAPTURE},
	{OPTION_FORCE, 'f', "force", NULL,
		"replace FILE; record a process that profiles its own heap", IN_CAPTURE},
	{OPTION_QUIET, 'q', "quiet", NULL, "print errors only", IN_ALL},
	{OPTION_VERBOSE, 'v', "verbose", NULL, "also print each check, times and counts",
		IN_SURVEY},
	{OPTION_JSON, 0, "json", NULL, "print the result as one JSON object", IN_ALL},
	{OPTION_LOSSLESS, 0, "lossless", NULL,
		"make the process wait when the disk is slow, instead of losing events",
		IN_CAPTURE},
	{OPTION_HOOK, 0, "hook", "WAY",
		"linked-in allocators: slot (default), entry, auto (entry where needed)",
		IN_CAPTURE},
	{OPTION_ALLOC_FN, 0, "alloc-fn", "NAME=KIND",
		"NAME is the program's own malloc, free, ... (KIND); repeatable", IN_SURVEY},
	{OPTION_SAMPLE, 0, "sample", "BYTES",
		"record a sample: one allocation in BYTES bytes, at random: 64k 512K", IN_CAPTURE},
	{OPTION_MMAP, 0, "mmap", NULL, "also record mmap, munmap, mremap, mprotect and madvise",
		IN_CAPTURE},
	{OPTION_UNWIND, 0, "unwind", "full",
		"walk every stack from the start: slower, for comparison", IN_CAPTURE},
	{OPTION_SYMBOLIZE, 0, "symbolize", "later", "do not store names in the trace", IN_CAPTURE},
	{OPTION_NO_CACHE, 0, "no-cache", NULL, "do not use or keep unwind tables on disk",
		IN_CAPTURE},
	{OPTION_STRICT, 0, "strict", NULL, "exit status 6 also if only one harmless page is left",
		IN_CAPTURE},
	{OPTION_LINGER, 0, "linger", "TIME",
		"how long the guardian tries to remove such a page (default: 30s; 0: never)",
		IN_CAPTURE},
	{OPTION_FOLLOW_FORKS, 0, "follow-forks", NULL,
		"also record child processes: a trace for each", IN(COMMAND_RUN)},
	{OPTION_VERSION, 0, "version", NULL, "print the version", IN_ALL},
	{OPTION_HELP, 'h', "help", NULL, "print this", IN_ALL},
};

static void print_rows(unsigned which)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(rows); i++) {
		char letter[4] = "   ", name[32];
		if (rows[i].commands != which)
			continue;
		if (rows[i].letter)
			snprintf(letter, sizeof(letter), "-%c,", rows[i].letter);
		snprintf(name, sizeof(name), "--%s%s%s", rows[i].name, rows[i].argument ? " " : "",
			rows[i].argument ? rows[i].argument : "");
		printf("  %s %-18s %s\n", letter, name, rows[i].help);
	}
}

void options_print_help(void)
{
	printf("usage: heaptap attach -p PID [-d TIME] [-o FILE]     (heaptap -p PID is the same)\n"
	       "       heaptap run [-d TIME] [-o FILE] CMD [ARG...]\n"
	       "       heaptap report FILE                           (heaptap FILE is the same)\n"
	       "\ncommands:\n");
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].help);
	printf("\noptions of attach, run (without -p), doctor, verify, recover and cleanup:\n");
	print_rows(IN_PROCESS);
	print_rows(IN_ALL);
	printf("\noptions of attach, run and doctor:\n");
	print_rows(IN_SURVEY);
	printf("\noptions of attach and run:\n");
	print_rows(IN_CAPTURE);
	printf("\noption of run:\n");
	print_rows(IN(COMMAND_RUN));
	printf("\nexit status: 0 done, 1 internal or I/O error, 2 usage, 3 refused: the process "
	       "was not touched,\n4 no permission, 5 the process ended: the trace is valid, 6 "
	       "detach incomplete: what remains is\nlisted (attach: 0 if that is one harmless "
	       "page, unless --strict), 7 the trace is incomplete,\n9 not a readable trace\n"
	       "run: the status of the command; 1 to 4: it did not run, 126 cannot be executed, "
	       "127 not found\n");
}

static bool parse_pid(const char *text, pid_t *ret)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno || *end || end == text || value <= 0 || value > INT32_MAX)
		return false;
	*ret = (pid_t)value;
	return true;
}

bool options_duration(const char *text, uint64_t *ret_ns)
{
	return !quantity_duration(text, ret_ns);
}

bool options_size(const char *text, uint64_t *ret_bytes)
{
	return !quantity_size(text, ret_bytes);
}

static struct ht_err *usage(const char *why, const char *word)
{
	return ht_err_new(HT_ERR_USAGE, "%s: %s; see heaptap --help", word, why);
}

static struct ht_err *not_a(const char *what, const char *word, const char *problem)
{
	return ht_err_new(HT_ERR_USAGE, "%s: not a %s: %s", word, what, problem);
}

static struct ht_err *apply_duration(const char *value, uint64_t *ret_ns)
{
	const char *problem = quantity_duration(value, ret_ns);
	return problem ? not_a("duration", value, problem) : NULL;
}

static struct ht_err *apply_size(const char *value, uint64_t *ret_bytes)
{
	const char *problem = quantity_size(value, ret_bytes);
	return problem ? not_a("size", value, problem) : NULL;
}

static struct ht_err *no_such_option(const char *word)
{
	char name[64];
	struct closest closest = {.word = name};
	if (strncmp(word, "--", 2) != 0)
		return usage("no such option", word);
	snprintf(name, sizeof(name), "%s", word + 2);
	name[strcspn(name, "=")] = '\0';
	for (size_t i = 0; i < HT_ARRAY_SIZE(rows); i++)
		closest_try(&closest, rows[i].name);
	if (!closest.match)
		return usage("no such option", word);
	return ht_err_new(
		HT_ERR_USAGE, "%s: no such option; did you mean --%s?", word, closest.match);
}

static struct ht_err *apply_hook(struct options *options, const char *value)
{
	static const char *const names[] = {[OPTIONS_HOOK_SLOT] = "slot",
		[OPTIONS_HOOK_AUTO] = "auto",
		[OPTIONS_HOOK_ENTRY] = "entry"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) != 0)
			continue;
		options->hook = (enum options_hook)i;
		return NULL;
	}
	return usage("--hook takes slot, auto or entry", value);
}

static struct ht_err *apply(
	struct options *options, const struct option_row *row, const char *value)
{
	switch (row->id) {
	case OPTION_PID:
		if (!parse_pid(value, &options->pid))
			return usage("not a process number", value);
		break;
	case OPTION_DURATION:
		return apply_duration(value, &options->duration_ns);
	case OPTION_OUTPUT:
		if (!*value)
			return usage("the output needs a name", "-o");
		free(options->output);
		options->output = strdup(value);
		if (!options->output)
			return ht_err_new(HT_ERR_NOMEM, "no memory for the arguments");
		return naming_check(value);
	case OPTION_FORCE:
		options->replace = true;
		break;
	case OPTION_QUIET:
		options->quiet = true;
		break;
	case OPTION_VERBOSE:
		options->verbose = true;
		break;
	case OPTION_JSON:
		options->json = true;
		break;
	case OPTION_LOSSLESS:
		options->lossless = true;
		break;
	case OPTION_HOOK:
		return apply_hook(options, value);
	case OPTION_ALLOC_FN:
		return given_add(&options->given, value);
	case OPTION_SAMPLE:
		return apply_size(value, &options->sample_bytes);
	case OPTION_MMAP:
		options->mappings = true;
		break;
	case OPTION_STRICT:
		options->strict = true;
		break;
	case OPTION_LINGER:
		options->linger_ns = 0;
		return strcmp(value, "0") == 0 ? NULL : apply_duration(value, &options->linger_ns);
	case OPTION_FOLLOW_FORKS:
		options->follow_forks = true;
		break;
	case OPTION_UNWIND:
		if (strcmp(value, "full") != 0)
			return usage("--unwind takes only the word full", value);
		options->full_unwind = true;
		break;
	case OPTION_SYMBOLIZE:
		if (strcmp(value, "later") != 0)
			return usage("--symbolize takes only the word later", value);
		options->symbolize_later = true;
		break;
	case OPTION_NO_CACHE:
		options->no_cache = true;
		break;
	case OPTION_VERSION:
		options->command = COMMAND_VERSION;
		break;
	case OPTION_HELP:
		options->command = COMMAND_HELP;
		break;
	}
	return NULL;
}

/* Finds the option of `word` ("-d", "-d5s", "--duration", "--duration=5s"); `ret_value` points at
 * an argument inside the word, or is NULL. */
static const struct option_row *find_row(const char *word, const char **ret_value)
{
	*ret_value = NULL;
	for (size_t i = 0; i < HT_ARRAY_SIZE(rows); i++) {
		const struct option_row *row = &rows[i];
		if (word[1] != '-') {
			if (row->letter != word[1])
				continue;
			if (word[2] != '\0')
				*ret_value = word + 2;
			return row;
		}
		size_t length = strlen(row->name);
		if (strncmp(word + 2, row->name, length) != 0)
			continue;
		if (word[2 + length] == '=')
			*ret_value = word + 3 + length;
		else if (word[2 + length] != '\0')
			continue;
		return row;
	}
	return NULL;
}

/* What is still missing, or does not go together. */
static struct ht_err *check(const struct options *options)
{
	bool to_stdout = options->output && strcmp(options->output, "-") == 0;

	if (options->command == COMMAND_RUN) {
		if (!options->words || !options->words[0])
			return ht_err_new(
				HT_ERR_USAGE, "the command is missing: heaptap run -- CMD ARG...");
		return to_stdout ? usage("standard output belongs to the command; name a file",
					   "-o -")
				 : NULL;
	}
	return options->pid ? NULL : ht_err_new(HT_ERR_USAGE, "the process is missing: -p PID");
}

/* Does the command of run begin here? After --, or with the first word that is no option. */
static bool begins_command(const struct options *options, const char *word)
{
	return options->command == COMMAND_RUN && (word[0] != '-' || strcmp(word, "--") == 0);
}

static struct ht_err *parse_rest(int argc, char **argv, int at, struct options *options)
{
	for (; at < argc; at++) {
		const char *value;
		if (begins_command(options, argv[at])) {
			options->words = argv + at + (argv[at][0] == '-');
			break;
		}
		if (argv[at][0] != '-' || argv[at][1] == '\0')
			return usage(isdigit((unsigned char)argv[at][0])
					     ? "not expected here; a process is named with -p"
					     : "not expected here",
				argv[at]);
		const struct option_row *row = find_row(argv[at], &value);
		if (!row)
			return no_such_option(argv[at]);
		if (!(row->commands & IN(options->command)))
			return usage(row->id == OPTION_PID ? "run starts the process itself"
				     : row->id == OPTION_FOLLOW_FORKS ? "only run has this option"
				     : row->commands & IN(COMMAND_DOCTOR)
					     ? "only attach, run and doctor have this option"
					     : "only attach and run have this option",
				argv[at]);
		if (!row->argument && value)
			return usage("takes no value", argv[at]);
		if (row->argument && !value) {
			if (at + 1 == argc)
				return usage("needs a value", argv[at]);
			value = argv[++at];
		}
		struct ht_err *err = apply(options, row, value);
		if (err)
			return err;
		if (options->command == COMMAND_HELP || options->command == COMMAND_VERSION)
			return NULL;
	}
	return check(options);
}

/* A word that is neither a command nor a file, and begins like none. */
static struct ht_err *no_such_command(const char *word)
{
	struct closest closest = {.word = word};
	for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++) {
		if (strcmp(word, commands[i].name) == 0)
			return NULL;
		closest_try(&closest, commands[i].name);
	}
	if (strcmp(word, "-") == 0 || strpbrk(word, "./") || access(word, F_OK) == 0)
		return NULL;
	if (closest.match)
		return ht_err_new(HT_ERR_USAGE,
			"%s is neither a command nor a file; did you mean heaptap %s?", word,
			closest.match);
	return usage("neither a command nor a file", word);
}

struct ht_err *options_parse(int argc, char **argv, struct options *ret)
{
	struct options options = {.command = COMMAND_HELP, .linger_ns = LINGER_NS};
	int rest = 1;

	if (argc < 2)
		return ht_err_new(
			HT_ERR_USAGE, "no command given; heaptap --help lists the commands");
	if (argv[1][0] == '-' && argv[1][1] != '\0') {
		options.command = COMMAND_ATTACH;
	} else {
		/* Not a command: the name of a trace. */
		options.command = COMMAND_ANALYZE;
		for (size_t i = 0; i < HT_ARRAY_SIZE(commands); i++)
			if (strcmp(argv[1], commands[i].name) == 0)
				options.command = commands[i].command;
		rest = 2;
	}
	struct ht_err *err = options.command == COMMAND_ANALYZE ? no_such_command(argv[1]) : NULL;
	if (!err && IN(options.command) & IN_ALL)
		err = parse_rest(argc, argv, rest, &options);
	if (err)
		options_deinit(&options);
	else
		*ret = options;
	return err;
}

void options_deinit(struct options *options)
{
	free(options->output);
	options->output = NULL;
}
