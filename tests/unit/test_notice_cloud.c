/* SPDX-License-Identifier: MIT */
/* Goal: GCP and Azure are asked in their own words, and `auto` finds out which of the clouds
 * answers: a question that waits for news is the only one, events are those of this machine and are
 * acknowledged when the hook has ended well. */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "notice_script.h"

static void action(FILE *out)
{
    char body[128];

    snprintf(body, sizeof(body), "{\"action\": \"terminate\", \"time\": \"%s\"}",
             rfc3339(there_s(100)));
    dated(out, 200, "", body);
}

/* --- GCP --- */

/* Holds a question for news until the script goes on. */
static bool gcp(const struct question *q, FILE *out)
{
    static const char *const value[] = { "NONE", "MIGRATE_ON_HOST_MAINTENANCE", "NONE", "NONE" };
    const bool is_preempted = is_about(q, "/instance/preempted");
    const int at = stage;
    char etag[16], last[96];

    ck_assert_str_eq(question_header(q, "Metadata-Flavor"), "Google");
    ck_assert(is_preempted || is_about(q, "/instance/maintenance-event"));
    snprintf(etag, sizeof(etag), "e%d", is_preempted ? at == 3 : at);
    snprintf(last, sizeof(last), "?wait_for_change=true&timeout_sec=30&last_etag=%s", etag);
    if (strstr(q->path, last))
        return false; /* it knows that */
    if (strchr(q->path, '?'))
        ck_assert_msg(strstr(q->path, "?wait_for_change=true&timeout_sec=30&last_etag=e") != NULL,
                      "%s", q->path);
    else
        n_of++;
    snprintf(last, sizeof(last), "Metadata-Flavor: Google\r\nETag: %s\r\n", etag);
    dated(out, 200, last, is_preempted ? (at == 3 ? "TRUE" : "FALSE") : value[at]);
    if (!at && n_of == 2 && strchr(q->path, '?') == NULL)
        stage = 1;
    return true;
}

static void follow_gcp(void)
{
    if (seen.told[seen.n_told - 1].kind == SPOT_NOTICE_PREEMPT)
        stop();
    else
        next_stage();
}

START_TEST(of_gcp_one_question_waits_for_each_value_and_a_preemption_has_its_lead)
{
    begin_script(gcp);
    watch((struct spot_notice_options){ .from = "gcp", .endpoint = service.url }, follow_gcp);
    ck_assert_int_eq(seen.n_told, 3);
    ck_assert_int_eq(seen.told[0].kind, SPOT_NOTICE_MAINTENANCE);
    ck_assert(!seen.told[0].is_memory_lost);
    ck_assert_int_eq(seen.told[1].state, SPOT_NOTICE_GONE);
    ck_assert_int_eq(seen.told[2].kind, SPOT_NOTICE_PREEMPT);
    expect_left(2, 30);
    ck_assert_int_eq(n_of, 2); /* all others waited for news */
    watch((struct spot_notice_options){ .from = "gcp", .endpoint = service.url, .lead_s = 120 },
          stop); /* it is there already */
    expect_left(0, 120);
    ck_assert_double_gt(seen.told[0].left_s, 100);
    end_service();
}
END_TEST

/* A tag that would change the query is none; nor is that of an answer that cannot be read. */
static bool give_bad_etag(const struct question *q, FILE *out)
{
    ck_assert_msg(strchr(q->path, '?') == NULL, "%s", q->path);
    if (!is_about(q, "/instance/preempted"))
        dated(out, 200, "ETag: a&b=c\r\n", "NONE");
    else if (++n_asked < 4)
        dated(out, 200, "ETag: a&b=c\r\n", "FALSE");
    else
        dated(out, 200, "ETag: good\r\n", "perhaps");
    return true;
}

START_TEST(of_gcp_a_tag_that_is_no_tag_is_not_sent_back)
{
    begin_script(give_bad_etag);
    watch((struct spot_notice_options){ .from = "gcp", .endpoint = service.url }, stop);
    end_service();
    ck_assert_int_eq(n_asked, 6); /* three answers that cannot be read are warned of */
    ck_assert_int_eq(seen.n_told, 0);
    expect_warned(0, "notices of gcp: ");
}
END_TEST

