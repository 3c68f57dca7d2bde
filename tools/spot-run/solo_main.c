/* SPDX-License-Identifier: MIT */
/* Generates a text or holds a chat with the model of a directory, in this process. */
#define _XOPEN_SOURCE 700 /* sigaction */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "engine/infer.h"
#include "run.h"
#include "serve/adapter_list.h"
#include "serve/solo.h"

static struct {
    const char *model, *chat_template, *template_time, *lora, *prompt, *system, *dtype, *device,
        *format, *proof;
    uint64_t max_tokens, threads, top_k, seed;
    double temperature, top_p;
    bool is_plain, is_quiet;
} o = { .device = "auto", .format = "text", .temperature = 1, .top_p = 1 };

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "model" },
    SPOT_TEXT("model", &o.model, "dir", "config.json, weights and tokenizer"),
    SPOT_TEXT("lora", &o.lora, "list", "adapters as peft saves them, NAME=DIR,..."),
    SPOT_TEXT("chat-template", &o.chat_template, "file|name",
              "template of chats, or which of several the model has"),
    SPOT_TEXT("template-time", &o.template_time, "time",
              "the present for templates that write it (default: the clock)"),
    SPOT_ROW_DTYPE(&o.dtype),
    SPOT_ROW_DEVICE(&o.device),
    SPOT_ROW_THREADS(&o.threads),
    { SPOT_OPT_GROUP, .help = "what is asked" },
    SPOT_TEXT("prompt", &o.prompt, "text",
              "the text to answer (default: a chat on a terminal, else stdin)"),
    SPOT_TEXT("system", &o.system, "text", "the system message before the conversation"),
    SPOT_FLAG("plain", &o.is_plain, "go on with the text, without the chat template"),
    SPOT_TEXT("proof", &o.proof, "file",
              "compute the answer of this spot.proof/1 anew, and compare; - for stdin"),
    { SPOT_OPT_GROUP, .help = "answers" },
    SPOT_U64("max-tokens", &o.max_tokens, "n",
             "longest answer (default: the context; 256 for --plain)", 1, 1 << 30),
    SPOT_REAL("temperature", &o.temperature, "t", "0: the likeliest (default: 1)", 0, 2),
    SPOT_REAL("top-p", &o.top_p, "p", "of this probability together (default: 1)", 0, 1),
    SPOT_U64("top-k", &o.top_k, "k", "of so many (default: all)", 1, 1 << 30),
    SPOT_U64("seed", &o.seed, "n", "draw the same again (default: drawn)", 1, INT64_MAX),
    SPOT_TEXT("format", &o.format, "name",
              "text as it comes, or json: OpenAI's answer (default: text)"),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.is_quiet, NULL, "no notes", 0, 0 },
    { .type = SPOT_OPT_END },
};

/* --- the body of a request ------------------------------------------------------- */

struct said { /* the conversation so far: roles and texts alternate */
    char **text;
    size_t n, cap;
};

static void say(struct said *said, const char *text, size_t n)
{
    said->text = spot_xgrow(said->text, &said->cap, said->n + 1, sizeof(*said->text));
    said->text[said->n] = spot_xcalloc(n + 1, 1);
    memcpy(said->text[said->n++], text, n);
}

static void unsay(struct said *said)
{
    free(said->text[--said->n]);
}

static void put_message(struct spot_jw *jw, const char *role, const char *text)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "role", role);
    spot_jw_str(jw, "content", text);
    spot_jw_end(jw);
}

static void put_settings(struct spot_jw *jw, bool is_plain)
{
    struct spot_adapter first;

    if (spot_adapter_at(o.lora, 1, &first))
        spot_jw_text(jw, "model", first.name, first.n_name);
    if (o.max_tokens || is_plain)
        spot_jw_int(jw, "max_tokens", o.max_tokens ? (int64_t)o.max_tokens : 256);
    spot_jw_real(jw, "temperature", o.temperature);
    spot_jw_real(jw, "top_p", o.top_p);
    if (o.top_k)
        spot_jw_int(jw, "top_k", (int64_t)o.top_k);
    if (o.seed)
        spot_jw_int(jw, "seed", (int64_t)o.seed);
}

