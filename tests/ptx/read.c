/* SPDX-License-Identifier: MIT */
/* Reads a PTX file: declarations, then one instruction after the other. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/kernel.h"

enum { KERNELS_MAX = 256, NAMES_MAX = 16384, LABELS_MAX = 4096, INS_MAX = 32768, TEXT_MAX = 512 };

static struct ptx_kernel kernels[KERNELS_MAX];
static size_t n_kernel;

struct symbol {
    char name[PTX_NAME_MAX];
    int64_t value; /* slot, or address */
    bool is_address;
};

static struct reading {
    const char *path;
    int line;
    struct ptx_kernel *k;
    struct symbol name[NAMES_MAX]; /* of this kernel, hashed by name; empty name: free */
    struct symbol global[64];      /* of the file */
    size_t n_global, global_byte;
    struct symbol label[LABELS_MAX];
    size_t n_label;
    char *target[INS_MAX];
    char *dynamic; /* shared memory whose size the launch says */
} r;

void ptx_end(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

size_t ptx_kernels(void)
{
    return n_kernel;
}

struct ptx_kernel *ptx_kernel_at(size_t i)
{
    return &kernels[i];
}

static _Noreturn void refuse(const char *what, const char *which)
{
    ptx_end("%s:%d: %s: '%s'", r.path, r.line, what, which);
}

/* --- names ------------------------------------------------------------------ */

static struct symbol *place_of(const char *name)
{
    uint32_t hash = 2166136261U;

    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619U;
    for (size_t i = hash % NAMES_MAX;; i = (i + 1) % NAMES_MAX)
        if (!r.name[i].name[0] || !strcmp(r.name[i].name, name))
            return &r.name[i];
}

static int new_slot(uint64_t value)
{
    struct ptx_kernel *const k = r.k;

    if (k->n_slot % 1024 == 0)
        k->initial = realloc(k->initial, (k->n_slot + 1024) * sizeof(*k->initial));
    k->initial[k->n_slot] = value;
    return (int)k->n_slot++;
}

static void define(const char *name, int64_t value, bool is_address)
{
    struct symbol *const s = place_of(name);

    if (strlen(name) >= sizeof(s->name))
        refuse("name is too long", name);
    strcpy(s->name, name);
    s->value = value;
    s->is_address = is_address;
}

static uint64_t number_of(const char *text)
{
    char *end;
    const char kind = text[0] == '0' ? text[1] : 0;
    const uint64_t bits = kind == 'f' || kind == 'F' || kind == 'd' || kind == 'D'
                              ? strtoull(text + 2, &end, 16)
                              : (uint64_t)strtoll(text, &end, 0);

    if (*end)
        refuse("no number", text);
    return bits;
}

/* The slot of a register, of what a thread knows of itself, of an address, of a constant. */
static int slot_of(const char *text)
{
    static const struct {
        const char *name;
        int slot;
    } known[] = { { "%tid.x", SLOT_TID },         { "%ctaid.x", SLOT_CTAID_X },
                  { "%ctaid.y", SLOT_CTAID_Y },   { "%ctaid.z", SLOT_CTAID_Z },
                  { "%nctaid.x", SLOT_NCTAID_X }, { "_", SLOT_NONE } };
    struct symbol *s;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(text, known[i].name))
            return known[i].slot;
    s = place_of(text);
    if (!s->name[0] && text[0] == '%')
        define(text, new_slot(0), false);
    else if (!s->name[0] && (isdigit((unsigned char)text[0]) || text[0] == '-'))
        define(text, new_slot(number_of(text)), false);
    if (s->name[0] && s->is_address) { /* the same address in a slot from now on */
        s->value = new_slot((uint64_t)s->value);
        s->is_address = false;
    }
    for (size_t i = 0; !s->name[0] && i < r.n_global; i++)
        if (!strcmp(r.global[i].name, text))
            define(text, new_slot((uint64_t)r.global[i].value), false);
    if (!s->name[0])
        refuse("unknown name", text);
    return (int)s->value;
}

/* --- declarations: .space .align n .b8 name[n] --------------------------------- */

static size_t number_after(const char *text, const char *mark, size_t otherwise)
{
    const char *const at = strstr(text, mark);

    return at ? strtoull(at + strlen(mark), NULL, 10) : otherwise;
}

static size_t type_byte(const char *text)
{
    static const char *const name[] = { ".u8",  ".b8",  ".s8",  ".u16", ".u32", ".s32",
                                        ".f32", ".b32", ".u64", ".s64", ".f64", ".b64" };
    static const size_t n_byte[] = { 1, 1, 1, 2, 4, 4, 4, 4, 8, 8, 8, 8 };

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
        if (strstr(text, name[i]))
            return n_byte[i];
    refuse("no type", text);
}