/* It answers at once, though it was asked to wait for news. */
static bool do_not_wait(const struct question *q, FILE *out)
{
    if (is_about(q, "/instance/preempted") && ++n_asked == 10)
        stop();
    dated(out, 200, "ETag: same\r\n", is_about(q, "/instance/preempted") ? "FALSE" : "NONE");
    return true;
}

START_TEST(of_gcp_a_service_that_does_not_wait_is_not_asked_in_a_circle)
{
    const double interval_s = 0.02, begun_s = spot_clock_s();

    begin_script(do_not_wait);
    watch((struct spot_notice_options){ .from = "gcp",
                                        .endpoint = service.url,
                                        .interval_s = interval_s },
          NULL);
    end_service();
    /* two at once, then one in an interval; a slow machine asks less */
    ck_assert_double_ge(spot_clock_s() - begun_s, (n_asked - 3) * interval_s);
    ck_assert_int_eq(seen.n_told, 0);
}
END_TEST

/* --- Azure --- */

#define EVENT(id, type, resource, more)                                                       \
    "{\"EventId\":\"" id "\",\"EventType\":\"" type "\",\"ResourceType\":\"VirtualMachine\"," \
    "\"Resources\":[\"other\",\"" resource "\"]" more "}"
#define EVENTS(list) "{\"DocumentIncarnation\":2,\"Events\":[" list "]}"

static char posted[256];

static bool azure(const struct question *q, FILE *out)
{
    static const char *const events[] = {
        EVENTS(EVENT("sibling", "Preempt", "vm_30", "") "," EVENT(
            "bad", "Freeze", "VM_3", "") "," EVENT("mine", "Preempt", "VM_3",
                                                   "") "," EVENT("begun", "Reboot", "VM_3",
                                                                 ",\"EventStatus\":\"Started\"")),
        EVENTS("")
    };

    ck_assert_str_eq(question_header(q, "Metadata"), "true");
    if (is_about(q, "/metadata/instance/compute/name")) {
        ck_assert_int_eq(n_of, 0); /* it comes first */
        n_asked++;
        dated(out, 200, "", "vm_3");
    } else if (!strcmp(q->method, "POST")) {
        strncat(posted, q->body, sizeof(posted) - strlen(posted) - 1);
        dated(out, 200, "", "");
        next_stage();
    } else {
        ck_assert_int_eq(n_asked, 1);
        n_of++;
        dated(out, 200, "", events[stage > 0]);
    }
    return true;
}

static void until_gone(void)
{
    int n_gone = 0;

    for (int i = 0; i < seen.n_told; i++)
        n_gone += seen.told[i].state == SPOT_NOTICE_GONE;
    if (n_gone == 3)
        stop();
}

static int index_of(const char *id)
{
    for (int i = 0; i < seen.n_told; i++)
        if (!strcmp(seen.told[i].id, id))
            return i;
    return -1;
}

START_TEST(of_azure_events_of_this_machine_are_acknowledged_when_the_hook_ended_well)
{
    posted[0] = '\0';
    begin_script(azure);
    watch((struct spot_notice_options){ .from = "azure",
                                        .endpoint = service.url,
                                        .is_acknowledged = true,
                                        .hook = "[ \"$SPOT_NOTICE_ID\" != bad ]" },
          until_gone);
    end_service();
    ck_assert_int_eq(index_of("sibling"), -1);
    expect_told(index_of("mine"), SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "mine");
    expect_told(index_of("bad"), SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_NEW, "bad");
    ck_assert(!seen.told[index_of("bad")].is_memory_lost);
    expect_told(index_of("begun"), SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_NEW, "begun");
    ck_assert_str_eq(posted, "{\"StartRequests\":[{\"EventId\":\"mine\"}]}\n");
    expect_warned(0, "the hook ended with status 1");
}
END_TEST

