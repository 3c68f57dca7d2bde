/* SPDX-License-Identifier: MIT */
/* notice_script.h - a metadata service that is a script: what it says next depends on what was
 * told, not on time; its clock may be wrong. */
#ifndef SPOT_TESTS_NOTICE_SCRIPT_H
#define SPOT_TESTS_NOTICE_SCRIPT_H

#include <time.h>

#include "notice_rig.h"
#include "service_rig.h"

static _Atomic int stage;                /* of the script */
static _Atomic int n_asked, n_put, n_of; /* all questions; tokens; those that a test counts */
static double skew_s;                    /* the clock of the service is ahead by so much */
static bool has_date;

static inline void stop(void)
{
    spot_notice_stop(seen.watch);
}

static inline void next_stage(void)
{
    stage++;
}

static inline void begin_script(bool (*answer)(const struct question *q, FILE *out))
{
    stage = n_asked = n_put = n_of = 0;
    skew_s = 0;
    has_date = true;
    begin_service(answer);
}

/* --- dates --- */

static inline double there_s(double ahead_s)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + skew_s + ahead_s;
}

static inline const char *date(double unix_s, bool is_http)
{
    static _Thread_local char text[4][48];
    static _Thread_local int at;
    const time_t t = (time_t)unix_s;
    struct tm tm;

    gmtime_r(&t, &tm);
    at = (at + 1) % 4;
    if (is_http)
        strftime(text[at], sizeof(text[at]), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    else
        strftime(text[at], sizeof(text[at]), "%Y-%m-%dT%H:%M:%SZ", &tm);
    return text[at];
}

static inline const char *rfc3339(double unix_s)
{
    return date(unix_s, false);
}

static inline void dated(FILE *out, int status, const char *more, const char *body)
{
    char all[256] = "";

    if (has_date)
        snprintf(all, sizeof(all), "Date: %s\r\n", date(there_s(0), true));
    strncat(all, more, sizeof(all) - strlen(all) - 1);
    reply(out, status, all, body);
}

/* --- questions --- */

static inline bool is_about(const struct question *q, const char *end)
{
    const size_t n = strcspn(q->path, "?"), k = strlen(end);

    return n >= k && !strncmp(q->path + n - k, end, k);
}

#endif /* SPOT_TESTS_NOTICE_SCRIPT_H */
