/* SPDX-License-Identifier: MIT */
/* template_lex.h - the tokens of a template; private to template*.c. */
#ifndef SPOT_TEXT_TEMPLATE_LEX_H
#define SPOT_TEXT_TEMPLATE_LEX_H

#include "text/template_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Other types are the token's character, or a letter as in `op` of a node: F is //, ^ is **, E is
 * ==, N is !=, L is <=, G is >=. */
enum {
    SPOT_TTOKEN_CLOSE = 256, /* of a tag */
    SPOT_TTOKEN_NAME,
    SPOT_TTOKEN_TEXT,
    SPOT_TTOKEN_NUMBER,
};

struct spot_ttoken {
    int type;
    uint32_t line, column;
    struct spot_tv value; /* of a name: its text */
};

struct spot_tlex {
    const char *source;
    char *begin, *at, *end; /* the text; escapes in quotes are decoded in place */
    const char *line_begin;
    uint32_t line;
    uint32_t n_open; /* brackets */
    char tag;        /* '{' or '%': in which kind of tag */
    struct spot_ttoken token;
    struct spot_err *err;
    bool has_failed;
};

/* Set an error, "source:line:column: ..."; only the first counts. Afterwards every tag is closed,
 * so that parsing ends. */
void spot_tlex_fail(struct spot_tlex *l, uint32_t line, uint32_t column, const char *fmt, ...)
    SPOT_PRINTF(4, 5);

/* The text before the next tag, which is entered: its kind is l->tag, '\0' at the end of the
 * template. After a comment, which is skipped, l->tag is '#', and more text may follow. */
struct spot_tv spot_tlex_data(struct spot_tlex *l);

/* Read the next token of a tag into l->token; after CLOSE text follows. */
void spot_tlex_next(struct spot_tlex *l);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TEMPLATE_LEX_H */
