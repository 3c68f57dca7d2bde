# SPDX-License-Identifier: MIT
# bash completion for the spot tools; written by `make completions`.

_spot() { # COMMAND... ; OPTION... of the tool or of its command
    local current=${COMP_WORDS[COMP_CWORD]} words values
    case "$1 ${COMP_WORDS[1]-}" in
    'spot-migrate plan') words='--from --to --cluster --deadline --memory-cap --explain --plot --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-migrate assign') words='--objective --output --quiet --verbose --help --version' ;;
    'spot-migrate pack') words='--codec --compat --level --base --chunk --jobs --output --quiet --verbose --help --version' ;;
    'spot-migrate unpack') words='--base --jobs --output --quiet --verbose --help --version' ;;
    'spot-migrate verify') words='--base --jobs --quiet --verbose --help --version' ;;
    'spot-migrate list') words='--output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-migrate extract') words='--tensor --raw --base --output --quiet --verbose --help --version' ;;
    'spot-migrate send') words='--connect --listen --via --duplex --key-file --timeout --wait --streams --codec --chunk --deadline --plan --epoch --jobs --output --quiet --verbose --help --version' ;;
    'spot-migrate recv') words='--connect --listen --via --duplex --key-file --timeout --wait --streams --window --jobs --output --quiet --verbose --help --version' ;;
    'spot-migrate bench') words='--output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-migrate '*) words='plan assign pack unpack verify list extract send recv bench ' ;;
    'spot-plan train') words='--job --forecast --now --spares --epoch --objective --usd-per-sample --solver --current --leaving --horizon --max-loss-prob --throughput --explain --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-plan '*) words='train ' ;;
    'spot-predict '*) words='--kind --interval --horizon --history --cap --model --hazard --state --plot --backtest --models --origins --from --dump --joint --compare --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-replay generate') words='--zones --regions --cap --hours --interval --instance-type --steps --events --profile --law --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-replay describe') words='--from --to --scale --plot --ascii --fit --hazard --min-losses --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-replay import') words='--from --zone --instance-type --polarity --cap --product --match --time --origin --merge --interval --steps --events --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-replay live') words='--trace --from --to --scale --max --speedup --grace --no-notice --events --seed --quiet --verbose --help --version' ;;
    'spot-replay train') words='--job --trace --policy --notice --cost --throughput --events --realize --runs --interval --look-ahead --from --to --scale --sweep --steps --plot --picture --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-replay '*) words='generate describe import live train ' ;;
    'spot-run train') words='--data --tokens --load --tokenizer --tied --norm-eps --layers --width --heads --seq --vocab --shards --arch --kv-heads --ffn --rope-theta --micro-batch --global-batch --steps --seed --lr --clip --beta1 --beta2 --weight-decay --kernel --backend --comm --reduce --workers --threads --recompute --listen --key-file --grid --shares --plan --lease --stall --buddies --ahead --state --resume --durable-every --events --save --quiet --verbose --help --version' ;;
    'spot-run profile') words='--grids --micro-batches --max-workers --steps --warm-up --links --stalls --changes --buddies --name --data --tokens --tokenizer --layers --width --heads --seq --vocab --shards --arch --kv-heads --ffn --rope-theta --norm-eps --micro-batch --global-batch --kernel --backend --threads --recompute --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-run tokenize') words='--tokenizer --tokens --separator --decode --output --quiet --help --version' ;;
    'spot-run worker') words='--join --key-file --name --domain --threads --recompute --backend --join-timeout --quiet --help --version' ;;
    'spot-run replan') words='--join --key-file --join-timeout --help --version' ;;
    'spot-run status') words='--join --key-file --join-timeout --format --watch --help --version' ;;
    'spot-run report') words='--reference --plot --speedup --spot-price --on-demand-price --output --format --seed --quiet --verbose --provenance --help --version' ;;
    'spot-run '*) words='train profile tokenize worker replan status report ' ;;
    *) return ;;
    esac
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --arch) values='gpt2 llama' ;;
    --policy) values='all list ideal on-demand optimal parcae-truth spot nowcast parcae persistence throughput varuna varuna-released bamboo bamboo-released oobleck torchft torchrun' ;;
    *) values= ;;
    esac
    if [ "$values" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
        return
    fi
    case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
    *) mapfile -t COMPREPLY < <(
        [ "$COMP_CWORD" -eq 1 ] && compgen -W "${words//--*/}" -- "$current"
        compgen -f -- "$current"
    ) ;;
    esac
}
complete -o filenames -F _spot spot-migrate spot-plan spot-predict spot-replay spot-run
