/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze report: the numbers of a window, for a person or as JSON.
 */
#include "analyzer/cmd.h"

#include <getopt.h>
#include <limits.h>
#include <unistd.h>

#include "analyzer/cube/analysis.h"
#include "analyzer/export/report_json.h"
#include "analyzer/ui/report_text.h"

/* Stacks shown unless told: in the JSON list, and in each of the four lists of the text. */
#define JSON_STACKS 20u
#define TEXT_STACKS 5u

struct options {
	const char *path;
	struct resolve_files files;
	size_t limit;
	bool json, has_limit, shows_wrappers;
};

static struct ht_err *parse(int argc, char **argv, struct options *ret)
{
	static const struct option long_option[] = {
		{"json", no_argument, NULL, 'j'},
		{"limit", required_argument, NULL, 'n'},
		{"show-wrappers", no_argument, NULL, 'w'},
		CMD_FILE_OPTIONS,
		{0},
	};
	*ret = (struct options){.files.sysroot = ""};
	int option;
	while ((option = getopt_long(argc, argv, "n:", long_option, NULL)) != -1) {
		struct ht_err *err = NULL;
		if (cmd_file_option(option, optarg, &ret->files, &err))
			;
		else if (option == 'j')
			ret->json = true;
		else if (option == 'w')
			ret->shows_wrappers = true;
		else if (option == 'n')
			err = cmd_number("--limit", optarg, INT_MAX, &ret->limit);
		else
			err = cmd_bad_option(argc, argv, long_option);
		if (err)
			return err;
		ret->has_limit |= option == 'n';
	}
	return cmd_one_operand(argc, argv, "trace file", &ret->path);
}

static struct ht_err *write_report(struct analysis *analysis, const struct options *options)
{
	const struct model_ending ending = model_ending(&analysis->model);
	/* The page begins with it, too. */
	bool is_shown = !options->json && isatty(STDOUT_FILENO);
	cmd_warn_ending(&ending, is_shown);
	if (options->json)
		return report_json_write(stdout, analysis,
			options->has_limit ? options->limit : JSON_STACKS, options->shows_wrappers);
	const struct text text = text_to(stdout);
	const struct report_text_options page = {
		.path = options->path,
		.limit = options->has_limit ? options->limit : TEXT_STACKS,
		.shows_wrappers = options->shows_wrappers,
	};
	return report_text_write(&text, analysis, &page);
}

struct ht_err *cmd_report(int argc, char **argv)
{
	struct options options;
	struct ht_err *err = parse(argc, argv, &options);
	if (err)
		return err;
	int fd;
	err = cmd_open_trace(options.path, &fd);
	if (err)
		return err;
	struct analysis *analysis = NULL;
	err = analysis_create(fd, options.path, &analysis);
	close(fd);
	if (!err)
		err = analysis_resolve(analysis, &options.files);
	if (!err)
		err = write_report(analysis, &options);
	analysis_destroy(analysis);
	return ht_err_first(err, cmd_flush(stdout, "the report"));
}