/* The name is refused, and so is what is posted. */
static bool azure_without_a_name(const struct question *q, FILE *out)
{
    if (is_about(q, "/metadata/instance/compute/name")) {
        n_asked++;
        dated(out, 404, "", "");
    } else if (!strcmp(q->method, "POST")) {
        dated(out, 409, "", "");
    } else {
        dated(out, 200, "", EVENTS(EVENT("any", "Terminate", "vm_30", "")));
    }
    return true;
}

static void until_two_warnings(void)
{
    if (seen.n_warned == 2)
        stop();
}

START_TEST(of_azure_without_a_name_the_events_of_all_count_and_a_lost_acknowledgement_is_told)
{
    begin_script(azure_without_a_name);
    watch((struct spot_notice_options){ .from = "azure",
                                        .endpoint = service.url,
                                        .is_acknowledged = true },
          until_two_warnings);
    end_service();
    ck_assert_int_ge(n_asked, 3);
    expect_warned(
        0, "this machine's name is not known (HTTP status 404), events of all machines count");
    expect_told(0, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "any");
    expect_warned(1, "the acknowledgement was not accepted: HTTP status 409");
}
END_TEST

static bool azure_that_is_named(const struct question *q, FILE *out)
{
    if (is_about(q, "/metadata/instance/compute/name"))
        dated(out, 200, "", "vm_3");
    else if (++n_asked < 4)
        dated(out, 500, "", "");
    else
        dated(out, 200, "", EVENTS(EVENT("mine", "Redeploy", "VM_3", "")));
    return true;
}

static void until_told(void)
{
    if (seen.n_told)
        stop();
}

START_TEST(of_azure_events_are_asked_for_again_and_names_match_in_any_case)
{
    begin_script(azure_that_is_named);
    watch((struct spot_notice_options){ .from = "azure", .endpoint = service.url }, until_told);
    end_service();
    expect_told(0, SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_NEW, "mine");
    expect_warned(0, "notices of azure: HTTP status 500");
}
END_TEST

/* One event, by its state and the time that is left. */
static void put_event(char *text, size_t size, const char *id, const char *type, const char *status,
                      double ahead_s)
{
    const size_t n = strlen(text);

    snprintf(text + n, size - n,
             "%s{\"EventId\":\"%s\",\"EventType\":\"%s\",\"EventStatus\":\"%s\","
             "\"Resources\":[\"VM_3\"],\"NotBefore\":\"%s\"}",
             n ? "," : "", id, type, status, ahead_s > 0 ? date(there_s(ahead_s), true) : "");
}

static bool azure_as_it_likes(const struct question *q, FILE *out)
{
    char list[1024] = "", all[1100];

    switch (stage) {
    case 0:
        put_event(list, sizeof(list), "mine", "Preempt", "Scheduled", 900);
        break;
    case 1: /* twice, and it has begun before its time */
        put_event(list, sizeof(list), "mine", "Preempt", "Scheduled", 800);
        put_event(list, sizeof(list), "mine", "Preempt", "Started", 0);
        break;
    case 2: /* it was no beginning */
        put_event(list, sizeof(list), "mine", "Preempt", "Scheduled", 300);
        break;
    default: /* another one, which is survived at first */
        put_event(list, sizeof(list), "host", stage == 3 ? "Freeze" : "Redeploy", "Scheduled", 300);
    }
    snprintf(all, sizeof(all), EVENTS("%s"), list);
    dated(out, 200, "", is_about(q, "/name") ? "vm_3" : all);
    return true;
}

static void follow_its_whims(void)
{
    static const int stage_of[] = { 0, 1, 2, 3, 3, 4, 4 };

    if (seen.n_told == 7)
        stop();
    else
        stage = stage_of[seen.n_told];
}

