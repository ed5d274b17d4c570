/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/allocators/given_add.h"
#include "attach/cli/logspec.h"
#include "attach/cli/naming.h"
#include "format/closest.h"
#include "format/control.h"
#include "format/quantity.h"

#define LINGER_NS 30000000000ull
#define PAGE_END  ".html"

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

static struct ht_err *usage(const char *why, const char *word)
{
	return ht_err_new(HT_ERR_USAGE, "%s: %s; see heaptap --help", word, why);
}

/* The error for a value with this problem; NULL: none. */
static struct ht_err *not_a(
	const char *what, const struct option_row *row, const char *word, const char *problem)
{
	return problem ? ht_err_new(HT_ERR_USAGE, "--%s %s: not a %s: %s", row->name, word, what,
				 problem)
		       : NULL;
}

static struct ht_err *apply_duration(
	const struct option_row *row, const char *value, uint64_t *ret_ns)
{
	return not_a("duration", row, value, quantity_duration(value, ret_ns));
}

static struct ht_err *apply_percent(
	const struct option_row *row, const char *value, uint64_t *ret_ppm)
{
	char *end;
	errno = 0;
	const double percent = strtod(value, &end);
	if (errno || end == value || strcmp(end, *end ? "%" : "") != 0 ||
		!isdigit((unsigned char)*value) ||
		strspn(value, "0123456789.") != (size_t)(end - value) ||
		!(percent >= 0.01 && percent <= 100))
		return not_a("share", row, value, "0.01% to 100%, such as 5%");
	*ret_ppm = (uint64_t)(percent * 10000 + 0.5);
	return NULL;
}

static const char *command_name(enum command command)
{
	for (size_t i = 0; i < option_table_command_count; i++)
		if (option_table_commands[i].command == command)
			return option_table_commands[i].name;
	return NULL;
}

static struct ht_err *no_such_option(enum command command, const char *word)
{
	const char *name_of = command_name(command);
	char name[64];
	struct closest closest = {.word = name};
	snprintf(name, sizeof(name), "%s", word + 2);
	name[strcspn(name, "=")] = '\0';
	for (size_t i = 0; i < option_table_row_count && word[1] == '-'; i++)
		closest_try(&closest, option_table[i].name);
	if (!closest.match)
		return ht_err_new(HT_ERR_USAGE, "%s: no such option; see heaptap %s%s--help", word,
			name_of ? name_of : "", name_of ? " " : "");
	return ht_err_new(
		HT_ERR_USAGE, "%s: no such option; did you mean --%s?", word, closest.match);
}

static struct ht_err *apply_hook(struct options *options, const char *value)
{
	static const char *const names[] = {
		[ENTRIES_SLOT] = "slot", [ENTRIES_AUTO] = "auto", [ENTRIES_ALL] = "entry"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) != 0)
			continue;
		options->hook = (enum entries_mode)i;
		return NULL;
	}
	return usage("--hook takes slot, auto or entry", value);
}

static struct ht_err *keep_name(const char *pattern, char **name)
{
	free(*name);
	*name = strdup(pattern);
	return *name ? naming_check(pattern)
		     : ht_err_new(HT_ERR_NOMEM, "no memory for the arguments");
}

static struct ht_err *apply_page(struct options *options, const char *value)
{
	if (!*value)
		return usage("the page needs a name", "--html=");
	if (strcmp(value, "-") == 0)
		return usage("the page is a file; name it", "--html=-");
	return keep_name(value, &options->page);
}

static struct ht_err *check_container(const char *value)
{
	size_t length = strlen(value);
	if (length < FIND_CONTAINER_MIN || length > FIND_CONTAINER_MAX ||
		strspn(value, "0123456789abcdef") != length)
		return usage("--container takes the ID of a container: 4 to 64 of the digits 0-9 "
			     "a-f",
			value);
	return NULL;
}

static struct ht_err *apply_log(struct options *options, const char *value)
{
	if (options->log_count == OPTIONS_LOGS_MAX)
		return usage("--mark-log names more than 8 files", value);
	options->logs[options->log_count++] = value;
	return logspec_check(value);
}

