/* SPDX-License-Identifier: MIT */
/* model_image.h - packed weights of a served model, which processes of a host share. */
#ifndef SPOT_SERVE_MODEL_IMAGE_H
#define SPOT_SERVE_MODEL_IMAGE_H

#include "common/err.h"
#include "serve/served_model.h"
#include "serve/shared_image.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of bundles [begin, end), as shared_image.h has it: the bytes depend on the model, the type, what
 * is packed, and the program that packs. `progress` is called now and then. Returns 0, or -1 with
 * *err. */
int spot_model_image_open(struct spot_shared_image *image, const struct spot_served_model *m,
                          enum spot_infer_type type, int begin, int end,
                          void (*progress)(void *user), void *user, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_MODEL_IMAGE_H */
