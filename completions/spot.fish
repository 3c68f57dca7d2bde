# SPDX-License-Identifier: MIT
# fish completion for the spot tools; written by `make completions`.

complete -c spot-migrate -n __fish_use_subcommand -a 'plan assign pack unpack send recv'
complete -c spot-plan -n __fish_use_subcommand -a 'train serve fleet deadline share job'
complete -c spot-replay -n __fish_use_subcommand -a 'generate describe import live train serve deadline share fleet'
complete -c spot-run -n __fish_use_subcommand -a 'train serve generate exec ledger commit profile tokenize worker notice replan roll fleet stop status report eval export import audit'
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l from -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l to -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l cluster -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l deadline -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l memory-cap -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l layer-time -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l explain
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l plot -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l output -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l seed -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l quiet
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l verbose
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l provenance
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l error-format -r
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l help
complete -c spot-migrate -n '__fish_seen_subcommand_from plan' -l version
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l objective -x -a 'sum bottleneck'
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l output -r
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l quiet
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l verbose
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l error-format -r
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l help
complete -c spot-migrate -n '__fish_seen_subcommand_from assign' -l version
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l codec -x -a 'auto planes raw'
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l compat
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l chunk -r
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l threads -r
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l output -r
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l quiet
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l verbose
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l error-format -r
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l help
complete -c spot-migrate -n '__fish_seen_subcommand_from pack' -l version
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l threads -r
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l output -r
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l quiet
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l verbose
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l error-format -r
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l help
complete -c spot-migrate -n '__fish_seen_subcommand_from unpack' -l version
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l connect -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l listen -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l via -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l duplex
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l key-file -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l timeout -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l wait -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l streams -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l codec -x -a 'auto planes raw'
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l chunk -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l deadline -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l threads -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l output -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l quiet
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l verbose
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l error-format -r
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l help
complete -c spot-migrate -n '__fish_seen_subcommand_from send' -l version
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l connect -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l listen -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l via -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l duplex
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l key-file -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l timeout -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l wait -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l streams -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l threads -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l output -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l quiet
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l verbose
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l error-format -r
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l help
complete -c spot-migrate -n '__fish_seen_subcommand_from recv' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l job -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l forecast -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l now -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l spares -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l warm -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l epoch -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l objective -x -a 'samples usd-per-sample mix'
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l usd-per-sample -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l solver -x -a 'dp liveput'
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l current -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l pending -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l state -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l starts -x -a 'now next'
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l told -x -a 'losses gains both none'
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l announced -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l leaving -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l horizon -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l max-loss-prob -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l throughput -x -a 'table law both'
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l explain
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l output -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l format -x -a 'json table'
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l seed -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l quiet
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l verbose
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l provenance
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l error-format -r
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l help
complete -c spot-plan -n '__fish_seen_subcommand_from train' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l job -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l now -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l forecast -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l rate -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l load -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l window -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l backlog -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l policy -x -a 'spot spotserve'
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l cache-tokens -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l slo -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l current -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l state -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l stay -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l loss-per-h -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l switch -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l layout -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l cluster -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l memory-cap -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l boot -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l explain
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l output -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l format -x -a 'json table'
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l seed -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l quiet
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l verbose
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l provenance
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l error-format -r
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l help
complete -c spot-plan -n '__fish_seen_subcommand_from serve' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l kind -x -a 'serve train replicas'
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l catalogue -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l load -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l market -x -a 'on-demand spot both'
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l forecast -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l prices -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l unserved -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l cold-start -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l rho -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l policy -x -a 'spot melange'
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l slices -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l zone-max -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l current -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l requests -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l window -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l time -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l limit -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l job -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l loss -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l loss-now -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l samples -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l deadline -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l restart -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l losses-per-h -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l solver -x -a 'spot spotdnn-code spotdnn-paper'
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l n -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l per-replica -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l availability -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l state -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l explain
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l output -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l format -x -a 'json table'
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l seed -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l quiet
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l verbose
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l provenance
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l error-format -r
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l help
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l help-all
complete -c spot-plan -n '__fish_seen_subcommand_from fleet' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l work -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l deadline -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l restart -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l egress-usd -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l state-gb -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l probe-usd -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l done -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l elapsed -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l now -x -a 'spot on-demand idle'
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l launching -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l at -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l jobs -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l catalogue -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l prices -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l forecast -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l trace -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l learn -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l zone -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l has-spot
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l tick -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l usd-per-h -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l explain
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l output -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l format -x -a 'json table'
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l seed -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l quiet
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l verbose
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l provenance
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l error-format -r
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l help
complete -c spot-plan -n '__fish_seen_subcommand_from deadline' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l jobs -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l throughput -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l cluster -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l time -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l policy -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l round -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l switch -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l checkpoint -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l explain
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l output -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l format -x -a 'json csv table md'
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l seed -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l quiet
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l verbose
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l provenance
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l error-format -r
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l help
complete -c spot-plan -n '__fish_seen_subcommand_from share' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l ddp -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l global-batch -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l worker-batch -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l max-workers -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l params -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l usd-per-h -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l restart -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l roofline -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l catalogue -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l type -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l dtype -x -a 'fp32 bf16 q8'
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l max-batch -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l prompt-tokens -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l output-tokens -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l context -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l name -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l output -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l format -x -a 'json'
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l seed -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l quiet
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l verbose
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l provenance
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l error-format -r
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l help
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l version
complete -c spot-plan -n '__fish_seen_subcommand_from job' -l catalogue
complete -c spot-predict -n 'true' -l kind -x -a 'availability load price'
complete -c spot-predict -n 'true' -l interval -r
complete -c spot-predict -n 'true' -l horizon -r
complete -c spot-predict -n 'true' -l cap -r
complete -c spot-predict -n 'true' -l model -x -a 'pool last ma ses arima empirical markov birthdeath renewal knn context load negbin parcae'
complete -c spot-predict -n 'true' -l state -r
complete -c spot-predict -n 'true' -l plot -r
complete -c spot-predict -n 'true' -l next-probes -r
complete -c spot-predict -n 'true' -l probe-usd -r
complete -c spot-predict -n 'true' -l hour-usd -r
complete -c spot-predict -n 'true' -l backtest
complete -c spot-predict -n 'true' -l models -x -a 'pool last ma ses arima empirical markov birthdeath renewal knn context load negbin parcae'
complete -c spot-predict -n 'true' -l origins -r
complete -c spot-predict -n 'true' -l from -r
complete -c spot-predict -n 'true' -l dump -r
complete -c spot-predict -n 'true' -l output -r
complete -c spot-predict -n 'true' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-predict -n 'true' -l seed -r
complete -c spot-predict -n 'true' -l quiet
complete -c spot-predict -n 'true' -l verbose
complete -c spot-predict -n 'true' -l provenance
complete -c spot-predict -n 'true' -l error-format -r
complete -c spot-predict -n 'true' -l help
complete -c spot-predict -n 'true' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l kind -x -a 'trace load'
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l hours -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l zones -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l regions -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l cap -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l interval -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l events
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l profile -x -a 'calm typical stormy'
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l law -x -a 'help'
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l rate -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l requests -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l arrivals -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l prompt-tokens -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l output-tokens -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l lengths -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l context -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l swing -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l instance-type -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l format -x -a 'csv'
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l help-all
complete -c spot-replay -n '__fish_seen_subcommand_from generate' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l kind -x -a 'trace load'
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l from -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l to -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l scale -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l context -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l plot -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from describe' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l from -x -a 'help events spotserve spot-event count-log csv skypilot aws-price aws-score aws-advisor gcp-price azure-price azure-llm mooncake azure-functions burstgpt spot-serve openai-log gavel philly-csv pollux alibaba-2023 sacct'
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l columns -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l timezone -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l zone -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l instance-type -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l polarity -x -a 'available unavailable'
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l cap -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l time -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l strict
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l prompt-tokens -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l output-tokens -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l lengths -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l origin -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l merge -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l max-age -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l interval -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l events
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l format -x -a 'csv'
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l help-all
complete -c spot-replay -n '__fish_seen_subcommand_from import' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l trace -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l from -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l to -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l scale -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l max -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l speedup -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l grace -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l no-notice -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l events -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from live' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l job -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l trace -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l policy -x -a 'all list ideal on-demand optimal spot parcae-truth nowcast parcae persistence throughput varuna varuna-released bamboo bamboo-released oobleck torchft torchrun'
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l notice -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l cost -x -a 'parcae measured'
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l peer-model -x -a 'published generous as-measured'
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l throughput -x -a 'table law both'
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l events -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l interval -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l horizon -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l from -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l to -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l scale -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l plot -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l picture -x -a 'samples grids cost'
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from train' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l job -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l trace -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l load -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l arrivals-only
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l policy -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l rate -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l switch -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l layout -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l link-rate -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l load-time -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l grace -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l capacity -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l boot -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l batching -x -a 'pools bursts shared passes'
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l pool -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l cache-tokens -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l slo -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l merge -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l until-end
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l interval -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l plot -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l format -x -a 'csv tsv jsonl table md'
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from serve' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l trace -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l zone -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l work -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l deadline -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l restart -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l catalogue -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l egress-usd -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l state-gb -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l from -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l tick -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l usd-per-h -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l policy -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l learn -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l plot -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l format -x -a 'csv tsv jsonl table md'
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from deadline' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l jobs -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l throughput -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l cluster -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l trace -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l policy -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l rounds -x -a 'exact gavel'
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l round -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l switch -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l checkpoint -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l plot -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l format -x -a 'csv tsv jsonl table md'
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from share' -l version
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l trace -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l n -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l cold-start -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l tick -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l usd-per-h -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l load -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l per-replica -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l demand -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l catalogue -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l availability -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l unserved -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l rho -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l window -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l policy -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l steps
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l plot -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l serving -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l output -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l format -x -a 'csv tsv jsonl table md'
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l seed -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l quiet
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l verbose
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l provenance
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l error-format -r
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l help
complete -c spot-replay -n '__fish_seen_subcommand_from fleet' -l version
complete -c spot-run -n '__fish_seen_subcommand_from train' -l data -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l tokenizer -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l arch -x -a 'gpt2 llama'
complete -c spot-run -n '__fish_seen_subcommand_from train' -l layers -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l width -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l heads -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l seq -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l val-data -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l load -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l steps -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l micro-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l global-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l lr -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l lr-schedule -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l seed -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l workers -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l listen -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l grid -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l plan -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l resume
complete -c spot-run -n '__fish_seen_subcommand_from train' -l events -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l metrics -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l save -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from train' -l verbose
complete -c spot-run -n '__fish_seen_subcommand_from train' -l dry-run
complete -c spot-run -n '__fish_seen_subcommand_from train' -l tokens -x -a 'bytes u16 u32'
complete -c spot-run -n '__fish_seen_subcommand_from train' -l vocab -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l shards -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l tied
complete -c spot-run -n '__fish_seen_subcommand_from train' -l kv-heads -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l ffn -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l rope-theta -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l weights-of-samples -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l val-every -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l val-batches -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l clip -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l beta1 -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l beta2 -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l weight-decay -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l device -x -a 'auto cpu cuda fma fma-bf16 portable cuda-bf16 cuda-fp32 cuda-bf16-tp cuda-fp32-tp'
complete -c spot-run -n '__fish_seen_subcommand_from train' -l recompute -x -a 'none mlp layer'
complete -c spot-run -n '__fish_seen_subcommand_from train' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l comm -x -a 'sockets nccl nccl-fast'
complete -c spot-run -n '__fish_seen_subcommand_from train' -l shares -x -a 'even measured'
complete -c spot-run -n '__fish_seen_subcommand_from train' -l grace -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l lease -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l verify -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l store -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l state-command -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l durable-every -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from train' -l help
complete -c spot-run -n '__fish_seen_subcommand_from train' -l help-all
complete -c spot-run -n '__fish_seen_subcommand_from train' -l version
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l model -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l served-model-name -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l chat-template -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l template-time -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l dtype -x -a 'fp32 bf16 q8 engine'
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l device -x -a 'cpu cuda'
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l http -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l api-key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l tls-cert -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l tls-key -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l queue -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l linger -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l batch -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l output -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l workers -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l listen -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l grid -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l comm -x -a 'sockets nccl'
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l plan -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l max-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l kv-byte -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l prefix-cache -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l kv-buddies
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l resume
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l events -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l follow -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l lora -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l cors-origin -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l tool-format -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l verify -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l journal-sync
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l grace -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l lease -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l stall -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l help
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l help-all
complete -c spot-run -n '__fish_seen_subcommand_from serve' -l version
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l model -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l lora -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l chat-template -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l template-time -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l dtype -x -a 'fp32 bf16 q8'
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l device -x -a 'cpu cuda'
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l prompt -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l system -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l plain
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l proof -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l max-tokens -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l temperature -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l top-p -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l top-k -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l seed -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l format -x -a 'text json'
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l help
complete -c spot-run -n '__fish_seen_subcommand_from generate' -l version
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l workers -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l listen -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l store -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l nnodes -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l nodes -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l rdzv-endpoint -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l max-restarts -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l events -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l state-every -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l state-command -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l resume
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l name -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l domain -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l notice -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l nproc-per-node -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l checkpoint -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l module
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l save-time -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l cold
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l log-dir -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l state-dir -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l standalone
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l rdzv-id -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l node-rank -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l master-addr -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l master-port -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l no-python
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l lease -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l stall -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l rank-stall -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l slow-rank -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l grace -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l notice-rebalance
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l help
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l help-all
complete -c spot-run -n '__fish_seen_subcommand_from exec' -l version
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l step -r
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l dataset-size -r
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l global-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l seed -r
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l rest -x -a 'wrap drop short'
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l order -x -a 'shuffled sequential'
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l format -x -a 'json csv'
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l ranges
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l check
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l help
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l version
complete -c spot-run -n '__fish_seen_subcommand_from ledger' -l global-batch
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l step -r
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l durable
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l all-ranks
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l help
complete -c spot-run -n '__fish_seen_subcommand_from commit' -l version
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l grids -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l micro-batches -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l max-workers -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l steps -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l name -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l serve -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l max-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l replicas -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l one-machine
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l data -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l tokenizer -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l arch -x -a 'gpt2 llama'
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l layers -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l width -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l heads -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l seq -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l micro-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l global-batch -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l skip -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l tokens -x -a 'bytes u16 u32'
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l vocab -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l shards -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l tied
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l kv-heads -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l ffn -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l rope-theta -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l device -x -a 'auto cpu cuda fma fma-bf16 portable cuda-bf16 cuda-fp32 cuda-bf16-tp cuda-fp32-tp'
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l recompute -x -a 'none mlp layer'
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l output -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l format -x -a 'json table'
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l seed -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l verbose
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l provenance
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l help
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l help-all
complete -c spot-run -n '__fish_seen_subcommand_from profile' -l version
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l tokenizer -r
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l tokens -x -a 'u16 u32'
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l separator -r
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l decode
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l output -r
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l help
complete -c spot-run -n '__fish_seen_subcommand_from tokenize' -l version
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l name -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l domain -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l machine -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l recompute -x -a 'none mlp layer'
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l device -x -a 'cpu cuda auto'
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l engine -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l engine-url -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l engine-kind -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l state-command -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l notice -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l notice-rebalance
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l help
complete -c spot-run -n '__fish_seen_subcommand_from worker' -l version
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l from -r
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l exec -r
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l once
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l ack
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l interval -r
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l lead -r
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l help
complete -c spot-run -n '__fish_seen_subcommand_from notice' -l version
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l force
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l help
complete -c spot-run -n '__fish_seen_subcommand_from replan' -l version
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l help
complete -c spot-run -n '__fish_seen_subcommand_from roll' -l version
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l plan-command -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l offers -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l probes -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l catalogue -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l load -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l n -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l availability -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l cold-start -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l launch -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l terminate -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l list -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l drain -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l grace -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l metrics -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l name -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l max-usd-per-h -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l every -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l limit -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l once
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l yes
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l verbose
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l help
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l version
complete -c spot-run -n '__fish_seen_subcommand_from fleet' -l launch
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l help
complete -c spot-run -n '__fish_seen_subcommand_from stop' -l version
complete -c spot-run -n '__fish_seen_subcommand_from status' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from status' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from status' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from status' -l format -x -a 'json table'
complete -c spot-run -n '__fish_seen_subcommand_from status' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from status' -l help
complete -c spot-run -n '__fish_seen_subcommand_from status' -l version
complete -c spot-run -n '__fish_seen_subcommand_from report' -l reference -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l plot -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l speedup -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l usd-per-h -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l output -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-run -n '__fish_seen_subcommand_from report' -l seed -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from report' -l verbose
complete -c spot-run -n '__fish_seen_subcommand_from report' -l provenance
complete -c spot-run -n '__fish_seen_subcommand_from report' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from report' -l help
complete -c spot-run -n '__fish_seen_subcommand_from report' -l version
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l data -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l load -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l state-command -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l step -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l tokenizer -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l tokens -x -a 'bytes u16 u32'
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l seq -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l stride -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l across
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l batch -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l device -x -a 'auto cpu cuda fma fma-bf16 portable cuda-bf16 cuda-fp32 cuda-bf16-tp cuda-fp32-tp'
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l output -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l format -x -a 'json jsonl csv tsv table md'
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l provenance
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l help
complete -c spot-run -n '__fish_seen_subcommand_from eval' -l version
complete -c spot-run -n '__fish_seen_subcommand_from export' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l step -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l state-command -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l join -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l key-file -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l join-timeout -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l output -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l dtype -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l tokenizer -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l force
complete -c spot-run -n '__fish_seen_subcommand_from export' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from export' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from export' -l help
complete -c spot-run -n '__fish_seen_subcommand_from export' -l version
complete -c spot-run -n '__fish_seen_subcommand_from import' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from import' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from import' -l help
complete -c spot-run -n '__fish_seen_subcommand_from import' -l version
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l state -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l events -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l steps -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l sample -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l data -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l tokenizer -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l threads -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l seed -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l quiet
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l error-format -r
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l help
complete -c spot-run -n '__fish_seen_subcommand_from audit' -l version
