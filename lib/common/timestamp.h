/* SPDX-License-Identifier: MIT */
/* timestamp.h - parses and writes the date formats of cloud services. */
#ifndef SPOT_COMMON_TIMESTAMP_H
#define SPOT_COMMON_TIMESTAMP_H

#ifdef __cplusplus
extern "C" {
#endif

/* RFC 3339, "2026-03-01T06:12:09[.123](Z|+01:00|+0100)", also with a blank or ", " between date and
 * time, without zone (then UTC) and as a date alone (then midnight). *unix_s is seconds since
 * 1970-01-01T00:00:00Z; a leap second counts as the next second. Returns 0, or -1 if the text has
 * another form or the date does not exist. */
int spot_timestamp_parse(const char *text, double *unix_s);

/* A time zone as written after a time: "Z", "+01:00", "-0530". *offset_s is how far its clocks are
 * ahead of UTC. Returns 0, or -1 if it is not such a text. */
int spot_timestamp_zone(const char *text, double *offset_s);

/* As spot_timestamp_parse, but a time without a zone is in a zone that is offset_s ahead of UTC. */
int spot_timestamp_parse_in(const char *text, double offset_s, double *unix_s);

/* The HTTP form, "Tue, 09 Aug 2022 17:07:32 GMT" (RFC 9110, IMF-fixdate); the day of the week is
 * not checked against the date. Returns 0, or -1 as above. */
int spot_timestamp_parse_http(const char *text, double *unix_s);

enum { SPOT_TIMESTAMP_TEXT = 32 };

/* "2026-03-01T06:12:09.125Z", to the millisecond; clamped to the years 1970 to 9999. Returns
 * `text`. */
const char *spot_timestamp_format(double unix_s, char text[SPOT_TIMESTAMP_TEXT]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_TIMESTAMP_H */
