# SPDX-License-Identifier: MIT
# bash completion for the spot tools; written by `make completions`.

_spot() {
    local current=${COMP_WORDS[COMP_CWORD]} commands='' options='' values=''
    case "$1 ${COMP_WORDS[1]-}" in
    'spot-migrate plan') options='--from --to --cluster --deadline --memory-cap --layer-time --explain --plot --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-migrate assign') options='--objective --output --quiet --verbose --error-format --help --version' ;;
    'spot-migrate pack') options='--codec --compat --chunk --threads --output --quiet --verbose --error-format --help --version' ;;
    'spot-migrate unpack') options='--threads --output --quiet --verbose --error-format --help --version' ;;
    'spot-migrate send') options='--connect --listen --via --duplex --key-file --timeout --wait --streams --codec --chunk --deadline --threads --output --quiet --verbose --error-format --help --version' ;;
    'spot-migrate recv') options='--connect --listen --via --duplex --key-file --timeout --wait --streams --threads --output --quiet --verbose --error-format --help --version' ;;
    'spot-migrate '*) commands='plan assign pack unpack send recv' options='' ;;
    'spot-plan train') options='--job --forecast --now --spares --warm --epoch --objective --usd-per-sample --solver --current --pending --state --starts --told --announced --leaving --horizon --max-loss-prob --throughput --explain --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-plan serve') options='--job --now --forecast --rate --load --window --backlog --policy --cache-tokens --slo --current --state --stay --loss-per-h --switch --layout --cluster --memory-cap --boot --explain --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-plan fleet') options='--kind --catalogue --load --market --forecast --prices --unserved --cold-start --rho --policy --slices --zone-max --current --requests --window --time --limit --job --loss --loss-now --samples --deadline --restart --losses-per-h --solver --n --per-replica --availability --state --explain --output --format --seed --quiet --verbose --provenance --error-format --help --help-all --version' ;;
    'spot-plan deadline') options='--work --deadline --restart --egress-usd --state-gb --probe-usd --done --elapsed --now --launching --at --jobs --catalogue --prices --forecast --trace --learn --zone --has-spot --tick --usd-per-h --explain --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-plan share') options='--jobs --throughput --cluster --time --policy --round --switch --checkpoint --explain --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-plan job') options='--ddp --global-batch --worker-batch --max-workers --params --usd-per-h --restart --roofline --catalogue --type --dtype --max-batch --prompt-tokens --output-tokens --context --name --output --format --seed --quiet --verbose --provenance --error-format --help --version --catalogue' ;;
    'spot-plan '*) commands='train serve fleet deadline share job' options='' ;;
    'spot-predict '*) commands='' options='--kind --interval --horizon --cap --model --state --plot --next-probes --probe-usd --hour-usd --backtest --models --origins --from --dump --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay generate') options='--kind --hours --zones --regions --cap --interval --steps --events --profile --law --rate --requests --arrivals --prompt-tokens --output-tokens --lengths --context --swing --instance-type --output --format --seed --quiet --verbose --provenance --error-format --help --help-all --version' ;;
    'spot-replay describe') options='--kind --from --to --scale --context --plot --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay import') options='--from --columns --timezone --zone --instance-type --polarity --cap --time --strict --prompt-tokens --output-tokens --lengths --origin --merge --max-age --interval --steps --events --output --format --seed --quiet --verbose --provenance --error-format --help --help-all --version' ;;
    'spot-replay live') options='--trace --from --to --scale --max --speedup --grace --no-notice --events --seed --quiet --verbose --error-format --help --version' ;;
    'spot-replay train') options='--job --trace --policy --notice --cost --peer-model --throughput --events --interval --horizon --from --to --scale --steps --plot --picture --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay serve') options='--job --trace --load --arrivals-only --policy --rate --switch --layout --link-rate --load-time --grace --capacity --boot --batching --pool --cache-tokens --slo --merge --until-end --steps --interval --plot --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay deadline') options='--trace --zone --work --deadline --restart --catalogue --egress-usd --state-gb --from --tick --usd-per-h --policy --learn --steps --plot --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay share') options='--jobs --throughput --cluster --trace --policy --rounds --round --switch --checkpoint --steps --plot --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay fleet') options='--trace --n --cold-start --tick --usd-per-h --load --per-replica --demand --catalogue --availability --unserved --rho --window --policy --steps --plot --serving --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-replay '*) commands='generate describe import live train serve deadline share fleet' options='' ;;
    'spot-run train') options='--data --tokenizer --arch --layers --width --heads --seq --val-data --load --steps --micro-batch --global-batch --lr --lr-schedule --seed --workers --listen --key-file --grid --plan --state --resume --events --metrics --save --quiet --verbose --dry-run --tokens --vocab --shards --tied --kv-heads --ffn --rope-theta --weights-of-samples --val-every --val-batches --clip --beta1 --beta2 --weight-decay --device --recompute --threads --comm --shares --grace --lease --verify --store --state-command --durable-every --error-format --help --help-all --version' ;;
    'spot-run serve') options='--model --served-model-name --chat-template --template-time --dtype --device --http --api-key-file --tls-cert --tls-key --queue --linger --batch --output --workers --listen --key-file --grid --comm --plan --max-batch --kv-byte --prefix-cache --kv-buddies --state --resume --events --quiet --follow --lora --cors-origin --tool-format --verify --journal-sync --threads --grace --lease --stall --error-format --help --help-all --version' ;;
    'spot-run generate') options='--model --lora --chat-template --template-time --dtype --device --threads --prompt --system --plain --proof --max-tokens --temperature --top-p --top-k --seed --format --quiet --error-format --help --version' ;;
    'spot-run exec') options='--workers --listen --store --nnodes --nodes --rdzv-endpoint --max-restarts --events --state --state-every --state-command --resume --join --name --domain --notice --nproc-per-node --checkpoint --module --save-time --cold --log-dir --state-dir --key-file --quiet --standalone --rdzv-id --node-rank --master-addr --master-port --no-python --lease --stall --rank-stall --slow-rank --grace --join-timeout --notice-rebalance --error-format --help --help-all --version' ;;
    'spot-run ledger') options='--step --dataset-size --global-batch --seed --rest --order --format --ranges --check --error-format --help --version --global-batch' ;;
    'spot-run commit') options='--step --durable --all-ranks --timeout --quiet --error-format --help --version' ;;
    'spot-run profile') options='--grids --micro-batches --max-workers --steps --name --serve --max-batch --replicas --one-machine --data --tokenizer --arch --layers --width --heads --seq --micro-batch --global-batch --skip --tokens --vocab --shards --tied --kv-heads --ffn --rope-theta --device --recompute --threads --output --format --seed --quiet --verbose --provenance --error-format --help --help-all --version' ;;
    'spot-run tokenize') options='--tokenizer --tokens --separator --decode --output --quiet --error-format --help --version' ;;
    'spot-run worker') options='--join --key-file --name --domain --machine --threads --recompute --device --engine --engine-url --engine-kind --state-command --join-timeout --notice --notice-rebalance --quiet --error-format --help --version' ;;
    'spot-run notice') options='--from --exec --once --ack --interval --lead --quiet --error-format --help --version' ;;
    'spot-run replan') options='--join --key-file --join-timeout --force --error-format --help --version' ;;
    'spot-run roll') options='--join --key-file --join-timeout --quiet --error-format --help --version' ;;
    'spot-run fleet') options='--plan-command --offers --probes --catalogue --load --join --key-file --n --availability --cold-start --launch --terminate --list --drain --grace --state --metrics --name --max-usd-per-h --every --limit --once --yes --format --quiet --verbose --error-format --help --version --launch' ;;
    'spot-run stop') options='--join --key-file --join-timeout --quiet --error-format --help --version' ;;
    'spot-run status') options='--join --key-file --join-timeout --format --error-format --help --version' ;;
    'spot-run report') options='--reference --plot --speedup --usd-per-h --output --format --seed --quiet --verbose --provenance --error-format --help --version' ;;
    'spot-run eval') options='--data --load --state --state-command --step --tokenizer --tokens --seq --stride --across --batch --threads --device --output --format --quiet --provenance --error-format --help --version' ;;
    'spot-run export') options='--state --step --state-command --join --key-file --join-timeout --output --dtype --tokenizer --force --quiet --error-format --help --version' ;;
    'spot-run import') options='--quiet --error-format --help --version' ;;
    'spot-run audit') options='--state --events --steps --sample --data --tokenizer --threads --seed --quiet --error-format --help --version' ;;
    'spot-run '*) commands='train serve generate exec ledger commit profile tokenize worker notice replan roll fleet stop status report eval export import audit' options='' ;;
    *) return ;;
    esac
    case "$1 ${COMP_WORDS[1]-} ${COMP_WORDS[COMP_CWORD - 1]}" in
    'spot-migrate assign --objective') values='sum bottleneck' ;;
    'spot-migrate pack --codec') values='auto planes raw' ;;
    'spot-migrate send --codec') values='auto planes raw' ;;
    'spot-plan train --objective') values='samples usd-per-sample mix' ;;
    'spot-plan train --solver') values='dp liveput' ;;
    'spot-plan train --starts') values='now next' ;;
    'spot-plan train --told') values='losses gains both none' ;;
    'spot-plan train --format') values='json table' ;;
    'spot-plan serve --policy') values='spot spotserve' ;;
    'spot-plan serve --format') values='json table' ;;
    'spot-plan fleet --kind') values='serve train replicas' ;;
    'spot-plan fleet --market') values='on-demand spot both' ;;
    'spot-plan fleet --policy') values='spot melange' ;;
    'spot-plan fleet --solver') values='spot spotdnn-code spotdnn-paper' ;;
    'spot-plan fleet --format') values='json table' ;;
    'spot-plan deadline --now') values='spot on-demand idle' ;;
    'spot-plan deadline --format') values='json table' ;;
    'spot-plan share --format') values='json csv table md' ;;
    'spot-plan job --dtype') values='fp32 bf16 q8' ;;
    'spot-plan job --format') values='json' ;;
    'spot-predict '*' --kind') values='availability load price' ;;
    'spot-replay generate --kind') values='trace load' ;;
    'spot-replay generate --format') values='csv' ;;
    'spot-replay describe --kind') values='trace load' ;;
    'spot-replay import --polarity') values='available unavailable' ;;
    'spot-replay import --format') values='csv' ;;
    'spot-replay train --cost') values='parcae measured' ;;
    'spot-replay train --peer-model') values='published generous as-measured' ;;
    'spot-replay serve --batching') values='pools bursts shared passes' ;;
    'spot-replay serve --format') values='csv tsv jsonl table md' ;;
    'spot-replay deadline --format') values='csv tsv jsonl table md' ;;
    'spot-replay share --rounds') values='exact gavel' ;;
    'spot-replay share --format') values='csv tsv jsonl table md' ;;
    'spot-replay fleet --format') values='csv tsv jsonl table md' ;;
    'spot-run train --comm') values='sockets nccl nccl-fast' ;;
    'spot-run serve --dtype') values='fp32 bf16 q8 engine' ;;
    'spot-run generate --dtype') values='fp32 bf16 q8' ;;
    'spot-run generate --format') values='text json' ;;
    'spot-run ledger --rest') values='wrap drop short' ;;
    'spot-run ledger --order') values='shuffled sequential' ;;
    'spot-run ledger --format') values='json csv' ;;
    'spot-run profile --format') values='json table' ;;
    'spot-run worker --recompute') values='none mlp layer' ;;
    'spot-run status --format') values='json table' ;;
    *' --format') values='json jsonl csv tsv table md' ;;
    *' --arch') values='gpt2 llama' ;;
    'spot-run tokenize --tokens') values='u16 u32' ;;
    *' --tokens') values='bytes u16 u32' ;;
    'spot-run worker --device') values='cpu cuda auto' ;;
    'spot-run serve --device') values='cpu cuda' ;;
    'spot-run generate --device') values='cpu cuda' ;;
    *' --device') values='auto cpu cuda fma fma-bf16 portable cuda-bf16 cuda-fp32 cuda-bf16-tp cuda-fp32-tp' ;;
    *' --comm') values='sockets nccl' ;;
    *' --shares') values='even measured' ;;
    *' --recompute') values='none mlp layer' ;;
    'spot-replay train --policy') values='all list ideal on-demand optimal spot parcae-truth nowcast parcae persistence throughput varuna varuna-released bamboo bamboo-released oobleck torchft torchrun' ;;
    *' train --throughput') values='table law both' ;;
    'spot-replay train --picture') values='samples grids cost' ;;
    'spot-replay generate --profile') values='calm typical stormy' ;;
    'spot-replay generate --law') values='help' ;;
    'spot-replay import --from') values='help events spotserve spot-event count-log csv skypilot aws-price aws-score aws-advisor gcp-price azure-price azure-llm mooncake azure-functions burstgpt spot-serve openai-log gavel philly-csv pollux alibaba-2023 sacct' ;;
    'spot-predict '*' --model') values='pool last ma ses arima empirical markov birthdeath renewal knn context load negbin parcae' ;;
    'spot-predict '*' --models') values='pool last ma ses arima empirical markov birthdeath renewal knn context load negbin parcae' ;;
    esac
    if [ "$values" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
        return
    fi
    case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current") ;;
    *) mapfile -t COMPREPLY < <(
        [ "$COMP_CWORD" -eq 1 ] && compgen -W "$commands" -- "$current"
        compgen -f -- "$current"
    ) ;;
    esac
}
complete -o filenames -F _spot spot-migrate spot-plan spot-predict spot-replay spot-run
