/* SPDX-License-Identifier: MIT */
#include "train/audit.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/generation.h"
#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "text/token_weights.h"
#include "train/audit_log.h"
#include "train/job_note.h"
#include "train/replay_step.h"
#include "weights/load.h"

struct audit {
    const struct spot_audit *options;
    struct spot_audited *out;
    struct spot_job_note note;
    struct spot_job_config config;
    struct spot_generations generations;
    int64_t *step; /* [n_step] of all generations that may be used, newest first */
    size_t n_step;
    struct spot_bpe *bpe;
    struct spot_corpus corpus;
    float *weight; /* weights of its tokens; NULL: there are none */
    struct spot_sampler sampler;
    struct spot_audit_log log;
    struct spot_bundle **bundle; /* [n_bundle] */
    int n_bundle;
    struct spot_replay *replay;
    struct spot_evidence *evidence; /* [n_bundle] evidence of the current step */
    /* everything was equal in the step before, so a difference arose in this one */
    bool is_uniform;
};

/* --- the subject --------------------------------------------------------- */

/* DIR, or DIR/gen-STEP. */
static int find_state(struct audit *a, struct spot_err *err)
{
    const char *const state = a->options->state, *name;
    char path[PATH_MAX];
    size_t n = strlen(state);
    int there;

    while (n > 1 && state[n - 1] == '/')
        n--;
    if (n >= sizeof(path) - 64)
        return spot_err_set(err, SPOT_EUSAGE, "'%.60s...' is too long for a path", state);
    memcpy(path, state, n);
    path[n] = '\0';
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (!strncmp(name, "gen-", 4)) {
        a->step = spot_xcalloc(1, sizeof(*a->step));
        a->step[a->n_step++] = strtoll(name + 4, NULL, 10);
        snprintf(path + (name - path), sizeof(path) - (size_t)(name - path), ".");
    }
    there = spot_job_note_load(&a->note, path, err);
    if (!there)
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s' has no job.json: it is not the --state of a job", path);
    snprintf(a->generations.dir, sizeof(a->generations.dir), "%s", path);
    return there < 0 ? -1 : 0;
}

static int open_weights(struct audit *a, struct spot_err *err)
{
    const char *const path = a->note.weights_of_samples;
    uint64_t xxh3;

    if (!path)
        return spot_err_set(err, SPOT_EDATA,
                            "job.json: lacks weights_of_samples, whose hash is there");
    if (spot_token_weights_read(path, a->corpus.n_token, &a->weight, &xxh3, err))
        return -1;
    if (xxh3 != a->config.weight_xxh3 && a->options->warn)
        a->options->warn(
            "the weights of samples are not those of the job: their XXH3 is %016" PRIx64
            ", not %016" PRIx64,
            xxh3, a->config.weight_xxh3);
    a->sampler.weight = a->weight;
    return 0;
}

static int open_data(struct audit *a, struct spot_err *err)
{
    const struct spot_audit *const o = a->options;
    const char *const tokenizer = o->tokenizer ? o->tokenizer : a->note.tokenizer;
    const size_t n = o->n_data ? o->n_data : spot_json_array_size(a->note.data);
    const char **path = spot_xcalloc(n + 1, sizeof(*path));
    const bool is_text = *tokenizer && !strcmp(a->note.tokens, "bytes");
    int token_byte, rc;

    for (size_t i = 0; i < n; i++)
        path[i] = o->n_data ? o->data[i] : spot_json_text(spot_json_entry(a->note.data, i));
    rc = spot_corpus_kind(a->note.tokens, &token_byte, err);
    if (!rc && is_text && !(a->bpe = spot_bpe_open(tokenizer, err)))
        rc = -1;
    if (!rc)
        rc = spot_corpus_open_all(&a->corpus, path, n, a->bpe, token_byte, a->config.shape.vocab,
                                  err);
    free(path);
    if (rc && !o->n_data && o->warn)
        o->warn("the data are not at the path that the job used: give --data");
    if (!rc && a->corpus.xxh3 != a->config.data_xxh3 && o->warn)
        o->warn("the data are not those of the job: their XXH3 is %016" PRIx64 ", not %016" PRIx64,
                a->corpus.xxh3, a->config.data_xxh3);
    if (rc || spot_sampler_init(&a->sampler, &a->corpus, a->config.shape.seq, a->config.seed, err))
        return -1;
    return a->config.weight_xxh3 ? open_weights(a, err) : 0;
}

/* The newest generation of a step up to this one; 0: none, use the job's initial weights. */
static int64_t nearest(const struct audit *a, int64_t step)
{
    for (size_t i = 0; i < a->n_step; i++)
        if (a->step[i] <= step)
            return a->step[i];
    return 0;
}

