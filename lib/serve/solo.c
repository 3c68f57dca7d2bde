/* SPDX-License-Identifier: MIT */
#include "serve/solo.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "serve/batch_loop.h"
#include "serve/served_model.h"

enum { CHOICES = 4 }; /* computed at once */

struct spot_solo {
    struct spot_served_model model;
    char *id;
    struct spot_front_options options;
    void *image;
    struct spot_relay *relay;
    struct spot_batch_loop *loop;
};

/* --- the model ------------------------------------------------------------------ */

static void progress(void *user)
{
    (void)user;
}

static int pack(struct spot_solo *s, const struct spot_solo_options *o, struct spot_err *err)
{
    static const struct spot_relay_form alone = { .P = 1, .M = 1 };
    const struct spot_shape *const shape = &s->model.shape;
    const int n_bundle = (int)spot_shape_bundles(shape);
    struct spot_relay_config config = {
        .shape = shape,
        .image_byte = spot_infer_image_byte(shape, o->type, 0, n_bundle),
        .lora = (const struct spot_lora *const *)s->model.lora,
        .n_lora = (int)s->model.n_adapter,
        .backend = o->backend,
        .P = 1,
        .M = 1,
        .n_sequence = CHOICES,
        .kv_byte = o->kv_byte ? o->kv_byte
                              : spot_relay_token_byte(shape) *
                                    (uint64_t)(shape->seq + CHOICES * SPOT_INFER_PAGE),
        .kept_byte = UINT64_MAX,
        .token_max = spot_batch_loop_tokens(CHOICES),
        .n_thread = o->n_thread,
    };

    s->image = spot_alloc_aligned(config.image_byte, 1);
    if (!s->image)
        return spot_err_set(err, SPOT_ESYS, "not enough memory for the weights: %zu bytes",
                            config.image_byte);
    config.image = s->image;
    if (spot_served_model_pack(&s->model, o->type, 0, n_bundle, s->image, progress, NULL, err) ||
        !(s->relay = spot_relay_new(&config, err)))
        return -1;
    spot_relay_enter(s->relay, &alone, NULL);
    s->loop = spot_batch_loop_new(&s->model, s->relay, CHOICES);
    return 0;
}

struct spot_solo *spot_solo_open(const struct spot_solo_options *o, struct spot_err *err)
{
    struct spot_solo *const s = spot_xcalloc(1, sizeof(*s));

    if (spot_served_model_open(&s->model, o->model, o->adapters, 0, err) ||
        (o->chat_template && spot_served_model_choose_chat(&s->model, o->chat_template, err)) ||
        pack(s, o, err)) {
        spot_solo_free(s);
        return NULL;
    }
    s->id = spot_served_model_id(o->model);
    s->options = (struct spot_front_options){ .model = s->id,
                                              .adapters = o->adapters,
                                              .n_state = s->model.shape.width,
                                              .pool = s->model.pool,
                                              .vocabulary = &s->model.vocabulary,
                                              .chat = s->model.chat,
                                              .chat_why = s->model.chat_why,
                                              .tool_form = spot_openai_tool_form(s->model.chat),
                                              .n_context = s->model.shape.seq,
                                              .n_vocabulary = s->model.shape.vocab,
                                              .n_choice_max = CHOICES };
    return s;
}

void spot_solo_free(struct spot_solo *s)
{
    if (!s)
        return;
    spot_batch_loop_free(s->loop);
    spot_relay_free(s->relay);
    spot_free_aligned(s->image);
    spot_served_model_release(&s->model);
    free(s->id);
    free(s);
}

const char *spot_solo_no_chat(struct spot_solo *s)
{
    return s->model.chat ? NULL : s->model.chat_why;
}

/* --- an answer ------------------------------------------------------------------- */

/* A copy for one choice. */
static struct spot_request copied(const struct spot_request *r, uint32_t choice, uint32_t *of_part)
{
    const struct spot_request part = spot_request_part(r, choice, of_part);
    struct spot_buf text = { 0 };
    struct spot_request copy;
    struct spot_wire_in in;

