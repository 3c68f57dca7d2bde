/* SPDX-License-Identifier: MIT */
/* run.h - the commands of spot-run; each takes its own argv and returns the exit status. */
#ifndef SPOT_RUN_RUN_H
#define SPOT_RUN_RUN_H

int run_train(int argc, char **argv);
int run_profile(int argc, char **argv);
int run_tokenize(int argc, char **argv);
int run_worker(int argc, char **argv);
int run_replan(int argc, char **argv);
int run_stop(int argc, char **argv);
int run_status(int argc, char **argv);
int run_report(int argc, char **argv);
int run_eval(int argc, char **argv);
int run_export(int argc, char **argv);

#endif /* SPOT_RUN_RUN_H */
