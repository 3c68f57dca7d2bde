/* SPDX-License-Identifier: MIT */
#include "cluster/notice/notice_claim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/num.h"
#include "common/timestamp.h"
#include "common/utf8.h"

static struct spot_notice_claim claim_of(enum spot_notice_kind kind)
{
    return (struct spot_notice_claim){ .kind = kind,
                                       .is_memory_lost = kind == SPOT_NOTICE_PREEMPT,
                                       .deadline_s = NAN,
                                       .lead_s = NAN };
}

/* Copies untrusted text, truncated and made safe to print. */
static void copy_plain(char *to, size_t size, const char *text)
{
    const size_t n = spot_utf8_cut(text, size - 1);

    memcpy(to, text, n);
    to[n] = '\0';
    spot_utf8_make_plain(to);
}

/* RFC 3339 or the form of HTTP; NAN for anything else. */
static double time_of(const char *text)
{
    double unix_s;

    if (text && (!spot_timestamp_parse(text, &unix_s) || !spot_timestamp_parse_http(text, &unix_s)))
        return unix_s;
    return NAN;
}

/* Text of a member, NULL if absent. */
static const char *member(const struct spot_json_value *object, const char *key)
{
    const struct spot_json_value *const v = spot_json_get(object, key);

    return spot_json_is_string(v) ? spot_json_text(v) : NULL;
}

int spot_notice_read_action(const char *text, size_t n, const char *name,
                            struct spot_notice_claim *claim, struct spot_err *err)
{
    struct spot_json_doc doc;
    const char *action;
    int rc = 1;

    (void)name;
    if (spot_json_parse(&doc, text, n, "instance-action", err))
        return -1;
    action = member(doc.root, "action");
    if (action && *action) {
        *claim = claim_of(SPOT_NOTICE_PREEMPT); /* an unknown action counts as one, too */
        copy_plain(claim->action, sizeof(claim->action), action);
        snprintf(claim->id, sizeof(claim->id), "spot/instance-action:%s", claim->action);
        claim->deadline_s = time_of(member(doc.root, "time"));
    } else {
        rc = spot_json_fail(&doc, "", err, "expected an \"action\"");
    }
    spot_json_release(&doc);
    return rc;
}

int spot_notice_read_rebalance(const char *text, size_t n, const char *name,
                               struct spot_notice_claim *claim, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc = 1;

    (void)name;
    if (spot_json_parse(&doc, text, n, "rebalance", err))
        return -1;
    if (member(doc.root, "noticeTime")) {
        *claim = claim_of(SPOT_NOTICE_REBALANCE);
        copy_plain(claim->action, sizeof(claim->action), "rebalance");
        copy_plain(claim->id, sizeof(claim->id), "events/recommendations/rebalance");
    } else {
        rc = spot_json_fail(&doc, "", err, "expected a \"noticeTime\"");
    }
    spot_json_release(&doc);
    return rc;
}

/* A word with blanks around it. */
static bool is_word(const char *text, size_t n, const char *word)
{
    const size_t n_word = strlen(word);

    return n >= n_word && !strncmp(text, word, n_word) &&
           strspn(text + n_word, " \t\r\n") == n - n_word;
}

static int no_word(const char *what, const char *expected, const char *text, struct spot_err *err)
{
    char shown[40];

    copy_plain(shown, sizeof(shown), text);
    return spot_err_set(err, SPOT_EDATA, "%s: expected %s, got '%s'", what, expected, shown);
}

int spot_notice_read_preempted(const char *text, size_t n, const char *name,
                               struct spot_notice_claim *claim, struct spot_err *err)
{
    (void)name;
    if (is_word(text, n, "FALSE"))
        return 0;
    if (!is_word(text, n, "TRUE"))
        return no_word("preempted", "TRUE or FALSE", text, err);
    *claim = claim_of(SPOT_NOTICE_PREEMPT);
    copy_plain(claim->action, sizeof(claim->action), "preempted");
    copy_plain(claim->id, sizeof(claim->id), "instance/preempted");
    claim->lead_s = 30;
    return 1;
}

int spot_notice_read_maintenance(const char *text, size_t n, const char *name,
                                 struct spot_notice_claim *claim, struct spot_err *err)
{
    static const struct {
        const char *word;
        bool is_memory_lost;
    } known[] = { { "MIGRATE_ON_HOST_MAINTENANCE", false },
                  { "TERMINATE_ON_HOST_MAINTENANCE", true } };

    (void)name;
    if (is_word(text, n, "NONE"))
        return 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!is_word(text, n, known[i].word))
            continue;
        *claim = claim_of(SPOT_NOTICE_MAINTENANCE);
        claim->is_memory_lost = known[i].is_memory_lost;
        copy_plain(claim->action, sizeof(claim->action), known[i].word);
        snprintf(claim->id, sizeof(claim->id), "instance/maintenance-event:%s", known[i].word);
        return 1;
    }
    return no_word("maintenance-event", "NONE or an event", text, err);
}

