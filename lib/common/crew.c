/* SPDX-License-Identifier: MIT */
#include "common/crew.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"

struct spot_crew_member {
    pthread_t thread;
    void (*work)(void *arg);
    void *arg;
    atomic_bool is_done;
    struct spot_crew_member *next;
};

static void *run(void *user)
{
    struct spot_crew_member *m = user;

    m->work(m->arg);
    atomic_store(&m->is_done, true);
    return NULL;
}

static void join(struct spot_crew *crew, bool are_all)
{
    struct spot_crew_member **at = &crew->first, *m;

    while ((m = *at)) {
        if (!are_all && !atomic_load(&m->is_done)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        pthread_join(m->thread, NULL);
        free(m);
    }
}

int spot_crew_start(struct spot_crew *crew, void (*work)(void *arg), void *arg,
                    struct spot_err *err)
{
    struct spot_crew_member *m = spot_xcalloc(1, sizeof(*m));

    join(crew, false);
    m->work = work;
    m->arg = arg;
    errno = pthread_create(&m->thread, NULL, run, m);
    if (errno) {
        free(m);
        return spot_err_sys(err, "cannot start a thread");
    }
    m->next = crew->first;
    crew->first = m;
    return 0;
}

void spot_crew_join(struct spot_crew *crew)
{
    join(crew, true);
}
