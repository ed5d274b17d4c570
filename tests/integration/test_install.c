/* SPDX-License-Identifier: Apache-2.0
 *
 * `make install` puts everything below DESTDIR and PREFIX, the installed heaptap finds
 * heaptap-analyze, and `make uninstall` leaves nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define MAKE_MS 300000

static void make(const char *goal, const char *destination, const char *prefix)
{
	char destdir[4200], prefix_is[4200], *err;
	snprintf(destdir, sizeof(destdir), "DESTDIR=%s", destination);
	snprintf(prefix_is, sizeof(prefix_is), "PREFIX=%s", prefix);
	int status = run_program((const char *[]){"make", "-s", goal, destdir, prefix_is, NULL},
		MAKE_MS, NULL, &err);
	ck_assert_msg(status == 0, "make %s: %.2000s", goal, err);
	free(err);
}

static char *files_below(const char *directory)
{
	char *out;
	run_program((const char *[]){"sh", "-c", "cd \"$1\" && find . ! -name . | sort", "sh",
			    directory, NULL},
		MAKE_MS, &out, NULL);
	return out;
}

static void install_and_uninstall(const char *destination, const char *prefix, const char *root)
{
	make("install", destination, prefix);
	char *files = files_below(root);
	ck_assert_msg(strstr(files, "/bin/heaptap\n") &&
			      strstr(files, "/libexec/heaptap/heaptap-analyze\n") &&
			      strstr(files, "/man1/heaptap.1\n") &&
			      strstr(files, "/man1/heaptap-analyze.1\n") &&
			      strstr(files, "/man1/heaptap-report.1\n") &&
			      strstr(files, "/completions/heaptap\n"),
		"%.2000s", files);
	free(files);
	char program[8200], *out;
	snprintf(program, sizeof(program), "%s%s/bin/heaptap", destination, prefix);
	int status = run_program(
		(const char *[]){program, "report", "/nonexistent", NULL}, MAKE_MS, NULL, &out);
	ck_assert_msg(status != 127 && strstr(out, "/nonexistent"), "%d: %.2000s", status, out);
	make("uninstall", destination, prefix);
	files = files_below(root);
	ck_assert_str_eq(files, "");
	free(files);
}

HT_TEST(staged)
{
	char *stage = tmpdir_path("stage");
	ck_assert_int_eq(
		run_program((const char *[]){"mkdir", stage, NULL}, MAKE_MS, NULL, NULL), 0);
	install_and_uninstall(stage, "/usr/local", stage);
}

HT_TEST(into_a_prefix)
{
	char *root = tmpdir_path("root"), *prefix = tmpdir_path("root/opt/heaptap");
	ck_assert_int_eq(
		run_program((const char *[]){"mkdir", root, NULL}, MAKE_MS, NULL, NULL), 0);
	install_and_uninstall("", prefix, root);
}

/* heaptap's own man page is written by hand; those of the commands of heaptap-analyze are printed
 * from its table. */
HT_TEST(man_page_and_completion_know_every_option)
{
	HT_FREED char *out;
	int status =
		run_program((const char *[]){"sh", "-c",
				    "for command in attach run doctor verify recover cleanup "
				    "status list stop pause resume mark; do\n"
				    "for option in $(\"$1\" $command --help | sed '/^example/,$d' "
				    "| grep -oE -e "
				    "'--[a-z-]+' | sort -u |"
				    " grep -vx -e --help -e --version); do\n"
				    "name=$(echo \"${option#--}\" | sed 's/-/\\\\-/g')\n"
				    "grep -qF -e \"\\\\-\\\\-$name\" attach/heaptap.1 || echo "
				    "\"man: $option\"\n"
				    "grep -q -e \"options.$command.*$option\" \"$2\" || echo "
				    "\"bash: $option\"\n"
				    "done; done",
				    "sh", run_built("heaptap"), run_built("heaptap.bash"), NULL},
			MAKE_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(out, "");
}

/* Both programs print the same line for each command of heaptap-analyze, and each command has a
 * help text. */
HT_TEST(both_programs_list_the_same_commands)
{
	HT_FREED char *out;
	int status = run_program(
		(const char *[]){"sh", "-c",
			"for command in $(\"$2\" man); do\n"
			"line=$(\"$2\" help | grep \"^  $command  *\")\n"
			"\"$1\" help | grep -qxF -e \"$line\" || echo \"line: $command\"\n"
			"done\n"
			"for command in $(\"$1\" help | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'); do\n"
			"\"$1\" help $command | grep -q \"^usage: heaptap $command\" ||"
			" echo \"help: $command\"\n"
			"done",
			"sh", run_built("heaptap"), run_built("heaptap-analyze"), NULL},
		MAKE_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(out, "");
}

/* Completes the last of `words`. Returns the completions as sorted lines. */
static char *complete(const char *directory, const char *words)
{
	char *out, *err;
	int status = run_program(
		(const char *[]){"bash", "-c",
			". \"$1\" && cd \"$2\" && IFS='|' read -r -a COMP_WORDS <<<\"$3\"\n"
			"COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
			"COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]%_}\n"
			"_heaptap; printf '%s\\n' \"${COMPREPLY[@]}\" | sort",
			"bash", run_built("heaptap.bash"), directory, words, NULL},
		MAKE_MS, &out, &err);
	ck_assert_msg(status == 0 && !*err, "%s: %d %s", words, status, err);
	free(err);
	return out;
}

/* A "_" at the end of a word is the cursor; "|" is between the words. */
HT_TEST(completion_offers_what_fits)
{
	static const struct {
		const char *words, *offers;
	} table[] = {
		{"heaptap|re_", "recover\nreport\nresume\n"},
		{"heaptap|my_", "my.htap\n"},
		{"heaptap|report|--js_", "--json\n"},
		{"heaptap|report|--form_", "\n"},
		{"heaptap|report|_", "my.htap\nsub\n"},
		{"heaptap|report|my.htap|_", "my.htap\nsub\n"},
		{"heaptap|my.htap|--lim_", "--limit\n"},
		{"heaptap|export|--metric|p_", "peak\n"},
		{"heaptap|export|--metric|=|p_", "peak\n"},
		{"heaptap|report|--color|=_", "always\nauto\nnever\n"},
		{"heaptap|export|--format|heaptrack|-o|no_", "notes.txt\n"},
		{"heaptap|report|--sysroot|_", "sub\n"},
		{"heaptap|report|--limit|_", "\n"},
		{"heaptap|attach|--hook|e_", "entry\n"},
		{"heaptap|-p|7|--loss_", "--lossless\n"},
		{"heaptap|attach|-p|7|_", "\n"},
		{"heaptap|doctor|--loss_", "\n"},
		{"heaptap|help|exp_", "export\n"},
		{"heaptap|run|--follow_", "--follow-forks\n"},
		{"heaptap|run|-o|no_", "notes.txt\n"},
		{"heaptap|run|--|cat|no_", "notes.txt\n"},
		{"heaptap|run|cat|no_", "notes.txt\n"},
	};
	char *directory = tmpdir_path("files"), *out;
	ck_assert_int_eq(run_program((const char *[]){"sh", "-c",
					     "mkdir -p \"$1/sub\" && cd \"$1\" && touch my.htap "
					     "notes.txt",
					     "sh", directory, NULL},
				 MAKE_MS, NULL, NULL),
		0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		out = complete(directory, table[i].words);
		ck_assert_msg(strcmp(out, table[i].offers) == 0, "%s: %s", table[i].words, out);
		free(out);
	}
	free(directory);
}

HT_SUITE("integration/install")