static char *body_of(const struct said *said, bool is_plain, size_t *n)
{
    char *text;
    FILE *const out = spot_xmemory_open(&text, n);
    struct spot_jw jw;

    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    if (is_plain) {
        spot_jw_str(&jw, "prompt", said->text[0]);
    } else {
        spot_jw_array(&jw, "messages");
        if (o.system)
            put_message(&jw, "system", o.system);
        for (size_t i = 0; i < said->n; i++)
            put_message(&jw, i % 2 ? "assistant" : "user", said->text[i]);
        spot_jw_end(&jw);
    }
    put_settings(&jw, is_plain);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    return text;
}

/* --- an answer -------------------------------------------------------------------- */

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

/* Control characters in the text of a model must not reach the terminal. */
static void write_shown(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];

        putchar((c < ' ' && c != '\n' && c != '\t') || c == 0x7F ? '?' : c);
    }
}

/* Text is printed as it is generated. False if the reader has left: then generation ends. */
static bool tell(void *user, const char *text, size_t n)
{
    struct spot_buf *const all = user;

    if (is_interrupted)
        return false;
    spot_buf_add(all, text, n);
    if (strcmp(o.format, "text") != 0)
        return true;
    if (isatty(STDOUT_FILENO))
        write_shown(text, n);
    else
        fwrite(text, 1, n, stdout);
    return !fflush(stdout);
}

static int answer(struct spot_solo *s, const struct said *said, bool is_plain, struct spot_buf *all,
                  struct spot_err *err)
{
    const bool is_json = !strcmp(o.format, "json");
    struct spot_buf document = { 0 };
    size_t n;
    char *const body = body_of(said, is_plain, &n);
    int rc = spot_solo_answer(s, is_plain ? SPOT_API_COMPLETIONS : SPOT_API_CHAT, body, n, tell,
                              all, is_json ? &document : NULL, err);

    if (!rc && is_json)
        fwrite(document.data, 1, document.n, stdout);
    if (!rc && (putchar('\n') == EOF || fflush(stdout)))
        rc = spot_err_sys(err, "cannot write");
    spot_buf_release(&document);
    free(body);
    return rc;
}

/* --- a chat ------------------------------------------------------------------------ */

/* Read a line from the terminal, without its newline. False: end of input. An interrupted line is
 * empty. */
static bool read_line(char **line, size_t *n)
{
    size_t cap = 0;
    ssize_t got;

    *line = NULL;
    fputs("> ", stderr);
    is_interrupted = 0;
    got = getline(line, &cap, stdin);
    if (got < 0 && is_interrupted) {
        clearerr(stdin);
        fputc('\n', stderr);
        got = 0;
    }
    if (got < 0)
        return false;
    *n = (size_t)got;
    while (*n && ((*line)[*n - 1] == '\n' || (*line)[*n - 1] == '\r'))
        --*n;
    return true;
}

/* Returns 0, or -1 with *err. A message that cannot be answered is reported and removed from the
 * conversation. */
static int turn(struct spot_solo *s, struct said *said, const char *line, size_t n, bool is_plain,
                struct spot_err *err)
{
    struct spot_buf all = { 0 };
    int rc;

    if (is_plain)
        while (said->n)
            unsay(said);
    say(said, line, n);
    rc = answer(s, said, is_plain, &all, err);
    if (rc && err->code == SPOT_EDATA) {
        spot_tool_note("%s", err->msg);
        unsay(said);
        rc = 0;
    } else if (!rc && !is_plain) {
        say(said, all.n ? (const char *)all.data : "", all.n);
    }
    spot_buf_release(&all);
    return rc;
}

/* SIGINT ends an answer or a line; end of input ends the chat. */
static int chat(struct spot_solo *s, struct said *said, bool is_plain, struct spot_err *err)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    char *line;
    size_t n;
    int rc = 0;

    sigaction(SIGINT, &action, NULL);
    while (!rc && read_line(&line, &n)) {
        is_interrupted = 0;
        if (n)
            rc = turn(s, said, line, n, is_plain, err);
        free(line);
    }
    free(rc ? NULL : line);
    fputc('\n', stderr);
    return rc;
}

/* --- the command --- */

static int read_all(struct said *said, struct spot_err *err)
{
    struct spot_buf all = { 0 };
    char block[4096];
    size_t n;

    while ((n = fread(block, 1, sizeof(block), stdin)) > 0)
        spot_buf_add(&all, block, n);
    if (!ferror(stdin))
        say(said, all.n ? (const char *)all.data : "", all.n);
    spot_buf_release(&all);
    return ferror(stdin) ? spot_err_sys(err, "cannot read stdin") : 0;
}