START_TEST(of_azure_every_order_of_states_is_told)
{
    static const struct {
        enum spot_notice_state state;
        double left_s;
    } want[] = { { SPOT_NOTICE_NEW, 900 }, { SPOT_NOTICE_EARLIER, 0 }, { SPOT_NOTICE_LATER, 300 } };

    begin_script(azure_as_it_likes);
    watch((struct spot_notice_options){ .from = "azure", .endpoint = service.url },
          follow_its_whims);
    end_service();
    for (int i = 0; i < 3; i++) {
        expect_told(i, SPOT_NOTICE_PREEMPT, want[i].state, "mine");
        ck_assert_double_le(fabs(seen.told[i].left_s - want[i].left_s), 10);
    }
    expect_told(3, SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_NEW, "host");
    ck_assert(!seen.told[3].is_memory_lost);
    expect_told(4, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_GONE, "mine");
    expect_told(5, SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_NEW, "host");
    ck_assert(seen.told[5].is_memory_lost);
    expect_told(6, SPOT_NOTICE_MAINTENANCE, SPOT_NOTICE_GONE, "host");
}
END_TEST

enum { MANY = 400 };

/* Of a large set of machines. */
static bool azure_of_many(const struct question *q, FILE *out)
{
    static char all[MANY * 1024];
    size_t n = (size_t)snprintf(all, sizeof(all), "{\"DocumentIncarnation\":2,\"Events\":[");

    if (is_about(q, "/name")) {
        dated(out, 200, "", "vm_3");
        return true;
    }
    for (int i = 0; i < MANY; i++)
        n += (size_t)snprintf(all + n, sizeof(all) - n,
                              "%s{\"EventId\":\"%08d-4f2e-4a6d-9f0a-2c1b7c3d5e6f\",\"EventType\":"
                              "\"Preempt\",\"ResourceType\":\"VirtualMachine\",\"Resources\":["
                              "\"vmss_other_%d\",\"%s\"],\"EventStatus\":\"Scheduled\","
                              "\"NotBefore\":\"\",\"Description\":\"%0300d\",\"EventSource\":"
                              "\"Platform\",\"DurationInSeconds\":-1}",
                              i ? "," : "", i, i, i + 1 == MANY ? "vm_3" : "vm_4", i);
    snprintf(all + n, sizeof(all) - n, "]}");
    dated(out, 200, "", all);
    return true;
}

START_TEST(of_azure_the_last_of_many_events_is_found)
{
    begin_script(azure_of_many);
    watch((struct spot_notice_options){ .from = "azure", .endpoint = service.url }, stop);
    end_service();
    ck_assert_int_eq(seen.n_warned, 0);
    ck_assert_int_eq(seen.n_told, 1);
    expect_told(0, SPOT_NOTICE_PREEMPT, SPOT_NOTICE_NEW, "00000399-4f2e-4a6d-9f0a-2c1b7c3d5e6f");
}
END_TEST

/* Takes the third acknowledgement of one event; the other one begins before. */
static bool azure_that_is_slow_of_hearing(const struct question *q, FILE *out)
{
    char list[1024] = "", all[1100];

    if (!strcmp(q->method, "POST")) {
        const bool is_mine = strstr(q->body, "\"mine\"") != NULL;

        n_put += is_mine;
        n_of += !is_mine;
        if (n_of == 2)
            stage = 1;
        dated(out, is_mine && n_put == 3 ? 200 : 400, "", "");
        return true;
    }
    n_asked += stage == 1 && n_put == 3;
    if (n_asked == 10)
        stop();
    put_event(list, sizeof(list), "mine", "Preempt", "Scheduled", 900);
    put_event(list, sizeof(list), "begun", "Reboot", stage ? "Started" : "Scheduled", 0);
    snprintf(all, sizeof(all), EVENTS("%s"), list);
    dated(out, 200, "", is_about(q, "/name") ? "vm_3" : all);
    return true;
}

START_TEST(of_azure_an_acknowledgement_that_fails_is_sent_again_until_the_event_begins)
{
    begin_script(azure_that_is_slow_of_hearing);
    watch((struct spot_notice_options){ .from = "azure",
                                        .endpoint = service.url,
                                        .is_acknowledged = true },
          NULL);
    end_service();
    ck_assert_int_eq(n_put, 3);
    ck_assert_int_le(n_of, 3); /* one may have been on its way */
    ck_assert_int_eq(seen.n_warned, 2);
    expect_warned(0, "the acknowledgement was not accepted: HTTP status 400");
}
END_TEST

