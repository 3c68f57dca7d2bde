/* SPDX-License-Identifier: MIT */
/* A coordinator that stands by until it is elected leader. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster/group_state.h"
#include "common/clock.h"

static_assert((int)SPOT_JOURNAL_RECORD_MAX <= (int)SPOT_ETCD_VALUE_MAX,
              "a record is a value of the store");

/* Finds the address to publish, at which members can reach this coordinator. */
static int find_address(const struct spot_group *g, char text[SPOT_ADDRESS_MAX + 8],
                        struct spot_err *err)
{
    const char *const listen = g->options->listen;
    struct spot_endpoint at;

    if (!listen)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--store needs --listen, the address that members connect to");
    if (spot_endpoint_parse_reach(listen, g->tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE, &at, err))
        return -1;
    if (spot_endpoint_is_any(&at) || (at.kind != SPOT_ENDPOINT_UNIX && !at.port))
        return spot_err_set(
            err, SPOT_EUSAGE,
            "with --store, --listen must be one address and port that others reach, not '%s'",
            listen);
    spot_endpoint_make_absolute(&at);
    spot_endpoint_print(&at, text);
    return 0;
}

static int stops(void)
{
    return spot_group_stops();
}

static int open_lead(struct spot_group *g, struct spot_err *err)
{
    const struct spot_lead_options options = { .store = g->options->store,
                                               .lease_s = g->options->store_lease_s,
                                               .warn = g->options->warn,
                                               .tick = spot_group_send_keepalive,
                                               .user = g,
                                               .stops = stops };

    g->lead = spot_lead_new(&options, err);
    return g->lead ? 0 : -1;
}

/* The last reported reason for standing by. */
enum { REPORTED_NOTHING, REPORTED_LED, REPORTED_SILENT };

static int stand_by(struct spot_group *g, const char *address, const char *identity,
                    struct spot_etcd_entry *record, struct spot_err *err)
{
    const double pause_s = fmin(fmax(g->options->store_lease_s / 10, 0.1), 0.5);
    int last = REPORTED_NOTHING, rc;

    while ((rc = spot_lead_try(g->lead, address, identity, record, err)) <= 0) {
        if (rc < 0 && err->code == SPOT_EUSAGE)
            return -1;
        if (!rc && last != REPORTED_LED && g->options->standing_by)
            g->options->standing_by(g->options->user, g->options->store);
        if (rc < 0 && last != REPORTED_SILENT)
            g->options->warn("no coordinator leads yet: %s; this one waits", err->msg);
        last = rc ? REPORTED_SILENT : REPORTED_LED;
        for (double s = 0; s < pause_s && !spot_group_stops(); s += 0.05)
            spot_clock_sleep(0.05);
        if (spot_group_stops())
            return spot_err_set(err, SPOT_EPREEMPTED, "stopped before it led the job");
    }
    return 0;
}

int spot_group_lead(struct spot_group *g, const char *identity,
                    const struct spot_journal_record **before, struct spot_err *err)
{
    char address[SPOT_ADDRESS_MAX + 8];
    struct spot_etcd_entry record;

    *before = NULL;
    if (!g->options->store)
        return 0;
    if (find_address(g, address, err) || open_lead(g, err) ||
        stand_by(g, address, identity, &record, err))
        return -1;
    if (!record.created)
        return 0;
    if (spot_journal_record_read(&g->before, record.value, err))
        return -1;
    g->is_taken_over = true;
    *before = &g->before;
    return 0;
}

bool spot_group_resumes(const struct spot_group *g)
{
    return g->options->resume || g->is_taken_over;
}

static int put(void *user, const char *record, struct spot_err *err)
{
    struct spot_group *const g = user;

    return spot_lead_put(g->lead, record, err);
}

int spot_group_keep(struct spot_group *g, int64_t *round, struct spot_err *err)
{
    int rc;

    if (!g->lead)
        return 0;
    g->keep = (struct spot_journal_keep){ put, g };
    rc = spot_journal_keep(&g->journal, &g->keep, g->is_taken_over ? &g->before : NULL, round,
                           &g->last_epoch, err);
    spot_journal_record_release(&g->before);
    return rc;
}

int spot_group_hold(struct spot_group *g, struct spot_err *err)
{
    return g->lead ? spot_lead_hold(g->lead, err) : 0;
}

struct spot_lead *spot_group_take_lead(struct spot_group *g)
{
    struct spot_lead *const lead = g ? g->lead : NULL;

    if (g)
        g->lead = NULL;
    return lead;
}

void spot_group_resign(struct spot_group *g)
{
    spot_journal_record_release(&g->before);
    spot_lead_free(g->lead);
    g->lead = NULL;
}
