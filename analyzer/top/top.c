/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/top.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "analyzer/top/batch.h"
#include "analyzer/top/display.h"
#include "analyzer/top/interact.h"
#include "format/clock.h"

/* Reads signals through a signalfd, so that the detach is finished before the program ends. */
static struct ht_err *hold_signals(bool is_batch, int *ret)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (!is_batch)
		interact_signals(&set);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return ht_err_sys(errno, "cannot hold signals");
	*ret = signalfd(-1, &set, SFD_CLOEXEC);
	return *ret < 0 ? ht_err_sys(errno, "cannot receive signals") : NULL;
}

/* --- batch mode ------------------------------------------------------------------------------ */

static struct ht_err *print_table(const struct top_config *config, const struct feed *feed)
{
	const struct terminal terminal = terminal_of(stdout, config->color);
	struct text text = text_for(stdout, &terminal);
	struct listing listing;
	struct ht_err *err =
		listing_make(feed->now, feed->before, NULL, &config->options, &listing);
	if (config->is_wide)
		text.columns = 0;
	if (!err && config->is_json)
		err = batch_print_json(stdout, &feed->heading, feed->now, &listing, config->rows);
	else if (!err)
		batch_print(&text, &feed->heading, feed->now, &listing, config->rows);
	listing_deinit(&listing);
	if (!err && (fflush(stdout) != 0 || ferror(stdout)))
		err = ht_err_sys(errno, "cannot write the table");
	return err;
}

static struct ht_err *print_tables(const struct top_config *config, struct feed *feed, int signals)
{
	const uint64_t first_ns = clock_mono_ns() + config->delay_ns;
	struct ht_err *err = NULL;
	for (uint64_t printed = 0; !err && (!config->tables || printed < config->tables);) {
		struct pollfd polled[1 + FEED_POLLED] = {{signals, POLLIN, 0}};
		const int timeout_ms = feed_poll(feed, polled + 1);
		if (poll(polled, HT_ARRAY_SIZE(polled), timeout_ms) < 0 && errno != EINTR)
			return ht_err_sys(errno, "cannot wait for the capture");
		if (polled[0].revents)
			return NULL;
		const bool is_new = feed_turn(feed, polled + 1);
		/* The rates of the first table count from a snapshot that is not printed. */
		if (is_new && feed->now && (feed->is_complete || clock_mono_ns() >= first_ns)) {
			err = print_table(config, feed);
			printed++;
		}
		if (feed->is_complete)
			break;
	}
	return err;
}

/* --- the whole ------------------------------------------------------------------------------- */

static struct ht_err *run_interactive(
	const struct top_config *config, struct feed *feed, int signals)
{
	struct ht_err *err = display_open();
	HT_THEN(err, interact_run(feed, &config->options, signals));
	display_close();
	return err;
}

static struct ht_err *run(const struct top_config *config, struct feed *feed)
{
	int signals = -1;
	struct ht_err *err = hold_signals(config->is_batch, &signals);
	HT_THEN(err, config->is_batch ? print_tables(config, feed, signals)
				      : run_interactive(config, feed, signals));
	if (signals >= 0)
		close(signals);
	return err;
}

/* Checks the terminal before top does anything to the target. */
static struct ht_err *check_terminal(const struct top_config *config)
{
	struct ht_err *err = display_check();
	if (!err)
		fprintf(stderr, "heaptap: looking at process %d ...\n", (int)config->pid);
	return err;
}

struct ht_err *top_run(const struct top_config *config)
{
	struct feed feed;
	HT_TRY(config->is_batch ? NULL : check_terminal(config));
	struct ht_err *err = feed_open(&feed, config->pid, config->delay_ns, &config->tasks);
	HT_THEN(err, run(config, &feed));
	struct ht_err *end = feed_close(&feed);
	/* Prefer the capture's error, which has the reason: the reader of its trace knows only that
	 * it ended. */
	if (end && err && err->code == HT_ERR_REFUSED) {
		ht_err_free(err);
		return end;
	}
	return ht_err_first(err, end);
}
