/* SPDX-License-Identifier: MIT */
/* grammar_state.h - the network that a schema is compiled to, and its builders.
 *
 * A recursive transition network over bytes. It is built backwards: each function takes the node
 * that follows and returns the node at which its text begins, so nothing is patched. Nodes are
 * numbered from 0, and node 0 is the end of a rule.
 */
#ifndef SPOT_SERVE_GRAMMAR_STATE_H
#define SPOT_SERVE_GRAMMAR_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_gnode_kind {
    SPOT_GNODE_RETURN, /* the end of a rule or of a loop's body */
    SPOT_GNODE_BYTE,   /* low..high, then next */
    SPOT_GNODE_SPLIT,  /* next or other */
    SPOT_GNODE_CALL,   /* rule `other`, then next */
    SPOT_GNODE_LOOP,   /* the body that begins at `other`, min..max times, then next */
    SPOT_GNODE_NEVER,  /* matches nothing */
};

enum {
    SPOT_GNODE_MAX = 1 << 18,
    SPOT_GRAMMAR_DEPTH_MAX = 32, /* of a schema */
    SPOT_GRAMMAR_ANY_DEPTH = 16, /* of values that a schema does not constrain */
};

static const uint32_t SPOT_GRAMMAR_MANY = UINT32_MAX; /* max of a loop without limit */

struct spot_gnode {
    uint8_t kind, low, high;
    bool is_alive; /* the end can be reached */
    uint32_t next, other, min, max;
};

struct spot_gnet {
    struct spot_gnode *node;
    size_t n, cap;
    uint32_t *rule; /* [n_rule] where each begins */
    size_t n_rule, rule_cap;
    uint32_t start, never;
    bool is_plain; /* characters are themselves: not in a JSON string */
    bool is_full;  /* SPOT_GNODE_MAX was reached: added nodes are node 0 */
};

/* State of a text: a set of paths, each a node and the frames of the rules and loops around it. */
struct spot_gframe {
    uint32_t below, node,
        count; /* below: the outer frames; node: where it continues; count: turns of a loop */
};
struct spot_gway {
    uint32_t node, frame; /* frame 0: none */
};
struct spot_gstand {
    const struct spot_gnet *net;
    const struct spot_gframe *frame;
    const struct spot_gway *way; /* [n_way] */
    size_t n_way;
    bool may_end;
};
/* Valid until the next call for the same grammar. */
struct spot_grammar_state;
struct spot_gstand spot_grammar_stand(struct spot_grammar_state *state);

/* --- grammar_net.c: nodes, and the texts of JSON ------------------------------ */

void spot_gnet_init(struct spot_gnet *net);
void spot_gnet_release(struct spot_gnet *net);

uint32_t spot_gnet_byte(struct spot_gnet *net, uint8_t low, uint8_t high, uint32_t next);
uint32_t spot_gnet_split(struct spot_gnet *net, uint32_t a, uint32_t b);
uint32_t spot_gnet_loop(struct spot_gnet *net, uint32_t body, uint32_t min, uint32_t max,
                        uint32_t next);
uint32_t spot_gnet_call(struct spot_gnet *net, uint32_t rule, uint32_t next);
uint32_t spot_gnet_rule(struct spot_gnet *net); /* a new rule without a start */
uint32_t spot_gnet_text(struct spot_gnet *net, const char *text, uint32_t next);

/* Any bytes that do not contain `text`, whose bytes are not 0; "": that do not begin with a
 * bracket. */
uint32_t spot_gnet_without(struct spot_gnet *net, const char *text, uint32_t next);

/* Any of text[n], sorted by bytes and all different, as a tree. */
uint32_t spot_gnet_texts(struct spot_gnet *net, char *const *text, size_t n, uint32_t next);

/* A character of a JSON string: one of low..high, literally or, if required, escaped. If the net
 * is_plain, a character of plain text. */
