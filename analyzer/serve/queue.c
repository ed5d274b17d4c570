/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/serve/queue.h"

#include "format/clock.h"

_Static_assert(SERVE_TRACES_MAX <= JOB_KEPT_MAX, "a job keeps all traces open");

bool queue_add(struct queue *queue, struct exchange *exchange)
{
	struct exchange **last = &queue->first;
	if (queue->waiting == QUEUE_WAITING_MAX)
		return false;
	while (*last)
		last = &(*last)->next;
	*last = exchange;
	exchange->state = EXCHANGE_WAITING;
	queue->waiting++;
	MHD_suspend_connection(exchange->connection);
	return true;
}

/* Ends an exchange, which the caller has taken out of the list. */
static void finish(struct exchange *exchange, struct ht_err *err)
{
	exchange->err = err;
	exchange->state = EXCHANGE_DONE;
	MHD_resume_connection(exchange->connection);
}

static void start(struct queue *queue, struct exchange *exchange, struct exchange **link)
{
	const struct serve_traces *traces = exchange->config->traces;
	const struct job_task task = {.run = exchange_answer,
		.context = exchange,
		.kept = traces->fd,
		.kept_count = traces->count};
	queue->waiting--;
	struct ht_err *err = job_start(&exchange->job, &task);
	if (err) {
		*link = exchange->next;
		finish(exchange, err);
		return;
	}
	exchange->state = EXCHANGE_RUNNING;
	queue->running++;
	queue->running_heavy += exchange->is_heavy;
}

/* Jobs that read a trace again share its file offset: run only one of them at a time. */
void queue_start(struct queue *queue)
{
	struct exchange **link = &queue->first;
	while (*link && queue->running < QUEUE_JOBS_MAX) {
		struct exchange *exchange = *link;
		if (exchange->state == EXCHANGE_WAITING &&
			!(exchange->is_heavy && queue->running_heavy))
			start(queue, exchange, link);
		if (*link == exchange)
			link = &exchange->next;
	}
}

static void end_job(struct queue *queue, struct exchange *exchange)
{
	struct exchange **link = &queue->first;
	while (*link != exchange)
		link = &(*link)->next;
	*link = exchange->next;
	queue->running--;
	queue->running_heavy -= exchange->is_heavy;
	finish(exchange, job_finish(&exchange->job, &exchange->output));
}

size_t queue_poll(const struct queue *queue, struct pollfd polled[QUEUE_JOBS_MAX])
{
	size_t count = 0;
	for (const struct exchange *at = queue->first; at; at = at->next)
		if (at->state == EXCHANGE_RUNNING)
			polled[count++] = (struct pollfd){at->job.pipe, POLLIN, 0};
	return count;
}

void queue_turn(struct queue *queue, const struct pollfd *polled)
{
	const uint64_t now = clock_mono_ns();
	struct exchange *next;
	for (struct exchange *at = queue->first; at; at = next) {
		next = at->next;
		if (at->state != EXCHANGE_RUNNING)
			continue;
		if (polled->revents || at->job.deadline_ns <= now)
			end_job(queue, at);
		polled++;
	}
}

void queue_end(struct queue *queue)
{
	while (queue->first) {
		struct exchange *exchange = queue->first;
		if (exchange->state == EXCHANGE_RUNNING) {
			exchange->job.deadline_ns = 0;
			end_job(queue, exchange);
			continue;
		}
		queue->first = exchange->next;
		finish(exchange, ht_err_new(HT_ERR_REFUSED, "heaptap serve ends"));
	}
}