/* attach records each of several processes; for other commands the last -p counts. */
static struct ht_err *apply_pid(struct options *options, const char *value)
{
	if (!parse_pid(value, &options->pid))
		return usage("not a process number", value);
	if (options->command != COMMAND_ATTACH)
		options->pid_count = 0;
	for (unsigned i = 0; i < options->pid_count; i++)
		if (options->pids[i] == options->pid)
			return NULL;
	if (options->pid_count == OPTIONS_PIDS_MAX)
		return usage("-p names more than 64 processes", value);
	options->pids[options->pid_count++] = options->pid;
	return NULL;
}

/* Several processes need traces of different names. */
static struct ht_err *check_several(const struct options *options)
{
	const char *shared = options->output && !naming_has_pid(options->output) ? options->output
			     : options->page && !naming_has_pid(options->page)	 ? options->page
										 : NULL;
	if (options->pid_count > 1 && options->words)
		return usage("a command goes with one process", options->words[0]);
	return options->pid_count > 1 && shared
		       ? usage("several processes need several names: %p is the PID", shared)
		       : NULL;
}

/* Applies -n, -u, --container or --wait-for. */
static struct ht_err *apply_find(struct options *options, enum option_id id, const char *value)
{
	if (!*value)
		return usage("the name is empty", id == OPTION_UNIT ? "-u" : "-n");
	if (id == OPTION_UNIT)
		options->find.unit = value;
	else if (id == OPTION_CONTAINER)
		options->find.container = value;
	else
		options->find.name = value;
	options->wait_for |= id == OPTION_WAIT_FOR;
	return id == OPTION_CONTAINER ? check_container(value) : NULL;
}

/* The field of an option without a value; NULL: the option has a value. */
static bool *flag_of(struct options *options, enum option_id id)
{
	const struct {
		enum option_id id;
		bool *flag;
	} flags[] = {
		{OPTION_FORCE, &options->replace},
		{OPTION_QUIET, &options->quiet},
		{OPTION_VERBOSE, &options->verbose},
		{OPTION_JSON, &options->json},
		{OPTION_LOSSLESS, &options->lossless},
		{OPTION_MMAP, &options->mappings},
		{OPTION_BACKGROUND, &options->background},
		{OPTION_METRICS, &options->metrics},
		{OPTION_STRICT, &options->strict},
		{OPTION_WAIT, &options->wait},
		{OPTION_FOLLOW_FORKS, &options->follow_forks},
		{OPTION_NO_CACHE, &options->no_cache},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(flags); i++)
		if (flags[i].id == id)
			return flags[i].flag;
	return NULL;
}

/* Puts the option in front of a message about its value. */
static struct ht_err *named(struct ht_err *err, const struct option_row *row)
{
	if (err->code != HT_ERR_USAGE || strncmp(err->message, "--", 2) == 0)
		return err;
	struct ht_err *ret = ht_err_new(HT_ERR_USAGE, "--%s %s", row->name, err->message);
	ht_err_free(err);
	return ret;
}

