/* SPDX-License-Identifier: MIT */
/* Filters of numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/num.h"
#include "text/template_state.h"

typedef struct spot_tv value;
typedef struct spot_tcall call;

/* The text without blanks at its ends. */
static value plain_of(call *c, value text)
{
    call of = { .r = c->r, .at = c->at, .self = text };

    return spot_tbuiltin_call(spot_tbuiltin_find(SPOT_TUSE_FILTER, spot_tv_text("trim", 4)), &of);
}

/* Parses an integer like Python's int(); false: invalid. */
static bool whole_of(call *c, value text, int64_t *i)
{
    char copy[32], *end;

    text = plain_of(c, text);
    if (!text.n || text.n >= 20)
        return false;
    memcpy(copy, text.u.s, text.n);
    copy[text.n] = '\0';
    *i = strtoll(copy, &end, 10);
    return !*end;
}

static bool real_of(call *c, value text, double *d)
{
    char copy[64];

    text = plain_of(c, text);
    if (!text.n || text.n >= sizeof(copy))
        return false;
    memcpy(copy, text.u.s, text.n);
    copy[text.n] = '\0';
    return !spot_num_parse(copy, d);
}

static value do_int(call *c)
{
    int64_t i = 0;
    double d = 0;

    if (c->self.kind == SPOT_TV_INT || c->self.kind == SPOT_TV_BOOL)
        return spot_tv_int(c->self.u.i);
    if (spot_tv_is_text(c->self) && whole_of(c, c->self, &i))
        return spot_tv_int(i);
    if (c->self.kind == SPOT_TV_REAL)
        d = c->self.u.d;
    else if (!spot_tv_is_text(c->self) || !real_of(c, c->self, &d))
        return c->arg[0].kind == SPOT_TV_ABSENT ? spot_tv_int(0) : c->arg[0];
    return spot_tv_int(d > -9e18 && d < 9e18 ? (int64_t)d : 0);
}

static value do_float(call *c)
{
    double d;

    if (spot_tv_is_number(c->self))
        return spot_tv_real(spot_tv_number(c->self));
    if (spot_tv_is_text(c->self) && real_of(c, c->self, &d))
        return spot_tv_real(d);
    return c->arg[0].kind == SPOT_TV_ABSENT ? spot_tv_real(0) : c->arg[0];
}

static value do_abs(call *c)
{
    if (c->self.kind == SPOT_TV_REAL)
        return spot_tv_real(fabs(c->self.u.d));
    if (!spot_tv_is_number(c->self) || c->self.u.i == INT64_MIN)
        spot_trender_fail(c->r, c->at, "abs of a value of type %s", spot_tv_type(c->self));
    return spot_tv_int(c->self.u.i < 0 ? -c->self.u.i : c->self.u.i);
}

static value do_round(call *c)
{
    const int64_t digits = c->arg[0].kind == SPOT_TV_INT ? c->arg[0].u.i : 0;
    const value how = c->arg[1];
    const double scale = pow(10, (double)digits), x = spot_tv_number(c->self);
    char text[512];

    if (!spot_tv_is_number(c->self) || digits < 0 || digits > 15) {
        spot_trender_fail(c->r, c->at, "round of a value of type %s to %lld digits",
                          spot_tv_type(c->self), (long long)digits);
        return c->self;
    }
    if (spot_tv_is_text(how) && spot_tv_says(how, "ceil"))
        return spot_tv_real(ceil(x * scale) / scale);
    if (spot_tv_is_text(how) && spot_tv_says(how, "floor"))
        return spot_tv_real(floor(x * scale) / scale);
    snprintf(text, sizeof(text), "%.*f", (int)digits, x); /* exact, as Python's round() */
    return spot_tv_real(strtod(text, NULL));
}

const struct spot_tbuiltin spot_tbuiltin_numbers[] = {
    { "int", SPOT_TUSE_FILTER, "default,base", do_int, 0 },
    { "float", SPOT_TUSE_FILTER, "default", do_float, 0 },
    { "abs", SPOT_TUSE_FILTER, "", do_abs, 0 },
    { "round", SPOT_TUSE_FILTER, "precision,method", do_round, 0 },
    { NULL, 0, NULL, NULL, 0 },
};
