/* SPDX-License-Identifier: MIT */
#include "serve/tool_call.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* --- forms of calls ---------------------------------------------------- */

/* The first byte of a trigger occurs in it once, so that a search never goes back. If a template
 * has the marks of two forms, the earlier form is used. */
static const struct spot_tool_form known[SPOT_TOOL_FORMS] = {
    { .name = "hermes", /* Qwen, SmolLM, Hermes, Granite 3.3 */
      .mark = "<tool_call>",
      .trigger = "<tool_call>",
      .open = "\n{\"name\": \"",
      .arguments = "\", \"arguments\": ",
      .close = "}\n",
      .between = "\n",
      .tail = "</tool_call>" },
    { .name = "mistral-args", /* Mistral since its tokenizer v11 */
      .mark = "[ARGS]",
      .trigger = "[TOOL_CALLS]",
      .is_bare = true,
      .open = "",
      .arguments = "[ARGS]",
      .close = "",
      .between = "",
      .tail = "",
      .id_byte = 9 },
    { .name = "function", /* Llama 3 with a template that has its own functions */
      .mark = "<function=",
      .trigger = "<function=",
      .is_bare = true,
      .open = "",
      .arguments = ">",
      .close = "",
      .between = "\n",
      .tail = "</function>" },
    { .name = "mistral",
      .mark = "[TOOL_CALLS]",
      .trigger = "[TOOL_CALLS]",
      .is_array = true,
      .open = "{\"name\": \"",
      .arguments = "\", \"arguments\": ",
      .close = "}",
      .between = ", ",
      .tail = "",
      .id_byte = 9 },
    { .name = "phi", /* Phi 4, Granite 3 */
      .mark = "<|tool_call|>",
      .trigger = "<|tool_call|>",
      .is_array = true,
      .open = "{\"name\": \"",
      .arguments = "\", \"arguments\": ",
      .close = "}",
      .between = ", ",
      .tail = "<|/tool_call|>" },
    { .name = "llama3",
      .mark = "\"parameters\": ",
      .trigger = "",
      .may_begin = "<|python_tag|>",
      .open = "{\"name\": \"",
      .arguments = "\", \"parameters\": ",
      .close = "}",
      .between = "; ",
      .tail = "" },
    { .name = "json",
      .trigger = "",
      .open = "{\"name\": \"",
      .arguments = "\", \"arguments\": ",
      .close = "}",
      .between = "\n",
      .tail = "" },
    { .name = "none", .mark = "", .trigger = "\xFF", .tail = "" }, /* this byte occurs in no text */
};

const struct spot_tool_form *spot_tool_form(uint8_t number)
{
    return &known[number - 1];
}

uint8_t spot_tool_form_find(const char *name)
{
    for (int i = 0; i < SPOT_TOOL_FORMS; i++)
        if (!strcmp(known[i].name, name))
            return (uint8_t)(i + 1);
    return 0;
}

uint8_t spot_tool_form_of(const char *text)
{
    uint8_t i = 0;

    while (i + 1 < SPOT_TOOL_JSON && !strstr(text, known[i].mark))
        i++;
    return (uint8_t)(i + 1);
}

/* --- calls in a text -------------------------------------------------------- */

enum { OUTSIDE, TRIGGER, BARE, HEAD, KEY, IN_KEY, COLON, VALUE, IN_VALUE, BEHIND };
enum { OTHER, NAME, ARGUMENTS };

void spot_tool_scan_init(struct spot_tool_scan *s, const struct spot_tool_form *form)
{
    *s = (struct spot_tool_scan){ .form = form, .state = OUTSIDE, .is_fresh = true };
}

void spot_tool_scan_release(struct spot_tool_scan *s)
{
    free(s->piece);
    *s = (struct spot_tool_scan){ .form = NULL };
}