static struct ht_err *apply(
	struct options *options, const struct option_row *row, const char *value)
{
	bool is_of_series, *flag = flag_of(options, row->id);
	struct ht_err *err = series_apply(&options->series, row->id, value, &is_of_series);
	if (err)
		return named(err, row);
	if (is_of_series)
		return NULL;
	if (flag) {
		*flag = true;
		return NULL;
	}
	switch ((int)row->id) {
	case OPTION_PID:
		return apply_pid(options, value);
	case OPTION_NAME:
	case OPTION_UNIT:
	case OPTION_CONTAINER:
	case OPTION_WAIT_FOR:
		return apply_find(options, row->id, value);
	case OPTION_DURATION:
		return apply_duration(row, value, &options->duration_ns);
	case OPTION_MAX_OVERHEAD:
		return apply_percent(row, value, &options->max_overhead_ppm);
	case OPTION_SETTLE:
		return apply_duration(row, value, &options->settle_ns);
	case OPTION_OUTPUT:
		if (!*value)
			return usage("the output needs a name", "-o");
		return keep_name(value, &options->output);
	case OPTION_HOOK:
		return apply_hook(options, value);
	case OPTION_ALLOC_FN:
		return given_add(&options->given, value);
	case OPTION_SAMPLE:
		return not_a("size", row, value, quantity_size(value, &options->sample_bytes));
	case OPTION_CULL:
		return apply_duration(row, value, &options->cull_ns);
	case OPTION_MARK_LOG:
		return apply_log(options, value);
	case OPTION_LINGER:
		options->linger_ns = 0;
		return strcmp(value, "0") == 0 ? NULL
					       : apply_duration(row, value, &options->linger_ns);
	case OPTION_HTML:
		options->html = true;
		return value ? apply_page(options, value) : NULL;
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
	case OPTION_VERSION:
		options->command = COMMAND_VERSION;
		break;
	case OPTION_HELP:
		options->help_of = command_name(options->command);
		options->command = COMMAND_HELP;
		break;
	}
	return NULL;
}

/* Is `word` the option of this row ("-d", "-d5s", "--duration", "--duration=5s")? `ret_value`
 * points at an argument inside the word, or is NULL. */
static bool is_row(const struct option_row *row, const char *word, const char **ret_value)
{
	*ret_value = NULL;
	if (word[1] != '-') {
		if (row->letter == word[1] && word[2] != '\0')
			*ret_value = word + 2;
		return row->letter == word[1];
	}
	size_t length = strlen(row->name);
	if (strncmp(word + 2, row->name, length) != 0)
		return false;
	if (word[2 + length] == '=')
		*ret_value = word + 3 + length;
	return word[2 + length] == '=' || word[2 + length] == '\0';
}

/* Prefers an option of the command: a letter may mean another option of another command. */
static const struct option_row *find_row(
	const char *word, enum command command, const char **ret_value)
{
	const struct option_row *found = NULL;
	for (size_t i = 0; i < option_table_row_count; i++) {
		const struct option_row *row = &option_table[i];
		const char *value;
		bool is_better = !found || (row->commands & OPTION_IN(command) &&
						   !(found->commands & OPTION_IN(command)));
		if (is_better && is_row(row, word, &value)) {
			found = row;
			*ret_value = value;
		}
	}
	return found;
}

static struct ht_err *check_mark(const char *text)
{
	if (!text || !*text)
		return ht_err_new(HT_ERR_USAGE, "the text is missing: heaptap mark -p PID TEXT");
	if (strlen(text) > CONTROL_MARK_MAX)
		return ht_err_new(HT_ERR_USAGE, "a mark has at most %u bytes, and this one %zu",
			CONTROL_MARK_MAX, strlen(text));
	return NULL;
}

/* Is the process named, and in one way only? */
static struct ht_err *check_process(const struct options *options)
{
	const struct find_query *find = &options->find;
	bool is_found = find->name || find->unit || find->container;
	bool may_be_all = options->command == COMMAND_LIST || options->command == COMMAND_STATUS;
	if (options->pid && is_found)
		return usage("-p names the process already", find->name	  ? find->name
							     : find->unit ? find->unit
									  : find->container);
	return options->pid || is_found || may_be_all
		       ? NULL
		       : ht_err_new(HT_ERR_USAGE, "the process is missing: -p PID, or -n NAME");
}

static struct ht_err *check_attach(const struct options *options, bool to_stdout)
{
	const uint64_t window_ns =
		options->duration_ns ? options->duration_ns + options->settle_ns : 0;
	struct ht_err *err = series_check(&options->series, window_ns, to_stdout);
	if (!err && options->words && !options->words[0])
		err = ht_err_new(HT_ERR_USAGE, "the command is missing behind --");
	if (!err && options->words && series_has_several(&options->series))
		err = usage("a command is recorded in one window", "--");
	return err;
}

