/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/browser.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/figures.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define CHROMIUM  "/usr/bin/chromium"
#define ANSWER_MS 120000

static void append_file(FILE *to, const char *path)
{
	char buffer[4096];
	size_t length;
	FILE *from = fopen(path, "re");
	ck_assert_ptr_nonnull(from);
	while ((length = fread(buffer, 1, sizeof(buffer), from)) > 0)
		ck_assert_uint_eq(fwrite(buffer, 1, length, to), length);
	fclose(from);
}

/* dh_view lets a person choose the file; this page loads it by a script. The export is embedded in
 * the script, so a name with "</script>" must not end it. */
static void write_page(const char *page, const char *export)
{
	FILE *file = fopen(page, "we");
	ck_assert_ptr_nonnull(file);
	fputs("<!DOCTYPE html>\n<meta charset=\"UTF-8\">\n"
	      "<script src=\"file:///usr/libexec/valgrind/dh_view.js\"></script>\n"
	      "<script>const data = ",
		file);
	append_file(file, export);
	fputs(";\nfunction load() {\n"
	      "onLoad();\nconst chosen = new DataTransfer();\n"
	      "chosen.items.add(new File([JSON.stringify(data)], 'export'));\n"
	      "gInput.files = chosen.files;\nloadFile();\n}\n</script>\n"
	      "<body onload=\"load()\"></body>\n",
		file);
	ck_assert_int_eq(fclose(file), 0);
}

/* 1234567 as "1,234,567". */
static void put_thousands(char text[32], uint64_t value)
{
	char digits[24];
	size_t put = 0;
	const int length = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			text[put++] = ',';
		text[put++] = digits[i];
	}
	text[put] = '\0';
}

bool browser_is_there(const char *what)
{
	if (access(CHROMIUM, X_OK) == 0)
		return true;
	printf("skipped: %s in a browser: " CHROMIUM " is not there\n", what);
	return false;
}

char *browser_dump(const char *page)
{
	char profile[4200], url[4200], *directory = tmpdir_path("browser"), *out;
	snprintf(profile, sizeof(profile), "--user-data-dir=%s", directory);
	snprintf(url, sizeof(url), "file://%s", page);
	int status = run_program(
		(const char *[]){CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", profile,
			"--virtual-time-budget=20000", "--dump-dom", url, NULL},
		ANSWER_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	free(directory);
	return out;
}

void browser_check(const char *trace, uint64_t allocated_bytes)
{
	char total[32], wanted[64];
	if (!browser_is_there("formats: dh_view"))
		return;
	char *export = figures_export(trace, "dhat", NULL, NULL);
	char *page = tmpdir_path("page.html");
	write_page(page, export);
	char *shown = browser_dump(page);
	put_thousands(total, allocated_bytes);
	snprintf(wanted, sizeof(wanted), "%s bytes (100%%, ", total);
	const char *body = strstr(shown, "<body");
	ck_assert_msg(
		body && strstr(body, wanted), "no \"%s\" in %.2000s", wanted, body ? body : shown);
	ck_assert_ptr_null(strstr(body, "<img"));
	free(shown);
	free(export);
	free(page);
}
