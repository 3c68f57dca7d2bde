/* SPDX-License-Identifier: MIT */
#include "common/timestamp.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Exactly n digits at *p; -1 otherwise. */
static int take_digits(const char **p, int n)
{
    int x = 0;

    for (; n; n--, (*p)++) {
        if (**p < '0' || **p > '9')
            return -1;
        x = 10 * x + (**p - '0');
    }
    return x;
}

static bool take(const char **p, char c)
{
    if (**p != c)
        return false;
    ++*p;
    return true;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar (H. Hinnant, "chrono-
 * Compatible Low-Level Date Algorithms", days_from_civil). */
static int64_t days_from_civil(int year, int month, int day)
{
    const int64_t y = year - (month <= 2);
    const int64_t era = (y >= 0 ? y : y - 399) / 400;
    const int64_t yoe = y - era * 400;
    const int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    const int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

    return era * 146097 + doe - 719468;
}

static int days_in_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

static int take_date(const char **p, double *day_s)
{
    const int year = take_digits(p, 4);
    int month, day;

    if (year < 0 || !take(p, '-'))
        return -1;
    month = take_digits(p, 2);
    if (month < 1 || month > 12 || !take(p, '-'))
        return -1;
    day = take_digits(p, 2);
    if (day < 1 || day > days_in_month(year, month))
        return -1;
    *day_s = (double)days_from_civil(year, month, day) * 86400;
    return 0;
}

static int take_clock(const char **p, double *clock_s)
{
    const int hour = take_digits(p, 2);
    double unit = 0.1;
    int minute, second;

    if (hour < 0 || hour > 23 || !take(p, ':'))
        return -1;
    minute = take_digits(p, 2);
    if (minute < 0 || minute > 59 || !take(p, ':'))
        return -1;
    second = take_digits(p, 2);
    if (second < 0 || second > 60)
        return -1;
    *clock_s = hour * 3600 + minute * 60 + second;
    if (take(p, '.')) {
        if (**p < '0' || **p > '9')
            return -1;
        for (; **p >= '0' && **p <= '9'; ++*p, unit /= 10)
            *clock_s += (**p - '0') * unit;
    }
    return 0;
}

/* Reads a time zone: Z, +hh:mm or +hhmm. Without one *offset_s stays unchanged. */
static int take_zone(const char **p, double *offset_s)
{
    int hour, minute, sign;

    if (!**p)
        return 0;
    *offset_s = 0;
    if (take(p, 'Z') || take(p, 'z'))
        return 0;
    if (**p != '+' && **p != '-')
        return -1;
    sign = *(*p)++ == '-' ? -1 : 1;
    hour = take_digits(p, 2);
    take(p, ':');
    minute = take_digits(p, 2);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return -1;
    *offset_s = sign * (hour * 3600 + minute * 60);
    return 0;
}

int spot_timestamp_zone(const char *text, double *offset_s)
{
    return !*text || take_zone(&text, offset_s) || *text ? -1 : 0;
}

int spot_timestamp_parse(const char *text, double *unix_s)
{
    return spot_timestamp_parse_in(text, 0, unix_s);
}

int spot_timestamp_parse_in(const char *text, double offset_s, double *unix_s)
{
    double day_s, clock_s;

    if (take_date(&text, &day_s))
        return -1;
    *unix_s = day_s - offset_s;
    if (!*text)
        return 0;
    if (!take(&text, 'T') && !take(&text, 't')) {
        const char *before = text;

        take(&text, ',');
        while (take(&text, ' '))
            ;
        if (text == before)
            return -1;
    }
    if (take_clock(&text, &clock_s) || take_zone(&text, &offset_s) || *text)
        return -1;
    *unix_s = day_s + clock_s - offset_s;
    return 0;
}

static int take_word(const char **p, const char *words, int n_char)
{
    for (int i = 0; words[i * n_char]; i++) {
        if (!strncmp(*p, words + i * n_char, (size_t)n_char)) {
            *p += n_char;
            return i;
        }
    }
    return -1;
}

int spot_timestamp_parse_http(const char *text, double *unix_s)
{
    double clock_s;
    int day, month, year;

    if (take_word(&text, "Mon,Tue,Wed,Thu,Fri,Sat,Sun,", 4) < 0 || !take(&text, ' '))
        return -1;
    day = take_digits(&text, 2);
    if (day < 1 || !take(&text, ' '))
        return -1;
    month = 1 + take_word(&text, "JanFebMarAprMayJunJulAugSepOctNovDec", 3);
    if (month < 1 || !take(&text, ' '))
        return -1;
    year = take_digits(&text, 4);
    if (year < 0 || day > days_in_month(year, month) || !take(&text, ' ') ||
        take_clock(&text, &clock_s) || strcmp(text, " GMT") != 0)
        return -1;
    *unix_s = (double)days_from_civil(year, month, day) * 86400 + clock_s;
    return 0;
}

const char *spot_timestamp_format(double unix_s, char text[SPOT_TIMESTAMP_TEXT])
{
    static const double last_ms = 253402300799999; /* of the year 9999 */
    const double ms = fmin(fmax(rint(unix_s * 1e3), 0), last_ms);
    const time_t whole_s = (time_t)(ms / 1e3);
    struct tm tm;

    gmtime_r(&whole_s, &tm);
    snprintf(text, SPOT_TIMESTAMP_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
             (tm.tm_year + 1900) % 10000, (tm.tm_mon + 1) % 100, tm.tm_mday % 100, tm.tm_hour % 100,
             tm.tm_min % 100, tm.tm_sec % 100, (int)(ms - (double)whole_s * 1e3));
    return text;
}
