/* SPDX-License-Identifier: MIT */
/* tool_call.h - tool calls in a model's text: the formats in which models write them, and a parser.
 *
 * Each model was trained on one format, which its chat template shows; the formats are a table. A
 * text is parsed once, as it arrives. The pieces known after each token are a function of the
 * tokens so far, so they are the same in a whole answer, in a stream, and in one that continues
 * after a kill.
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
    const char *mark;    /* text that identifies the format in a rendered call; NULL: the default */
    const char *trigger; /* the start of calls; "": a text of calls begins with a bracket */
    const char *may_begin; /* optional text before such a bracket; NULL: none */
    bool is_array;         /* one trigger, then an array of all calls */
    bool is_bare; /* a call is not an object: trigger, name, `arguments`, the arguments, tail */
    const char *open, *arguments, *close; /* text around the name and the arguments of a call */
    const char *between;                  /* two calls */
    const char *tail;                     /* after a call, or an array of calls; "": nothing */
    int id_byte;                          /* of a call's id; 0: any */
};

/* A format by number, 1 to SPOT_TOOL_FORMS; SPOT_TOOL_NONE: a text without calls. */
const struct spot_tool_form *spot_tool_form(uint8_t number);
uint8_t spot_tool_form_find(const char *name); /* 0: none */
/* The format of the calls in a prompt or a chat template; SPOT_TOOL_JSON if none is recognised. */
uint8_t spot_tool_form_of(const char *text);

enum spot_piece_kind {
    SPOT_PIECE_TEXT,
    SPOT_PIECE_CALL,      /* a call begins: the name of its function */
    SPOT_PIECE_ARGUMENTS, /* more of the JSON text of the last call */
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
    size_t told, solid; /* text outside of calls: reported so far; known so far */
    size_t mark;        /* start of a possible trigger or call */
    size_t key, key_end, name, name_end, value_begin;
    bool is_fresh, is_in_array, is_escaped, is_in_text, has_name, has_begun;
};

void spot_tool_scan_init(struct spot_tool_scan *s, const struct spot_tool_form *form);
void spot_tool_scan_release(struct spot_tool_scan *s);
/* Continue to text[n], whose beginning was already read. is_end: no more text follows. An invalid
 * call is text, and is not searched again. */
void spot_tool_scan_run(struct spot_tool_scan *s, const uint8_t *text, size_t n, bool is_end);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_TOOL_CALL_H */
