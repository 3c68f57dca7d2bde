/* SPDX-License-Identifier: MIT */
/* spot-run - run training on machines that come and go. */
#include "cli/tool.h"
#include "run.h"

int main(int argc, char **argv)
{
    static const struct spot_command command[] = {
        { "train", "coordinate a training job", run_train },
        { "profile", "measure the grids of a job on this host", run_profile },
        { "tokenize", "turn text into a file of tokens", run_tokenize },
        { "worker", "be one instance of a job", run_worker },
        { "replan", "give a running job another plan", run_replan },
        { "stop", "stop a running job with its state durable", run_stop },
        { "status", "show what a running job is doing", run_status },
        { "report", "say what a run did, from its event log", run_report },
        { "eval", "tell the loss of a corpus under a model", run_eval },
        { "export", "write the weights of a job as a model", run_export },
        { NULL, NULL, NULL },
    };

    return spot_tool_dispatch("spot-run", "Run training on machines that come and go.", command,
                              argc, argv);
}
