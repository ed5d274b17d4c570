/* SPDX-License-Identifier: Apache-2.0
 *
 * This tree keeps the house rules, and scripts/lint finds each broken rule: the tests break each
 * rule once in a small tree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define LINT_MS 300000

static int shell(const char *script, const char *a, const char *b, const char *c, char **ret_out)
{
	return run_program(
		(const char *[]){"sh", "-c", script, "sh", a, b, c, NULL}, LINT_MS, ret_out, NULL);
}

START_TEST(the_house_is_clean)
{
	char *out, *err;
	int status = run_program(
		(const char *[]){"scripts/lint", run_built("."), NULL}, LINT_MS, &out, &err);
	ck_assert_msg(status == 0, "%.3000s%.500s", out, err);
}
END_TEST

/* Makes a small source tree: the scripts, three clean sources, and a dependency file of the
 * compiler. Returns its directory. */
static char *small_house(void)
{
	static const char script[] =
		"set -e; mkdir -p \"$1/out/attach\" \"$1/format\" \"$1/attach\" \"$1/analyzer\" "
		"\"$1/agent\" \"$1/tests\" \"$1/.ci\"\n"
		"cp -r scripts .clang-format Makefile \"$1\"; rm -f \"$1/scripts/check-agent\"\n"
		"sed -i '/^[[:space:]]/d' \"$1/scripts/layers.txt\"\n"
		"cd \"$1\"; printf '## Another processor\\n' >CONTRIBUTING.md; touch format/a.h "
		"analyzer/b.h\n"
		"for f in format/a.h analyzer/b.h attach/x.c; do\n"
		"echo '/* SPDX-License-Identifier: Apache-2.0 */' >$f; done\n"
		"echo 'out/attach/x.o: attach/x.c format/a.h' >out/attach/x.d\n";
	char *house = tmpdir_path("house");
	ck_assert_int_eq(shell(script, house, NULL, NULL, NULL), 0);
	return house;
}

/* Runs `break_it` in a small tree, then lint, which must complain with `complaint`. */
static void check_complaint(const char *break_it, const char *complaint)
{
	static const char script[] = "cd \"$1\" && eval \"$2\" && scripts/lint out 2>&1";
	char *out, *house = small_house();
	int status = shell(script, house, break_it, NULL, &out);
	ck_assert_msg(
		status == 1 && strstr(out, complaint), "%s: %d, %.3000s", break_it, status, out);
	ck_assert_int_eq(shell("rm -rf \"$1\"", house, NULL, NULL, NULL), 0);
}

/* The order of the units of attach/, lowest first. */
#define ORDER(units) "sed -i 's,^attach  .*,# caption\\n&\\n\t" units ",' scripts/layers.txt; "

