/* SPDX-License-Identifier: MIT */
/* tool_call.h - calls of tools in a model's text: how models write them, and what a text calls.
 *
 * Each model was trained on one way to write a call, which its chat template shows. The ways are a
 * table. A text is read once, as it comes: what was told after each token is a function of the
 * tokens so far, so it is the same in a whole answer, in a stream, and in one that goes on after a
 * kill.
 */
#ifndef SPOT_SERVE_TOOL_CALL_H
#define SPOT_SERVE_TOOL_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_TOOL_JSON = 7, SPOT_TOOL_NONE, SPOT_TOOL_FORMS = SPOT_TOOL_NONE };

struct spot_tool_form {
    const char *name;
    const char *mark; /* what is in a call that a template shows; NULL: taken where no other is */
    const char *trigger;   /* what calls begin with; "": a text of calls begins with a bracket */
    const char *may_begin; /* before such a bracket; NULL: nothing */
    bool is_array;         /* one trigger, then an array of all calls */
    bool is_bare;          /* a call is no object: trigger, name, `arguments`, these, tail */
    const char *open, *arguments, *close; /* around the name and the arguments of a call */
    const char *between;                  /* two calls */
    const char *tail;                     /* behind a call, or an array of them; "": nothing */
    int id_byte;                          /* of a call's id; 0: any */
};

/* By number, 1 to SPOT_TOOL_FORMS; SPOT_TOOL_NONE: a text that calls nothing. */
const struct spot_tool_form *spot_tool_form(uint8_t number);
uint8_t spot_tool_form_find(const char *name); /* 0: none */
/* The one in which a prompt with a call in it, or a chat template, shows calls; SPOT_TOOL_JSON: in
 * no other. */
uint8_t spot_tool_form_of(const char *text);

enum spot_piece_kind {
    SPOT_PIECE_TEXT,
    SPOT_PIECE_CALL,      /* a call begins: the name of its function */
    SPOT_PIECE_ARGUMENTS, /* of the call that began last: more of its JSON text */
};

struct spot_call_piece {
    enum spot_piece_kind kind;
    size_t begin, end; /* bytes of the text */
};

struct spot_tool_scan {
    const struct spot_tool_form *form;
    struct spot_call_piece *piece; /* [n] */
    size_t n, cap;
    uint32_t n_call;

    /* private */
    int state, value, depth;
    size_t at;          /* bytes that were read */
    size_t told, solid; /* of the text outside of calls: was told; may be told now */
    size_t mark;        /* where what may be a trigger or a call begins */
    size_t key, key_end, name, name_end, value_begin;
    bool is_fresh, is_in_array, is_escaped, is_in_text, has_name, has_begun;
};

void spot_tool_scan_init(struct spot_tool_scan *s, const struct spot_tool_form *form);
void spot_tool_scan_release(struct spot_tool_scan *s);
/* Read on to text[n], which begins with what was read before. With is_end nothing comes behind it.
 * What looked like a call and is none is text; what follows in it is not searched again. */
void spot_tool_scan_run(struct spot_tool_scan *s, const uint8_t *text, size_t n, bool is_end);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_TOOL_CALL_H */
