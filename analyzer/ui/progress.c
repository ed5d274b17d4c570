/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/progress.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/text.h"

#define DELAY_NS    500000000u
#define INTERVAL_NS 100000000u
#define BAR_CELLS   20u

struct progress progress_begin(FILE *out, const struct terminal *terminal, const char *what,
	uint64_t total, uint64_t now_ns)
{
	const char *term = getenv("TERM");
	bool can_erase = terminal->is_terminal && term && *term && strcmp(term, "dumb") != 0;
	return (struct progress){
		.out = can_erase ? out : NULL,
		.what = what,
		.total = total,
		.next_ns = now_ns + DELAY_NS,
		.columns = terminal->columns,
	};
}

static void draw(const struct progress *progress, uint64_t done)
{
	const struct text text = {.out = progress->out};
	fputs("\r\033[K", progress->out);
	unsigned used = 0;
	if (progress->total) {
		if (done > progress->total)
			done = progress->total;
		unsigned percent = (unsigned)((unsigned __int128)done * 100 / progress->total);
		unsigned cells = percent * BAR_CELLS / 100;
		if (progress->columns > 2 * BAR_CELLS)
			used = (unsigned)fprintf(progress->out, "[%.*s%*s] ", (int)cells,
				"####################", (int)(BAR_CELLS - cells), "");
		used += (unsigned)fprintf(progress->out, "%3u %% ", percent);
	} else {
		used = (unsigned)fprintf(progress->out, "%s ", text_bytes(done).text);
	}
	/* In the last column a terminal may begin a new line. */
	if (progress->columns > used + 6)
		text_elided(&text, progress->what, progress->columns - used - 1);
	fflush(progress->out);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t now_ns)
{
	if (!progress->out || now_ns < progress->next_ns)
		return;
	draw(progress, done);
	progress->is_shown = true;
	progress->next_ns = now_ns + INTERVAL_NS;
}

void progress_end(struct progress *progress)
{
	if (progress->is_shown) {
		fputs("\r\033[K", progress->out);
		fflush(progress->out);
	}
	progress->out = NULL;
	progress->is_shown = false;
}
