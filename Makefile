# SPDX-License-Identifier: MIT
# spot - one non-recursive makefile. Everything built lands in build/VARIANT.
#
#   make [all]        tools, and spot_cuda.so where nvcc is found (CUDA=no skips it)
#   make demo-serve   a model served through preemptions to many clients, against the undisturbed
#   make demo         from a trace to a training job that survives it, two minutes
#   make check        every test; its last line is "N passed, M failed[, K skipped]"
#   make check-long   the same with whole products of cases and many seeds, of which check draws a part
#   make check-world  what transformers, safetensors and tokenizers make of our files, and we of theirs;
#                     all that asks PyTorch, etcd, clients and stores of others, of which check has one test each
#   make check-twin   all of the CUDA and NCCL backends on twins of their libraries, of which check has a part
#   make check-asan   the units and chosen jobs under ASan and UBSan; check-asan-all: all that keeps no time
#   make check-tsan   the same as check-asan-all, under TSan
#   make check-aarch64  the portable kernel on another processor, under qemu-user: the same bits
#   make coverage     the same once more, then the share of lib's lines that ran
#   make coverage-units  the same of unit tests alone; fails below 90 %
#   make check-gpu    what needs a GPU, and the contract of stages on it; a line and a skip without one
#   make check-ptx    the kernels that nvcc compiled, run by an interpreter of PTX; a line where there is no nvcc
#   make check-mutations   each mend of the CUDA backend undone in a copy of the tree: its test must fail
#   make bench-gpu    step, MFU, products, attention, tokens, AdamW against copy, on a GPU
#   make gpu-bundle   .gpu/: all of that for a machine with nothing but a GPU, as one script
#   make bench        what tests/bench measures: ours beside its yardsticks, in one run
#   make faults       each fault in each phase of a job, as a table; make soak: thousands of them;
#                     make soak-serve: of a server
#   make storms       random misfortune over 200 small jobs, whose bits stay: JOBS=2 at once
#   make fuzz         a short fuzz run, FUZZ_SECONDS=15 per target
#   make lint         headers, layers, lengths, format, tidy, cppcheck, shell, words, man pages
#   make lint-all     the same, and clang's path analysis to the end of each path, in ten minutes more
#   make deps         what building and testing need and this machine lacks: installed as root or
#                     with passwordless sudo, else named; deps-dev: what lint and fuzz need;
#                     deps-bench: the yardsticks of bench
#   make install      DESTDIR=stage PREFIX=/usr (~/.local)   make uninstall   the same, gone
#   make deb tarball  a Debian package, a tarball that runs where it is unpacked, both in build/
#   make completions  completions/ anew from --help     make clean        away with build/
#   make schemas      docs/schema/ and lists of documents anew, from tests/tool/registry.c and
#                     docs/schema/by-hand
#
# demo, check, bench, fuzz, lint and coverage run deps first.
# Knobs: VARIANT=release|debug|asan|tsan|cov|fuzz  CUDA=auto|yes|no  CUDA_ARCH='80 90'
#        WERROR=1  V=1  JOBS=n (tests or storms at once)  TESTS='FILE...'  CC CFLAGS LDFLAGS
SILENT := $(findstring s,$(firstword -$(MAKEFLAGS)))
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:

VARIANT ?= release

PREFIX      ?= $(HOME)/.local
prefix      ?= $(PREFIX)
bindir      ?= $(prefix)/bin
libdir      ?= $(prefix)/lib
datadir     ?= $(prefix)/share
mandir      ?= $(datadir)/man
docdir      ?= $(datadir)/doc/spot
compdir     ?= $(datadir)/bash-completion/completions
zshdir      ?= $(datadir)/zsh/site-functions
fishdir     ?= $(datadir)/fish/vendor_completions.d
PKG_CONFIG  ?= pkg-config
CUDA_HOME   ?= $(patsubst %/bin/nvcc,%,$(shell command -v nvcc))
NVCC        ?= $(CUDA_HOME)/bin/nvcc
NCCL_HOME   ?= $(CUDA_HOME)
CUDA_ARCH   ?= 80 90

