/* SPDX-License-Identifier: MIT */
#include "serve/model_image.h"

#include <stdio.h>

#include "serve/serve_protocol.h"

struct making {
    const struct spot_served_model *model;
    enum spot_infer_type type;
    int begin, end;
    void (*progress)(void *user);
    void *user;
};

static int pack(void *making, void *image, struct spot_err *err)
{
    const struct making *const m = making;

    return spot_served_model_pack(m->model, m->type, m->begin, m->end, image, m->progress, m->user,
                                  err);
}

static void wait(void *making)
{
    const struct making *const m = making;

    m->progress(m->user);
}

int spot_model_image_open(struct spot_shared_image *image, const struct spot_served_model *m,
                          enum spot_infer_type type, int begin, int end,
                          void (*progress)(void *user), void *user, struct spot_err *err)
{
    struct making making = { m, type, begin, end, progress, user };
    const struct spot_shared_image_maker maker = { .n_byte = spot_infer_image_byte(&m->shape, type,
                                                                                   begin, end),
                                                   .make = pack,
                                                   .wait = wait,
                                                   .user = &making };
    char name[80];

    snprintf(name, sizeof(name), "%d-%016llx-%s-%lld-%d-%d", SPOT_PROTOCOL,
             (unsigned long long)m->hash, spot_infer_type_name((int)type),
             (long long)m->shape.n_shard, begin, end);
    return spot_shared_image_open(image, NULL, name, &maker, err);
}
