/* SPDX-License-Identifier: MIT */
/* AWS, only IMDSv2: without tokens the service could be queried through a server that fetches URLs
 * for others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/notice/notice_state.h"
#include "common/clock.h"

enum { TOKEN, ACTION, REBALANCE };

static const double limit_s = 2;
static const double refused_max_s = 30;
static const long ttl_max_s = 21600;

static void ask_token(struct spot_notice_watch *w)
{
    static const char *const header[] = { "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL };

    spot_notice_ask(w, TOKEN, "PUT", "/latest/api/token", header, NULL, limit_s);
}

static void ask(struct spot_notice_watch *w, size_t i)
{
    char token[SPOT_NOTICE_TOKEN_MAX + 32];
    const char *const header[] = { token, NULL };

    if (i == TOKEN) {
        ask_token(w);
        return;
    }
    if (spot_clock_s() >= w->token_end_s)
        w->token[0] = '\0';
    if (!w->token[0]) { /* a new token makes the query due */
        w->query[i].due_s = INFINITY;
        return;
    }
    snprintf(token, sizeof(token), "X-aws-ec2-metadata-token: %s", w->token);
    spot_notice_ask(w, i, "GET",
                    i == ACTION ? "/latest/meta-data/spot/instance-action"
                                : "/latest/meta-data/events/recommendations/rebalance",
                    header, NULL, limit_s);
}

static void take_token(struct spot_notice_watch *w, const struct spot_http_reply *reply)
{
    char text[64];
    long ttl_s;

    if (reply->status != 200 || !spot_notice_is_token(reply->body, reply->n_byte)) {
        spot_notice_failed(w, TOKEN, "no token (%s)", spot_notice_reason(reply, text));
        return;
    }
    snprintf(w->token, sizeof(w->token), "%s", reply->body);
    spot_http_reply_header(reply, "X-aws-ec2-metadata-token-ttl-seconds", text, sizeof(text));
    ttl_s = strtol(text, NULL, 10);
    ttl_s = ttl_s >= 1 && ttl_s <= ttl_max_s ? ttl_s : ttl_max_s;
    w->token_end_s = spot_clock_s() + (double)ttl_s;
    spot_notice_again(w, TOKEN, fmax((double)ttl_s / 2, w->options.interval_s));
    for (size_t i = ACTION; i <= REBALANCE; i++)
        if (!w->query[i].is_under_way && isinf(w->query[i].due_s))
            w->query[i].due_s = 0;
}

/* The token was refused. One that had worked is replaced at once; when new ones are refused too,
 * the next is asked for later and later, so that repeated refusals cause few requests. */
static void drop_token(struct spot_notice_watch *w, size_t i)
{
    double after_s = 0;

    w->query[i].due_s = INFINITY;
    w->query[i].n_fail++;
    if (!w->token[0])
        return; /* the other query has already dropped it */
    w->token[0] = '\0';
    if (w->n_refused)
        after_s =
            fmin(refused_max_s, ldexp(w->options.interval_s, (int)fmin(w->n_refused - 1, 10)));
    w->n_refused++;
    w->refused = i;
    if (w->n_refused == 3)
        spot_notice_warn(
            w, "notices of aws: every token is refused (401); retrying, at intervals of up to %g s",
            refused_max_s);
    if (!w->query[TOKEN].is_under_way)
        w->query[TOKEN].due_s = spot_clock_s() + after_s;
}

static void answered(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply)
{
    char text[64];

    if (i == TOKEN) {
        take_token(w, reply);
        return;
    }
    if (reply->status == 401) {
        drop_token(w, i);
        return;
    }
    if ((reply->status == 404 || reply->status == 200) && i == w->refused)
        w->n_refused = 0;
    if (reply->status == 404) {
        spot_notice_again(w, i, w->options.interval_s);
        spot_notice_compare(w, i, NULL, 0);
    } else if (reply->status == 200) {
        spot_notice_take(w, i, reply,
                         i == ACTION ? spot_notice_read_action : spot_notice_read_rebalance);
    } else {
        spot_notice_failed(w, i, "%s", spot_notice_reason(reply, text));
    }
}

const struct spot_notice_cloud spot_notice_aws = { "aws", 3, 1U << ACTION | 1U << REBALANCE, ask,
                                                   answered };