cuda_src  := $(sort $(wildcard lib/engine/cuda/*.cu lib/engine/cuda/*.c)) $(wildcard lib/comm/comm_nccl.c)
CUDA ?= auto
ifeq ($(CUDA),auto)
CUDA := $(if $(and $(wildcard $(NVCC)),$(cuda_src)),yes,no)
endif

B := build/$(VARIANT)

# --- flags ---------------------------------------------------------------

warn := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2 -Wundef \
        -Wcast-qual -fno-common
flags.release := -O3 -g
flags.debug   := -O0 -g3
flags.asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
flags.tsan    := -O1 -g -fsanitize=thread
flags.cov     := -O1 -g --coverage
flags.fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined
ifeq ($(VARIANT),fuzz)
CC := clang
endif
# lines of lib are what is counted: oracles and the twin need not be slow for it
uncounted := $(if $(filter cov,$(VARIANT)),-O2)
# a unit test is compiled for one run: -O3 with all symbols takes twice as long and makes no suite faster
quick := $(if $(filter release,$(VARIANT)),-O1 -g1)

CPPFLAGS += -Ilib -D_POSIX_C_SOURCE=200809L
CFLAGS   ?=
override CFLAGS := -std=c11 -fPIC -fvisibility=hidden -pthread -ffile-prefix-map=$(CURDIR)=. \
                   $(warn) $(flags.$(VARIANT)) \
                   $(if $(WERROR),-Werror) $(CFLAGS)
NVFLAGS  := -std=c++17 -O2 -lineinfo $(if $(WERROR),-Werror all-warnings) -Ilib -Xcompiler -Wall,-Wextra,-fPIC,-fvisibility=hidden,-ffile-prefix-map=$(CURDIR)=. \
            $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$a,code=sm_$a) \
            -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))

# libcsv and lp_solve have no .pc file; the latter's archive is complete but for its column ordering.
# libcurl is opened when it is needed: lib/common/late_library.h
pkgs   := libzstd zlib openssl libxxhash
LDLIBS := -Wl,--as-needed $(shell $(PKG_CONFIG) --libs $(pkgs) 2>/dev/null) -lcsv -llpsolve55 -lcolamd -ldl -lm
CHECK_CFLAGS = $(shell $(PKG_CONFIG) --cflags check 2>/dev/null)
CHECK_LIBS   = $(shell $(PKG_CONFIG) --libs check 2>/dev/null)

# --- sources: a file is found by being there -----------------------------

lib_src   := $(filter-out $(cuda_src),$(sort $(wildcard lib/*/*.c lib/*/*/*.c)))
tools     := $(notdir $(patsubst %/,%,$(sort $(wildcard tools/spot-*/))))
units     := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
benches   := $(patsubst tests/bench/%.c,%,$(sort $(wildcard tests/bench/bench_*.c)))
fuzzers   := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
pages     := page job_page
lib_obj   := $(lib_src:%.c=$(B)/%.o) $(pages:%=$(B)/%_html.o)
cuda_obj  := $(patsubst %,$(B)/%.o,$(basename $(cuda_src)))
libspot   := $(B)/libspot.a
module    := $(B)/lib/spot_cuda.so
# the module's sources once more, for the CPU: see tests/twin/cuda_runtime.h
twin      := $(B)/tests/spot_cuda_twin.so
twin_src  := $(cuda_src) $(sort $(wildcard tests/twin/*.cpp tests/twin/*.c))
twin_obj  := $(patsubst %,$(B)/twin/%.o,$(basename $(twin_src)))
# and the libraries that the module opens: see tests/twin/nccl.h and cublasLt.h
twin_blas := $(B)/tests/libcublasLt.so.13
twin_nccl := $(B)/tests/nccl_twin.so
twin_nccl_obj := $(patsubst %.c,$(B)/twin/%.o,$(sort $(wildcard tests/twin/nccl/*.c)))

# --- stamps: rebuild when the flags change, not only when sources do ------

# $(call stamp,FILE,TEXT): rewrite FILE only if TEXT differs from what it holds
stamp = $(if $(filter-out x$(subst $() ,_,$(strip $(file <$(B)/$1))),x$(subst $() ,_,$(strip $2))),\
          $(shell mkdir -p $(B))$(file >$(B)/$1,$2))
commit  := $(shell git describe --always --dirty 2>/dev/null)
# without .git, as in a copy on another machine, what was built keeps its version
VERSION := $(if $(commit),0.1.0+$(commit),$(or $(firstword $(file <$(B)/version)),0.1.0))
$(call stamp,flags,$(CC) $(CPPFLAGS) $(CFLAGS))
$(call stamp,nvflags,$(NVCC) $(NVFLAGS))
$(call stamp,version,$(VERSION) $(libdir))

Q := $(if $(V),,@)
say = $(if $(V)$(SILENT),,@printf '  %-5s %s\n' '$(1)' '$@')

# --- build ---------------------------------------------------------------

all: $(tools:%=$(B)/bin/%) $(if $(filter yes,$(CUDA)),$(module))
	$(if $(SILENT)$(filter yes,$(CUDA)),,@echo '  spot_cuda.so is left out: CUDA=no, no nvcc, or no kernels to build')

$(B)/%.o: %.c $(B)/flags
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/%.o: %.cu $(B)/nvflags
	$(call say,NVCC)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

# the page of a server, and of a job, is an array of bytes
$(B)/page_html.c: lib/serve/page.html
$(B)/job_page_html.c: lib/train/job_page.html
$(pages:%=$(B)/%_html.c):
	$(Q)mkdir -p $(@D)
	$(Q)n=spot_$(basename $(@F)); { echo '#include "$(patsubst lib/%.html,%.h,$<)"'; \
	  echo "const unsigned char $$n[] = {"; od -An -v -tu1 $< | sed 's/ *\([0-9][0-9]*\)/\1,/g'; echo '};'; \
	  echo "const size_t $${n}_byte = sizeof($$n);"; } >$@
$(pages:%=$(B)/%_html.o): $(B)/%.o: $(B)/%.c
	$(call say,CC)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# Only these two know the version and the install path, so that a commit does
# not rebuild the world.
$(B)/lib/common/version.o $(B)/lib/engine/cuda_load.o: $(B)/version
$(B)/lib/common/version.o: CPPFLAGS += -DSPOT_VERSION='"$(VERSION)"'
$(B)/lib/engine/cuda_load.o: CPPFLAGS += -DSPOT_MODULE_PATH='"$(libdir)/spot/spot_cuda.so"'
# vectors wider than the machine's stay inside this one file: no ABI to warn of
$(B)/lib/engine/cpu/vec_sse2.o: CPPFLAGS += -Wno-psabi
$(cuda_obj): CPPFLAGS += -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include

$(libspot): $(lib_obj)
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

# Its own copy of the library code it needs, nothing left open, one symbol out.
$(module): $(cuda_obj) $(libspot)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -shared $(if $(filter asan tsan,$(VARIANT)),-Xcompiler \"$(filter -fsanitize=%,$(flags.$(VARIANT)))\") $^ -ldl -Xlinker -z,defs,--exclude-libs=ALL,--as-needed -o $@

$(B)/twin/%.o: %.c $(B)/flags
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -Itests/twin $(CPPFLAGS) $(CFLAGS) $(uncounted) -MMD -MP -c $< -o $@

# fmaf() of a kernel is an instruction where this machine has it, not a call; nothing else becomes one
twin_fma := $(if $(and $(findstring x86_64,$(shell $(CXX) -dumpmachine)),$(shell grep -m 1 -w -o fma /proc/cpuinfo)),-mfma -ffp-contract=off)
TWIN_CXX = $(CXX) -std=c++17 -Itests/twin $(CPPFLAGS) -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unknown-pragmas \
           $(flags.$(VARIANT)) $(uncounted) $(twin_fma) -ffile-prefix-map=$(CURDIR)=. $(if $(WERROR),-Werror) -MMD -MP -c $< -o $@
$(B)/twin/%.o: %.cu $(B)/flags
	$(call say,CXX)
	$(Q)mkdir -p $(@D)
	$(Q)$(subst -c $<,-x c++ -c $<,$(TWIN_CXX))
$(B)/twin/%.o: %.cpp $(B)/flags
	$(call say,CXX)
	$(Q)mkdir -p $(@D)
	$(Q)$(TWIN_CXX)

$(twin): $(twin_obj) $(libspot) | $(twin_blas)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -shared $(flags.$(VARIANT)) $^ -Wl,-z,defs,--exclude-libs=ALL,--as-needed,-rpath,'$$ORIGIN' $(LDLIBS) -o $@

$(twin_blas): $(patsubst %.c,$(B)/twin/%.o,$(sort $(wildcard tests/twin/blas/*.c)))
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared $(CFLAGS) $^ -Wl,-z,defs -lm -o $@

$(twin_nccl): $(twin_nccl_obj)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared $(CFLAGS) $^ -Wl,-z,defs -o $@

stage_tests := $(patsubst %,$(B)/tests/test_%,stage stage_group stage_update)
$(B)/tests/test_twin $(B)/tests/test_infer_cuda: $(twin)
$(stage_tests) $(B)/tests/test_comm_nccl: $(twin) $(twin_nccl)

# The PTX of the kernels on the CPU, launched by the same sources: see tests/ptx/ptx.h
ptx       := $(patsubst lib/engine/cuda/%.cu,$(B)/ptx/%.ptx,$(sort $(wildcard lib/engine/cuda/*.cu)))
ptx_obj   := $(ptx:.ptx=.o) $(patsubst %,$(B)/twin/tests/twin/%.o,twin runtime) $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/ptx/*.c)))
$(B)/tests/ptx/%.o: CPPFLAGS += -Itests
$(B)/ptx/%.o: lib/engine/cuda/%.cu $(B)/flags
	$(call say,CXX)
	$(Q)mkdir -p $(@D)
	$(Q)$(subst -c $<,-DSPOT_PTX -Itests -fvisibility=default -x c++ -c $<,$(TWIN_CXX))
$(B)/ptx/%.ptx: lib/engine/cuda/%.cu $(wildcard lib/engine/cuda/*.cuh lib/engine/cuda/*.h) $(B)/nvflags
	$(call say,PTX)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) -std=c++17 -O2 -Ilib -ptx -arch=compute_$(lastword $(CUDA_ARCH)) $< -o $@
$(B)/check_ptx: $(ptx_obj)
	$(call say,LINK)
	$(Q)$(CXX) -rdynamic $(flags.$(VARIANT)) $^ -ldl -lm -o $@

define tool_rule
$(B)/bin/$(1): $$(patsubst %.c,$$(B)/%.o,$$(wildcard tools/$(1)/*.c)) $$(libspot)
	$$(call say,LD)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) $$^ $$(LDLIBS) -o $$@
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$(t))))

# jansson is an oracle of tests
$(B)/tests/%: LDLIBS += $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null)
$(B)/tests/unit/%.o: CFLAGS += $(CHECK_CFLAGS) $(if $(filter cov,$(VARIANT)),-DSPOT_COVERAGE) $(uncounted) $(quick)
$(B)/tests/%: $(B)/tests/unit/%.o $(libspot)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter-out %.so,$^) $(CHECK_LIBS) $(LDLIBS) -o $@

# what tests put between processes; what docs/schema is made by
$(B)/tests/schema $(B)/fuzz_document: $(B)/tests/tool/registry.o
$(B)/tests/gaps $(B)/tests/load $(B)/tests/logits $(B)/tests/metadata $(B)/tests/proxy $(B)/tests/rude $(B)/tests/peak $(B)/tests/tiny $(B)/tests/tokens $(B)/tests/schema: $(B)/tests/%: $(B)/tests/tool/%.o $(libspot)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(filter-out %.o,$^) $(LDLIBS) -o $@

$(B)/tests/toy-run: $(patsubst %.c,$(B)/%.o,$(wildcard tests/toy/*.c)) $(libspot)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(B)/tests/skew.so $(B)/tests/disk.so $(B)/tests/pace.so $(B)/tests/reset.so: $(B)/tests/%.so: tests/tool/%.c
	$(call say,LD)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O1 -fPIC -shared $(warn) -Wno-nonnull-compare $< -ldl -o $@

$(B)/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(libspot)
	$(call say,LD)
	$(Q)$(CC) -fsanitize=fuzzer,address,undefined $(filter %.o,$^) $(filter-out %.o,$^) $(LDLIBS) -o $@

$(B)/bench/%: $(B)/tests/bench/%.o $(libspot)
	$(call say,LD)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@
$(B)/bench/bench_engine: LDLIBS += -lopenblas

# --- test ----------------------------------------------------------------

# deps may bring what pkg-config told when this file was read: hence make anew after it.
again = $(Q)+$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

tests = $(units:%=$(B)/tests/%) $(sort $(wildcard tests/cli/*.bats tests/pipe/*.bats \
          tests/gpu/*.sh)) $(wildcard tests/golden/run tests/lint/man-examples tests/lint/readme-examples)
twin_tests = $(patsubst %,tests/cli/spot-run-%.bats,cuda nccl serve-cuda)
# What lives by leases of half a second, or by thousands of steps, and the manuals' examples run
# without a sanitizer.
timed_tests = $(wildcard $(patsubst %,tests/cli/spot-run-%.bats,faults matrix netns network resume serve-faults)) \
              tests/cli/storms.bats tests/cli/toy.bats $(wildcard tests/lint/*-examples)
# What of the tools every change runs under a sanitizer: input of strangers, and a job of each kind.
asan_jobs = $(patsubst %,tests/cli/spot-%.bats,migrate-assign migrate-stream replay-import run-exact \
            run-refuses run-status)
ifneq ($(filter asan tsan,$(VARIANT)),)
tests := $(filter-out $(timed_tests),$(tests))
endif
TESTS ?= $(tests)

check: deps
	$(again) run-check

run-check: all $(B)/tests/gaps $(B)/tests/load $(B)/tests/metadata $(B)/tests/peak $(B)/tests/tiny $(B)/tests/tokens $(B)/tests/logits $(B)/tests/proxy $(B)/tests/toy-run $(B)/tests/rude $(B)/tests/skew.so $(B)/tests/disk.so $(B)/tests/pace.so $(B)/tests/reset.so $(filter $(B)/%,$(TESTS)) $(if $(filter $(twin_tests),$(TESTS)),$(twin) $(twin_nccl))
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" LC_ALL=C $(if $(LONG),SPOT_LONG=1) $(if $(SPOT_WORLD),SPOT_WORLD=1) CK_DEFAULT_TIMEOUT=300 CK_FORK=$(if $(filter asan tsan,$(VARIANT)),no,yes) \
	  SPOT_TWIN="$(CURDIR)/$(twin)" SPOT_TWIN_NCCL="$(CURDIR)/$(twin_nccl)" SPOT_CUBLASLT_LIBRARY="$(CURDIR)/$(twin_blas)" \
	  SPOT_PACE="$(if $(filter asan tsan,$(VARIANT)),,$(CURDIR)/$(B)/tests/pace.so)" tests/tally $(TESTS)

check-long: deps ## whole products, many seeds
	$(again) LONG=1 run-check

# what others make of our files: a name of a test says which of them it asks
world = safetensors transformers tokenizers
clients = openai curl llmeter chromium torch moto rclone etcd# of a server, of a store, or one itself; each is skipped where it is not
check-world: deps ## comparisons with the Python packages of that name, jobs with programs of others; most are not in check (SPOT_WORLD)
	$(Q)for m in torch $(world); do python3 -c "import $$m" || { \
	  echo "check-world needs: pip install torch $(world)" >&2; exit 1; }; done
	$(Q)+export FILTER='$(subst $() ,|,$(world) $(clients))'; $(MAKE) --no-print-directory TESTS="$$(grep -lE '^@test.*($(subst $() ,|,$(world) $(clients)))' tests/cli/*.bats | xargs)" SPOT_WORLD=1 run-check

check-twin: deps ## all that the CUDA and NCCL backends do on twins of their libraries, of which check has a part
	$(again) SPOT_TWIN_WHOLE=1 TESTS='$(B)/tests/test_infer_cuda $(twin_tests)' run-check

check-asan: deps
	$(again) VARIANT=asan CUDA=no run-check TESTS="$(units:%=build/asan/tests/%) $(asan_jobs)"

check-asan-all check-tsan: check-%: deps
	$(again) VARIANT=$(firstword $(subst -, ,$*)) CUDA=no run-check

check-aarch64: # the portable kernel under qemu-user
	$(Q)+tests/aarch64.sh

check-all: check check-twin check-asan-all fuzz lint-all

coverage: deps
	$(Q)find build/cov -name '*.gcda' -delete 2>/dev/null || true
	$(again) VARIANT=cov CUDA=no run-check
	$(Q)tests/lint/coverage build/cov

coverage-units: deps
	$(Q)find build/cov -name '*.gcda' -delete 2>/dev/null || true
	$(again) VARIANT=cov CUDA=no TESTS='$(units:%=build/cov/tests/%)' run-check
	$(Q)tests/lint/coverage --least 90 build/cov

fuzz: deps deps-dev
	$(again) VARIANT=fuzz CUDA=no run-fuzz
run-fuzz: $(fuzzers:%=$(B)/%)
	$(Q)tests/fuzz/seeds build/corpus
	$(Q)for f in $^; do mkdir -p build/corpus/$${f##*/}; \
	  $$f -max_total_time=$(or $(FUZZ_SECONDS),15) -rss_limit_mb=1024 -artifact_prefix=build/ \
	    $$(ls tests/fuzz/$${f##*/}.dict 2>/dev/null | sed 's/^/-dict=/') \
	    -verbosity=0 -print_final_stats=1 build/corpus/$${f##*/} || exit 1; done

bench: deps deps-bench
	$(again) run-bench
run-bench: all $(B)/tests/gaps $(benches:%=$(B)/bench/%)
	$(Q)for b in $(benches:%=$(B)/bench/%) $(sort $(wildcard tests/bench/*.sh)); do \
	  echo "== $$(basename $$b)"; PATH="$(CURDIR)/$(B)/bin:$(CURDIR)/$(B)/tests:$$PATH" $$b || exit 1; done

soak: all ## thousands of preemptions against one job: SOAK=2000
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/soak.sh $(or $(SOAK),2000)

soak-serve: all $(B)/tests/load ## the same of a server whose every token is compared: SOAK=2000
	$(Q)PATH="$(CURDIR)/$(B)/bin:$(CURDIR)/$(B)/tests:$$PATH" tests/soak-serve.sh $(or $(SOAK),2000)

storms: all ## each seed of tests/storms/seeds, which are kept
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/storms/storm.py --seeds tests/storms/seeds --jobs $(or $(JOBS),2)

faults: all $(B)/tests/proxy $(B)/tests/toy-run ## phase x fault -> outcome, time
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/faults.sh
	$(Q)for way in lockstep replicas announced; do \
	  PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/toy-faults.sh $$way || exit 1; done

faults-serve: all $(B)/tests/proxy $(B)/tests/load $(B)/tests/disk.so $(B)/tests/pace.so ## the same of requests to a server
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/faults-serve.sh

demo: deps
	$(again) run-demo
run-demo: all
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" examples/demo.sh
demo-serve: deps
	$(again) run-demo-serve
run-demo-serve: all $(B)/tests/load
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" examples/demo-serve.sh

# --- with a GPU ----------------------------------------------------------

include tests/gpu/gpu.mk

gpu_env = PATH="$(CURDIR)/$(B)/bin:$$PATH" LC_ALL=C SPOT_CUDA_MODULE="$(CURDIR)/$(module)"

check-gpu: # on a machine without a network: deps are not asked for
	$(again) run-check-gpu
run-check-gpu: all $(gpu_tests)
	$(Q)$(gpu_env) tests/gpu/probe || exit 0; \
	  $(gpu_env) CK_FORK=no CK_DEFAULT_TIMEOUT=300 tests/tally $(gpu_tests) $(sort $(wildcard tests/gpu/*.sh))

check-ptx:
	$(if $(wildcard $(NVCC)),$(again) run-check-ptx,@echo 'check-ptx: skipped, no nvcc')
run-check-ptx: $(B)/check_ptx $(ptx)
	$(Q)$(B)/check_ptx $(ptx)
	$(Q)CUDA_HOME=$(CUDA_HOME) tests/gpu/occupancy --check tests/ptx/occupancy.md $(ptx)

check-mutations: deps
	$(Q)+tests/gpu/mutations

bench-gpu:
	$(again) run-bench-gpu
run-bench-gpu: all $(gpu_bench)
	$(Q)$(gpu_env) PATH="$(CURDIR)/$(B):$$PATH" tests/gpu/bench

# --- lint ----------------------------------------------------------------

c_files = $(shell find lib tools -name '*.c')
sh_files = $(shell grep -lrE '^\#!.*[/ ](ba)?sh$$' tests examples packaging .ci --include='*' 2>/dev/null) completions/spot.bash

headers: # every header alone, as C and as C++: finds a missing include or extern "C"
	$(Q)for h in $$(find lib -name '*.h'); do for l in c c++; do \
	  echo "#include \"$${h#lib/}\"" | $(CC) $(CPPFLAGS) -Wall -Wextra -fsyntax-only -x $$l - \
	    || exit 1; done; \
	  case $$(grep -c '^extern "C" {' $$h) in 1) ;; *) echo "$$h: no extern \"C\" guard" >&2; exit 1 ;; esac; done
	$(Q)find lib -name '*.h' ! -path '*cuda*' ! -name '*nccl*' -printf '#include "%P"\n' | sort | \
	  $(CC) $(CPPFLAGS) -Wall -Wextra -fsyntax-only -x c - # and all together: one name, one meaning

layers:
	$(Q)tests/lint/layers

# One file per process: clang-tidy 14 reports false va_list errors otherwise. To follow the paths of a function as
# far as they go takes nine tenths of its time: lint follows them a little, lint-all to the end.
tidy: paths = $(foreach word,-Xclang -analyzer-config -Xclang mode=shallow,--extra-arg=$(word))
tidy tidy-all:
	$(Q)printf '%s\n' $(filter-out $(cuda_src),$(c_files)) | xargs -n 1 -P $(or $(JOBS),2) sh -c \
	  'clang-tidy --quiet $(paths) "$$0" -- $(CPPFLAGS) -std=c11 2>/dev/null'

lint: deps deps-dev
	$(again) run-lint
lint-all: lint
	$(again) tidy-all
# cppcheck 2.10 takes "if (*at) return *at;" for a mistake (identicalInnerCondition).
run-lint: headers layers tidy all $(B)/tests/schema
	$(Q)tests/lint/lengths
	$(Q)tests/lint/mangled
	$(Q)clang-format --dry-run --Werror $$(find lib tools tests -name '*.[ch]' -o -name '*.cu')
	$(Q)cppcheck --quiet --enable=warning,performance,portability --std=c11 --error-exitcode=1 \
	  --inline-suppr --suppress=identicalInnerCondition -Ilib -D_POSIX_C_SOURCE=200809L lib tools
	$(Q)shellcheck $(sh_files)
	$(Q)mandoc -T lint -W warning docs/man/*
	$(Q)codespell -L nd,dout,upto,trian,generat,recal,fro $$(git ls-files '*.[ch]' '*.md' '*.sh' '*.bats' docs Makefile)
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/lint/man-options
	$(Q)PATH="$(CURDIR)/$(B)/bin:$(CURDIR)/$(B)/tests:$$PATH" tests/lint/schema
	$(Q)PATH="$(CURDIR)/$(B)/bin:$(CURDIR)/$(B)/tests:$$PATH" tests/lint/schema-tables
	$(Q)PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/lint/completions --check completions
	$(Q)echo 'lint: clean'

completions: all
	$(Q)for f in bash:spot.bash zsh:_spot fish:spot.fish; do \
	  PATH="$(CURDIR)/$(B)/bin:$$PATH" tests/lint/completions $${f%%:*} >completions/new.tmp && \
	  mv completions/new.tmp completions/$${f#*:} || exit 1; done

schemas: $(B)/tests/schema ## docs/schema and the lists of documents, from tests/tool/registry.c
	$(Q)PATH="$(CURDIR)/$(B)/tests:$$PATH" tests/tool/make-schemas "$(CURDIR)/docs"

# --- dependencies --------------------------------------------------------

# package of pkg-config, header or command : Debian package
need_pkg     := jansson:libjansson-dev libzstd:libzstd-dev zlib:zlib1g-dev openssl:libssl-dev libxxhash:libxxhash-dev libcurl:libcurl4-openssl-dev \
                check:check
need_header  := stdio.h:libc6-dev csv.h:libcsv-dev lpsolve/lp_lib.h:liblpsolve55-dev
need_command := $(CC):gcc $(CXX):g++ make:make pkg-config:pkg-config prove:perl bats:bats jq:jq zstd:zstd pgrep:procps \
                gnuplot:gnuplot-nox
dev_command  := git:git clang:clang clang-format:clang-format clang-tidy:clang-tidy \
                cppcheck:cppcheck shellcheck:shellcheck mandoc:mandoc codespell:codespell

# $(call install_missing,COMMANDS,HEADERS,PACKAGES,MORE): install the Debian packages of those that
# are not here, or name them and fail. MORE is shell that adds to $missing.
define install_missing
	$(Q)missing=; \
	for n in $1; do command -v $${n%:*} >/dev/null || missing="$$missing $${n#*:}"; done; \
	for n in $2; do echo "#include <$${n%:*}>" | $(CC) $(CPPFLAGS) -fsyntax-only -x c - 2>/dev/null || \
	  missing="$$missing $${n#*:}"; done; \
	for n in $3; do $(PKG_CONFIG) --exists $${n%:*} 2>/dev/null || missing="$$missing $${n#*:}"; done; \
	$4 \
	[ "$$missing" ] || exit 0; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo='sudo -n'; \
	if [ -z "$$sudo" ] || sudo -n true 2>/dev/null; then \
	  echo "installing$$missing"; export DEBIAN_FRONTEND=noninteractive; \
	  $$sudo apt-get update -q </dev/null && \
	  exec $$sudo apt-get install -q -y --no-install-recommends $$missing </dev/null; fi; \
	echo "missing; run: apt-get install -y --no-install-recommends$$missing" >&2; exit 1
endef
deps:
	$(call install_missing,$(need_command),$(need_header),$(need_pkg))

deps-bench: # a yardstick of bench_engine
	$(call install_missing,,,openblas:libopenblas-dev)

deps-dev:
	$(call install_missing,$(dev_command),,,\
	  echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null || missing="$$missing libclang-rt-dev";)

# --- install -------------------------------------------------------------

# what the manuals point to, at the same place under docdir
doc_files = $(sort $(wildcard docs/*.md docs/formats/*.md docs/design/*.md) $(shell find examples -type f))
man_pages = $(sort $(wildcard docs/man/*.[157]))

install: all
	install -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(libdir)/spot' '$(DESTDIR)$(docdir)' \
	  '$(DESTDIR)$(datadir)/spot/schema' '$(DESTDIR)$(compdir)' '$(DESTDIR)$(zshdir)' '$(DESTDIR)$(fishdir)' \
	  $(foreach n,1 5 7,'$(DESTDIR)$(mandir)/man$n')
	install -m 755 $(tools:%=$(B)/bin/%) '$(DESTDIR)$(bindir)'
	$(if $(filter yes,$(CUDA)),install -m 644 $(module) '$(DESTDIR)$(libdir)/spot')
	for m in $(man_pages); do install -m 644 $$m '$(DESTDIR)$(mandir)'/man$${m##*.}; done
	install -m 644 $(wildcard docs/schema/*.json) '$(DESTDIR)$(datadir)/spot/schema'
	for t in $(tools); do install -m 644 completions/spot.bash '$(DESTDIR)$(compdir)'/$$t; \
	  grep -E "^#|^complete -c $$t " completions/spot.fish >'$(DESTDIR)$(fishdir)'/$$t.fish; done
	install -m 644 completions/_spot '$(DESTDIR)$(zshdir)'
	install -m 644 LICENSE README.md CHANGELOG.md '$(DESTDIR)$(docdir)'
	for f in $(doc_files); do if [ -x $$f ]; then m=755; else m=644; fi; \
	  install -D -m $$m $$f '$(DESTDIR)$(docdir)'/$${f#docs/}; done

uninstall:
	rm -f $(tools:%='$(DESTDIR)$(bindir)/%') $(tools:%='$(DESTDIR)$(compdir)/%') \
	  '$(DESTDIR)$(zshdir)/_spot' $(tools:%='$(DESTDIR)$(fishdir)/%.fish') \
	  $(foreach m,$(man_pages),'$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $m))/$(notdir $m)')
	rm -rf '$(DESTDIR)$(libdir)/spot' '$(DESTDIR)$(datadir)/spot'
	rm -f $(foreach f,LICENSE README.md CHANGELOG.md $(doc_files:docs/%=%),'$(DESTDIR)$(docdir)/$f') # it may be anybody's
	for d in '$(DESTDIR)$(bindir)' '$(DESTDIR)$(libdir)' '$(DESTDIR)$(compdir)' \
	  $(foreach d,$(sort ./ $(dir $(doc_files:docs/%=%))),'$(DESTDIR)$(docdir)/$d') \
	  '$(DESTDIR)$(zshdir)' '$(DESTDIR)$(fishdir)' \
	  $(foreach n,1 5 7,'$(DESTDIR)$(mandir)/man$n'); do \
	  while [ "$$d" != '$(DESTDIR)$(prefix)' ] && rmdir "$$d" 2>/dev/null; do d=$$(dirname "$$d"); done; done

include packaging/package.mk

help:
	@sed -n '/^# spot/,/^SILENT/{s/^# \{0,1\}//;/^SILENT/!p}' Makefile

clean:
	rm -rf build

.PHONY: all bench bench-gpu check check-aarch64 check-all check-asan check-asan-all check-gpu check-long check-mutations check-ptx \
        check-tsan check-twin check-world clean completions coverage coverage-units demo demo-serve deps deps-bench deps-dev \
        faults faults-serve fuzz headers help install layers lint lint-all run-bench run-bench-gpu run-check run-check-gpu run-check-ptx \
        run-demo run-demo-serve run-fuzz run-lint schemas soak soak-serve storms tidy tidy-all uninstall
.SECONDARY:
-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
