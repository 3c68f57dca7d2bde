/* SPDX-License-Identifier: MIT */
/* How spot-plan deadline explains its choice: reasons and the document. */
#include "plan_deadline.h"

#include <math.h>
#include <string.h>

#include "common/out.h"

const char *const plan_deadline_mode[] = { "idle", "spot", "on-demand" };

bool plan_deadline_is_asked(const struct plan_deadline *s, size_t place)
{
    return s->granted[place] > 0 && s->granted[place] < 1;
}

static bool is_gone(const struct plan_deadline *s, int mode, size_t place)
{
    return mode == SPOT_DEADLINE_SPOT && !s->now.has_spot[place] &&
           !plan_deadline_is_asked(s, place);
}

/* Idle costs the same in every place, so it is shown once, for the place where the job last ran. */
static bool is_told(const struct plan_deadline *s, int mode, size_t place)
{
    return mode != SPOT_DEADLINE_IDLE || place == s->now.place;
}

void plan_deadline_label(const struct plan_deadline *s, struct spot_market_step step, char *text)
{
    if (step.mode == SPOT_DEADLINE_IDLE || s->market.n_place == 1)
        snprintf(text, PLAN_DEADLINE_WHY_TEXT / 2, "%s", plan_deadline_mode[step.mode]);
    else
        snprintf(text, PLAN_DEADLINE_WHY_TEXT / 2, "%s in %.40s, %.40s",
                 plan_deadline_mode[step.mode], s->names.zone[step.place],
                 s->names.type[step.place]);
}

/* What the cost of a step is expected under, if places are asked: that they refuse, or this one
 * grants. */
static bool is_if_granted(const struct plan_deadline *s, int mode, size_t place)
{
    return mode == SPOT_DEADLINE_SPOT && plan_deadline_is_asked(s, place);
}

static void explain_step(struct plan_deadline *s, int mode, size_t place)
{
    const double usd = s->answer.step_usd[place][mode];
    const bool is_want = mode == (int)s->want.mode && place == s->want.place;
    char text[PLAN_DEADLINE_WHY_TEXT / 2], *at = s->why[s->n_why++];

    plan_deadline_label(s, (struct spot_market_step){ (enum spot_deadline_mode)mode, place }, text);
    if (isinf(usd) || is_gone(s, mode, place))
        snprintf(at, PLAN_DEADLINE_WHY_TEXT, "%s: %s", text,
                 is_gone(s, mode, place) ? "there is none"
                 : mode == SPOT_DEADLINE_ON_DEMAND &&
                         isinf(s->market.place[place].on_demand_usd_per_h)
                     ? "not for sale"
                     : "on demand could not finish in time after it");
    else if (is_if_granted(s, mode, place))
        snprintf(at, PLAN_DEADLINE_WHY_TEXT, "%s: %.2f usd in all if granted (%.2f)%s", text, usd,
                 s->granted[place], is_want ? ", chosen" : "");
    else
        snprintf(at, PLAN_DEADLINE_WHY_TEXT, "%s now: %.2f usd in all%s", text, usd,
                 s->answer.n ? " if all refuse"
                 : is_want   ? ", chosen"
                             : "");
}

/* The cost of on demand for a number of ticks from now on. */
static double on_demand_usd(const struct plan_deadline *s, size_t place, double ticks)
{
    const int64_t left = spot_market_ticks(&s->market, &s->now);
    double usd = 0;

    for (int64_t i = 0; (double)i < ticks; i++)
        usd += spot_market_usd_per_h(
            &s->market, (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND, place }, left - i);
    return usd * s->market.tick_s / 3600;
}

static void explain_on_demand(struct plan_deadline *s)
{
    const size_t place = spot_market_refuge(&s->market);
    const double restart_s =
        s->now.mode == SPOT_DEADLINE_ON_DEMAND ? 0 : s->market.restart_s[s->market.n_restart - 1];
    double ticks;

    if (place == s->market.n_place) {
        snprintf(
            s->why[s->n_why++], PLAN_DEADLINE_WHY_TEXT,
            "nobody sells on demand, so nothing is sure: %.2g of 100 such jobs would end late; "
            "that counts as %.2f usd",
            100 * s->outlook.late, spot_market_late_usd(&s->market));
        return;
    }
    ticks =
        ceil((s->now.left_s / s->market.place[place].speed + restart_s) / s->market.tick_s - 1e-9);
    snprintf(s->why[s->n_why++], PLAN_DEADLINE_WHY_TEXT,
             "on demand alone, from now to the end: %.2f usd; on demand still finishes in time "
             "after whatever is chosen",
             on_demand_usd(s, place, ticks));
}

