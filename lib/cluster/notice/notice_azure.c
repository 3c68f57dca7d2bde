/* SPDX-License-Identifier: MIT */
/* Azure: scheduled events of this machine. Documents have an incarnation number that grows with
 * changes; they are compared in any case, which is cheap and safe. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster/notice/notice_state.h"
#include "common/backoff.h"
#include "common/clock.h"
#include "common/json_writer.h"
#include "common/utf8.h"

enum { EVENTS, NAME };
enum { NAME_TRIES = 3 };

static const double limit_s = 5;
static const double ack_pause_max_s = 30;
static const double first_limit_s =
    130; /* the first request starts the service, which can take two minutes */
static const char events_path[] = "/metadata/scheduledevents?api-version=2020-07-01";
static const char name_path[] =
    "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
static const char *const header[] = { "Metadata: true", NULL };

/* Queries the name of this machine first, since the document also has events of other machines. */
static void ask(struct spot_notice_watch *w, size_t i)
{
    const bool is_named = w->name[0] || w->query[NAME].n_fail >= NAME_TRIES;

    w->query[i].due_s = INFINITY;
    if (i == NAME && w->name[0])
        spot_notice_again(w, NAME, INFINITY);
    else if (i == NAME)
        spot_notice_ask(w, NAME, "GET", name_path, header, NULL, limit_s);
    else if (i == EVENTS && is_named)
        spot_notice_ask(w, EVENTS, "GET", events_path, header, NULL,
                        w->query[EVENTS].has_answered ? limit_s : first_limit_s);
}

static void take_name(struct spot_notice_watch *w, const struct spot_http_reply *reply)
{
    char text[64];

    if (reply->status != 200 || !reply->n_byte || reply->n_byte >= sizeof(w->name) ||
        strlen(reply->body) != reply->n_byte || !spot_utf8_is_plain(reply->body)) {
        spot_notice_failed(w, NAME,
                           "this machine's name is not known (%s), events of all machines count",
                           spot_notice_reason(reply, text));
    } else {
        memcpy(w->name, reply->body, reply->n_byte + 1);
        spot_notice_again(w, NAME, INFINITY);
    }
    if (!w->query[EVENTS].is_under_way && isinf(w->query[EVENTS].due_s))
        w->query[EVENTS].due_s = 0;
}

static void answered(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply)
{
    char text[64];

    if (i == NAME)
        take_name(w, reply);
    else if (i == EVENTS && reply->status == 200)
        spot_notice_take(w, EVENTS, reply, spot_notice_read_events);
    else if (i == EVENTS)
        spot_notice_failed(w, EVENTS, "%s", spot_notice_reason(reply, text));
}

/* --- acknowledgements ---------------------------------------------------------- */

static void on_acknowledged(void *user, const struct spot_http_reply *reply)
{
    struct spot_notice_ack *const a = user;
    char text[64];

    a->is_under_way = false;
    if (reply->status == 200) {
        a->id[0] = '\0';
        return;
    }
    if (!a->n_fail)
        spot_notice_warn(a->watch,
                         "notices of azure: the acknowledgement was not accepted: %s; retrying "
                         "until the event begins",
                         spot_notice_reason(reply, text));
    a->due_s =
        spot_clock_s() + spot_backoff_s(++a->n_fail, a->watch->options.interval_s, ack_pause_max_s);
}

static int put_body(const char *id, char *body, size_t size, struct spot_err *err)
{
    FILE *const out = fmemopen(body, size, "w");
    struct spot_jw jw;

    if (!out)
        return spot_err_sys(err, "no memory for it");
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_array(&jw, "StartRequests");
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "EventId", id);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err) | fclose(out) ? -1 : 0;
}

static void send_ack(struct spot_notice_watch *w, struct spot_notice_ack *a)
{
    char url[SPOT_HTTP_URL_MAX], body[4 * SPOT_NOTICE_ID_MAX];
    const struct spot_http_ask question = { .method = "POST",
                                            .url = url,
                                            .header = { header[0],
                                                        "Content-Type: application/json" },
                                            .body = body,
                                            .connect_s = 1,
                                            .limit_s = limit_s };
    struct spot_http_reply failed = { .status = 0 };
    struct spot_err why = { 0 };

    snprintf(url, sizeof(url), "%s%s", w->base, events_path);
    a->is_under_way = true;
    if (!put_body(a->id, body, sizeof(body), &why) &&
        !spot_http_client_ask(w->client, &question, on_acknowledged, a, &why))
        return;
    failed.why = why.msg;
    on_acknowledged(a, &failed);
}

double spot_notice_send_acks(struct spot_notice_watch *w, bool *is_awaited)
{
    double next_s = INFINITY;

    *is_awaited = false;
    for (size_t i = 0; i < SPOT_NOTICE_CLAIMS_MAX; i++) {
        struct spot_notice_ack *const a = &w->ack[i];

        if (a->id[0] && !a->is_under_way && !spot_notice_is_due(w, a->id))
            a->id[0] = '\0';
        if (a->id[0] && !a->is_under_way && spot_clock_s() >= a->due_s)
            send_ack(w, a);
        if (a->id[0] && !a->is_under_way)
            next_s = fmin(next_s, fmax(0, a->due_s - spot_clock_s()));
        *is_awaited |= a->is_under_way;
    }
    return next_s;
}

void spot_notice_acknowledge(struct spot_notice_watch *w, const char *id)
{
    size_t i = 0;

    while (i < SPOT_NOTICE_CLAIMS_MAX && w->ack[i].id[0] && strcmp(w->ack[i].id, id) != 0)
        i++;
    if (i == SPOT_NOTICE_CLAIMS_MAX || w->ack[i].id[0])
        return;
    w->ack[i] = (struct spot_notice_ack){ .watch = w };
    snprintf(w->ack[i].id, sizeof(w->ack[i].id), "%s", id);
}

const struct spot_notice_cloud spot_notice_azure = { "azure", 2, 1U << EVENTS, ask, answered };
