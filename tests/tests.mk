# SPDX-License-Identifier: MIT
# What is built, run and checked for us, not for users: included by the Makefile.

units   := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
benches := $(patsubst tests/bench/%.c,%,$(sort $(wildcard tests/bench/bench_*.c)))
fuzzers := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
# what tests put between processes, and in front of libc; what docs/schema is made by
aids     := $(patsubst tests/tool/%.c,$(B)/tests/%,$(filter-out %/registry.c,$(wildcard tests/tool/*.c)))
preloads := $(patsubst tests/preload/%.c,$(B)/tests/%.so,$(wildcard tests/preload/*.c))
aids_all := $(aids) $(preloads) $(B)/tests/toy-run

comma := ,
# lines of lib are what is counted: oracles and the twin need not be slow for it
uncounted := $(if $(filter cov,$(VARIANT)),-O2)
# a unit test is compiled for one run: -O3 with all symbols takes twice as long and makes no suite faster
quick := $(if $(filter release,$(VARIANT)),-O1 -g1)

# --- build ---------------------------------------------------------------

# jansson is an oracle of tests
$(B)/tests/%: LDLIBS += $(shell $(PKG_CONFIG) --libs jansson check 2>/dev/null)
$(B)/tests/unit/%.o: CFLAGS += $(shell $(PKG_CONFIG) --cflags check 2>/dev/null) $(if $(filter cov,$(VARIANT)),-DSPOT_COVERAGE) $(uncounted) $(quick)
$(B)/tests/%: $(B)/tests/unit/%.o $(libspot)
	$(call say,LD)
	$(link)

$(B)/tests/schema $(B)/fuzz_document: $(B)/tests/tool/registry.o
$(B)/tests/toy-run: $(patsubst %.c,$(B)/%.o,$(wildcard tests/toy/*.c))
$(aids): $(B)/tests/%: $(B)/tests/tool/%.o
# a worker with faults, which the product does not have
$(B)/tests/faulty: LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=spot_%,stage_begin stage_update stage_forward stage_backward gemm_part pipeline_step)
$(B)/tests/test_server_verify: LDFLAGS += -Wl,--wrap=spot_relay_finish
$(aids) $(B)/tests/toy-run: $(libspot)
	$(call say,LD)
	$(link)

$(preloads): $(B)/tests/%.so: tests/preload/%.c
	$(call say,LD)
	$(Q)$(CC) -std=c11 -O1 -fPIC -shared $(warn) -Wno-nonnull-compare $< -ldl -o $@

$(B)/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(libspot)
	$(call say,LD)
	$(Q)$(CC) -fsanitize=fuzzer,address,undefined $(filter %.o,$^) $(libspot) $(LDLIBS) -o $@

$(B)/bench/bench_engine: LDLIBS += -lopenblas
# spot-replay whose policies hear less of a forecast
$(B)/bench/spot-replay-ablated: LDFLAGS += -Wl,--wrap=spot_seen_at
$(B)/bench/spot-replay-ablated: $(call tool_obj,spot-replay) $(B)/tests/bench/ablate.o $(libspot)
	$(call say,LD)
	$(link)
$(B)/bench/%: $(B)/tests/bench/%.o $(libspot)
	$(call say,LD)
	$(link)

# --- tests: what runs, and when, is said in each suite (tests/tally) -------

path     = PATH="$(CURDIR)/$(B)/bin:$(CURDIR)/$(B)/tests:$$PATH"
sanitized := $(filter asan tsan,$(VARIANT))
suites   = $(units:%=$(B)/tests/%) $(sort $(wildcard tests/cli/*.bats tests/pipe/*.bats tests/gpu/*.sh)) \
           tests/golden/run $(wildcard tests/lint/*-examples)
TIER    ?= units check$(if $(TESTS), jobs)
running := $(if $(filter run-check,$(MAKECMDGOALS)),$(shell SPOT_TIER='$(TIER)' SANITIZED=$(sanitized) tests/tally --list $(or $(TESTS),$(suites))))

run-check: all $(aids_all) $(filter $(B)/%,$(running)) $(if $(shell grep -ls SPOT_TWIN $(filter %.bats,$(running))),$(twins))
	$(Q)$(path) LC_ALL=C SPOT_TIER='$(TIER)' SANITIZED=$(sanitized) CK_DEFAULT_TIMEOUT=300 CK_FORK=$(if $(sanitized),no,yes) \
	  SPOT_TWIN="$(CURDIR)/$(twin)" SPOT_TWIN_NCCL="$(CURDIR)/$(twin_nccl)" SPOT_CUBLASLT_LIBRARY="$(CURDIR)/$(twin_blas)" \
	  SPOT_PACE="$(if $(sanitized),,$(CURDIR)/$(B)/tests/pace.so)" tests/tally $(running)

check: deps
	$(again) run-check
check-%: deps # a tier: jobs, twin, world
	$(again) TIER=$* run-check
check-long: deps
	$(again) TIER='units check jobs long' run-check
check-asan: deps
	$(again) VARIANT=asan CUDA=no TIER='units asan' run-check
check-tsan: deps
	$(again) VARIANT=tsan CUDA=no TIER='units check jobs' run-check

coverage coverage-units: deps # coverage-units fails below 90 %
	$(Q)find build/cov -name '*.gcda' -delete 2>/dev/null || true
	$(again) VARIANT=cov CUDA=no TIER='units$(if $(filter coverage,$@), check jobs)' run-check
	$(Q)tests/lint/coverage $(if $(filter coverage,$@),,--least 90) build/cov

demo demo-serve demo-fleet bench fuzz lint tidy-all: deps
	$(again) $(if $(filter fuzz,$@),VARIANT=fuzz CUDA=no )run-$@
run-demo run-demo-serve run-demo-fleet: run-%: $(tools:%=$(B)/bin/%) $(B)/tests/load
	$(Q)$(path) examples/$*.sh

bench: deps-bench
# what says that it is run on data, NAME DATA, which are not here, is left out
run-bench: all $(B)/tests/gaps $(benches:%=$(B)/bench/%)
	$(Q)for b in $(benches:%=$(B)/bench/%) $(sort $(wildcard tests/bench/*.sh)); do \
	  n=$${b##*/} f=tests/bench/$$n; [ -e $$f ] || f=$$f.c; echo "== $$n"; \
	  if need=$$(grep -m1 -E "(usage: |^# |/|^ \* {1,3})$$n [A-Z_]+\b" $$f); then echo "left out, it needs data:$${need#*$$n}"; \
	  else $(path) $$b || [ $$? = 77 ] || bad="$$bad $$n"; fi; done; [ -z "$$bad" ] || { echo "failed:$$bad" >&2; exit 1; }

plays = $(patsubst tests/%.sh,%,$(wildcard tests/*.sh))
$(plays): all $(aids_all)
	$(Q)$(path) tests/$@.sh $(ARGS)

fuzz lint: deps-dev
run-fuzz: $(fuzzers:%=$(B)/%)
	$(Q)tests/fuzz/seeds build/corpus
	$(Q)for f in $^; do mkdir -p build/corpus/$${f##*/}; \
	  $$f -max_total_time=$(or $(FUZZ_SECONDS),15) -rss_limit_mb=1024 -artifact_prefix=build/ \
	    $$(ls tests/fuzz/$${f##*/}.dict 2>/dev/null | sed 's/^/-dict=/') \
	    -verbosity=0 -print_final_stats=1 build/corpus/$${f##*/} || exit 1; done

# --- lint ----------------------------------------------------------------

headers: # every header alone, as C and as C++: finds a missing include or extern "C"
	$(Q)for h in $$(find lib -name '*.h'); do for l in c c++; do \
	  echo "#include \"$${h#lib/}\"" | $(CC) $(CPPFLAGS) -Wall -Wextra -fsyntax-only -x $$l - \
	    || exit 1; done; \
	  case $$(grep -c '^extern "C" {' $$h) in 1) ;; *) echo "$$h: no extern \"C\" guard" >&2; exit 1 ;; esac; done
	$(Q)find lib -name '*.h' ! -path '*cuda*' ! -name '*nccl*' -printf '#include "%P"\n' | sort | \
	  $(CC) $(CPPFLAGS) -Wall -Wextra -fsyntax-only -x c - # and all together: one name, one meaning

# One file per process: clang-tidy 14 reports false va_list errors otherwise. To follow the paths of a function as
# far as they go takes nine tenths of its time: lint follows them a little, tidy-all to the end.
tidy: paths = $(foreach word,-Xclang -analyzer-config -Xclang mode=shallow,--extra-arg=$(word))
tidy run-tidy-all:
	$(Q)printf '%s\n' $(filter-out $(cuda_src),$(shell find lib tools -name '*.c')) | xargs -n 1 -P $(or $(JOBS),2) sh -c \
	  'clang-tidy --quiet $(paths) "$$0" -- $(CPPFLAGS) -std=c11 2>/dev/null'

# cppcheck 2.10 takes "if (*at) return *at;" for a mistake (identicalInnerCondition).
run-lint: headers tidy all $(B)/tests/schema
	$(Q)tests/lint/layers
	$(Q)tests/lint/lengths
	$(Q)tests/lint/mangled
	$(Q)tests/lint/scenarios
	$(Q)tests/lint/flows
	$(Q)tests/lint/glossary
	$(Q)tests/lint/messages --check tests/golden/messages
	$(Q)clang-format --dry-run --Werror $$(find lib tools tests -name '*.[ch]' -o -name '*.cu')
	$(Q)cppcheck --quiet --enable=warning,performance,portability --std=c11 --error-exitcode=1 \
	  --inline-suppr --suppress=identicalInnerCondition -Ilib -D_POSIX_C_SOURCE=200809L lib tools
	$(Q)shellcheck -x $$(grep -lrE '^\#!.*[/ ](ba)?sh$$' tests examples packaging .ci) completions/spot.bash
	$(Q)mandoc -T lint -W warning docs/man/*
	$(Q)codespell -L nd,dout,upto,trian,generat,recal,fro,aks $$(git ls-files '*.[ch]' '*.md' '*.sh' '*.bats' docs Makefile)
	$(Q)$(path); for l in lint/man-options lint/option-count lint/schema lint/schema-tables \
	  'lint/completions --check completions' 'tool/make-man --check'; do tests/$$l || exit 1; done
	$(Q)echo 'lint: clean'

completions: all
	$(Q)$(path); for f in bash:spot.bash zsh:_spot fish:spot.fish; do \
	  tests/lint/completions $${f%%:*} >completions/new.tmp && mv completions/new.tmp completions/$${f#*:} || exit 1; done; tests/tool/make-man

messages: # as a file, which is reviewed
	$(Q)tests/lint/messages >tests/golden/messages

schemas: $(B)/tests/schema # docs/schema and the lists of documents, from tests/tool/registry.c
	$(Q)$(path) tests/tool/make-schemas "$(CURDIR)/docs"

.PHONY: $(plays) bench check check-asan check-long check-tsan completions coverage coverage-units demo demo-fleet demo-serve fuzz headers \
        lint messages run-bench run-check run-demo run-demo-fleet run-demo-serve run-fuzz run-lint run-tidy-all schemas tidy tidy-all
