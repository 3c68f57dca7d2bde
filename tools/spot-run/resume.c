/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* The option with this name unless it was given; else NULL. */
static const struct spot_opt *not_given(const struct spot_opt *option, const bool *given,
                                        const char *name)
{
    for (size_t i = 0; option[i].type != SPOT_OPT_END; i++)
        if (option[i].long_name && !strcmp(option[i].long_name, name))
            return given[i] ? NULL : &option[i];
    return NULL;
}

static void take(const struct spot_opt *o, const struct spot_field *f,
                 const struct spot_job_note *note)
{
    const void *const at = (const char *)note + f->offset;

    if (f->type == SPOT_F_INT)
        *(uint64_t *)o->value = (uint64_t) * (const int64_t *)at;
    else if (f->type == SPOT_F_REAL)
        *(double *)o->value = *(const double *)at;
    else if (f->type == SPOT_F_BOOL)
        *(bool *)o->value = *(const bool *)at;
    else if (o->type == SPOT_OPT_U64)
        *(uint64_t *)o->value = strtoull(*(const char *const *)at, NULL, 10);
    else if (**(const char *const *)at)
        *(const char **)o->value = *(const char *const *)at;
}

static void take_list(struct spot_opt_list *list, const struct spot_json_value *from)
{
    const struct spot_json_value *item;
    size_t i;

    list->n = spot_json_array_size(from);
    list->item = spot_xcalloc(list->n + 1, sizeof(*list->item));
    spot_json_array_foreach(from, i, item)
    {
        list->item[i] = spot_json_text(item);
    }
}

int resume_options(const char *dir, const struct spot_opt *option, const bool *given,
                   struct spot_job_note *note, struct spot_err *err)
{
    const int is_there = spot_job_note_load(note, dir, err);
    const struct spot_opt *o;

    if (is_there <= 0)
        return is_there;
    for (const struct spot_field *f = spot_job_note_field; f->key; f++) {
        char name[SPOT_JOB_NOTE_KEY_MAX];

        if (!strcmp(f->key, "reduce")) /* part of --comm, which may change when a job is resumed */
            continue;
        o = not_given(option, given, spot_job_note_option(f->key, name));
        if (o && spot_json_get(note->doc.root, f->key)) /* an older note has fewer keys */
            take(o, f, note);
    }
    o = not_given(option, given, "comm");
    if (o && !strcmp(note->reduce, "fast"))
        *(const char **)o->value = "nccl-fast";
    o = not_given(option, given, "data");
    if (o)
        take_list(o->value, note->data);
    o = not_given(option, given, "val-data");
    if (o && note->val_data)
        take_list(o->value, note->val_data);
    return 0;
}
