/* SPDX-License-Identifier: MIT */
#include "cluster/store_secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *env(const char *name)
{
    const char *const text = getenv(name);

    return text && *text ? text : NULL;
}

int spot_store_secret_find(struct spot_store_secret *s, struct spot_err *err)
{
    *s = (struct spot_store_secret){ env(SPOT_STORE_CA_ENV), env(SPOT_STORE_CERT_ENV),
                                     env(SPOT_STORE_KEY_ENV), env(SPOT_STORE_USER_ENV) };
    if (!s->cert != !s->key)
        return spot_err_set(err, SPOT_EUSAGE, "%s and %s must go together", SPOT_STORE_CERT_ENV,
                            SPOT_STORE_KEY_ENV);
    if (s->cert && !s->ca)
        return spot_err_set(err, SPOT_EUSAGE, "%s needs %s", SPOT_STORE_CERT_ENV,
                            SPOT_STORE_CA_ENV);
    return 0;
}

static int split(const char *path, char *line, char *name, char *password, struct spot_err *err)
{
    const size_t n = strcspn(line, "\r\n"), n_name = strcspn(line, ":");

    line[n] = '\0';
    if (!n_name || n_name >= SPOT_STORE_USER_MAX || n < n_name + 2 ||
        n - n_name - 1 >= SPOT_STORE_USER_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s': expected NAME:PASSWORD, each of at most %d bytes", path,
                            SPOT_STORE_USER_MAX - 1);
    memcpy(name, line, n_name);
    name[n_name] = '\0';
    memcpy(password, line + n_name + 1, n - n_name);
    return 0;
}

int spot_store_secret_user(const char *path, char name[SPOT_STORE_USER_MAX],
                           char password[SPOT_STORE_USER_MAX], struct spot_err *err)
{
    char line[2 * SPOT_STORE_USER_MAX + 8] = "";
    FILE *const in = fopen(path, "re");
    struct stat st;
    int rc = 0;

    if (!in)
        return spot_err_sys(err, "cannot read '%s'", path);
    if (!fgets(line, sizeof(line), in) && ferror(in))
        rc = spot_err_sys(err, "cannot read '%s'", path);
    else if (!fstat(fileno(in), &st) && st.st_mode & 077)
        rc = spot_err_set(err, SPOT_EUSAGE, "'%s': others may read it (mode %04o); chmod 600 it",
                          path, (unsigned)st.st_mode & 07777);
    fclose(in);
    return rc ? rc : split(path, line, name, password, err);
}