static int open_job(struct audit *a, struct spot_err *err)
{
    int64_t from; /* earlier steps are not compared */

    if (find_state(a, err) || spot_job_note_config(&a->note, a->generations.dir, &a->config, err))
        return -1;
    if (!spot_evidence_of_kernel(a->config.kernel) || a->config.reduce != SPOT_REDUCE_EXACT)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "commits of kernel %s have no hashes of state and sums: they cannot be "
                            "audited",
                            a->config.kernel);
    if (a->options->end > a->config.n_step)
        return spot_err_set(err, SPOT_EUSAGE, "--steps %lld:%lld, but the job has %lld",
                            (long long)a->options->begin, (long long)a->options->end,
                            (long long)a->config.n_step);
    a->n_bundle = spot_shape_bundles(&a->config.shape);
    a->generations.n_bundle = a->n_bundle;
    a->generations.job = spot_job_id(&a->config);
    if (!a->n_step)
        a->step = spot_generation_list(&a->generations, &a->n_step);
    a->bundle = spot_xcalloc((size_t)a->n_bundle, sizeof(struct spot_bundle *));
    a->evidence = spot_xcalloc((size_t)a->n_bundle, sizeof(*a->evidence));
    from = nearest(a, a->options->begin - 1);
    return open_data(a, err) ||
                   spot_audit_log_read(&a->log, a->options->events, from > 1 ? from : 1,
                                       a->options->end, a->n_bundle, a->config.global_batch, err)
               ? -1
               : 0;
}

/* --- the initial state --------------------------------------------------- */

static void drop_state(struct audit *a)
{
    spot_replay_free(a->replay);
    a->replay = NULL;
    for (int b = 0; a->bundle && b < a->n_bundle; b++) {
        spot_bundle_free(a->bundle[b]);
        a->bundle[b] = NULL;
    }
}

static struct spot_bundle *read_bundle(const struct audit *a, int64_t step, int b,
                                       struct spot_err *err)
{
    return spot_generation_bundle(&a->generations, &a->config.shape, step, b, err);
}

static int begin_bundle(struct audit *a, const struct spot_weights *weights, int b,
                        struct spot_err *err)
{
    a->bundle[b] = spot_bundle_new(&a->config.shape, b, err);
    if (!a->bundle[b])
        return -1;
    if (weights)
        return spot_weights_read(weights, a->bundle[b], err);
    spot_bundle_start(a->bundle[b], &a->config.shape, a->config.seed);
    return 0;
}

/* Load the job's initial weights. */
static int begin_state(struct audit *a, struct spot_err *err)
{
    struct spot_weights *weights = NULL;
    int rc = 0;

    if (*a->note.load && !(weights = spot_weights_open(a->note.load, &a->config.shape, err)))
        return -1;
    if (weights && spot_weights_xxh3(weights) != a->config.init_xxh3)
        rc = spot_err_set(err, SPOT_EDATA,
                          "'%s' does not have the weights with which the job began", a->note.load);
    for (int b = 0; !rc && b < a->n_bundle; b++)
        rc = begin_bundle(a, weights, b, err);
    spot_weights_close(weights);
    return rc;
}

/* Check that the chain of a generation is that of the log. */
static int check_chain(struct audit *a, int64_t step, struct spot_err *err)
{
    const struct spot_audit_commit *const c = spot_audit_log_find(&a->log, step);
    char has[SPOT_HASH_HEX], logged[SPOT_HASH_HEX];

    if (spot_generation_chain(&a->generations, step, has, err))
        return -1;
    if (!c || !*has)
        return 0;
    spot_hash128_hex(c->chain, logged);
    if (strcmp(has, logged) != 0) {
        a->out->differs = step;
        snprintf(a->out->what, sizeof(a->out->what), "chain: the generation has %s, the log %s",
                 has, logged);
    }
    return 0;
}

static int take_state(struct audit *a, int64_t step, struct spot_err *err)
{
    int rc = 0;

    drop_state(a);
    if (!step) {
        rc = begin_state(a, err);
    } else {
        rc = check_chain(a, step, err);
        for (int b = 0; !rc && b < a->n_bundle; b++)
            rc = (a->bundle[b] = read_bundle(a, step, b, err)) ? 0 : -1;
    }
    if (rc)
        return -1;
    a->is_uniform = false;
    a->replay = spot_replay_new(&a->config, &a->sampler, a->bundle, a->options->n_thread, err);
    return a->replay ? 0 : -1;
}

/* --- differences ------------------------------------------------------------- */

