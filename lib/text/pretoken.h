/* SPDX-License-Identifier: MIT */
/* pretoken.h - the steps by which a tokenizer.json changes a text and cuts it into pieces before
 * its model: "normalizer" and "pre_tokenizer". Tokens never extend over several pieces.
 */
#ifndef SPOT_TEXT_PRETOKEN_H
#define SPOT_TEXT_PRETOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "text/pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The expression of GPT-2 (https://github.com/openai/gpt-2, src/encoder.py), the default of
 * "ByteLevel". */
#define SPOT_PRETOKEN_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum spot_text_step_type {
    SPOT_STEP_PREPEND, /* put `to` before a text that is not empty */
    SPOT_STEP_SPACE,   /* put `to` before a text that does not begin with it */
    SPOT_STEP_REPLACE, /* replace each match of `pattern` by `to` */
    SPOT_STEP_NFC,
    SPOT_STEP_NFD,
    SPOT_STEP_SPLIT, /* cut at matches of `pattern` */
};

/* Treatment of the matches at which a text is cut. */
enum spot_split { SPOT_SPLIT_ISOLATED, SPOT_SPLIT_REMOVED, SPOT_SPLIT_PREVIOUS, SPOT_SPLIT_NEXT };

struct spot_text_step {
    enum spot_text_step_type type;
    enum spot_split split;
    bool is_inverse;              /* use the text between matches as the matches */
    struct spot_pattern *pattern; /* owned */
    char *to;                     /* owned */
    bool is_first;                /* of SPACE: at the start of the whole text only */
};

enum { SPOT_TEXT_STEPS_MAX = 16 };

struct spot_text_steps {
    struct spot_text_step step[SPOT_TEXT_STEPS_MAX];
    size_t n;
};

void spot_text_steps_release(struct spot_text_steps *steps);

/* Apply a step other than SPLIT. Returns the new text, in `out`, or the text itself if nothing
 * changes; *n becomes its length. */
const char *spot_text_step_apply(const struct spot_text_step *step, const char *text, size_t *n,
                                 struct spot_buf *out);

/* The next piece of text[n] at a SPLIT, n >= 1; *is_out: the piece is dropped. Returns its length;
 * 0: following text, if the text does not end here, could change it. */
size_t spot_text_step_cut(const struct spot_text_step *step, const char *text, size_t n,
                          bool is_end, bool *is_out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_PRETOKEN_H */
