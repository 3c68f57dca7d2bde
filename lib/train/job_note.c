/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* realpath */
#include "train/job_note.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "weights/hf_config.h"
#include "weights/hf_family.h"

enum { DATA_MAX = 65536, VALUE_MAX = 96 };

#define KEY(member, type_, unit_, min_, max_)                                            \
    {                                                                                    \
        .key = #member, .type = type_, .offset = offsetof(struct spot_job_note, member), \
        .unit = unit_, .min = min_, .max = max_, .required = true                        \
    }
#define LATER(member, type_, unit_, max_)                                                \
    {                                                                                    \
        .key = #member, .type = type_, .offset = offsetof(struct spot_job_note, member), \
        .unit = unit_, .max = max_                                                       \
    }
#define COUNT(member, least) KEY(member, SPOT_F_INT, "1", least, 1 << 30)
#define REAL(member, most)   KEY(member, SPOT_F_REAL, "1", 0, most)
#define TEXT(member)         KEY(member, SPOT_F_STR, NULL, 0, 0)
#define HEX(member)          KEY(member, SPOT_F_STR, "hex", 16, 16)

const struct spot_field spot_job_note_field[] = {
    TEXT(arch),
    LATER(config, SPOT_F_STR, NULL, 0),
    COUNT(layers, 1),
    COUNT(width, 1),
    COUNT(heads, 1),
    COUNT(seq, 1),
    COUNT(vocab, 1),
    COUNT(shards, 1),
    COUNT(kv_heads, 0),
    COUNT(ffn, 0),
    REAL(rope_theta, 1e9),
    REAL(norm_eps, 1e9),
    KEY(tied, SPOT_F_BOOL, NULL, 0, 0),
    COUNT(micro_batch, 1),
    COUNT(global_batch, 1),
    TEXT(seed),
    REAL(lr, 1e9),
    REAL(beta1, 1e9),
    REAL(beta2, 1e9),
    REAL(weight_decay, 1e9),
    REAL(clip, 1e9),
    LATER(lr_schedule, SPOT_F_STR, NULL, 0),
    LATER(warmup_steps, SPOT_F_INT, "1", 1e12),
    LATER(decay_steps, SPOT_F_INT, "1", 1e12),
    LATER(min_lr, SPOT_F_REAL, "1", 1e9),
    TEXT(kernel),
    TEXT(reduce),
    KEY(steps, SPOT_F_INT, "1", 1, 1e12),
    LATER(val_every, SPOT_F_INT, "1", 1e12),
    LATER(val_batches, SPOT_F_INT, "1", 1e9),
    TEXT(tokens),
    TEXT(tokenizer),
    TEXT(load),
    HEX(data_xxh3),
    HEX(load_xxh3),
    LATER(weights_of_samples, SPOT_F_STR, NULL, 0),
    { "weights_of_samples_xxh3", SPOT_F_STR,
      offsetof(struct spot_job_note, weights_of_samples_xxh3), "hex", 16, 16, false },
    { 0 },
};

/* One entry of `changes`. */
struct change_note {
    int64_t after, warmup_steps, decay_steps;
    double lr, weight_decay, min_lr;
    const char *lr_schedule;
};
#define OF_CHANGE(member, type_, unit_, max_)                                          \
    {                                                                                  \
        .key = #member, .type = type_, .offset = offsetof(struct change_note, member), \
        .unit = unit_, .max = max_, .required = true                                   \
    }
static const struct spot_field change_field[] = {
    OF_CHANGE(after, SPOT_F_INT, "1", 1e12),        OF_CHANGE(lr, SPOT_F_REAL, "1", 1e9),
    OF_CHANGE(weight_decay, SPOT_F_REAL, "1", 1e9), OF_CHANGE(lr_schedule, SPOT_F_STR, NULL, 0),
    OF_CHANGE(warmup_steps, SPOT_F_INT, "1", 1e12), OF_CHANGE(decay_steps, SPOT_F_INT, "1", 1e12),
    OF_CHANGE(min_lr, SPOT_F_REAL, "1", 1e9),       { 0 },
};
const struct spot_doc_part spot_job_note_part[] = {
    { "", spot_job_note_field, .required = true },
    { "changes[]", change_field, .n_max = SPOT_TUNINGS_MAX },
    { 0 },
};

static const char job_name[] = "job.json", behind_name[] = "behind-command";

/* --- reading -------------------------------------------------------------- */

