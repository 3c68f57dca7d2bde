/* SPDX-License-Identifier: MIT */
#include "trace/family.h"

#include "common/csv_reader.h"

enum { ASKED, HAZARD, OS, COLUMNS };

/* Stops at the first row: the header is known then, and nothing else is needed. */
static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    enum spot_family *family = user;

    *family = row->field[ASKED]                      ? SPOT_FAMILY_PROBES
              : row->field[HAZARD] && row->field[OS] ? SPOT_FAMILY_ADVICE
                                                     : SPOT_FAMILY_COUNTS;
    return spot_err_set(err, SPOT_EDATA, "enough");
}

enum spot_family spot_family_of(FILE *in)
{
    static const char *const want[COLUMNS] = { "?asked", "?hazard_per_h", "?os" };
    enum spot_family family = SPOT_FAMILY_COUNTS;
    const off_t at = ftello(in);
    struct spot_err err;

    if (spot_csv_read(in, "", want, COLUMNS, on_row, &family, NULL, &err))
        clearerr(in);
    fseeko(in, at, SEEK_SET);
    return family;
}

FILE *spot_family_seekable(FILE *in, const char *source, struct spot_err *err)
{
    char buf[1 << 14];
    FILE *copy;
    size_t n;

    if (!fseeko(in, 0, SEEK_CUR))
        return in;
    copy = tmpfile();
    while (copy && (n = fread(buf, 1, sizeof(buf), in)) > 0)
        if (fwrite(buf, 1, n, copy) != n)
            break;
    if (!copy || ferror(in) || ferror(copy) || fflush(copy)) {
        spot_err_sys(err, "%s: cannot be read, or kept for a while", source);
        if (copy)
            fclose(copy);
        copy = NULL;
    }
    if (in != stdin)
        fclose(in);
    if (copy)
        rewind(copy);
    return copy;
}