uint32_t spot_gnet_chars(struct spot_gnet *net, uint32_t low, uint32_t high, uint32_t next);
/* Any character, also as an optional escape. */
uint32_t spot_gnet_any_char(struct spot_gnet *net, uint32_t next);
uint32_t spot_gnet_string(struct spot_gnet *net, uint32_t min, uint32_t max, uint32_t next);

/* Integers of at most 18 digits within low..high, and numbers that a double holds. */
enum { SPOT_GRAMMAR_DIGITS = 18 };
uint32_t spot_gnet_integer(struct spot_gnet *net, int64_t low, int64_t high, uint32_t next);
uint32_t spot_gnet_number(struct spot_gnet *net, uint32_t next);

/* Call after the last node: mark the nodes that reach the end. Fails if the start does not, or if a
 * rule calls itself before consuming a byte. */
enum spot_gnet_fault { SPOT_GNET_SOUND, SPOT_GNET_FULL, SPOT_GNET_EMPTY, SPOT_GNET_LEFT_RECURSIVE };
enum spot_gnet_fault spot_gnet_finish(struct spot_gnet *net);

/* --- grammar_words.c --------------------------------------------------------- */

struct spot_grammar_word {
    uint32_t id, common; /* length of the common prefix with the previous word */
    const uint8_t *byte;
    size_t n;
};

/* The word of a special token is SPOT_GRAMMAR_TOKEN, a byte that occurs in no text, and its name.
 */
enum { SPOT_GRAMMAR_TOKEN = 0xFF };

struct spot_grammar_words {
    struct spot_buf text; /* of all tokens */
    size_t *begin; /* [n_vocabulary + 1] each one's position in text; empty for missing ones */
    struct spot_grammar_word *word; /* [n_word] tokens that are text, sorted by their bytes */
    size_t n_word, n_vocabulary, n_byte_max;
};

/* --- grammar_pattern.c ------------------------------------------------------- */

/* Strings in which an ECMA-262 expression matches somewhere. An error is described in *why, at
 * position *at. */
uint32_t spot_gnet_pattern(struct spot_gnet *net, const char *pattern, uint32_t next,
                           const char **why, size_t *at);

/* --- grammar_schema.c, grammar_value.c ---------------------------------------- */

/* A $ref and its rule. */
struct spot_greference {
    const struct spot_json_value *to;
    uint32_t rule;
};

struct spot_greader {
    struct spot_gnet *net;
    struct spot_json_doc doc;
    const struct spot_json_value *root; /* of the schema, for $ref */
    struct spot_err *err;
    bool has_failed;
    char pointer[SPOT_JSON_POINTER_MAX];
    struct spot_greference *reference;
    size_t n_reference, reference_cap;
    uint32_t any[SPOT_GRAMMAR_ANY_DEPTH + 1]; /* rules; 0 until created */
    int depth;
};

/* Only the first failure is reported; the returned node must not be used. */
uint32_t spot_greader_fail(struct spot_greader *r, const char *what, const char *detail);
/* A text that the schema at `key` below allows. */
uint32_t spot_greader_below(struct spot_greader *r, const char *key,
                            const struct spot_json_value *schema, uint32_t next);
uint32_t spot_greader_of_type(struct spot_greader *r, const struct spot_json_value *schema,
                              const char *type, uint32_t next);
uint32_t spot_greader_object(struct spot_greader *r, const struct spot_json_value *schema,
                             uint32_t next); /* grammar_object.c */
uint32_t spot_greader_named(struct spot_greader *r, const struct spot_json_value *schema,
                            uint32_t next); /* enum */
/* The rule of a value with at most `depth` nested containers, and the same for an object. */
uint32_t spot_greader_any(struct spot_greader *r, int depth);
uint32_t spot_greader_any_object(struct spot_greader *r, int depth, uint32_t next);

/* A text that a whole schema allows; an empty schema allows any object. */
uint32_t spot_greader_schema(struct spot_greader *r, const struct spot_json_value *schema,
                             uint32_t next);

/* grammar_form.c: returns 0, or -1 with *err (SPOT_EDATA). */
int spot_gnet_of_form(struct spot_gnet *net, const char *form, size_t n_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_GRAMMAR_STATE_H */
