/* SPDX-License-Identifier: MIT */
/* peak - run a command and say on a file how much memory it had at most:
 *
 *   peak FILE COMMAND [ARGUMENT...]
 *
 * FILE gets the KiB of getrusage's ru_maxrss. The exit status is the command's. */
#define _DEFAULT_SOURCE /* wait4 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage used;
    pid_t child;
    int status;
    FILE *out;

    if (argc < 3)
        return 2;
    child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child)
        return 126;
    out = fopen(argv[1], "w");
    if (!out || fprintf(out, "%ld\n", used.ru_maxrss) < 0 || fclose(out))
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
