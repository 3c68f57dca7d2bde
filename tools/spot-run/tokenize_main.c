/* SPDX-License-Identifier: MIT */
/* Converts text to a file of tokens, and back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/tool.h"
#include "common/le.h"
#include "common/out.h"
#include "run.h"
#include "text/bpe.h"
#include "text/corpus.h"
#include "text/detok.h"

struct options {
    const char *tokenizer, *tokens, *separator, *output;
    bool decode, quiet;
};

struct writer {
    FILE *out;
    int token_byte;
    uint64_t n_token;
};

static int write_tokens(void *user, const uint32_t *id, size_t n, struct spot_err *err)
{
    struct writer *const w = user;
    unsigned char raw[4];

    for (size_t i = 0; i < n; i++) {
        spot_le_put(raw, id[i], w->token_byte);
        fwrite(raw, 1, (size_t)w->token_byte, w->out);
    }
    w->n_token += n;
    return ferror(w->out) ? spot_err_sys(err, "cannot write") : 0;
}

/* A text begins at the first token and after each special token, as decoding assumes. */
static int encode_file(const struct options *o, struct spot_bpe *bpe, const char *path,
                       struct writer *w, struct spot_err *err)
{
    const int64_t mark = o->separator ? spot_bpe_find(bpe, o->separator) : 0;
    const uint32_t id = (uint32_t)mark;
    const bool continues = o->separator ? !spot_bpe_is_special(bpe, id) : w->n_token > 0;
    const char *source;
    FILE *in;
    int rc = 0;

    if (mark < 0)
        return spot_err_set(err, SPOT_EUSAGE, "--separator: %s has no token '%s'", o->tokenizer,
                            o->separator);
    in = spot_tool_open(path, &source, err);
    if (!in)
        return -1;
    if (o->separator)
        rc = write_tokens(w, &id, 1, err);
    if (!rc)
        rc = spot_bpe_stream(bpe, in, source, continues, write_tokens, w, err);
    if (in != stdin)
        fclose(in);
    return rc;
}

/* Calls `take` for all tokens; the last call has n = 0. */
static int visit_tokens(const struct spot_corpus *corpus,
                        int (*take)(void *user, const uint32_t *id, size_t n, size_t at,
                                    struct spot_err *err),
                        void *user, struct spot_err *err)
{
    enum { BLOCK = 4096 };
    uint32_t token[BLOCK];
    int rc = 0;

    for (size_t at = 0, n = BLOCK; !rc && n; at += n) {
        n = corpus->n_token - at < BLOCK ? corpus->n_token - at : BLOCK;
        rc = n ? spot_corpus_read(corpus, at, n, token, err) : 0;
        if (!rc)
            rc = take(user, token, n, at, err);
    }
    return rc;
}

struct decoder {
    const struct spot_bpe *bpe;
    const struct spot_corpus *corpus;
    struct spot_detokenizer d;
    struct spot_buf text;
    struct writer *w;
};

static int check_tokens(void *decoder, const uint32_t *id, size_t n, size_t at,
                        struct spot_err *err)
{
    const struct decoder *const c = decoder;
    size_t n_byte;

    for (size_t i = 0; i < n; i++) {
        if (!spot_bpe_token(c->bpe, id[i], &n_byte))
            return spot_err_set(err, SPOT_EDATA, "%s: token %zu is %u, which has no text",
                                c->corpus->source, at + i, (unsigned)id[i]);
        if (spot_bpe_is_unknown(c->bpe, id[i]))
            return spot_err_set(err, SPOT_EDATA,
                                "%s: token %zu is %u, the unknown one: its text is lost",
                                c->corpus->source, at + i, (unsigned)id[i]);
    }
    return 0;
}

static int write_text(void *decoder, const uint32_t *id, size_t n, size_t at, struct spot_err *err)
{
    struct decoder *const c = decoder;

    (void)at;
    c->text.n = 0;
    for (size_t i = 0; i < n; i++) {
        const bool is_special = spot_bpe_is_special(c->bpe, id[i]);

        if (is_special) /* a special token separates two texts */
            spot_detok_end(&c->d, &c->text);
        (void)spot_detok_push(&c->d, id[i], &c->text);
        c->d.has_begun = c->d.has_begun && !is_special;
    }
    if (!n)
        spot_detok_end(&c->d, &c->text);
    if (c->text.n)
        fwrite(c->text.data, 1, c->text.n, c->w->out);
    c->w->n_token += n;
    return ferror(c->w->out) ? spot_err_sys(err, "cannot write") : 0;
}