/* Sets `name` to the last word, and returns its size. */
static size_t declared(const char *text, char name[PTX_NAME_MAX], size_t *align)
{
    const char *const bracket = strchr(text, '['),
                      *end = bracket ? bracket : text + strcspn(text, ",;)\n"), *begin;
    const size_t each = type_byte(text);

    while (isspace((unsigned char)end[-1]))
        end--;
    for (begin = end; !isspace((unsigned char)begin[-1]); begin--)
        ;
    if (end - begin >= PTX_NAME_MAX)
        refuse("name is too long", text);
    memcpy(name, begin, (size_t)(end - begin));
    name[end - begin] = '\0';
    *align = number_after(text, ".align ", each);
    return each * (bracket ? strtoull(bracket + 1, NULL, 10) : 1);
}

static size_t take(size_t *used, size_t n_byte, size_t align)
{
    const size_t at = (*used + align - 1) / align * align;

    *used = at + n_byte;
    return at;
}

static void declare_parameter(const char *text)
{
    struct ptx_kernel *const k = r.k;
    char name[PTX_NAME_MAX];
    size_t align;
    const size_t n_byte = declared(text, name, &align),
                 at = take(&k->parameter_byte, n_byte, align);

    if (k->n_parameter == sizeof(k->parameter) / sizeof(k->parameter[0]))
        refuse("too many parameters", text);
    k->parameter[k->n_parameter++] = (struct ptx_parameter){ at, n_byte };
    define(name, (int64_t)at, true);
}

/* Shared memory of the file counts for each of its kernels. */
static void declare_memory(const char *text)
{
    char name[PTX_NAME_MAX];
    size_t align;
    const size_t n_byte = declared(text, name, &align);

    if (strstr(text, ".extern")) {
        free(r.dynamic);
        r.dynamic = strdup(name);
    } else if (!r.k) {
        struct symbol *const s = &r.global[r.n_global++];

        strcpy(s->name, name);
        s->value = (int64_t)take(&r.global_byte, n_byte, align);
    } else if (strstr(text, ".local")) {
        define(name, (int64_t)take(&r.k->local_byte, n_byte, align), true);
    } else {
        define(name, (int64_t)take(&r.k->shared_byte, n_byte, align), true);
    }
}

/* --- instructions ------------------------------------------------------------------ */

static enum ptx_type type_of(const char *part)
{
    static const struct {
        const char *name;
        enum ptx_type type;
    } rows[] = { { "pred", T_PRED }, { "u8", T_B8 },   { "s8", T_S8 },   { "b16", T_B16 },
                 { "u16", T_B16 },   { "s16", T_S16 }, { "b32", T_B32 }, { "u32", T_B32 },
                 { "s32", T_S32 },   { "b64", T_B64 }, { "u64", T_B64 }, { "s64", T_S64 },
                 { "bf16", T_BF16 }, { "f32", T_F32 }, { "f64", T_F64 } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(part, rows[i].name))
            return rows[i].type;
    return T_NONE;
}

/* Index of a word in a list that ends with NULL, or -1. */
static int index_in(const char *const *list, const char *word)
{
    for (int i = 0; list[i]; i++)
        if (!strcmp(list[i], word))
            return i;
    return -1;
}

/* One part of a mnemonic behind its first. */
static void read_part(struct ptx_ins *ins, const char *part)
{
    static const char *const compare[] = { "eq",  "ne",  "lt",  "le",  "gt",  "ge",  "nan",
                                           "equ", "neu", "ltu", "leu", "gtu", "geu", NULL };
    static const char *const space[] = { "global", "shared", "local", "param", NULL };
    static const char *const nothing[] = { "sync", "aligned",  "lo",  "uni",   "approx", "ftz",
                                           "to",   "m16n8k16", "row", "col",   "m8n8",   "x4",
                                           "b16",  "idx",      "cg",  "async", "max",    NULL };
    const enum ptx_type type = type_of(part);
    int i;

    if (type != T_NONE && (ins->op != OP_LDMATRIX)) {
        ins->from = type;
        ins->type = ins->type ? ins->type : type;
    } else if (ins->op == OP_SETP && (i = index_in(compare, part)) >= 0) {
        ins->compare = (uint8_t)i;
    } else if ((i = index_in(space, part)) >= 0) {
        ins->space = (uint8_t)i;
    } else if (part[0] == 'v' && isdigit((unsigned char)part[1])) {
        ins->vector = (uint8_t)atoi(part + 1);
    } else if (!strcmp(part, "rn") || !strcmp(part, "rm") || !strcmp(part, "rzi")) {
        ins->rounding = part[1] == 'n' ? R_NEAREST : part[1] == 'm' ? R_DOWN : R_ZERO;
    } else if (!strcmp(part, "sat")) {
        ins->is_saturated = true;
    } else if (!strcmp(part, "commit_group") || !strcmp(part, "wait_group")) {
        ins->part = part[0] == 'c' ? 1 : 2;
    } else if (!strcmp(part, "wide") || !strcmp(part, "bfly") || !strcmp(part, "trans")) {
        ins->part = 1;
    } else if (index_in(nothing, part) < 0) {
        refuse("unknown part of an instruction", part);
    }
}

