/* SPDX-License-Identifier: MIT */
#include "serve/solo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "engine/kernel.h"
#include "serve/batch_loop.h"
#include "serve/served_model.h"

enum { CHOICES = 4 }; /* number computed at once */

struct spot_solo {
    struct spot_served_model model;
    char *id;
    struct spot_front_options options;
    struct spot_proof_of of; /* see proof_doc.h; borrows the backend's name of its kernel */
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

/* The kernel's name in a proof. */
static int name_kernel(struct spot_solo *s, const struct spot_solo_options *o, struct spot_err *err)
{
    char name[32];
    const struct spot_kernel *kernel;

    s->of = (struct spot_proof_of){ .kernel = "fma", .type = o->type };
    if (!o->backend)
        return 0;
    snprintf(name, sizeof(name), "%s-%s", o->backend, spot_infer_type_name((int)o->type));
    kernel = spot_kernel_find(name, err);
    s->of.kernel = kernel ? spot_kernel_name(kernel) : "";
    return kernel ? 0 : -1;
}

struct spot_solo *spot_solo_open(const struct spot_solo_options *o, struct spot_err *err)
{
    struct spot_solo *const s = spot_xcalloc(1, sizeof(*s));

    if (spot_served_model_open(&s->model, o->model, o->adapters, 0, err) ||
        (o->chat_template && spot_served_model_choose_chat(&s->model, o->chat_template, err)) ||
        name_kernel(s, o, err) || pack(s, o, err)) {
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

/* Returns 0, or -1 if a worker would reject the request. */
static int copy(struct spot_request *to, const struct spot_request *r)
{
    struct spot_buf text = { 0 };
    struct spot_wire_in in;
    int rc;

    spot_request_put(r, &text);
    in = spot_wire_in(text.data, text.n);
    rc = spot_request_get(to, &in);
    spot_buf_release(&text);
    return rc;
}

/* A copy for one choice. */
static struct spot_request copied(const struct spot_request *r, uint32_t choice, uint32_t *of_part)
{
    const struct spot_request part = spot_request_part(r, choice, of_part);
    struct spot_request to;

    if (copy(&to, &part))
        memset(&to, 0, sizeof(to)); /* an empty request, which the loop rejects */
    return to;
}

/* Begins choices [first, end). */
static int begin(struct spot_solo *s, struct spot_completion *c, uint32_t first, uint32_t end,
                 struct spot_err *err)
{
    for (uint32_t i = first; i < end; i++) {
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
    if (c->choice[i].finish !=
        SPOT_FINISH_NONE) /* it may have ended by a stop text, which the loop does not know */
        spot_batch_loop_drop(s->loop, out->sequence);
    return 0;
}

/* Report the available text of choice 0; false if it must end here. */
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

/* Computes the choices, as many at a time as fit. */
static int compute(struct spot_solo *s, struct spot_completion *c, spot_solo_tell tell, void *user,
                   struct spot_err *err)
{
    uint32_t begun = c->request.n_choice < CHOICES ? c->request.n_choice : CHOICES;
    size_t told = 0, n;
    int rc = begin(s, c, 0, begun, err);

    while (!rc && c->n_open) {
        struct spot_batch_out out[CHOICES];

        if (begun < c->request.n_choice && spot_batch_loop_is_idle(s->loop)) {
            const uint32_t left = c->request.n_choice - begun,
                           more = left < CHOICES ? left : CHOICES;

            rc = begin(s, c, begun, begun + more, err);
            begun += more;
        }

        rc = rc ? rc : spot_batch_loop_step(s->loop, out, &n, err);
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

/* Take the message of the error object. */
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

/* --- a proof --------------------------------------------------------------------- */

static int check_token(const struct spot_solo *s, const uint32_t *token, size_t n, const char *what,
                       struct spot_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (token[i] >= s->model.shape.vocab)
            return spot_err_set(err, SPOT_EDATA, "%s has token %u, the model %lld", what,
                                (unsigned)token[i], (long long)s->model.shape.vocab);
    return 0;
}

/* Repeat the checks of a server that accepted the request. */
static int check_request(const struct spot_solo *s, const struct spot_proof *p,
                         struct spot_err *err)
{
    const struct spot_request *const r = &p->request;

    for (size_t i = 0; i < r->n_bias; i++)
        if (check_token(s, &r->bias[i].token, 1, "logit_bias of the proof", err))
            return -1;
    for (uint32_t i = 0; i < r->n_choice; i++) {
        uint32_t k;
        const struct spot_request part = spot_request_part(r, i, &k);

        if ((int64_t)part.n_prompt + r->n_token_max > s->model.shape.seq)
            return spot_err_set(err, SPOT_EDATA,
                                "the proof has a prompt of %zu tokens and up to %lld of an answer, "
                                "the model a context of %lld",
                                part.n_prompt, (long long)r->n_token_max,
                                (long long)s->model.shape.seq);
    }
    return check_token(s, r->prompt, r->n_prompt, "the prompt of the proof", err) ||
                   check_token(s, p->end, p->n_end, "end_token_ids of the proof", err) ||
                   check_token(s, r->stop_id, r->n_stop_id, "stop_token_ids of the proof", err)
               ? -1
               : 0;
}

int spot_solo_prove(struct spot_solo *s, const struct spot_proof *p, struct spot_err *err)
{
    struct spot_request request;
    struct spot_completion *c;
    int rc;

    s->of.model = spot_proof_model(&s->model);
    if (spot_proof_check(p, &s->of, err) || check_request(s, p, err))
        return -1;
    if (copy(&request, &p->request))
        return spot_err_set(err, SPOT_EDATA,
                            "the proof is of a request that a server would refuse");
    memcpy(s->model.end, p->end,
           p->n_end * sizeof(*p->end)); /* a chat template may have added some */
    s->model.n_end = s->model.vocabulary.n_end = p->n_end;
    c = spot_completion_new(&request, &s->model.vocabulary);
    rc = compute(s, c, NULL, NULL, err);
    if (!rc)
        rc = spot_proof_compare(p, c, err);
    spot_completion_unref(c);
    return rc;
}