/* Restores exactly what was encoded, or fails. */
static int decode_file(struct spot_bpe *bpe, const char *path, struct writer *w,
                       struct spot_err *err)
{
    struct spot_corpus corpus;
    struct decoder c = { .bpe = bpe, .corpus = &corpus, .w = w };
    int rc = spot_corpus_open(&corpus, path ? path : "-", w->token_byte, spot_bpe_vocab(bpe), err);

    spot_detok_init(&c.d, bpe, true, true);
    c.d.drops_space = spot_bpe_drops_space(bpe);
    if (!rc)
        rc = visit_tokens(&corpus, check_tokens, &c, err);
    if (!rc)
        rc = visit_tokens(&corpus, write_text, &c, err);
    spot_buf_release(&c.text);
    spot_detok_release(&c.d);
    spot_corpus_release(&corpus);
    return rc;
}

static int tokenize(const struct options *o, int n_path, char **path, struct spot_err *err)
{
    struct spot_bpe *const bpe = spot_bpe_open(o->tokenizer, err);
    struct writer w = { 0 };
    struct spot_out out = { 0 };
    int rc = bpe ? 0 : -1;

    if (!rc && o->tokens)
        rc = spot_corpus_kind(o->tokens, &w.token_byte, err);
    else if (!rc)
        w.token_byte = spot_bpe_vocab(bpe) <= 1 << 16 ? 2 : 4;
    if (!rc && spot_bpe_vocab(bpe) > INT64_C(1) << 8 * w.token_byte)
        rc = spot_err_set(err, SPOT_EUSAGE, "--tokens %s cannot hold %lld tokens", o->tokens,
                          (long long)spot_bpe_vocab(bpe));
    if (!rc)
        rc = spot_out_open(&out, o->output, err);
    w.out = out.file;
    for (int i = 0; !rc && (i < n_path || (i == 0 && n_path == 0)); i++)
        rc = o->decode ? decode_file(bpe, n_path ? path[i] : NULL, &w, err)
                       : encode_file(o, bpe, n_path ? path[i] : NULL, &w, err);
    if (out.file)
        rc = spot_out_finish(&out, rc, err);
    if (!rc && !o->quiet)
        fprintf(stderr, "%llu tokens%s\n", (unsigned long long)w.n_token,
                w.token_byte == 2   ? " of 16 bits"
                : w.token_byte == 4 ? " of 32 bits"
                                    : "");
    spot_bpe_free(bpe);
    return rc;
}

static struct options o;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_TEXT("tokenizer", &o.tokenizer, "dir|file",
              "tokenizer.json, or a directory with it or vocab.json and merges.txt"),
    SPOT_TEXT("tokens", &o.tokens, "kind", "u16 or u32 (default: the smaller that fits)"),
    SPOT_TEXT("separator", &o.separator, "token",
              "token to put before each file, such as '<|endoftext|>'"),
    SPOT_FLAG("decode", &o.decode, "from tokens to text"),
    { SPOT_OPT_STRING, 'o', "output", &o.output, "file",
      "write here, complete or not at all (default: stdout)", 0, 0 },
    { SPOT_OPT_FLAG, 'q', "quiet", &o.quiet, NULL, "do not show the count on stderr", 0, 0 },
    { .type = SPOT_OPT_END },
};

static int run_tokenize(char **operand, size_t n, struct spot_err *err)
{
    if (!o.output && isatty(STDOUT_FILENO) && !o.decode)
        return spot_err_set(err, SPOT_EUSAGE,
                            "tokens are binary, not for a terminal: use -o or a pipe");
    return tokenize(&o, (int)n, operand, err);
}

const struct spot_cli run_tokenize_command = {
    .name = "spot-run tokenize",
    .brief = "turn text into a file of tokens",
    .need = (const struct spot_opt_need[]){ { "separator", "!decode" }, { NULL, NULL } },
    .reads = (const char *const[]){ "tokenizer", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = SPOT_OPERANDS_ANY,
    .required = (const struct spot_opt_required[]){ { "tokenizer", NULL }, { NULL, NULL } },
    .synopsis = "--tokenizer DIR|FILE [options] [file...]",
    .summary = "Turn text into a file of tokens for train --tokens, as GPT-2 and Llama do.",
    .examples = "  spot-run tokenize --tokenizer gpt2 -o corpus.u16 a.txt b.txt\n"
                "  spot-run tokenize --tokenizer gpt2 --decode corpus.u16 | head\n",
    .option = option,
    .run = run_tokenize,
};