static int read_change(struct spot_job_note *note, const struct spot_json_value *item,
                       struct spot_err *err)
{
    struct change_note n = { 0 };
    char at[32];
    int kind;

    snprintf(at, sizeof(at), "/changes/%zu", note->n_change);
    if (spot_json_read_fields(&note->doc, item, at, change_field, &n, err))
        return -1;
    kind = spot_lr_schedule_find(n.lr_schedule);
    if (kind < 0)
        return spot_json_fail(&note->doc, at, err, "expected a schedule, got '%s'", n.lr_schedule);
    note->change[note->n_change++] =
        (struct spot_tuning){ .after = n.after,
                              .lr = n.lr,
                              .weight_decay = n.weight_decay,
                              .schedule = { (uint32_t)kind, n.warmup_steps, n.decay_steps,
                                            n.min_lr } };
    return 0;
}

/* Reads the tunings. Notes of versions without schedules have none. */
static int read_tunings(struct spot_job_note *note, struct spot_err *err)
{
    const struct spot_json_value *changes = NULL, *item;
    size_t i;

    if (!note->lr_schedule)
        note->lr_schedule = "constant";
    if (spot_lr_schedule_find(note->lr_schedule) < 0)
        return spot_json_fail(&note->doc, "/lr_schedule", err, "expected a schedule, got '%s'",
                              note->lr_schedule);
    if (spot_json_array(&note->doc, note->doc.root, "", "changes", false, SPOT_TUNINGS_MAX,
                        &changes, err))
        return -1;
    spot_json_array_foreach(changes, i, item)
    {
        if (read_change(note, item, err))
            return -1;
    }
    return 0;
}

static int read_note(struct spot_job_note *note, struct spot_err *err)
{
    const struct spot_json_value *item;
    size_t i;

    if (spot_json_expect_schema(&note->doc, "spot.training", 1, err) ||
        spot_json_read_fields(&note->doc, note->doc.root, "", spot_job_note_field, note, err) ||
        spot_json_array(&note->doc, note->doc.root, "", "data", true, DATA_MAX, &note->data, err))
        return -1;
    spot_json_array_foreach(note->data, i, item)
    {
        if (!spot_json_is_string(item))
            return spot_json_fail(&note->doc, "/data", err, "expected paths");
    }
    if (spot_json_array(&note->doc, note->doc.root, "", "val_data", false, DATA_MAX,
                        &note->val_data, err))
        return -1;
    spot_json_array_foreach(note->val_data, i, item)
    {
        if (!spot_json_is_string(item))
            return spot_json_fail(&note->doc, "/val_data", err, "expected paths");
    }
    if (read_tunings(note, err))
        return -1;
    return 1;
}

/* The note is damaged; the job's options contain all that it needs. */
static int damaged(const char *path, const struct spot_err *why, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EDATA,
                        "%.300s; a power failure may have damaged '%.200s': remove it, and resume "
                        "the job with all of its options, which writes it anew",
                        why->msg, path);
}

int spot_job_note_load(struct spot_job_note *note, const char *dir, struct spot_err *err)
{
    char *const path = spot_xpath(dir, job_name);
    struct spot_err why = { 0 };
    int rc = 0;

    *note = (struct spot_job_note){ .data = NULL };
    if (!access(path, F_OK)) {
        rc = spot_json_load_path(&note->doc, path, &why);
        if (rc && why.code == SPOT_EDATA)
            (void)damaged(path, &why, err);
        else if (rc && err)
            *err = why;
        if (!rc && (rc = read_note(note, err)) < 0)
            spot_job_note_release(note);
    }
    free(path);
    return rc;
}

int spot_job_note_parse(struct spot_job_note *note, const char *text, size_t n_byte,
                        const char *source, struct spot_err *err)
{
    *note = (struct spot_job_note){ .data = NULL };
    if (spot_json_parse(&note->doc, text, n_byte, source, err))
        return -1;
    if (read_note(note, err) > 0)
        return 0;
    spot_job_note_release(note);
    return -1;
}

void spot_job_note_release(struct spot_job_note *note)
{
    if (note->doc.root)
        spot_json_release(&note->doc);
    *note = (struct spot_job_note){ .data = NULL };
}

/* --- writing -------------------------------------------------------------- */

/* Numbers of the note as text. */
struct texts {
    char seed[24], data[20], load[20], weight[20];
};