/* Does the window end by itself, while the process goes on and the trace has room for more? */
static bool may_settle(const struct options *options)
{
	const struct series_options *series = &options->series;
	return options->duration_ns || series->until_rss_bytes || series->until_growth.bytes ||
	       (options->command == COMMAND_ATTACH && options->words);
}

/* Refuses missing options and options that exclude each other. */
static struct ht_err *check(const struct options *options)
{
	bool to_stdout = options->output && strcmp(options->output, "-") == 0;

	if (options->settle_ns && !may_settle(options))
		return usage("the window needs an end: -d TIME", "--settle");
	if (options->cull_ns && options->sample_bytes)
		return usage("a sample has no sums of all blocks; give one of the two",
			"--cull --sample");

	if (options->command == COMMAND_RUN) {
		if (!options->words || !options->words[0])
			return ht_err_new(
				HT_ERR_USAGE, "the command is missing: heaptap run -- CMD ARG...");
		return to_stdout ? usage("standard output belongs to the command; name a file",
					   "-o -")
				 : NULL;
	}
	if (options->html && to_stdout)
		return usage("the page needs a trace in a file; name one with -o", "--html");
	if (options->metrics && options->json)
		return usage("one format at a time", "--metrics --json");
	if (options->command == COMMAND_SNAPSHOT && to_stdout)
		return usage("a snapshot is a file; name one", "-o -");
	if (options->background && to_stdout)
		return usage(
			"a capture in the background has no standard output; name a file", "-o -");
	struct ht_err *err = check_process(options);
	if (!err && options->command == COMMAND_ATTACH)
		err = check_attach(options, to_stdout);
	HT_THEN(err, check_several(options));
	return err || options->command != COMMAND_MARK || options->log_count
		       ? err
		       : check_mark(options->text);
}

/* Is it `--html page.html` instead of --html=page.html? run would take the page for its command. */
static bool is_page(const char *before, const char *word)
{
	const size_t length = strlen(word), end = sizeof(PAGE_END) - 1;
	return strcmp(before, "--html") == 0 && word[0] != '-' && length > end &&
	       strcmp(word + length - end, PAGE_END) == 0;
}

/* Does the command to run begin here? After --, or, for run, with the first word that is no
 * option. */
static bool begins_command(const struct options *options, const char *word)
{
	const bool is_dashes = strcmp(word, "--") == 0;
	return options->command == COMMAND_RUN ? word[0] != '-' || is_dashes
					       : options->command == COMMAND_ATTACH && is_dashes;
}

static bool is_text(const struct options *options, const char *word, bool behind_dashes)
{
	return options->command == COMMAND_MARK && !options->text &&
	       (behind_dashes || word[0] != '-' || word[1] == '\0');
}

static const char *who_has(const struct option_row *row, enum command command)
{
	if (row->commands == (OPTION_IN_PROCESS | OPTION_IN_STEER))
		return command == COMMAND_RUN ? "run starts the process itself"
					      : "list prints all; status has this option";
	if (row->id == OPTION_FOLLOW_FORKS)
		return "only run has this option";
	if (row->commands == OPTION_IN(COMMAND_ATTACH))
		return "only attach has this option";
	if (row->id == OPTION_MARK_LOG)
		return "only attach and mark have this option";
	if (row->id == OPTION_METRICS)
		return "only status has this option";
	if (row->id == OPTION_WAIT)
		return "only stop has this option";
	if (row->id == OPTION_HTML)
		return "only attach and run have this option; heaptap html makes a page of any "
		       "trace";
	return row->commands & OPTION_IN(COMMAND_DOCTOR)
		       ? "only attach, run and doctor have this option"
		       : "only attach and run have this option";
}

/* Is `word`, behind an option that needs a number, an option itself? */
static bool is_missing(const struct option_row *row, const char *word)
{
	static const char *const numbers[] = {"TIME", "BYTES", "SIZE", "PERCENT", "N"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(numbers); i++)
		if (strcmp(row->argument, numbers[i]) == 0)
			return word[0] == '-' &&
			       (word[1] == '-' || isalpha((unsigned char)word[1]));
	return false;
}