static const struct {
	const char *break_it, *complaint;
} broken[] = {
	{"echo 'int  x ;' >>attach/x.c", "clang-format"},
	{"echo 'int x;' >attach/y.c", "attach/y.c: no SPDX"},
	{"yes '' | head -n 601 >>scripts/demo", "scripts/demo: more than 600"},
	{"printf '/* \\303\\244 */\\n' >>attach/x.c", "attach/x.c: not ASCII"},
	{"printf 'void f(char *s)\\n{\\n\\tstrcpy(s, s);\\n}\\n' >>attach/x.c", "banned function"},
	{"printf 'void f(void)\\n{\\n\\tabort();\\n}\\n' >>attach/x.c", "only main.c"},
	{"printf 'long x = sizeof(((struct user *)0)->u_debugreg);\n' >>attach/x.c",
		"no debug registers"},
	{"printf 'void f(int p)\n{\n\tptrace(PTRACE_POKEUSER, p, 848, 1);\n}\n' >>attach/x.c",
		"no debug registers"},
	{"echo 'out/attach/x.o: attach/x.c analyzer/b.h' >out/attach/x.d",
		"attach/x.c (attach) must not include analyzer/b.h"},
	{"echo 'out/x.o: format/a.h attach/x.c' >out/x.d", "must not include attach/x.c"},
	{"echo 'out/x.o: agent/x.c /usr/include/stdio.h' >out/x.d; cp attach/x.c agent",
		"must not include /usr/include/stdio.h"},
	{"mkdir attach/elf attach/got; cp attach/x.c attach/elf; cp attach/x.c attach/got/y.h; "
	 "echo 'out/x.o: attach/elf/x.c attach/got/y.h' >out/x.d",
		"attach/elf/x.c (attach/elf) must not include attach/got/y.h"},
	{"mkdir new; cp attach/x.c new; echo 'out/x.o: new/x.c' >out/x.d", "not in scripts/layers"},
	{ORDER("x y") "cp attach/x.c attach/y.h; echo '#include \"attach/y.h\"' >>attach/x.c",
		"attach/x.c must not include attach/y.h, which is below it"},
	{ORDER("z y x") "cp attach/x.c attach/y.h; cp attach/x.c attach/z.h; "
			"echo '#include \"attach/y.h\"' >>attach/z.h",
		"attach/z.h must not include attach/y.h, which is below it"},
	{ORDER("y") "mv attach/x.c attach/y.h; cp attach/y.h attach/x.c",
		"attach/x.c: its unit is not in the order"},
	{ORDER("x") "sed -i 's/^# caption//' scripts/layers.txt",
		"attach: no caption above its row"},
	{ORDER("x y"), "there is no attach/y.c or .h"},
	{"printf 'long x(void)\n{\n\treturn __rdtsc();\n}\n' >>attach/x.c", "knows the processor"},
	{"echo '|| `attach/x.c` ||' >>CONTRIBUTING.md", "attach/x.c: knows no processor"},
	{"echo '|| `attach/y.c` ||' >>CONTRIBUTING.md", "there is no attach/y.c"},
	{"printf '/* %s ends it? */\n' Who >tests/x.sh", "say who does what"},
	{"printf '/* %s follows the sizes. */\n' What >tests/x.sh", "say who does what"},
	{"printf ' * Of what was kept.\n' >tests/x.sh", "tests/x.sh:1: * Of what"},
	{"printf '# the name %s told\n' is >scripts/x.txt", "say who does what"},
	{"printf '# a file that some''body made\n' >>Makefile", "say who does what"},
	{"echo '/* attach/gone.c tells why */' >>attach/x.c", "there is no attach/gone.c, which"},
	{"rm out/attach/x.d", "build first"},
	{"seq 250 >attach/DESIGN.md", "attach/DESIGN.md has 250 lines"},
	{"echo 'echo $1' >>scripts/deps", "shellcheck"},
	{"echo 'attach/y.c test_x:one' >tests/covers.txt", "no line for attach/x.c"},
	{"echo 'attach/y.c test_x:one' >tests/covers.txt", "no file for the line attach/y.c"},
	{"echo 'attach/*.c test_x:one' >tests/covers.txt", "there is no test_x:one"},
};

START_TEST(broken_rules_are_found)
{
	check_complaint(broken[_i].break_it, broken[_i].complaint);
}
END_TEST

/* Comments may name banned functions, and main.c may end the process. */
START_TEST(no_false_alarm)
{
	char *out, *house = small_house();
	int status = shell("cd \"$1\" && echo '# root becomes user nobody' >scripts/x.txt && "
			   "echo '/* never abort() or strcpy(), no u_debugreg */' "
			   ">>attach/x.c && "
			   "cp attach/x.c attach/main.c && "
			   "printf '\\nvoid f(void)\\n{\\n\\texit(1);\\n}\\n' >>attach/main.c && "
			   "scripts/lint out",
		house, NULL, NULL, &out);
	ck_assert_msg(status == 0, "%s", out);
}
END_TEST

/* The includes keep the order: check-layers succeeds and does not list attach as unordered. */
START_TEST(an_order_is_kept)
{
	char *out, *house = small_house();
	int status = shell(
		"cd \"$1\" && " ORDER("y x") "mkdir attach/elf && cp attach/x.c attach/elf/z.h && "
					     "echo 'out/y.o: attach/x.c attach/elf/z.h' >out/y.d "
					     "&& cp attach/x.c attach/y.h && "
					     "echo '#include \"attach/y.h\"' >>attach/x.c && "
					     "scripts/check-layers out",
		house, NULL, NULL, &out);
	ck_assert_msg(status == 0, "%s", out);
	ck_assert_msg(strstr(out, "unordered: format format/cull agent attach/proc "), "%s", out);
	ck_assert_int_eq(shell("rm -rf \"$1\"", house, NULL, NULL, NULL), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("integration/lint");
	TCase *tcase = tcase_create("lint");
	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, the_house_is_clean);
	tcase_add_loop_test(
		tcase, broken_rules_are_found, 0, (int)(sizeof(broken) / sizeof(broken[0])));
	tcase_add_test(tcase, no_false_alarm);
	tcase_add_test(tcase, an_order_is_kept);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