void plan_deadline_ask_text(const struct plan_deadline *s, const struct spot_ask_answer *a,
                            char *text)
{
    char step[PLAN_DEADLINE_WHY_TEXT / 2];
    size_t n = (size_t)snprintf(text, PLAN_DEADLINE_WHY_TEXT, "ask ");

    for (size_t i = 0; i < a->n && i < 3; i++) {
        n += (size_t)snprintf(text + n, PLAN_DEADLINE_WHY_TEXT - n, "%s%.24s, %.24s (%.2f)",
                              i ? ", then " : "", s->names.zone[a->ask[i].place],
                              s->names.type[a->ask[i].place], a->ask[i].granted);
    }
    plan_deadline_label(s, a->otherwise, step);
    snprintf(text + n, PLAN_DEADLINE_WHY_TEXT - n, "%s; else %.50s", a->n > 3 ? ", .." : "", step);
}

static void explain_outlook(struct plan_deadline *s)
{
    const struct spot_deadline_outlook *e = &s->outlook;

    snprintf(s->why[s->n_why++], PLAN_DEADLINE_WHY_TEXT,
             "expect to be moved %.1f times (%zu to %zu in nine of ten jobs), to pay %.2f usd in "
             "all%s, and %.0f %% of the hours to be on demand",
             e->moves, e->few, e->many, s->answer.usd,
             spot_market_late_usd(&s->market) > 0 ? " with what being late counts" : "",
             100 * e->on_demand);
}

void plan_deadline_explain(struct plan_deadline *s)
{
    if (s->answer.n)
        plan_deadline_ask_text(s, &s->answer, s->why[s->n_why++]);
    explain_outlook(s);
    for (size_t k = 0; k < s->market.n_place; k++)
        for (int m = 0; m < 3; m++)
            if (is_told(s, m, k))
                explain_step(s, m, k);
    explain_on_demand(s);
    if (s->n_priced)
        snprintf(s->why[s->n_why++], PLAN_DEADLINE_WHY_TEXT,
                 "%zu prices are the expected ones of each tick for %g s, then as at their end",
                 s->n_priced, (double)s->price.horizon * s->price.interval_s);
}

void plan_deadline_write_step(struct spot_jw *jw, const struct plan_deadline *s,
                              struct spot_market_step step)
{
    spot_jw_str(jw, "mode", plan_deadline_mode[step.mode]);
    if (step.mode != SPOT_DEADLINE_IDLE && *s->names.zone[step.place])
        spot_jw_str(jw, "zone", s->names.zone[step.place]);
    if (step.mode != SPOT_DEADLINE_IDLE && *s->names.type[step.place])
        spot_jw_str(jw, "instance_type", s->names.type[step.place]);
}

void plan_deadline_write_ask(struct spot_jw *jw, const struct plan_deadline *s,
                             const struct spot_ask_answer *a)
{
    spot_jw_array(jw, "ask");
    for (size_t i = 0; i < a->n; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "zone", s->names.zone[a->ask[i].place]);
        spot_jw_str(jw, "instance_type", s->names.type[a->ask[i].place]);
        spot_jw_real(jw, "granted", a->ask[i].granted);
        spot_jw_real(jw, "usd", a->ask[i].usd);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static int write_json(const struct plan_deadline *s, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "deadline");
    spot_jw_real(&jw, "time_s", s->time_s);
    plan_deadline_write_step(&jw, s, s->want);
    spot_jw_real(&jw, "hold_s", s->market.tick_s);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "usd", s->answer.usd);
    spot_jw_real(&jw, "moves", s->outlook.moves);
    if (spot_market_late_usd(&s->market) > 0)
        spot_jw_real(&jw, "late", s->outlook.late);
    spot_jw_end(&jw);
    if (s->answer.n)
        plan_deadline_write_ask(&jw, s, &s->answer);
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "alternatives");
    for (size_t k = 0; k < s->market.n_place; k++)
        for (int m = 0; m < 3; m++) {
            const bool is_it = m == (int)s->want.mode && k == s->want.place;

            if (is_it || !is_told(s, m, k) || isinf(s->answer.step_usd[k][m]) || is_gone(s, m, k))
                continue;
            spot_jw_object(&jw, NULL);
            plan_deadline_write_step(&jw, s,
                                     (struct spot_market_step){ (enum spot_deadline_mode)m, k });
            spot_jw_real(&jw, "usd", s->answer.step_usd[k][m]);
            if (s->answer.n || is_if_granted(s, m, k))
                spot_jw_str(&jw, "if", is_if_granted(s, m, k) ? "granted" : "refused");
            spot_jw_end(&jw);
        }
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

int plan_deadline_write(const struct plan_deadline *s, const char *path, enum spot_format format,
                        struct spot_err *err)
{
    struct spot_out out;
    char text[PLAN_DEADLINE_WHY_TEXT / 2];
    int rc = 0;

    if (spot_out_open(&out, path, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE) {
        plan_deadline_label(s, s->want, text);
        fprintf(out.file, "%s for %g s\n\n", text, s->market.tick_s);
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(out.file, "%s\n", s->why[i]);
    } else {
        rc = write_json(s, out.file, err);
    }
    return spot_out_finish(&out, rc, err);
}