static struct ht_err *parse_rest(int argc, char **argv, int at, struct options *options)
{
	bool behind_dashes = false;
	for (; at < argc; at++) {
		const char *value;
		if (is_text(options, argv[at], behind_dashes)) {
			options->text = argv[at];
			continue;
		}
		if (options->command == COMMAND_MARK && !behind_dashes &&
			strcmp(argv[at], "--") == 0) {
			behind_dashes = true;
			continue;
		}
		if (is_page(argv[at - 1], argv[at]))
			return ht_err_new(HT_ERR_USAGE, "%s: not expected here; write --html=%s",
				argv[at], argv[at]);
		if (begins_command(options, argv[at])) {
			options->words = argv + at + (argv[at][0] == '-');
			break;
		}
		if (argv[at][0] != '-' || argv[at][1] == '\0')
			return usage(isdigit((unsigned char)argv[at][0])
					     ? "not expected here; a process is named with -p"
					     : "not expected here",
				argv[at]);
		const struct option_row *row = find_row(argv[at], options->command, &value);
		if (!row)
			return no_such_option(options->command, argv[at]);
		if (!(row->commands & OPTION_IN(options->command)))
			return usage(who_has(row, options->command), argv[at]);
		if (!row->argument && value)
			return usage("takes no value", argv[at]);
		if (!value && option_needs_value(row)) {
			if (at + 1 == argc || is_missing(row, argv[at + 1]))
				return usage("needs a value", argv[at]);
			value = argv[++at];
		}
		HT_TRY(apply(options, row, value));
		if (options->command == COMMAND_HELP || options->command == COMMAND_VERSION)
			return NULL;
	}
	return check(options);
}

/* The error for a word that is neither a command nor a file; suggests a command with a similar
 * name. */
static struct ht_err *no_such_command(const char *word)
{
	struct closest closest = {.word = word};
	for (size_t i = 0; i < option_table_command_count; i++) {
		if (strcmp(word, option_table_commands[i].name) == 0)
			return NULL;
		if (option_table_commands[i].help)
			closest_try(&closest, option_table_commands[i].name);
	}
	if (strcmp(word, "-") == 0 || strpbrk(word, "./") || access(word, F_OK) == 0)
		return NULL;
	if (closest.match)
		return ht_err_new(HT_ERR_USAGE,
			"%s is neither a command nor a file; did you mean heaptap %s?", word,
			closest.match);
	return usage("neither a command nor a file", word);
}

/* heaptap help COMMAND */
static struct ht_err *parse_help(const char *word, struct options *options)
{
	const struct command_row *row = option_table_find(word);
	if (!row || !row->help)
		return usage("no such command", word);
	options->help_of = row->name;
	return NULL;
}

struct ht_err *options_parse(int argc, char **argv, struct options *ret)
{
	struct options options = {.command = COMMAND_HELP, .linger_ns = LINGER_NS};
	int rest = 1;

	if (argc < 2)
		return ht_err_new(
			HT_ERR_USAGE, "no command given; heaptap --help lists the commands");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		options.command = COMMAND_HELP;
	} else if (argv[1][0] == '-' && argv[1][1] != '\0') {
		options.command = COMMAND_ATTACH;
	} else {
		/* No command of heaptap: the name of a trace, or a command of heaptap-analyze. */
		options.command = COMMAND_ANALYZE;
		const struct command_row *row = option_table_find(argv[1]);
		if (row)
			options.command = row->command;
		rest = 2;
	}
	struct ht_err *err = options.command == COMMAND_ANALYZE ? no_such_command(argv[1]) : NULL;
	if (options.command == COMMAND_HELP && rest == 2 && argc > 2)
		err = parse_help(argv[2], &options);
	if (!err && OPTION_IN(options.command) & OPTION_IN_ALL)
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
	free(options->page);
	options->output = options->page = NULL;
}
