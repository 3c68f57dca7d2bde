/* SPDX-License-Identifier: MIT */
#include "model/status_doc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

#define ROOT(member) offsetof(struct spot_status, member)
#define COUNT(key, at, least, must)                     \
    {                                                   \
        key, SPOT_F_INT, at, "1", least, INFINITY, must \
    }
#define TIME(key, at)                                 \
    {                                                 \
        key, SPOT_F_REAL, at, "s", 0, INFINITY, false \
    }
#define WAIT(member) \
    TIME(#member "_p50_s", ROOT(member.p50_s)), TIME(#member "_p99_s", ROOT(member.p99_s))

static const struct spot_field root_field[] = {
    { "time_s", SPOT_F_REAL, ROOT(time_s), "s", 0, 0, true },
    { "phase", SPOT_F_STR, ROOT(phase), NULL, 0, 0, true },
    COUNT("epoch", ROOT(epoch), 0, true),
    COUNT("step", ROOT(step), 0, true),
    { "plan_time_s", SPOT_F_REAL, ROOT(plan_time_s), "s", 0, 0, false },
    { "suspended", SPOT_F_BOOL, ROOT(is_suspended), NULL, 0, 0, false },
    { "tokens_per_s", SPOT_F_REAL, ROOT(tokens_per_s), "1", 0, INFINITY, false },
    { 0 },
};
static const struct spot_field train_field[] = {
    COUNT("steps", ROOT(steps), 1, false),
    COUNT("durable_step", ROOT(durable_step), -1, false),
    TIME("durable_lag_s", ROOT(durable_lag_s)),
    { "durable_error", SPOT_F_STR, ROOT(durable_error), NULL, 0, 0, false },
    { "loss", SPOT_F_REAL, ROOT(loss), "1", 0, 0, false },
    COUNT("D", ROOT(grid.D), 0, false),
    COUNT("P", ROOT(grid.P), 0, false),
    COUNT("M", ROOT(grid.M), 0, false),
    { "put_off", SPOT_F_BOOL, ROOT(is_put_off), NULL, 0, 0, false },
    { "step_s", SPOT_F_REAL, ROOT(step_s), "s", 0, 0, false },
    { "eta_s", SPOT_F_REAL, ROOT(eta_s), "s", 0, 0, false },
    { 0 },
};
static const struct spot_field want_field[] = {
    COUNT("D", ROOT(want.D), 1, true),
    COUNT("P", ROOT(want.P), 1, true),
    COUNT("M", ROOT(want.M), 1, true),
    { 0 },
};
static const struct spot_field serve_field[] = {
    { "model", SPOT_F_STR, ROOT(model), NULL, 0, 0, false },
    COUNT("replicas", ROOT(replicas), 0, false),
    COUNT("requests", ROOT(requests), 0, false),
    COUNT("running", ROOT(running), 0, false),
    COUNT("queued", ROOT(queued), 0, false),
    COUNT("tokens", ROOT(tokens), 0, false),
    COUNT("preemptions", ROOT(preemptions), 0, false),
    COUNT("prompt_tokens", ROOT(prompt_tokens), 0, false),
    COUNT("cached_tokens", ROOT(cached_tokens), 0, false),
    { "kv_use", SPOT_F_REAL, ROOT(kv_use), "1", 0, 1, false },
    WAIT(ttft),
    WAIT(between),
    WAIT(whole),
    WAIT(queue),
    { 0 },
};
static const struct spot_field rollout_field[] = {
    { "state", SPOT_F_STR, ROOT(rollout.state), NULL, 0, 0, true },
    { "why", SPOT_F_STR, ROOT(rollout.why), NULL, 0, 0, false },
    COUNT("replicas", ROOT(rollout.replicas), 0, true),
    COUNT("replicas_left", ROOT(rollout.replicas_left), 0, true),
    COUNT("requests_left", ROOT(rollout.requests_left), 0, true),
    { 0 },
};
static const struct spot_field exec_field[] = {
    { "run_id", SPOT_F_STR, ROOT(exec.run_id), "hex", 16, 16, true },
    COUNT("nodes", ROOT(exec.nodes), 0, true),
    COUNT("world", ROOT(exec.world), 0, true),
    COUNT("started", ROOT(exec.started), 0, true),
    COUNT("done", ROOT(exec.done), 0, true),
    COUNT("warm", ROOT(exec.warm), 0, true),
    COUNT("failures", ROOT(exec.failures), 0, true),
    COUNT("committed", ROOT(exec.committed), 0, false),
    COUNT("durable", ROOT(exec.durable), 0, false),
    { "seconds_lost_if_killed_now", SPOT_F_REAL, ROOT(exec.at_risk_s), "s", 0, INFINITY, false },
    COUNT("moves", ROOT(exec.moves), 0, true),
    { "mirrored_byte", SPOT_F_INT, ROOT(exec.mirrored_byte), "byte", 0, INFINITY, true },
    { 0 },
};

#define MEMBER(member) offsetof(struct spot_status_member, member)
static const struct spot_field member_field[] = {
    COUNT("member", MEMBER(member), 1, true),
    { "name", SPOT_F_STR, MEMBER(name), NULL, 0, 0, true },
    { "role", SPOT_F_STR, MEMBER(role), NULL, 0, 0, true },
    COUNT("d", MEMBER(d), 0, false),
    COUNT("p", MEMBER(p), 0, false),
    COUNT("m", MEMBER(m), 0, false),
    { "leaving", SPOT_F_BOOL, MEMBER(is_leaving), NULL, 0, 0, true },
    { "warm", SPOT_F_REAL, MEMBER(warm), "1", 0, 1, false },
    { 0 },
};

#define ASIDE(member) offsetof(struct spot_status_aside, member)
static const struct spot_field aside_field[] = {
    { "name", SPOT_F_STR, ASIDE(name), NULL, 0, 0, true },
    { "why", SPOT_F_STR, ASIDE(why), NULL, 0, 0, true },
    COUNT("times", ASIDE(times), 1, true),
    { 0 },
};

#define RANK(member) offsetof(struct spot_status_rank, member)
static const struct spot_field rank_field[] = {
    COUNT("rank", RANK(rank), 0, true),
    { "name", SPOT_F_STR, RANK(name), NULL, 0, 0, true },
    COUNT("step", RANK(step), 0, true),
    { "step_s", SPOT_F_REAL, RANK(step_s), "s", 0, INFINITY, true },
    { "slow", SPOT_F_BOOL, RANK(is_slow), NULL, 0, 0, true },
    { 0 },
};

#define EVENT(member) offsetof(struct spot_status_event, member)
static const struct spot_field event_field[] = {
    { "event", SPOT_F_STR, EVENT(event), NULL, 0, 0, true },
    { "time_s", SPOT_F_REAL, EVENT(time_s), "1", 0, 0, true },
    COUNT("epoch", EVENT(epoch), 0, true),
    COUNT("step", EVENT(step), 0, true),
    { "name", SPOT_F_STR, EVENT(name), NULL, 0, 0, false },
    { 0 },
};

enum part { MEMBERS, ASIDES, RANKS, EVENTS };
const struct spot_doc_part spot_status_part[] = {
    [MEMBERS] = { "members[]", member_field, .required = true, .n_max = SPOT_STATUS_MEMBERS_MAX },
    [ASIDES] = { "aside[]", aside_field, .n_max = SPOT_STATUS_MEMBERS_MAX },
    [RANKS] = { "ranks[]", rank_field, .n_max = SPOT_STATUS_MEMBERS_MAX },
    [EVENTS] = { "events[]", event_field, .required = true, .n_max = SPOT_STATUS_EVENTS_MAX },
    { "", root_field, .required = true },
    { "", train_field, .required = true },
    { "", serve_field, .required = true },
    { "want", want_field, .required = false },
    { "rollout", rollout_field, .required = false },
    { "exec", exec_field, .required = false },
    { 0 },
};

/* --- reading -------------------------------------------------------------- */

static bool has_all(const struct spot_json_value *root, const char *const *key)
{
    while (*key && spot_json_get(root, *key))
        key++;
    return !*key;
}

static int find_work(struct spot_status *s, struct spot_err *err)
{
    static const char *const key[][9] = {
        [SPOT_STATUS_TRAINS] = { "steps", "durable_step", "D", "P", "M", "step_s", "tokens_per_s" },
        [SPOT_STATUS_SERVES] = { "model", "replicas", "requests", "running", "queued", "tokens",
                                 "preemptions", "tokens_per_s" },
        [SPOT_STATUS_EXEC] = { "exec" },
    };

    for (size_t i = 0; i < sizeof(key) / sizeof(*key); i++)
        if (has_all(s->json.root, key[i])) {
            s->work = (enum spot_status_work)i;
            return 0;
        }
    return spot_json_fail(&s->json, "", err, "lacks the keys of any kind of job");
}

static int read_part(struct spot_status *s, const char *key, const struct spot_field *field,
                     struct spot_err *err)
{
    const struct spot_json_value *part;
    char at[16];

    if (spot_json_object(&s->json, s->json.root, "", key, false, &part, err))
        return -1;
    snprintf(at, sizeof(at), "/%s", key);
    return part ? spot_json_read_fields(&s->json, part, at, field, s, err) : 0;
}

/* Read the objects of an array, each initialised from `unset`; *row belongs to the caller. */
static int read_rows(struct spot_status *s, enum part which, const void *unset, size_t size,
                     void **row, size_t *n, struct spot_err *err)
{
    const struct spot_doc_part *const part = &spot_status_part[which];
    char key[16];

    snprintf(key, sizeof(key), "%.*s", (int)strcspn(part->at, "["), part->at);
    return spot_json_rows(&s->json, s->json.root, "", key, part, unset, size, row, n, err);
}

static int read_mirrors(struct spot_status *s, struct spot_err *err)
{
    const struct spot_json_value *const list = spot_json_get(s->json.root, "members"), *stage;
    char at[32];
    size_t k;

    for (size_t i = 0; i < s->n_member; i++) {
        snprintf(at, sizeof(at), "/members/%zu", i);
        if (spot_json_array(&s->json, spot_json_entry(list, i), at, "mirrors", false, SPOT_GRID_MAX,
                            &s->member[i].mirrors, err))
            return -1;
        spot_json_array_foreach(s->member[i].mirrors, k, stage)
        {
            if (!spot_json_is_integer(stage) || spot_json_integer(stage) < 0)
                return spot_json_fail(&s->json, at, err, "mirrors must be numbers of stages");
        }
    }
    return 0;
}

static int read_lists(struct spot_status *s, struct spot_err *err)
{
    static const struct spot_status_member member = { .d = -1, .warm = NAN };
    static const struct spot_status_event event = { .name = "" };
    static const struct spot_status_aside aside = { 0 };
    static const struct spot_status_rank rank = { 0 };

    return read_rows(s, MEMBERS, &member, sizeof(member), (void **)&s->member, &s->n_member, err) ||
                   read_mirrors(s, err) ||
                   read_rows(s, ASIDES, &aside, sizeof(aside), (void **)&s->aside, &s->n_aside,
                             err) ||
                   read_rows(s, RANKS, &rank, sizeof(rank), (void **)&s->rank, &s->n_rank, err) ||
                   read_rows(s, EVENTS, &event, sizeof(event), (void **)&s->event, &s->n_event, err)
               ? -1
               : 0;
}

static int read_status(struct spot_status *s, struct spot_err *err)
{
    const struct spot_json_value *const root = s->json.root;

    return spot_json_expect_schema(&s->json, "spot.status", 1, err) ||
                   spot_json_read_fields(&s->json, root, "", root_field, s, err) ||
                   spot_json_read_fields(&s->json, root, "", train_field, s, err) ||
                   spot_json_read_fields(&s->json, root, "", serve_field, s, err) ||
                   read_part(s, "want", want_field, err) ||
                   read_part(s, "rollout", rollout_field, err) ||
                   read_part(s, "exec", exec_field, err) || find_work(s, err) || read_lists(s, err)
               ? -1
               : 0;
}

int spot_status_parse(struct spot_status *s, const char *text, size_t n_byte, const char *source,
                      struct spot_err *err)
{
    static const struct spot_status_wait no_wait = { NAN, NAN };

    *s = (struct spot_status){
        .plan_time_s = NAN,
        .tokens_per_s = NAN,
        .durable_lag_s = NAN,
        .loss = NAN,
        .eta_s = NAN,
        .kv_use = NAN,
        .queue = no_wait,
        .ttft = no_wait,
        .between = no_wait,
        .whole = no_wait,
        .rollout.why = "",
        .exec = { .committed = -1, .durable = -1, .at_risk_s = NAN },
    };
    if (spot_json_parse(&s->json, text, n_byte, source, err))
        return -1;
    if (!read_status(s, err))
        return 0;
    spot_status_release(s);
    return -1;
}

void spot_status_release(struct spot_status *s)
{
    free(s->member);
    free(s->aside);
    free(s->rank);
    free(s->event);
    spot_json_release(&s->json);
    *s = (struct spot_status){ 0 };
}