/* --- Azure --------------------------------------------------------------- */

static bool concerns(const struct spot_json_value *event, const char *name)
{
    const struct spot_json_value *const all = spot_json_get(event, "Resources");
    const struct spot_json_value *one;
    size_t i;

    if (!name)
        return true;
    spot_json_array_foreach(all, i, one) if (spot_json_is_string(one) &&
                                             !strcasecmp(spot_json_text(one), name)) return true;
    return false;
}

/* Freeze only pauses the machine; an unknown event may end it. */
static struct spot_notice_claim claim_of_event(const char *type)
{
    const bool is_end = !strcmp(type, "Preempt") || !strcmp(type, "Terminate");
    struct spot_notice_claim c = claim_of(is_end ? SPOT_NOTICE_PREEMPT : SPOT_NOTICE_MAINTENANCE);

    c.is_memory_lost = strcmp(type, "Freeze") != 0;
    copy_plain(c.action, sizeof(c.action), type);
    return c;
}

/* Returns true for an event that is pending or in progress. */
static bool read_event(const struct spot_json_value *event, struct spot_notice_claim *claim)
{
    const char *const id = member(event, "EventId"), *const type = member(event, "EventType");
    const char *const status = member(event, "EventStatus"), *const before =
                                                                 member(event, "NotBefore");

    if (!id || !*id || !type || !*type)
        return false;
    if (status && (!strcmp(status, "Completed") || !strcmp(status, "Canceled")))
        return false;
    *claim = claim_of_event(type);
    copy_plain(claim->id, sizeof(claim->id), id);
    claim->has_begun = status && !strcmp(status, "Started");
    if (claim->has_begun)
        claim->lead_s = 0; /* it may have begun before its time */
    else
        claim->deadline_s = time_of(before);
    return true;
}

int spot_notice_read_events(const char *text, size_t n, const char *name,
                            struct spot_notice_claim *claim, struct spot_err *err)
{
    const struct spot_json_value *events, *event;
    struct spot_json_doc doc;
    size_t i;
    int n_claim = 0;

    if (spot_json_parse(&doc, text, n, "scheduledevents", err))
        return -1;
    events = spot_json_get(doc.root, "Events");
    if (!spot_json_is_array(events))
        n_claim = spot_json_fail(&doc, "", err, "expected an array \"Events\"");
    spot_json_array_foreach(events, i, event)
    {
        if (n_claim < SPOT_NOTICE_CLAIMS_MAX && spot_json_is_object(event) &&
            concerns(event, name) && read_event(event, &claim[n_claim]))
            n_claim++;
    }
    spot_json_release(&doc);
    return n_claim;
}

/* --- a command ----------------------------------------------------------- */

static bool take_kind(const char *word, struct spot_notice_claim *claim)
{
    for (int kind = SPOT_NOTICE_PREEMPT; kind <= SPOT_NOTICE_MAINTENANCE; kind++) {
        if (!strcmp(word, spot_notice_kind_name((enum spot_notice_kind)kind))) {
            claim->kind = (enum spot_notice_kind)kind;
            claim->is_memory_lost = kind == SPOT_NOTICE_PREEMPT;
            return true;
        }
    }
    return false;
}

static bool take_deadline(const char *word, struct spot_notice_claim *claim)
{
    double left_s;

    claim->deadline_s = time_of(word);
    if (!isnan(claim->deadline_s))
        return true;
    if (spot_num_parse_secs(word, &left_s) || left_s < 0)
        return false;
    claim->lead_s = left_s;
    return true;
}

int spot_notice_read_line(const char *text, size_t n, const char *name,
                          struct spot_notice_claim *claim, struct spot_err *err)
{
    static const char blank[] = " \t\r\n";
    const char *rest = text + strspn(text, blank);
    char word[64];

    (void)name, (void)err;
    *claim = claim_of(SPOT_NOTICE_PREEMPT);
    if (!*rest || rest >= text + n)
        return 0;
    for (int i = 0; i < 2; i++) {
        const size_t n_word = strcspn(rest, blank);

        snprintf(word, sizeof(word), "%.*s", (int)(n_word < sizeof(word) ? n_word : 0), rest);
        if (i == 0 ? !take_kind(word, claim) && !take_deadline(word, claim)
                   : !take_deadline(word, claim))
            break;
        rest += n_word + strspn(rest + n_word, blank);
        if (!isnan(claim->deadline_s) || !isnan(claim->lead_s))
            break;
    }
    copy_plain(claim->action, sizeof(claim->action), "line");
    copy_plain(claim->id, sizeof(claim->id), *rest ? rest : "cmd");
    return 1;
}

bool spot_notice_is_token(const char *text, size_t n)
{
    if (!n || n > 1024)
        return false;
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return true;
}
