/* SPDX-License-Identifier: MIT */
/* A program that knows nothing of anybody: it counts, and saves where it is.
 *
 *   cc -o count count.c && spot-run exec --workers 4 --checkpoint 'count.*' -- ./count STEPS
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    const struct timespec pause = { .tv_nsec = 20000000 };
    const char *const rank = getenv("RANK");
    const long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
    const int is_first = !rank || rank[0] == '0';
    FILE *file = fopen("count.txt", "r");
    long step = 0;

    if (file) {
        if (fscanf(file, "%ld", &step) != 1)
            return 1;
        fclose(file);
    }
    while (step < steps) {
        nanosleep(&pause, NULL);
        step++;
        if (is_first && printf("step %ld\n", step) > 0)
            fflush(stdout);
        if (!is_first || step % 10)
            continue;
        file = fopen("count.new", "w");
        if (!file || fprintf(file, "%ld\n", step) < 0 || fclose(file) ||
            rename("count.new", "count.txt"))
            return 1;
    }
    if (is_first)
        printf("end %ld\n", step);
    return 0;
}
