/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/top/interact.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "analyzer/top/display.h"

/* keys handled in one turn, so that figures are updated also while a key repeats */
#define KEYS_MAX 64

struct interact {
	struct feed *feed;
	struct screen screen;
	bool is_over;
};

void interact_signals(sigset_t *set)
{
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGQUIT);
	sigaddset(set, SIGWINCH);
	sigaddset(set, SIGTSTP);
	sigaddset(set, SIGCONT);
}

/* Stops this process as Ctrl-Z would without a signalfd; returns when it is continued. */
static void stop(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	display_suspend();
	signal(SIGTSTP, SIG_DFL);
	kill(getpid(), SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	display_resume();
}

static void take_signal(struct interact *interact, int signals)
{
	struct signalfd_siginfo info;
	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return;
	switch ((int)info.ssi_signo) {
	case SIGTSTP:
		stop();
		break;
	case SIGCONT:
		display_resume();
		break;
	case SIGWINCH:
		break;
	default:
		interact->is_over = true;
	}
}

static void act(struct interact *interact, enum screen_action action)
{
	struct feed *feed = interact->feed;
	switch (action) {
	case SCREEN_NOTHING:
		break;
	case SCREEN_QUIT:
		interact->is_over = true;
		break;
	case SCREEN_MARK:
		feed_mark(feed, interact->screen.input);
		break;
	case SCREEN_SAVE:
		feed_save(feed, interact->screen.input);
		break;
	case SCREEN_PAUSE:
		feed_pause(feed, !feed->heading.last.paused);
		break;
	}
}

static struct ht_err *take_keys(struct interact *interact)
{
	struct ht_err *err = NULL;
	enum screen_action action = SCREEN_NOTHING;
	uint32_t key;
	for (int i = 0; i < KEYS_MAX && !err && !interact->is_over && (key = display_key()); i++) {
		/* A message is shown until the next key. */
		interact->feed->message[0] = '\0';
		err = screen_press(&interact->screen, key, &action);
		if (!err)
			act(interact, action);
	}
	return err;
}

static struct ht_err *draw(struct interact *interact)
{
	const struct terminal terminal = display_size();
	struct screen_lines lines;
	struct ht_err *err = screen_draw(&interact->screen, &terminal, &interact->feed->heading,
		interact->feed->message, &lines);
	if (!err)
		display_show(&lines);
	screen_lines_deinit(&lines);
	return err;
}

static struct ht_err *turn(struct interact *interact, int signals)
{
	struct pollfd polled[2 + FEED_POLLED] = {{signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
	struct feed *feed = interact->feed;
	const int timeout_ms = feed_poll(feed, polled + 2);
	struct ht_err *err = NULL;
	if (poll(polled, HT_ARRAY_SIZE(polled), timeout_ms) < 0 && errno != EINTR)
		return ht_err_sys(errno, "cannot wait for the capture");
	if (polled[0].revents)
		take_signal(interact, signals);
	if (polled[1].revents & POLLIN)
		err = take_keys(interact);
	/* The terminal hung up. */
	else if (polled[1].revents)
		interact->is_over = true;
	if (!err && feed_turn(feed, polled + 2) && feed->now)
		err = screen_take(&interact->screen, feed->now);
	return err;
}

struct ht_err *interact_run(struct feed *feed, const struct listing_options *options, int signals)
{
	struct interact interact = {.feed = feed};
	screen_init(&interact.screen, options);
	struct ht_err *err = draw(&interact);
	while (!err && !interact.is_over) {
		err = turn(&interact, signals);
		if (!err && !interact.is_over)
			err = draw(&interact);
	}
	screen_deinit(&interact.screen);
	return err;
}
