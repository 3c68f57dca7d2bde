/* SPDX-License-Identifier: MIT */
/* replay.h - the subcommands of spot-replay, one file each. */
#ifndef SPOT_REPLAY_REPLAY_H
#define SPOT_REPLAY_REPLAY_H

/* argv[0] is the subcommand's name. Each returns the exit status. */
int replay_generate_main(int argc, char **argv);
int replay_describe_main(int argc, char **argv);
int replay_import_main(int argc, char **argv);
int replay_live_main(int argc, char **argv);
int replay_train_main(int argc, char **argv);

#endif /* SPOT_REPLAY_REPLAY_H */