/* --- which cloud is it? --- */

static const char *const cloud_name[] = { "aws", "gcp", "azure" };
static int which_cloud;

/* One of the three; in its own words, and to questions of others as a server does. */
static bool one_cloud(const struct question *q, FILE *out)
{
    static const char *const own[] = { "/latest/", "/computeMetadata/v1/", "/metadata/" };
    char ttl[256];

    if (strncmp(q->path, own[which_cloud], strlen(own[which_cloud])) != 0) {
        dated(out, 404, "", "<html>what?</html>");
    } else if (which_cloud == 0 && is_about(q, "/token")) {
        snprintf(ttl, sizeof(ttl), "%s",
                 question_header(q, "X-aws-ec2-metadata-token-ttl-seconds"));
        dated(out, 200,
              strcmp(ttl, "60") ? "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 21600\r\n"
                                : "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 60\r\n",
              "token==");
    } else if (which_cloud == 0) {
        action(out);
    } else if (which_cloud == 1) {
        dated(out, 200, "Metadata-Flavor: Google\r\nETag: 1\r\n",
              is_about(q, "preempted") ? "TRUE" : "NONE");
    } else {
        dated(out, 200, "",
              is_about(q, "/name") ? "here" : EVENTS(EVENT("e", "Preempt", "here", "")));
    }
    return true;
}

START_TEST(auto_finds_out_which_cloud_it_is)
{
    which_cloud = _i;
    begin_script(one_cloud);
    watch((struct spot_notice_options){ .from = "auto", .endpoint = service.url }, stop);
    end_service();
    ck_assert_int_eq(seen.n_told, 1);
    ck_assert_str_eq(seen.told[0].source, cloud_name[_i]);
    ck_assert_int_eq(seen.told[0].kind, SPOT_NOTICE_PREEMPT);
    ck_assert_int_eq(seen.n_warned, 0);
}
END_TEST

/* A server that answers 200 to all is none of them; each of the three is asked four times. */
static bool no_cloud(const struct question *q, FILE *out)
{
    (void)q;
    if (++n_asked == 12)
        stop();
    dated(out, 200, "", "<html>\x01</html>");
    return true;
}

START_TEST(auto_says_once_that_there_is_no_cloud)
{
    begin_script(no_cloud);
    watch((struct spot_notice_options){ .from = "auto", .endpoint = service.url }, NULL);
    ck_assert_int_eq(seen.n_told, 0);
    ck_assert_int_eq(seen.n_warned, 1);
    expect_warned(0, "notices of auto: no metadata service answers at http://127.0.0.1");
    end_service();
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    setenv("http_proxy", "http://127.0.0.1:1", 1); /* nobody is asked for others */
    tcase_add_test(tc, of_gcp_one_question_waits_for_each_value_and_a_preemption_has_its_lead);
    tcase_add_test(tc, of_gcp_a_tag_that_is_no_tag_is_not_sent_back);
    tcase_add_test(tc, of_gcp_a_service_that_does_not_wait_is_not_asked_in_a_circle);
    tcase_add_test(tc, of_azure_events_of_this_machine_are_acknowledged_when_the_hook_ended_well);
    tcase_add_test(
        tc, of_azure_without_a_name_the_events_of_all_count_and_a_lost_acknowledgement_is_told);
    tcase_add_test(tc, of_azure_events_are_asked_for_again_and_names_match_in_any_case);
    tcase_add_test(tc, of_azure_every_order_of_states_is_told);
    tcase_add_test(tc, of_azure_the_last_of_many_events_is_found);
    tcase_add_test(tc, of_azure_an_acknowledgement_that_fails_is_sent_again_until_the_event_begins);
    tcase_add_loop_test(tc, auto_finds_out_which_cloud_it_is, 0, 3);
    tcase_add_test(tc, auto_says_once_that_there_is_no_cloud);
    return run_suite("notice_cloud", tc);
}
