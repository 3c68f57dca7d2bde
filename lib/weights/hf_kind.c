/* SPDX-License-Identifier: MIT */
#include "weights/hf_kind.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct kind {
    const char *end; /* end of a file name */
    const char *what, *help;
} kinds[] = {
    { ".gguf", "GGUF", "make a directory of it: spot-run import FILE DIR" },
    { ".bin", "weights that PyTorch has pickled",
      "load and save the model once with transformers: that writes safetensors" },
    { ".pt", "weights that PyTorch has pickled",
      "load and save the model once with transformers: that writes safetensors" },
    { ".pth", "weights that PyTorch has pickled",
      "load and save the model once with transformers: that writes safetensors" },
    { ".h5", "weights of TensorFlow",
      "load and save the model once with transformers: that writes safetensors" },
    { ".msgpack", "weights of Flax",
      "load and save the model once with transformers: that writes safetensors" },
};
enum { N_KIND = sizeof(kinds) / sizeof(kinds[0]) };

static bool ends_in(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);

    return n > m && !strcmp(name + n - m, end);
}

static int refuse(const char *path, const struct kind *kind, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EDATA, "%s: %s, which is not read here: %s", path, kind->what,
                        kind->help);
}

/* "organisation/model" */
static bool is_hub_name(const char *path)
{
    const char *const slash = strchr(path, '/');

    return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' &&
           *path != '~';
}

/* The first file, by name, in an unsupported format; NULL if there is a supported one. */
static const struct kind *only_other(const char *dir, char name[256])
{
    const struct kind *found = NULL;
    DIR *const d = opendir(dir);
    const struct dirent *entry;

    *name = '\0';
    while (d && (entry = readdir(d))) {
        if (ends_in(entry->d_name, ".safetensors") ||
            !strcmp(entry->d_name, "model.safetensors.index.json") ||
            !strcmp(entry->d_name, "model.gguf")) {
            found = NULL;
            break;
        }
        for (int i = 0; i < N_KIND; i++)
            if (ends_in(entry->d_name, kinds[i].end) &&
                (!found || strcmp(entry->d_name, name) < 0)) {
                found = &kinds[i];
                snprintf(name, 256, "%s", entry->d_name);
            }
    }
    if (d)
        closedir(d);
    return found;
}

/* Checks JSON files that are large enough to be Git LFS pointers. */
static int check_pointers(const char *dir, struct spot_err *err)
{
    static const char *const file[] = { "config.json", "tokenizer.json",
                                        "model.safetensors.index.json" };
    int rc = 0;

    for (size_t i = 0; i < sizeof(file) / sizeof(file[0]) && !rc; i++) {
        unsigned char start[8] = { 0 };
        char path[4400];
        FILE *in;

        snprintf(path, sizeof(path), "%.4000s/%s", dir, file[i]);
        in = fopen(path, "re");
        if (in && fread(start, 1, sizeof(start), in) == sizeof(start))
            rc = spot_hf_check_start(path, start, err);
        if (in)
            fclose(in);
    }
    return rc;
}

int spot_hf_check_kind(const char *path, struct spot_err *err)
{
    const struct kind *other;
    char name[256], whole[4400];
    struct stat st;

    if (stat(path, &st))
        return is_hub_name(path)
                   ? spot_err_set(err, SPOT_EDATA,
                                  "%.200s is not here: if that is a model's name on a hub, "
                                  "download it and name the directory",
                                  path)
                   : 0;
    if (!S_ISDIR(st.st_mode)) {
        for (int i = 0; i < N_KIND; i++)
            if (ends_in(path, kinds[i].end))
                return refuse(path, &kinds[i], err);
        return 0;
    }
    other = only_other(path, name);
    snprintf(whole, sizeof(whole), "%.4000s/%s", path, name);
    return other ? refuse(whole, other, err) : check_pointers(path, err);
}

int spot_hf_check_start(const char *path, const unsigned char start[8], struct spot_err *err)
{
    if (!memcmp(start, "version ", 8))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: a pointer of Git LFS, not the file: run git lfs pull there", path);
    if (!memcmp(start, "GGUF", 4))
        return refuse(path, &kinds[0], err);
    if (!memcmp(start, "PK\3\4", 4) || !memcmp(start, "\x80\2", 2))
        return refuse(path, &kinds[1], err);
    return 0;
}