static void put(struct spot_tool_scan *s, enum spot_piece_kind kind, size_t begin, size_t end)
{
    if (begin == end)
        return;
    s->piece = spot_xgrow(s->piece, &s->cap, s->n + 1, sizeof(*s->piece));
    s->piece[s->n++] = (struct spot_call_piece){ kind, begin, end };
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* It was not a call: the text continues after text[at], including the bytes held back. */
static void give_up(struct spot_tool_scan *s, size_t at)
{
    s->state = OUTSIDE;
    s->is_fresh = s->is_in_array = s->has_begun = false;
    s->solid = at + 1;
}

/* Compare text[mark..at] with `what`: 1 if equal, 0 if it is a prefix of it, -1 otherwise. */
static int begins(const struct spot_tool_scan *s, const uint8_t *text, const char *what)
{
    const size_t n = s->at - s->mark + 1, all = what ? strlen(what) : 0;

    if (!all || n > all || memcmp(text + s->mark, what, n) != 0)
        return -1;
    return n == all;
}

static void outside(struct spot_tool_scan *s, const uint8_t *text)
{
    const uint8_t c = text[s->at];
    const char *const first = *s->form->trigger ? s->form->trigger : s->form->may_begin;

    if (first && c == (uint8_t)*first && (*s->form->trigger || s->is_fresh)) {
        s->mark = s->at;
        s->state = TRIGGER;
    } else if (!*s->form->trigger && s->is_fresh && (c == '{' || c == '[')) {
        s->mark = s->at;
        s->is_in_array = c == '[';
        s->state = c == '{' ? KEY : HEAD;
    } else if (!is_blank(c)) {
        s->solid = s->at + 1;
        s->is_fresh = false;
    }
}

/* Begins the head of a call, after its trigger. */
static void begin_head(struct spot_tool_scan *s)
{
    s->state = s->form->is_bare ? BARE : HEAD;
    s->name = s->at + 1;
    s->name_end = 0;
}

static void trigger(struct spot_tool_scan *s, const uint8_t *text)
{
    const char *const what = *s->form->trigger ? s->form->trigger : s->form->may_begin;
    const int rc = begins(s, text, what);

    if (rc > 0) {
        begin_head(s);
    } else if (rc < 0) { /* the text here may begin another trigger */
        s->state = OUTSIDE;
        s->solid = s->at;
        s->is_fresh = false;
        outside(s, text);
    }
}

static void begin_object(struct spot_tool_scan *s)
{
    s->state = KEY;
    s->has_name = s->has_begun = false;
}

static void head(struct spot_tool_scan *s, uint8_t c)
{
    if (c == '{')
        begin_object(s);
    else if (c == '[' && !s->is_in_array)
        s->is_in_array = true;
    else if (!is_blank(c))
        give_up(s, s->at);
}

static bool is_of_name(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Read a name up to the mark of its arguments; an id may be between them: [CALL_ID]123456789. */
static void bare(struct spot_tool_scan *s, const uint8_t *text)
{
    static const size_t id_most = 64;
    const char *const what = s->form->arguments;
    const size_t n = strlen(what), end = s->at + 1;

    if (!s->name_end && is_of_name(text[s->at]))
        return;
    if (!s->name_end)
        s->name_end = s->at;
    if (end - s->name_end >= n && !memcmp(text + end - n, what, n) && s->name < s->name_end) {
        s->has_name = true;
        s->has_begun = false;
        s->value = ARGUMENTS;
        s->state = VALUE;
    } else if (s->name == s->name_end || end - s->name_end > id_most ||
               (!is_of_name(text[s->at]) && (!text[s->at] || !strchr("[]<>=", text[s->at])))) {
        give_up(s, s->at);
    }
}

static int value_of_key(const struct spot_tool_scan *s, const uint8_t *text)
{
    static const struct {
        const char *key;
        int value;
    } of[] = { { "name", NAME },
               { "arguments", ARGUMENTS },
               { "parameters", ARGUMENTS },
               { "id", OTHER },
               { "type", OTHER } };

    for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
        if (strlen(of[i].key) == s->key_end - s->key &&
            !memcmp(of[i].key, text + s->key, s->key_end - s->key))
            return of[i].value;
    return -1;
}

static void end_call(struct spot_tool_scan *s, size_t end)
{
    s->told = s->solid = s->mark = end;
    s->has_name = s->has_begun = false;
    s->state = BEHIND;
}

static void key(struct spot_tool_scan *s, uint8_t c)
{
    if (c == '"') {
        s->key = s->at + 1;
        s->state = IN_KEY;
    } else if (c == '}' && s->has_begun) {
        end_call(s, s->at + 1);
    } else if (!is_blank(c) && c != ',') {
        give_up(s, s->at);
    }
}

static void in_key(struct spot_tool_scan *s, const uint8_t *text)
{
    if (text[s->at] != '"')
        return;
    s->key_end = s->at;
    s->value = value_of_key(s, text);
    if (s->value < 0 || (s->value != OTHER && s->has_begun))
        give_up(s, s->at);
    else
        s->state = COLON;
}

/* The arguments of a call with a known name are sent as they arrive. */
static void value(struct spot_tool_scan *s, uint8_t c)
{
    if (is_blank(c))
        return;
    if ((s->value == NAME && c != '"') ||
        (s->value == ARGUMENTS && (c != '{' || !s->has_name || s->has_begun))) {
        give_up(s, s->at);
        return;
    }
    if (s->value == ARGUMENTS) {
        put(s, SPOT_PIECE_TEXT, s->told, s->solid);
        put(s, SPOT_PIECE_CALL, s->name, s->name_end);
        s->has_begun = true;
        s->n_call++;
    }
    s->value_begin = s->at;
    s->depth = c == '{' || c == '[';
    s->is_in_text = c == '"';
    s->is_escaped = false;
    s->state = IN_VALUE;
}

static void end_value(struct spot_tool_scan *s, const uint8_t *text, size_t end)
{
    s->state = KEY;
    if (s->value == ARGUMENTS) {
        put(s, SPOT_PIECE_ARGUMENTS, s->value_begin, end);
        s->told = s->solid = end;
        if (s->form->is_bare)
            end_call(s, end);
    } else if (s->value == NAME) {
        s->name = s->value_begin + 1;
        s->name_end = end - 1;
        s->has_name = s->name < s->name_end;
        for (size_t i = s->name; i < s->name_end; i++)
            if (text[i] == '\\' || text[i] < ' ')
                s->has_name = false;
    }
}

static void in_value(struct spot_tool_scan *s, const uint8_t *text)
{
    const uint8_t c = text[s->at];

    if (s->is_in_text) {
        s->is_in_text = s->is_escaped || c != '"';
        s->is_escaped = !s->is_escaped && c == '\\';
        if (!s->is_in_text && !s->depth)
            end_value(s, text, s->at + 1);
    } else if (s->depth) {
        s->is_in_text = c == '"';
        s->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (!s->depth)
            end_value(s, text, s->at + 1);
    } else if (c == ',' || c == '}' || is_blank(c)) { /* a number or a word */
        end_value(s, text, s->at);
        key(s, c);
    }
}

/* After a call: another call, the end of the calls, or text. */
static void behind(struct spot_tool_scan *s, const uint8_t *text)
{
    const uint8_t c = text[s->at];
    const int at_tail = begins(s, text, s->form->tail),
              at_trigger = begins(s, text, s->form->trigger);

    if (at_trigger > 0) {
        begin_head(s);
    } else if (at_tail > 0) {
        s->told = s->solid = s->mark = s->at + 1;
    } else if (at_tail == 0 || at_trigger == 0) {
        return;
    } else if (s->at == s->mark && (is_blank(c) || c == ',' || c == ';' || c == ']')) {
        s->is_in_array = s->is_in_array && c != ']';
        s->told = s->solid = s->mark = s->at + 1;
    } else if (s->at == s->mark && c == '{' && (s->is_in_array || !*s->form->trigger)) {
        begin_object(s);
    } else {
        give_up(s, s->at);
    }
}

static void read_byte(struct spot_tool_scan *s, const uint8_t *text)
{
    switch (s->state) {
    case OUTSIDE:
        outside(s, text);
        break;
    case TRIGGER:
        trigger(s, text);
        break;
    case BARE:
        bare(s, text);
        break;
    case HEAD:
        head(s, text[s->at]);
        break;
    case KEY:
        key(s, text[s->at]);
        break;
    case IN_KEY:
        in_key(s, text);
        break;
    case COLON:
        if (text[s->at] == ':')
            s->state = VALUE;
        else if (!is_blank(text[s->at]))
            give_up(s, s->at);
        break;
    case VALUE:
        value(s, text[s->at]);
        break;
    case IN_VALUE:
        in_value(s, text);
        break;
    default:
        behind(s, text);
    }
}

void spot_tool_scan_run(struct spot_tool_scan *s, const uint8_t *text, size_t n, bool is_end)
{
    for (; s->at < n; s->at++)
        read_byte(s, text);
    if (s->state == IN_VALUE && s->value == ARGUMENTS) {
        put(s, SPOT_PIECE_ARGUMENTS, s->value_begin, n);
        s->value_begin = s->told = s->solid = n;
        return;
    }
    if (is_end && s->state != BEHIND && !s->has_begun)
        s->solid = n;
    if (s->solid > s->told) {
        put(s, SPOT_PIECE_TEXT, s->told, s->solid);
        s->told = s->solid;
    }
}