static void fill(struct spot_job_note *note, const struct spot_job_config *c, struct texts *text)
{
    const struct spot_shape *s = &c->shape;

    snprintf(text->seed, sizeof(text->seed), "%" PRIu64, c->seed);
    snprintf(text->data, sizeof(text->data), "%016" PRIx64, c->data_xxh3);
    snprintf(text->load, sizeof(text->load), "%016" PRIx64, c->init_xxh3);
    snprintf(text->weight, sizeof(text->weight), "%016" PRIx64, c->weight_xxh3);
    *note = (struct spot_job_note){
        .layers = s->n_layer,
        .width = s->width,
        .heads = s->n_head,
        .seq = s->seq,
        .vocab = s->vocab,
        .shards = s->n_shard,
        .kv_heads = s->n_kv_head,
        .ffn = s->ffn,
        .micro_batch = c->micro_batch,
        .global_batch = c->global_batch,
        .steps = c->n_step,
        .rope_theta = s->rope_theta,
        .norm_eps = spot_shape_norm_eps(s),
        .lr = c->adamw.lr,
        .beta1 = c->adamw.beta1,
        .beta2 = c->adamw.beta2,
        .weight_decay = c->adamw.weight_decay,
        .clip = c->clip_norm,
        .lr_schedule = spot_lr_schedule_name(c->schedule.kind),
        .warmup_steps = c->schedule.warmup_steps,
        .decay_steps = c->schedule.decay_steps,
        .min_lr = c->schedule.min_lr,
        .tied = s->is_tied != 0,
        .arch = spot_hf_family_of(s)->type,
        .kernel = c->kernel,
        .reduce = c->reduce == SPOT_REDUCE_FAST ? "fast" : "exact",
        .seed = text->seed,
        .data_xxh3 = text->data,
        .load_xxh3 = text->load,
        .weights_of_samples_xxh3 = c->weight_xxh3 ? text->weight : NULL,
    };
}

/* The absolute form of a path; "-" is standard input. Freed by the caller. */
static char *absolute(const char *path)
{
    char *const whole = !path || !strcmp(path, "-") ? NULL : realpath(path, NULL);

    return whole ? whole : path ? spot_xstrdup(path) : NULL;
}

static void put_paths(struct spot_jw *jw, const char *key, const char *const *paths, size_t n)
{
    spot_jw_array(jw, key);
    for (size_t i = 0; i < n; i++) {
        char *const path = absolute(paths[i]);

        spot_jw_str(jw, NULL, path);
        free(path);
    }
    spot_jw_end(jw);
}

static void put_changes(struct spot_jw *jw, const struct spot_job_config *c)
{
    spot_jw_array(jw, "changes");
    for (uint32_t i = 0; i < c->n_change; i++) {
        const struct spot_tuning *const t = &c->change[i];
        const struct change_note n = { .after = t->after,
                                       .lr = t->lr,
                                       .weight_decay = t->weight_decay,
                                       .lr_schedule = spot_lr_schedule_name(t->schedule.kind),
                                       .warmup_steps = t->schedule.warmup_steps,
                                       .decay_steps = t->schedule.decay_steps,
                                       .min_lr = t->schedule.min_lr };

        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, change_field, &n);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* True if the shape is not determined by the other keys. */
static bool needs_config(const struct spot_shape *s)
{
    return s->kind.family > 1 || (!s->kind.family && s->ffn) || spot_shape_needs(s);
}

char *spot_job_note_text(const struct spot_job_config *config, const struct spot_trainer_options *o,
                         struct spot_err *err)
{
    char *const own = needs_config(&config->shape) ? spot_hf_config_text(&config->shape) : NULL;
    char *const tokenizer = absolute(o->tokenizer), *const load = absolute(o->load);
    char *const weights = absolute(o->weights_of_samples);
    struct spot_job_note note;
    struct texts texts = { 0 };
    char *text = NULL;
    size_t n = 0;
    FILE *const out = spot_xmemory_open(&text, &n);
    struct spot_jw jw;
    int rc;

    fill(&note, config, &texts);
    note.tokens = o->bpe || o->token_byte == 1 ? "bytes" : o->token_byte == 2 ? "u16" : "u32";
    note.tokenizer = tokenizer ? tokenizer : "";
    note.load = load ? load : "";
    note.weights_of_samples = weights;
    note.config = own;
    note.val_every = o->val_every;
    note.val_batches = o->val_batches;
    spot_jw_init(&jw, out, true);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.training/1");
    spot_jw_fields(&jw, spot_job_note_field, &note);
    put_paths(&jw, "data", o->data, o->n_data);
    put_paths(&jw, "val_data", o->val_data, o->n_val_data);
    if (config->n_change)
        put_changes(&jw, config);
    spot_jw_end(&jw);
    rc = spot_jw_close(&jw, err);
    spot_xmemory_close(out);
    free(tokenizer);
    free(load);
    free(weights);
    free(own);
    if (!rc)
        return text;
    free(text);
    return NULL;
}

int spot_job_note_mark_behind(const char *dir, bool is_behind, struct spot_err *err)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = -1;

    if (fd >= 0)
        rc = is_behind ? spot_safe_replace(fd, behind_name, "", 0, false)
                       : unlinkat(fd, behind_name, 0) && errno != ENOENT;
    if (rc)
        spot_err_sys(err, "cannot %s '%s/%s'", is_behind ? "write" : "remove", dir, behind_name);
    spot_close(fd);
    return rc ? -1 : 0;
}

