/* SPDX-License-Identifier: MIT */
#include "cluster/lead.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/store_etcd.h"
#include "common/clock.h"
#include "common/threads.h"
#include "common/xalloc.h"

/* Time limit per member: short at first, so that a member that hangs costs little (a late effect
 * still counts), then longer for slow ones. */
static const double patience_min_s = 0.3, patience_max_s = 4, pause_s = 0.05;
static const double short_tries = 8; /* a multiple of that time */
static const double keeper_patience_s = 0.5;
static const int renewals = 4; /* renewals per lease */
static const char record_name[] = "log";

struct spot_lead {
    struct spot_lead_options options;
    struct spot_etcd *store, *keeper; /* connections of the caller's thread, and of the keeper's */
    size_t n_url;
    char address[SPOT_ETCD_VALUE_MAX + 1];
    int64_t changed; /* revision of the record */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct spot_etcd_lead held; /* `created` 0: none */
    bool is_over, is_ending;    /* is_over: the lease; is_ending: the keeper must end */
};

static struct spot_etcd_lead held(struct spot_lead *l)
{
    struct spot_etcd_lead copy;

    pthread_mutex_lock(&l->mutex);
    copy = l->held;
    pthread_mutex_unlock(&l->mutex);
    return copy;
}

static void hold(struct spot_lead *l, const struct spot_etcd_lead *now)
{
    pthread_mutex_lock(&l->mutex);
    l->held = *now;
    l->is_over = false;
    pthread_mutex_unlock(&l->mutex);
}

/* --- the keeper ---------------------------------------------------------- */

/* Called with the mutex held. */
static void wait_some(struct spot_lead *l)
{
    if (!l->is_ending)
        (void)spot_cond_wait_until(&l->wake, &l->mutex,
                                   spot_clock_s() + l->options.lease_s / renewals);
}

