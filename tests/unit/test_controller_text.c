/* SPDX-License-Identifier: MIT */
/* Goal: names and states of a fleet are read as they were written, and nothing else is. */
#include "fleet_rig.h"

static struct rig *r;

static void set_up(void)
{
    r = rig_new();
}

static void tear_down(void)
{
    rig_free(r);
}

START_TEST(only_tokens_of_this_form_and_identity_are_the_fleets)
{
    static const char *const foreign[] = { "chat",
                                           "chat-",
                                           "chat-manager",
                                           "chat-1",
                                           "chat-1-1",
                                           "chat-0000000000000001",
                                           "chat-0000000000000001-",
                                           "chat-0000000000000001-x",
                                           "chat-0000000000000001-01",
                                           "chat-0000000000000001-1 ",
                                           "chat-0000000000000001-1-1",
                                           "chat-000000000000000G-1",
                                           "chat-0000000000000002-1",
                                           "chatter-0000000000000001-1",
                                           "" };
    static const char *const bad[] = { "",
                                       "-",
                                       "a b",
                                       "chat-",
                                       "chat-manager",
                                       "chat-000000000000000",
                                       "chat-00000000000000001",
                                       "chat-000000000000000A",
                                       "a23456789012345678901234567890123" };
    char name[SPOT_FLEET_NAME_MAX + 1];
    uint64_t id = 0;
    bool has_id;

    ck_assert(spot_fleet_is_own(r->fleet, "chat-0000000000000001-10"));
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        ck_assert_msg(!spot_fleet_is_own(r->fleet, foreign[i]), "%s", foreign[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(!spot_fleet_read_name(bad[i], name, &has_id, &id), "%s", bad[i]);
    ck_assert(spot_fleet_read_name("chat_2", name, &has_id, &id) && !has_id);
    ck_assert(spot_fleet_read_name("chat-00000000000000ff", name, &has_id, &id) && has_id);
    ck_assert_str_eq(name, "chat");
    ck_assert_uint_eq(id, 255);
}
END_TEST

START_TEST(a_state_that_was_changed_or_is_of_another_fleet_is_refused)
{
    struct spot_err err = { 0 };
    struct spot_fleet *other;
    struct spot_fleet_setting set = { .name = "other" };

    rig_want(r, "a", false, 3);
    rig_ticks(r, 1);
    other = spot_fleet_new(&set, 1, 0);
    ck_assert_int_eq(spot_fleet_read_state(other, r->saved, r->n_saved, "s", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    for (size_t i = 0; i <= r->n_saved; i++) {
        ck_assert_int_eq(spot_fleet_read_state(r->fleet, r->saved, i, "s", &err),
                         i < r->n_saved ? -1 : 0);
        if (i < r->n_saved - 30) { /* the end has more than its hash */
            r->saved[i] ^= 1;
            ck_assert_int_eq(spot_fleet_read_state(other, r->saved, r->n_saved, "s", &err), -1);
            r->saved[i] ^= 1;
        }
    }
    spot_fleet_free(other);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("controller_text");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    return run_suite("controller_text", add_tests(tc));
}