static void put_name(const struct audit *a, int b, int t, char name[SPOT_TENSOR_NAME_MAX])
{
    spot_arena_tensor_name(&a->bundle[b]->arena, b, t, 0, name);
}

/* Find the first tensor whose tag differs, and the number of them; false if there is none. */
static bool find_tag(const struct audit *a, char (*tags)[SPOT_EVIDENCE_TAGS], bool is_sum,
                     int first[2], int *n_other, int *n_all)
{
    char mine[SPOT_EVIDENCE_TAGS];

    *n_other = *n_all = 0;
    for (int b = 0; b < a->n_bundle; b++) {
        const int n = a->bundle[b]->arena.n_tensor;
        const struct spot_evidence *const e = &a->evidence[b];

        spot_evidence_tags(is_sum ? e->sum : e->state, n, mine);
        for (int t = 0; t < n; t++) {
            const size_t at = (size_t)t * SPOT_EVIDENCE_TAG;

            ++*n_all;
            if (strlen(tags[b]) == strlen(mine) &&
                !memcmp(mine + at, tags[b] + at, SPOT_EVIDENCE_TAG))
                continue;
            if (!(*n_other)++)
                first[0] = b, first[1] = t;
        }
    }
    return *n_other > 0;
}

static bool differs_in_tags(struct audit *a, char (*tags)[SPOT_EVIDENCE_TAGS], bool is_sum)
{
    char name[SPOT_TENSOR_NAME_MAX];
    int first[2], n_other, n_all;
    const char *cause = "";

    if (!find_tag(a, tags, is_sum, first, &n_other, &n_all))
        return false;
    put_name(a, first[0], first[1], name);
    if (!is_sum && a->is_uniform)
        cause = n_other > n_all / 2 ? "; the sums of the step before are equal: another update"
                                    : "; the step before is equal: changed in memory";
    snprintf(a->out->what, sizeof(a->out->what), "%s: bundle %d, tensor %s (%d of %d tensors)%s",
             is_sum ? "gradient sums" : "state before the step", first[0], name, n_other, n_all,
             cause);
    return true;
}

static bool differs_in_numbers(struct audit *a, const struct spot_audit_commit *c,
                               const struct spot_replayed *r)
{
    uint32_t bits;

    memcpy(&bits, &r->loss, sizeof(bits));
    if (c->lr > 0 && c->lr != r->parameters.lr)
        snprintf(a->out->what, sizeof(a->out->what),
                 "parameters: learning rate %.16g in the log, %.16g by the job", c->lr,
                 r->parameters.lr);
    else if (bits != c->loss_bits)
        snprintf(a->out->what, sizeof(a->out->what), "loss: %08" PRIx32 " in the log, %08" PRIx32,
                 c->loss_bits, bits);
    else if (c->loss < (double)r->loss || c->loss > (double)r->loss)
        snprintf(a->out->what, sizeof(a->out->what),
                 "loss: %.17g in the log, which its own loss_hex contradicts", c->loss);
    else if (!c->is_in_turn)
        snprintf(a->out->what, sizeof(a->out->what),
                 "samples: the list is not that of the step, though what was read is");
    else if (c->parameters != spot_step_parameters_hash(&r->parameters))
        snprintf(a->out->what, sizeof(a->out->what),
                 "parameters: another learning rate, decay, beta, epsilon or clip than lr %.17g, "
                 "weight decay %g, scale %.17g",
                 r->parameters.lr, r->parameters.weight_decay, r->parameters.scale);
    else
        return false;
    return true;
}

static bool differs_in_chain(struct audit *a, int64_t step, const struct spot_audit_commit *c,
                             const struct spot_replayed *r)
{
    const struct spot_audit_commit *const before = spot_audit_log_find(&a->log, step - 1);
    struct spot_hash128 chain = spot_chain_begin(a->generations.job);

    if (step > 1 && !c->is_anew) {
        if (!before)
            return false; /* its predecessor is unknown */
        chain = before->chain;
    }
    chain = spot_chain_next(chain, &a->config.shape, a->evidence, r->samples, c->parameters);
    if (spot_hash128_equal(chain, c->chain))
        return false;
    snprintf(a->out->what, sizeof(a->out->what),
             "chain: it does not follow from the commit before, or a hash differs where its tag "
             "does not");
    return true;
}

static int compare(struct audit *a, int64_t step, const struct spot_replayed *r,
                   struct spot_err *err)
{
    const struct spot_audit_commit *const c = spot_audit_log_find(&a->log, step);