static void *keep(void *user)
{
    struct spot_lead *const l = user;

    pthread_mutex_lock(&l->mutex);
    while (!l->is_ending) {
        struct spot_etcd_lead lead = l->held;
        int rc;

        if (lead.created && !l->is_over) {
            pthread_mutex_unlock(&l->mutex);
            rc = spot_etcd_keep(l->keeper, &lead, NULL);
            pthread_mutex_lock(&l->mutex);
            if (rc >= 0 && l->held.lease == lead.lease) {
                l->held.until_s = lead.until_s;
                l->is_over = !rc;
            }
        }
        wait_some(l);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static int start_keeper(struct spot_lead *l, struct spot_err *err)
{
    pthread_mutex_init(&l->mutex, NULL);
    spot_cond_init(&l->wake);
    if (spot_thread_start(&l->thread, keep, l, err))
        return -1;
    l->has_thread = true;
    return 0;
}

/* --- start and end ------------------------------------------------------- */

static double limit_s(const struct spot_lead *l, double patience_s)
{
    return patience_s * (double)l->n_url;
}

struct spot_lead *spot_lead_new(const struct spot_lead_options *options, struct spot_err *err)
{
    struct spot_lead *const l = spot_xcalloc(1, sizeof(*l));
    struct spot_etcd_where where;

    l->options = *options;
    if (!spot_etcd_where_parse(options->store, &where, err)) {
        l->n_url = where.n_url;
        l->store = spot_etcd_open(&where, limit_s(l, patience_min_s), err);
        l->keeper = l->store ? spot_etcd_open(&where, limit_s(l, keeper_patience_s), err) : NULL;
    }
    if (!l->keeper || start_keeper(l, err)) {
        spot_lead_free(l);
        return NULL;
    }
    spot_etcd_on_wait(l->store, options->tick, options->user);
    return l;
}

void spot_lead_free(struct spot_lead *l)
{
    if (!l)
        return;
    if (l->has_thread) {
        pthread_mutex_lock(&l->mutex);
        l->is_ending = true;
        pthread_cond_signal(&l->wake);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
        spot_etcd_on_wait(l->store, NULL, NULL); /* the object that it would call may be gone */
        if (l->held.created && !l->is_over)
            (void)spot_etcd_resign(l->store, &l->held, NULL);
        pthread_cond_destroy(&l->wake);
        pthread_mutex_destroy(&l->mutex);
    }
    spot_etcd_close(l->keeper);
    spot_etcd_close(l->store);
    free(l);
}

/* --- to lead ------------------------------------------------------------- */

static int is_other(const char *owner, const char *identity, struct spot_err *err)
{
    if (!strcmp(owner, identity))
        return 0;
    return spot_err_set(err, SPOT_EUSAGE,
                        "--store: the prefix belongs to another job: %.64s; this one is %s", owner,
                        identity);
}

/* Claims the prefix and reads the job's record. */
static int claim(struct spot_lead *l, const struct spot_etcd_lead *lead, const char *identity,
                 struct spot_etcd_entry *record, struct spot_err *err)
{
    struct spot_etcd_entry job;
    int rc = spot_etcd_get(l->store, "job", &job, err);

    if (rc < 0 || (rc && is_other(job.value, identity, err)))
        return -1;
    if (!rc)
        rc = spot_etcd_claim(l->store, lead, identity, err);
    if (rc <= 0 || spot_etcd_get(l->store, record_name, record, err) < 0)
        return rc < 0 || rc > 0 ? -1 : 0;
    l->changed = record->changed;
    return 1;
}

static unsigned lease_of(const struct spot_lead *l)
{
    const unsigned whole = (unsigned)l->options.lease_s;

    return whole + (whole < l->options.lease_s);
}

int spot_lead_try(struct spot_lead *l, const char *address, const char *identity,
                  struct spot_etcd_entry *record, struct spot_err *err)
{
    struct spot_etcd_lead lead = { 0 };
    struct spot_etcd_entry leader;
    int rc = spot_etcd_lead(l->store, address, lease_of(l), &lead, &leader, err);

    if (rc <= 0)
        return rc;
    rc = claim(l, &lead, identity, record, err);
    if (rc <= 0) {
        (void)spot_etcd_resign(l->store, &lead, NULL);
        return rc;
    }
    snprintf(l->address, sizeof(l->address), "%s", address);
    hold(l, &lead);
    return 1;
}

static int lost(const char *address, struct spot_err *err)
{
    return spot_err_set(
        err, SPOT_EPREEMPTED,
        "another coordinator leads the job now%s%.200s: this one commits nothing more",
        *address ? ", at " : "", address);
}

/* True if no other coordinator has written the record since. */
static bool is_unchanged(const struct spot_lead *l, const struct spot_etcd_entry *record,
                         const char *pending)
{
    return record->changed == l->changed || (pending && !strcmp(pending, record->value));
}

/* There is another leader. It may be this coordinator itself, from a try whose answer was lost and
 * whose lease will expire. */
static int follow(struct spot_lead *l, const struct spot_etcd_entry *leader, const char *pending,
                  struct spot_err *err)
{
    struct spot_etcd_entry record;

    if (strcmp(leader->value, l->address) != 0)
        return lost(leader->value, err);
    if (spot_etcd_get(l->store, record_name, &record, NULL) < 0 ||
        is_unchanged(l, &record, pending))
        return 0;
    return lost("", err);
}

/* After the lease has ended: lead again, unless the record shows that another coordinator has led
 * meanwhile. Returns 1 if this one leads, 0 if it is not known, -1 with *err if another one has
 * led. */
static int lead_again(struct spot_lead *l, const char *pending, struct spot_err *err)
{
    struct spot_etcd_lead lead = { 0 };
    struct spot_etcd_entry entry;
    int rc = spot_etcd_lead(l->store, l->address, lease_of(l), &lead, &entry, NULL);

    if (rc <= 0)
        return rc < 0 ? 0 : follow(l, &entry, pending, err);
    rc = spot_etcd_get(l->store, record_name, &entry, NULL);
    if (rc >= 0 && is_unchanged(l, &entry, pending)) {
        hold(l, &lead);
        return 1;
    }
    (void)spot_etcd_resign(l->store, &lead, NULL);
    return rc < 0 ? 0 : lost("", err);
}

/* --- while it leads ------------------------------------------------------ */

/* While the lease lasts no other coordinator can lead, provided that clocks run at the same
 * rate. */
static bool is_sure(struct spot_lead *l)
{
    const struct spot_etcd_lead lead = held(l);

    return lead.created && spot_clock_s() < lead.until_s;
}

static bool is_over(struct spot_lead *l)
{
    bool is;

    pthread_mutex_lock(&l->mutex);
    is = l->is_over;
    pthread_mutex_unlock(&l->mutex);
    return is;
}

/* A request to the store that fails repeatedly. */
struct patience {
    double began_s, limit_s;
    bool is_reported;
};

/* Warn once that the job pauses; wait, and use longer limits per member from now on. Returns 0, or
 * -1 with *err: this process was told to stop. */
static int bear(struct spot_lead *l, struct patience *p, const char *why, struct spot_err *err)
{
    const double since_s = spot_clock_s() - p->began_s;
    const bool is_long = !is_sure(l) || since_s > l->options.lease_s;

    if (is_long && !p->is_reported) {
        p->is_reported = true;
        l->options.warn("the job pauses: leadership could not be renewed in the store (%s)", why);
    }
    if (l->options.stops() > (is_long ? 0 : 1))
        return spot_err_set(err, SPOT_EPREEMPTED, "stopped while the store did not answer: %.300s",
                            why);
    if (p->limit_s < patience_max_s && since_s > short_tries * p->limit_s)
        p->limit_s *= 2;
    spot_etcd_set_limit(l->store, limit_s(l, p->limit_s));
    l->options.tick(l->options.user);
    spot_clock_sleep(pause_s);
    return 0;
}

static void calm(struct spot_lead *l, const struct patience *p)
{
    spot_etcd_set_limit(l->store, limit_s(l, patience_min_s));
    if (p->is_reported)
        l->options.warn("the store answers again: the job continues");
}

/* The thread may renew the lease at any time; an expired lease is acquired again unless another
 * coordinator leads. */
int spot_lead_hold(struct spot_lead *l, struct spot_err *err)
{
    struct patience p = { .began_s = spot_clock_s(), .limit_s = patience_min_s };

    if (is_sure(l))
        return 0;
    while (!is_sure(l)) {
        if (is_over(l) && lead_again(l, NULL, err) < 0)
            return -1;
        if (!is_sure(l) && bear(l, &p, "its lease was not renewed in time", err))
            return -1;
    }
    calm(l, &p);
    return 0;
}

/* Tries once to store the record. Returns 1 if it is stored, 0 if not known (*why), or -1 with
 * *err. */
static int put_once(struct spot_lead *l, const char *record, struct spot_err *why,
                    struct spot_err *err)
{
    const struct spot_etcd_lead lead = held(l);
    const int rc = spot_etcd_put(l->store, &lead, record_name, record, &l->changed, why);

    if (rc > 0)
        return 1;
    if (rc < 0)
        return why->code == SPOT_EDATA ? lost("", err) : 0;
    spot_err_set(why, SPOT_ESYS, "its lease has ended");
    return lead_again(l, record, err) < 0 ? -1 : 0;
}

int spot_lead_put(struct spot_lead *l, const char *record, struct spot_err *err)
{
    struct patience p = { .began_s = spot_clock_s(), .limit_s = patience_min_s };
    struct spot_err why;
    int rc;

    while (!(rc = put_once(l, record, &why, err)))
        if (bear(l, &p, why.msg, err))
            return -1;
    calm(l, &p);
    return rc > 0 ? 0 : -1;
}