static int generate(struct spot_solo *s, struct spot_err *err)
{
    const bool is_plain = o.is_plain || spot_solo_no_chat(s);
    struct said said = { 0 };
    struct spot_buf all = { 0 };
    int rc;

    if (is_plain && o.system)
        return spot_err_set(err, SPOT_EDATA, "--system: this model has no chat template: %s",
                            spot_solo_no_chat(s));
    if (is_plain && !o.is_plain)
        spot_tool_info("no chat template, so the text is continued: %s", spot_solo_no_chat(s));
    if (!o.prompt && isatty(STDIN_FILENO)) {
        rc = chat(s, &said, is_plain, err);
    } else {
        if (o.prompt)
            say(&said, o.prompt, strlen(o.prompt));
        rc = o.prompt ? 0 : read_all(&said, err);
        rc = rc ? rc : answer(s, &said, is_plain, &all, err);
    }
    while (said.n)
        unsay(&said);
    free(said.text);
    spot_buf_release(&all);
    return rc;
}

static int prove(struct spot_solo *s, const struct spot_proof *proof, struct spot_err *err)
{
    size_t n = 0;

    if (spot_solo_prove(s, proof, err))
        return -1;
    for (uint32_t i = 0; i < proof->request.n_choice; i++)
        n += proof->choice[i].n_token;
    printf("equal: %s, %zu tokens", proof->request.id, n);
    if (proof->of.step)
        printf(" by the weights of step %lld", (long long)proof->of.step);
    puts(proof->request.n_logprob >= 0 ? ", and their log probabilities" : "");
    return fflush(stdout) ? spot_err_sys(err, "cannot write") : 0;
}

static int answer_or_prove(const struct spot_solo_options *options, const struct spot_proof *proof,
                           struct spot_err *err)
{
    struct spot_solo *const s = spot_solo_open(options, err);
    int rc;

    if (!s)
        return -1;
    rc = o.proof ? prove(s, proof, err) : generate(s, err);
    spot_solo_free(s);
    return rc;
}

static int run_generate(struct spot_err *err)
{
    struct device_option device = { .number = NULL };
    struct spot_solo_options options = {
        .model = o.model,
        .chat_template = o.chat_template,
        .adapters = o.lora,
        .backend = !strncmp(o.device, "cuda", 4) ? "cuda" : NULL,
        .n_thread = (int)(o.threads ? o.threads : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN)),
    };
    struct spot_proof proof = { .choice = NULL };
    int rc;

    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.is_quiet });
    if (spot_adapter_check(o.lora, err))
        return -1;
    if (device_option_parse(o.device, &device, err) || template_time_parse(o.template_time, err))
        return -1;
    if (strcmp(device.kind, "auto") != 0 && strcmp(device.kind, "cpu") != 0 &&
        strcmp(device.kind, "cuda") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--device must be cpu, cuda or cuda:N, got '%s'",
                            o.device);
    spot_cuda_choose(device.number);
    if (o.proof && spot_proof_load(&proof, o.proof, err))
        return -1;
    /* if not given, the type of the proof */
    options.type = o.dtype ? (enum spot_infer_type)spot_infer_type_find(o.dtype) : proof.of.type;
    if (o.proof && !strcmp(device.kind, "auto") && !strncmp(proof.kernel, "cuda", 4))
        options.backend = "cuda";
    rc = answer_or_prove(&options, &proof, err);
    spot_proof_release(&proof);
    return rc;
}

const struct spot_cli run_generate_command = {
    .name = "spot-run generate",
    .brief = "let a model answer, here",
    .required = (const struct spot_opt_required[]){ { "model", "the directory of the model" },
                                                    { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "dtype", "fp32|bf16|q8" },
                                                { "format", "text|json" },
                                                { NULL, NULL } },
    .need = (const struct spot_opt_need[]){ { "system", "!plain" },
                                            { "prompt|system|plain|max-tokens|temperature|top-p|"
                                              "top-k|seed|format",
                                              "!proof" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "proof", NULL },
    .synopsis = "--model DIR [--prompt TEXT | --proof FILE] [options]",
    .summary = "Generate text with a model in this process, or chat in the terminal.",
    .examples = "  spot-run generate --model model --prompt 'Why is the sky blue?'\n"
                "  spot-run generate --model model\n"
                "  spot-run generate --model model --proof answer.json\n",
    .option = option,
    .run_alone = run_generate,
};