    if (!c)
        return step < a->options->begin
                   ? 0 /* a step before the first one to be checked */
                   : spot_err_set(err, SPOT_EDATA,
                                  "%s: step %lld has no commit with a chain of hashes",
                                  a->options->events, (long long)step);
    if (differs_in_tags(a, c->state, false)) {
    } else if (r->samples != c->samples) {
        snprintf(a->out->what, sizeof(a->out->what),
                 "samples: the tokens, or weights, that it read have other bytes (samples %lld to "
                 "%lld)",
                 (long long)((step - 1) * a->config.global_batch),
                 (long long)(step * a->config.global_batch - 1));
    } else if (!differs_in_tags(a, c->sums, true) && !differs_in_numbers(a, c, r) &&
               !differs_in_chain(a, step, c, r)) {
        a->is_uniform = true;
        return 0;
    }
    a->out->differs = step;
    return 0;
}

/* Check that bundle b of a generation equals the recomputed one. */
static int compare_stored(struct audit *a, int64_t step, int b, struct spot_err *err)
{
    struct spot_bundle *const stored = read_bundle(a, step, b, err);
    const int n = a->bundle[b]->arena.n_tensor;
    char name[SPOT_TENSOR_NAME_MAX];
    int n_other = 0;

    if (!stored)
        return -1;
    for (int t = n; t-- > 0;)
        if (spot_evidence_state(stored, t) != spot_evidence_state(a->bundle[b], t)) {
            put_name(a, b, t, name);
            n_other++;
        }
    spot_bundle_free(stored);
    if (!n_other)
        return 0;
    a->out->differs = step;
    snprintf(a->out->what, sizeof(a->out->what),
             "the generation after it: bundle %d, tensor %s (%d of %d tensors)", b, name, n_other,
             n);
    return 0;
}

/* Compare a generation between the steps, since without a following step no vote checks it. */
static int compare_generation(struct audit *a, int64_t step, struct spot_err *err)
{
    bool is_there = false;

    for (size_t i = 0; i < a->n_step; i++)
        is_there |= a->step[i] == step;
    if (!is_there || a->out->differs)
        return 0;
    if (check_chain(a, step, err))
        return -1;
    for (int b = 0; !a->out->differs && b < a->n_bundle; b++)
        if (compare_stored(a, step, b, err))
            return -1;
    return 0;
}

/* --- the audit ------------------------------------------------------------------ */

static int audit_one(struct audit *a, int64_t step, struct spot_err *err)
{
    struct spot_replayed r = { .evidence = a->evidence };
    const double start_s = spot_clock_s();

    if (spot_replay_step(a->replay, &r, err))
        return -1;
    a->out->compute_s += spot_clock_s() - start_s;
    if (compare(a, step, &r, err) || compare_generation(a, step, err))
        return -1;
    a->out->n_step += !a->out->differs;
    if (a->options->progress)
        a->options->progress(a->options->user, step, a->options->end);
    return 0;
}

/* Start from the current state, or from a generation that is nearer to the step. */
static int audit_up_to(struct audit *a, int64_t step, struct spot_err *err)
{
    const int64_t from = nearest(a, step - 1), here = a->replay ? a->bundle[0]->step : -1;

    if (here < from || here >= step) {
        if (here < 0)
            a->out->from = from;
        if (take_state(a, from, err))
            return -1;
    }
    for (int64_t s = a->bundle[0]->step + 1; !a->out->differs && s <= step; s++)
        if (audit_one(a, s, err))
            return -1;
    return 0;
}

/* Draw n distinct steps, in order (Knuth's algorithm S). */
static int audit_all(struct audit *a, struct spot_err *err)
{
    const struct spot_audit *const o = a->options;
    int64_t left = o->end - o->begin + 1, wanted = o->n_sample ? o->n_sample : left;
    struct spot_rng rng;

    spot_rng_init(&rng, o->seed, 0);
    for (int64_t s = o->begin; wanted > 0 && !a->out->differs && s <= o->end; s++, left--)
        if ((int64_t)spot_rng_below(&rng, (uint64_t)left) < wanted) {
            wanted--;
            if (audit_up_to(a, s, err))
                return -1;
        }
    return 0;
}

int spot_audit_run(const struct spot_audit *o, struct spot_audited *out, struct spot_err *err)
{
    struct audit a = { .options = o, .out = out, .corpus = { .fd = -1 } };
    int rc;

    assert(o->begin >= 1 && o->begin <= o->end);
    *out = (struct spot_audited){ 0 };
    rc = open_job(&a, err) || audit_all(&a, err) ? -1 : 0;
    drop_state(&a);
    free(a.bundle);
    free(a.evidence);
    free(a.step);
    spot_audit_log_release(&a.log);
    spot_corpus_release(&a.corpus);
    free(a.weight);
    spot_bpe_free(a.bpe);
    spot_job_note_release(&a.note);
    return rc;
}
