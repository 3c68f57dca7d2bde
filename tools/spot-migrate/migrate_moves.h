/* SPDX-License-Identifier: MIT */
/* migrate_moves.h - a plan as a document, as sentences, as a picture. */
#ifndef SPOT_MIGRATE_MOVES_H
#define SPOT_MIGRATE_MOVES_H

#include <stdio.h>

#include "cli/table.h"
#include "model/moves_doc.h"
#include "plan/migration.h"

/* Holds what the document borrows besides the plan's own strings. */
struct moves_doc {
    struct spot_moves_doc doc;
    char **text; /* [n_text] owned strings */
    size_t n_text, text_cap;
    size_t why_cap;
};

/* Names are those of the layout wanted. */
void moves_doc_init(struct moves_doc *moves, const struct spot_layout *to,
                    const struct spot_migration_problem *problem,
                    const struct spot_migration_plan *plan);
void moves_doc_release(struct moves_doc *moves);

/* One row a transfer. */
void moves_table(const struct moves_doc *moves, FILE *out, enum spot_format format);

/* Who sends how much to whom, and when each link is busy. */
int moves_plot(const struct spot_migration_problem *problem, const struct spot_migration_plan *plan,
               const char *path, struct spot_err *err);

#endif /* SPOT_MIGRATE_MOVES_H */
