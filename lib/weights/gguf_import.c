/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/out.h"
#include "weights/gguf_docs.h"

enum { PATH_BYTE = 4096, COPY_BYTE = 1 << 16 };

static int path_in(char path[PATH_BYTE], const char *dir, const char *name, struct spot_err *err)
{
    return snprintf(path, PATH_BYTE, "%s/%s", dir, name) < PATH_BYTE
               ? 0
               : spot_err_set(err, SPOT_EUSAGE, "the path of %s is too long", dir);
}

/* Creates a directory, or accepts an empty one. */
static int make_directory(const char *dir, struct spot_err *err)
{
    const struct dirent *entry;
    bool is_empty = true;
    DIR *d;

    if (!mkdir(dir, 0777))
        return 0;
    d = errno == EEXIST ? opendir(dir) : NULL;
    if (!d)
        return spot_err_sys(err, "cannot make '%s'", dir);
    while ((entry = readdir(d)))
        is_empty = is_empty && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."));
    closedir(d);
    return is_empty ? 0
                    : spot_err_set(err, SPOT_EUSAGE,
                                   "%s is not empty: name a directory that is not there", dir);
}

static int write_document(const struct spot_gguf *g, const char *dir, const char *name,
                          int (*put)(const struct spot_gguf *, struct spot_jw *, struct spot_err *),
                          struct spot_err *err)
{
    char path[PATH_BYTE];
    struct spot_out out = { 0 };
    struct spot_jw jw;

    if (path_in(path, dir, name, err) || spot_out_open_own(&out, path, err))
        return -1;
    spot_jw_init(&jw, out.file, false);
    return spot_out_finish(&out, put(g, &jw, err) || spot_jw_close(&jw, err) ? -1 : 0, err);
}

static int write_template(const struct spot_gguf *g, const char *dir, struct spot_err *err)
{
    struct spot_gguf_text text;
    char path[PATH_BYTE];
    struct spot_out out = { 0 };

    if (!spot_gguf_text(g, "tokenizer.chat_template", &text))
        return 0;
    if (path_in(path, dir, "chat_template.jinja", err) || spot_out_open_own(&out, path, err))
        return -1;
    fwrite(text.at, 1, text.n, out.file);
    return spot_out_finish(&out, 0, err);
}

static int copy_weights(const struct spot_gguf *g, const char *path, struct spot_err *err)
{
    struct spot_out out = { 0 };
    char some[COPY_BYTE];
    size_t n;
    int rc = 0;

    if (spot_out_open_own(&out, path, err))
        return -1;
    rewind(g->in);
    while ((n = fread(some, 1, sizeof(some), g->in)) > 0)
        fwrite(some, 1, n, out.file);
    if (ferror(g->in))
        rc = spot_err_sys(err, "cannot read '%s'", g->path);
    return spot_out_finish(&out, rc, err);
}

static int put_weights(const struct spot_gguf *g, const char *dir, struct spot_err *err)
{
    char path[PATH_BYTE];

    if (path_in(path, dir, "model.gguf", err))
        return -1;
    return linkat(AT_FDCWD, g->path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) ? copy_weights(g, path, err)
                                                                        : 0;
}

int spot_gguf_import(const char *path, const char *dir, struct spot_err *err)
{
    struct spot_gguf *const g = spot_gguf_open(path, err);
    const int rc =
        !g || make_directory(dir, err) ||
                write_document(g, dir, "config.json", spot_gguf_config, err) ||
                write_document(g, dir, "generation_config.json", spot_gguf_generation_config,
                               err) ||
                write_document(g, dir, "tokenizer_config.json", spot_gguf_tokenizer_config, err) ||
                write_document(g, dir, "tokenizer.json", spot_gguf_tokenizer, err) ||
                write_template(g, dir, err) || put_weights(g, dir, err)
            ? -1
            : 0;

    spot_gguf_close(g);
    return rc;
}
