/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ht_err *cmd_open_trace(const char *path, int *ret)
{
	if (strcmp(path, "-") == 0) {
		*ret = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return *ret < 0 ? ht_err_sys(errno, "cannot read standard input") : NULL;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return ht_err_sys(errno, "cannot open %s", path);
	struct stat status;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		close(fd);
		return ht_err_new(HT_ERR_FORMAT, "%s is not a regular file, so not a trace", path);
	}
	*ret = fd;
	return NULL;
}

struct ht_err *cmd_one_operand(int argc, char **argv, const char *what, const char **ret)
{
	if (optind == argc)
		return ht_err_new(HT_ERR_USAGE, "%s: %s is missing", argv[0], what);
	if (optind + 1 < argc)
		return ht_err_new(HT_ERR_USAGE, "%s takes one %s; %s is one too many", argv[0],
			what, argv[optind + 1]);
	*ret = argv[optind];
	return NULL;
}

struct ht_err *cmd_number(const char *option, const char *text, unsigned long max, size_t *ret)
{
	char *end;
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value > max)
		return ht_err_new(
			HT_ERR_USAGE, "%s takes a number up to %lu, not \"%s\"", option, max, text);
	*ret = value;
	return NULL;
}

struct ht_err *cmd_bad_option(int argc, char **argv)
{
	const char *option = optind > 0 && optind <= argc ? argv[optind - 1] : "";
	return ht_err_new(HT_ERR_USAGE,
		"%s: option %s is unknown or lacks its value; see heaptap-analyze --help", argv[0],
		option);
}

struct ht_err *cmd_only_trace(int argc, char **argv, const char **ret_path, int *ret_fd)
{
	static const struct option none[] = {{0}};
	if (getopt_long(argc, argv, "", none, NULL) != -1)
		return cmd_bad_option(argc, argv);
	struct ht_err *err = cmd_one_operand(argc, argv, "trace file", ret_path);
	return err ? err : cmd_open_trace(*ret_path, ret_fd);
}

struct ht_err *cmd_flush(FILE *out, const char *name)
{
	errno = 0;
	if (fflush(out) != 0 || ferror(out))
		return ht_err_sys(errno ? errno : EIO, "cannot write %s", name);
	return NULL;
}