static void read_mnemonic(struct ptx_ins *ins, char *text)
{
    static const char *const names[] = {
#define ROW(name, text) text,
        PTX_EACH_OP(ROW)
#undef ROW
            NULL
    };
    char *save, *part = strtok_r(text, ".", &save);
    const int op = part ? index_in(names, part) : -1;

    if (op < 0)
        refuse("unknown instruction", text);
    ins->op = (uint8_t)op;
    ins->vector = 1;
    while ((part = strtok_r(NULL, ".", &save)))
        read_part(ins, part);
}

static void add_operand(struct ptx_ins *ins, const char *word)
{
    if (ins->n == PTX_OPERANDS_MAX)
        refuse("too many operands", word);
    ins->slot[ins->n++] = slot_of(word);
}

/* [base+offset] or [name]. */
static void read_address(struct ptx_ins *ins, char *text)
{
    char *const plus = strchr(text, '+');

    if (plus) {
        *plus = '\0';
        ins->offset = strtoll(plus + 1, NULL, 10);
    }
    add_operand(ins, text);
}

/* Words between commas and braces; of `mov`, which side had the braces. */
static void read_operands(struct ptx_ins *ins, char *text)
{
    bool is_in_braces = false;
    int n_brace = 0;

    for (char *c = text; *c;) {
        const size_t n = strcspn(c, " \t,{}[]|;");
        const char stop = c[n];

        if (*c == '{' || *c == '}') {
            is_in_braces = *c++ == '{';
            continue;
        }
        if (*c == '[') {
            char *const end = strchr(c, ']');

            *end = '\0';
            read_address(ins, c + 1);
            c = end + 1;
            continue;
        }
        if (!n) {
            c++;
            continue;
        }
        c[n] = '\0';
        if (ins->op == OP_MOV && is_in_braces) {
            n_brace++;
            ins->is_pack = ins->n > 0 && (ins->is_pack || n_brace == 1);
        }
        add_operand(ins, c);
        c[n] = stop;
        c += n;
    }
    if (ins->op == OP_MOV)
        ins->vector = (uint8_t)(n_brace ? n_brace : 1);
    if (ins->op == OP_SHFL && ins->n != 6)
        refuse("shfl without a predicate", text);
}

static void read_instruction(char *text)
{
    struct ptx_kernel *const k = r.k;
    struct ptx_ins *const ins = &k->ins[k->n_ins];
    char mnemonic[96];
    size_t n;

    if (k->n_ins == INS_MAX)
        refuse("too many instructions", text);
    *ins = (struct ptx_ins){ .guard = -1, .line = r.line };
    k->text[k->n_ins] = strdup(text);
    if (*text == '@') {
        ins->is_guard_false = text[1] == '!';
        text += 1 + ins->is_guard_false;
        n = strcspn(text, " \t");
        text[n] = '\0';
        ins->guard = slot_of(text);
        text += n + 1;
        text += strspn(text, " \t");
        memmove(k->text[k->n_ins], text, strlen(text) + 1);
    }
    n = strcspn(text, " \t;");
    if (n >= sizeof(mnemonic))
        refuse("long instruction", text);
    memcpy(mnemonic, text, n);
    mnemonic[n] = '\0';
    read_mnemonic(ins, mnemonic);
    text += n;
    if (ins->op == OP_BRA) {
        text += strspn(text, " \t");
        text[strcspn(text, " \t;")] = '\0';
        r.target[k->n_ins] = strdup(text);
    } else {
        read_operands(ins, text);
    }
    k->n_ins++;
}

/* --- a file --------------------------------------------------------------------------- */

static void begin_kernel(const char *text)
{
    const char *const name = strstr(text, ".entry ") + 7;
    const size_t n = strcspn(name, "( \t");

    if (n_kernel == KERNELS_MAX || n >= PTX_NAME_MAX)
        refuse("too many kernels, or a long name", text);
    r.k = &kernels[n_kernel++];
    memset(r.name, 0, sizeof(r.name));
    r.n_label = 0;
    memcpy(r.k->name, name, n);
    r.k->path = r.path;
    r.k->shared_byte = r.global_byte;
    r.k->ins = calloc(INS_MAX, sizeof(*r.k->ins));
    r.k->text = calloc(INS_MAX, sizeof(*r.k->text));
    for (int i = 0; i < SLOTS; i++)
        new_slot(0);
}

