/* SPDX-License-Identifier: MIT */
/* Detects the cloud: queries the services of all of them at once; the first with a valid answer is
 * used. */
#include <stdio.h>
#include <string.h>

#include "cluster/notice/notice_state.h"
#include "common/utf8.h"

static const double limit_s = 2;

static bool is_aws(const struct spot_http_reply *r)
{
    char ttl[16];

    return spot_http_reply_header(r, "X-aws-ec2-metadata-token-ttl-seconds", ttl, sizeof(ttl)) &&
           spot_notice_is_token(r->body, r->n_byte);
}

static bool is_gcp(const struct spot_http_reply *r)
{
    char flavor[16];

    return spot_http_reply_header(r, "Metadata-Flavor", flavor, sizeof(flavor)) &&
           !strcmp(flavor, "Google");
}

static bool is_azure(const struct spot_http_reply *r)
{
    return r->n_byte && r->n_byte < SPOT_NOTICE_ID_MAX && strlen(r->body) == r->n_byte &&
           spot_utf8_is_plain(r->body);
}

static const struct sign {
    const struct spot_notice_cloud *cloud;
    const char *method, *path;
    const char *const header[2];
    bool (*is_it)(const struct spot_http_reply *reply);
} sign[] = {
    { &spot_notice_aws,
      "PUT",
      "/latest/api/token",
      { "X-aws-ec2-metadata-token-ttl-seconds: 60", NULL },
      is_aws },
    { &spot_notice_gcp,
      "GET",
      "/computeMetadata/v1/instance/preempted",
      { "Metadata-Flavor: Google", NULL },
      is_gcp },
    { &spot_notice_azure,
      "GET",
      "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
      { "Metadata: true", NULL },
      is_azure },
};

static void ask(struct spot_notice_watch *w, size_t i)
{
    spot_notice_ask(w, i, sign[i].method, sign[i].path, sign[i].header, NULL, limit_s);
}

static void answered(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply)
{
    if (reply->status == 200 && sign[i].is_it(reply))
        spot_notice_turn_to(w, sign[i].cloud);
    else
        spot_notice_failed(w, i, "no metadata service answers at %s", w->base);
    for (size_t k = 0; w->cloud == &spot_notice_auto && k < sizeof(sign) / sizeof(sign[0]); k++)
        w->query[k].has_warned |= w->query[i].has_warned; /* one warning for all three */
}

const struct spot_notice_cloud spot_notice_auto = { "auto", sizeof(sign) / sizeof(sign[0]), 0, ask,
                                                    answered };
