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

/* Open the shared image (shared_image.h) of bundles [begin, end): its bytes depend on the model,
 * the type, the bundles, and the program. `progress` is called repeatedly. Returns 0, or -1 with
 * *err. */
int spot_model_image_open(struct spot_shared_image *image, const struct spot_served_model *m,
                          enum spot_infer_type type, int begin, int end,
                          void (*progress)(void *user), void *user, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_MODEL_IMAGE_H */