static void finish_kernel(void)
{
    struct ptx_kernel *const k = r.k;

    k->shared_byte = (k->shared_byte + 127) / 128 * 128;
    for (size_t i = 0; i < k->n_ins; i++) {
        size_t l = 0;

        if (!r.target[i])
            continue;
        while (l < r.n_label && strcmp(r.label[l].name, r.target[i]) != 0)
            l++;
        if (l == r.n_label)
            refuse("no such label", r.target[i]);
        k->ins[i].offset = r.label[l].value;
        free(r.target[i]);
        r.target[i] = NULL;
    }
    k->ins = realloc(k->ins, k->n_ins * sizeof(*k->ins));
    k->text = realloc(k->text, k->n_ins * sizeof(*k->text));
    r.k = NULL;
}

static void read_label(const char *text)
{
    struct symbol *const l = &r.label[r.n_label++];
    const size_t n = strcspn(text, ":");

    if (r.n_label > LABELS_MAX || n >= PTX_NAME_MAX)
        refuse("too many labels", text);
    memcpy(l->name, text, n);
    l->name[n] = '\0';
    l->value = (int64_t)r.k->n_ins;
}

static bool is_memory(const char *text)
{
    return strstr(text, ".shared ") == text || strstr(text, ".local ") == text ||
           strstr(text, ".extern .shared") == text;
}

/* Where dynamic shared memory begins is known once the static is counted: declarations come first.
 */
static void place_dynamic(void)
{
    r.k->shared_byte = (r.k->shared_byte + 127) / 128 * 128;
    if (r.dynamic && !place_of(r.dynamic)->name[0])
        define(r.dynamic, (int64_t)r.k->shared_byte, true);
}

static void read_line(char *text)
{
    static int depth;

    while (*text == ' ' || *text == '\t')
        text++;
    if (strstr(text, ".entry "))
        begin_kernel(text);
    else if (is_memory(text))
        declare_memory(text);
    else if (r.k && strstr(text, ".param ") == text)
        declare_parameter(text);
    else if (*text == '$')
        read_label(text);
    else if (*text == '{' && strchr(text, '}'))
        read_line(text + 1);
    else if (*text == '{')
        depth++;
    else if (*text == '}' && r.k && !--depth)
        finish_kernel();
    else if (r.k && depth && (*text == '@' || isalpha((unsigned char)*text))) {
        if (!r.k->n_ins)
            place_dynamic();
        read_instruction(text);
    }
}

void ptx_load(const char *path)
{
    FILE *const file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;

    memset(&r, 0, sizeof(r));
    r.path = strdup(path);
    if (!file)
        ptx_end("%s cannot be read", path);
    while (getline(&line, &room, file) > 0) {
        char *const comment = strstr(line, "//");

        r.line++;
        if (comment)
            *comment = '\0';
        line[strcspn(line, "\n")] = '\0';
        read_line(line);
    }
    free(line);
    free(r.dynamic);
    fclose(file);
}

/* --- mutations ---------------------------------------------------------------------------- */

static struct kept {
    struct ptx_kernel *k;
    size_t at;
    struct ptx_ins ins;
} * kept;
static size_t n_kept;

static void change(struct ptx_kernel *k, size_t i, const struct ptx_mutation *m)
{
    struct ptx_ins *const ins = &k->ins[i];
    const int32_t slot = ins->slot[m->a];

    kept = realloc(kept, (n_kept + 1) * sizeof(*kept));
    kept[n_kept++] = (struct kept){ k, i, *ins };
    switch (m->change) {
    case PTX_DROP:
        ins->op = OP_NOP;
        break;
    case PTX_ADD:
        if (ins->op == OP_LD || ins->op == OP_ST || ins->op == OP_LDMATRIX) {
            ins->offset += m->b;
            break;
        }
        r.k = k;
        ins->slot[m->a] = new_slot(k->initial[slot] + (uint64_t)(int64_t)m->b);
        r.k = NULL;
        break;
    case PTX_SWAP:
        ins->slot[m->a] = ins->slot[m->b];
        ins->slot[m->b] = slot;
        break;
    }
}

int ptx_mutate(const struct ptx_mutation *m)
{
    while (n_kept > 0) {
        n_kept--;
        kept[n_kept].k->ins[kept[n_kept].at] = kept[n_kept].ins;
    }
    for (size_t k = 0; m && k < n_kernel; k++) {
        int nth = 0;

        for (size_t i = 0; strstr(kernels[k].name, m->kernel) && i < kernels[k].n_ins; i++)
            if (!strncmp(kernels[k].text[i], m->instruction, strlen(m->instruction)) &&
                (m->nth < 0 || nth++ == m->nth))
                change(&kernels[k], i, m);
    }
    return (int)n_kept;
}