bool spot_job_note_is_behind(const char *dir)
{
    char *const path = spot_xpath(dir, behind_name);
    const bool is_there = !access(path, F_OK);

    free(path);
    return is_there;
}

int spot_job_note_write(const char *dir, const struct spot_job_config *config,
                        const struct spot_trainer_options *o, struct spot_err *err)
{
    char *const text = spot_job_note_text(config, o, err);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = -1;

    if (text)
        rc = fd < 0 || spot_safe_replace(fd, job_name, text, strlen(text), true) || fsync(fd)
                 ? spot_err_sys(err, "cannot write '%s/%s'", dir, job_name)
                 : 0;
    spot_close(fd);
    free(text);
    return rc;
}

/* --- comparing ------------------------------------------------------------ */

const char *spot_job_note_option(const char *key, char name[SPOT_JOB_NOTE_KEY_MAX])
{
    const bool is_kernel = !strcmp(key, "kernel"), is_comm = !strcmp(key, "reduce");

    snprintf(name, SPOT_JOB_NOTE_KEY_MAX, "%s", is_kernel ? "device" : is_comm ? "comm" : key);
    for (char *at = name; (at = strchr(at, '_'));)
        *at = '-';
    return name;
}

static void value_text(const struct spot_field *f, const struct spot_job_note *note,
                       char text[VALUE_MAX])
{
    const void *const at = (const char *)note + f->offset;

    if (f->type == SPOT_F_INT)
        snprintf(text, VALUE_MAX, "%" PRId64, *(const int64_t *)at);
    else if (f->type == SPOT_F_REAL)
        snprintf(text, VALUE_MAX, "%.9g", *(const double *)at);
    else if (f->type == SPOT_F_BOOL)
        snprintf(text, VALUE_MAX, "%s", *(const bool *)at ? "yes" : "no");
    else
        snprintf(text, VALUE_MAX, "%s",
                 *(const char *const *)at ? *(const char *const *)at : "none");
}

void spot_job_note_differences(const char *dir, const struct spot_job_config *config, char *text,
                               size_t n)
{
    struct spot_job_note there, here;
    struct texts texts = { 0 };
    struct spot_err ignored;
    size_t used = 0;

    *text = '\0';
    if (spot_job_note_load(&there, dir, &ignored) <= 0)
        return;
    fill(&here, config, &texts);
    for (const struct spot_field *f = spot_job_note_field; f->key && used < n; f++) {
        const bool is_hash = strstr(f->key, "_xxh3") != NULL;
        char a[VALUE_MAX], b[VALUE_MAX], name[SPOT_JOB_NOTE_KEY_MAX];

        if (!strcmp(f->key, "steps") || !strcmp(f->key, "config") || !strncmp(f->key, "val_", 4) ||
            (f->type == SPOT_F_STR && !*(const char **)((char *)&here + f->offset)))
            continue; /* does not decide which job it is */
        value_text(f, &here, a);
        value_text(f, &there, b);
        if (!strcmp(a, b))
            continue;
        spot_job_note_option(f->key, name);
        if (is_hash)
            *strstr(name, "-xxh3") = '\0';
        used += (size_t)snprintf(text + used, n - used,
                                 is_hash ? "%s--%s with other contents (xxh3 %s, there %s)"
                                         : "%s--%s %s, there %s",
                                 used ? "; " : "", name, a, b);
    }
    spot_job_note_release(&there);
}
