/* SPDX-License-Identifier: MIT */
/* A conviction stays in force in all runs that continue from the same state: DIR/convicted has a
 * line "JOB NAME" for each member. The log, and the record of several coordinators, have them
 * too. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/pio.h"
#include "common/safe_dir.h"
#include "train/trainer_evidence_state.h"

enum { LINES_MAX = 10000 };

static const char file_name[] = "convicted";

static int open_dir(const struct spot_trainer *c)
{
    return c->options->state ? open(c->options->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

static void recall(struct spot_trainer *c, const char *name)
{
    spot_group_convict(c->group, name, "it was proved to be at fault before");
    c->options->warn("worker %s stays set aside: a fault was proved earlier", name);
}

static void read_lines(struct spot_trainer *c, FILE *in)
{
    char line[SPOT_HOLDER_MAX + 32], *name;

    for (int i = 0; i < LINES_MAX && fgets(line, sizeof(line), in); i++) {
        line[strcspn(line, "\n")] = '\0';
        if (strtoull(line, &name, 16) == c->job && *name == ' ' && name[1])
            recall(c, name + 1);
    }
}

void spot_trainer_recall_convicted(struct spot_trainer *c)
{
    const int dir_fd = open_dir(c);
    struct stat st;
    int fd = -1;
    FILE *in;

    for (size_t i = 0; i < c->journal->n_convicted; i++)
        recall(c, c->journal->convicted[i]);
    if (dir_fd >= 0 && !spot_group_resumes(c->group))
        (void)unlinkat(dir_fd, file_name, 0); /* of a run that left no state */
    else if (dir_fd >= 0 && !c->journal->n_convicted)
        fd = spot_safe_open_file(dir_fd, file_name, &st);
    in = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (in)
        read_lines(c, in);
    if (in)
        fclose(in);
    spot_close(dir_fd);
}

void spot_trainer_note_convicted(const struct spot_trainer *c, const char *name)
{
    const int dir_fd = open_dir(c);
    const int fd = dir_fd < 0
                       ? -1
                       : openat(dir_fd, file_name,
                                O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    FILE *const out = fd >= 0 ? fdopen(fd, "a") : NULL;
    bool is_written = false;

    if (out) {
        is_written =
            fprintf(out, "%016" PRIx64 " %s\n", c->job, name) > 0 && !fflush(out) && !fdatasync(fd);
        fclose(out);
    }
    spot_close(dir_fd);
    if (c->options->state && !is_written)
        c->options->warn(
            "cannot write '%s/%s': a run resumed without the log will not know of worker %s",
            c->options->state, file_name, name);
}