    spot_request_put(&part, &text);
    in = spot_wire_in(text.data, text.n);
    if (spot_request_get(&copy, &in))
        memset(&copy, 0, sizeof(copy)); /* it is refused when it is added */
    spot_buf_release(&text);
    return copy;
}

static int begin(struct spot_solo *s, struct spot_completion *c, struct spot_err *err)
{
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        uint32_t of_part;
        struct spot_request part = copied(&c->request, i, &of_part);

        if (c->choice[i].finish == SPOT_FINISH_NONE &&
            spot_batch_loop_add(s->loop, i, &part, of_part, NULL, 0, err))
            return -1;
    }
    return 0;
}

static int take(struct spot_solo *s, struct spot_completion *c, const struct spot_batch_out *out,
                struct spot_err *err)
{
    const uint32_t i = (uint32_t)out->sequence;

    if (out->cannot)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%s", out->cannot);
    if (out->state) {
        (void)spot_completion_set_state(c, i, out->state, (size_t)s->model.shape.width,
                                        out->token.token.n_cached);
        return 0;
    }
    (void)spot_completion_append(c, i, out->token.position, &out->token.token);
    if (out->token.is_end)
        spot_completion_finish(c, i, SPOT_FINISH_STOP);
    if (c->choice[i].finish != SPOT_FINISH_NONE) /* also by a stop text, which the loop knows not */
        spot_batch_loop_drop(s->loop, out->sequence);
    return 0;
}

/* Everything that may be told of choice 0; false: it is to end here. */
static bool tell_more(const struct spot_completion *c, size_t *told, spot_solo_tell tell,
                      void *user)
{
    const struct spot_choice *const h = &c->choice[0];
    const size_t end = h->n_token ? h->text_end[h->n_token - 1] : 0, begin = *told;

    if (end > begin)
        *told = end;
    return !tell || tell(user, end > begin ? (const char *)h->text.data + begin : "",
                         end > begin ? end - begin : 0);
}

static int compute(struct spot_solo *s, struct spot_completion *c, spot_solo_tell tell, void *user,
                   struct spot_err *err)
{
    size_t told = 0, n;
    int rc = begin(s, c, err);

    while (!rc && c->n_open) {
        struct spot_batch_out out[CHOICES];

        rc = spot_batch_loop_step(s->loop, out, &n, err);
        for (size_t i = 0; !rc && i < n; i++)
            rc = take(s, c, &out[i], err);
        if (!rc && !tell_more(c, &told, tell, user))
            for (uint32_t i = 0; i < c->request.n_choice; i++)
                spot_completion_finish(c, i, SPOT_FINISH_LENGTH);
    }
    if (!rc)
        (void)tell_more(c, &told, tell, user);
    spot_batch_loop_clear(s->loop);
    return rc;
}

/* What the error object says. */
static int refuse(const struct spot_buf *error, struct spot_err *err)
{
    struct spot_json_doc doc = { 0 };
    const char *message = NULL;

    if (!spot_json_parse(&doc, (const char *)error->data, error->n, "error", NULL))
        message = spot_json_text(spot_json_get(spot_json_get(doc.root, "error"), "message"));
    spot_err_set(err, SPOT_EDATA, "%s", message ? message : "the request is refused");
    spot_json_release(&doc);
    return -1;
}

int spot_solo_answer(struct spot_solo *s, enum spot_api api, const char *body, size_t n_byte,
                     spot_solo_tell tell, void *user, struct spot_buf *document,
                     struct spot_err *err)
{
    struct spot_request request;
    struct spot_completion *c;
    struct spot_buf error = { 0 };
    int rc;

    if (spot_openai_parse(&s->options, api, body, n_byte, &request, &error)) {
        rc = refuse(&error, err);
        spot_buf_release(&error);
        return rc;
    }
    c = spot_completion_new(&request, &s->model.vocabulary);
    rc = compute(s, c, tell, user, err);
    if (!rc && document)
        spot_openai_answer(&s->options, c, document);
    spot_completion_unref(c);
    return rc;
}
