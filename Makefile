# SPDX-License-Identifier: MIT
# spot - one non-recursive makefile. Everything built lands in build/VARIANT.
#
#   make [all]       tools, and spot_cuda.so where nvcc is found (CUDA=no skips it)
#   make demo        from a trace to a training job that survives it, two minutes; demo-serve: a model
#                    served through preemptions to many clients; demo-fleet: by machines that a controller buys
#   make check       units, golden files, a story of each tool and promise; last line: N passed, M failed
#   make check-jobs  the other stories of jobs, serving, exec; check-twin: of the CUDA and NCCL backends,
#                    on twins of their libraries; check-world: with the programs of others (PyTorch, etcd,
#                    clients, stores); check-long: all of check and check-jobs, at length
#   make check-asan  units and chosen jobs under ASan and UBSan; check-tsan: all that keeps no time, TSan
#   make check-gpu   what needs a GPU; check-ptx: the kernels' PTX, interpreted; check-mutations: each mend of
#                    the CUDA backend undone, its test must fail; bench-gpu: what a device takes; gpu-bundle: .gpu/, all
#                    of it as one script for a machine with nothing but a GPU
#   make lint        headers, layers, lengths, format, tidy, cppcheck, shell, words, man pages; tidy-all: clang's
#                    path analysis to the end of each path, ten minutes
#   make fuzz        each fuzzer for FUZZ_SECONDS=15
#   make bench       what tests/bench measures: ours beside its yardsticks, in one run
#   make soak        2000 preemptions of one job; also soak-serve, storms, faults, faults-serve, aarch64: what
#                    tests/NAME.sh tells, once everything is built; ARGS=...
#   make completions schemas messages   what is made from the sources: completions/ and lists in docs/man from --help, docs/schema/ and
#                    lists of documents from tests/tool/registry.c and docs/schema/by-hand, tests/golden/messages
#   make install     DESTDIR=stage PREFIX=/usr (~/.local); also uninstall, deb, tarball
#   make deps        what building and testing need and this machine lacks: installed as root or with
#                    passwordless sudo, else named; also deps-dev (lint, fuzz), deps-bench; coverage[-units]; clean
#
# demo, check, bench, fuzz, lint and coverage run deps first.
# Knobs: VARIANT=release|debug|asan|tsan|cov|fuzz  CUDA=auto|yes|no  CUDA_ARCH='80 90'  WERROR=1  V=1
#        JOBS=n (tests at once)  TESTS='FILE...'  TIER='units check jobs twin world long'  CC CFLAGS LDFLAGS
SILENT := $(findstring s,$(firstword -$(MAKEFLAGS)))
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:

VARIANT ?= release

PREFIX      ?= $(HOME)/.local
prefix      ?= $(PREFIX)
libdir      ?= $(prefix)/lib
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

CPPFLAGS += -Ilib -D_POSIX_C_SOURCE=200809L
CFLAGS   ?=
override CFLAGS := -std=c11 -fPIC -fvisibility=hidden -pthread -ffile-prefix-map=$(CURDIR)=. \
                   $(warn) $(flags.$(VARIANT)) $(if $(WERROR),-Werror) $(CFLAGS)
NVFLAGS  := -std=c++17 -O2 -lineinfo $(if $(WERROR),-Werror all-warnings) -Ilib \
            -Xcompiler -Wall,-Wextra,-fPIC,-fvisibility=hidden,-ffile-prefix-map=$(CURDIR)=. \
            $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$a,code=sm_$a) \
            -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))

# libcsv and lp_solve have no .pc file; the latter's archive is complete but for its column ordering.
# libcurl is opened when it is needed: lib/common/late_library.h
LDLIBS := -Wl,--as-needed $(shell $(PKG_CONFIG) --libs libzstd zlib openssl libxxhash 2>/dev/null) \
          -lcsv -llpsolve55 -lcolamd -ldl -lm

# --- sources: a file is found by being there -----------------------------

lib_src   := $(filter-out $(cuda_src),$(sort $(wildcard lib/*/*.c lib/*/*/*.c)))
tools     := $(notdir $(patsubst %/,%,$(sort $(wildcard tools/spot-*/))))
pages     := page job_page fleet_page
lib_obj   := $(lib_src:%.c=$(B)/%.o) $(pages:%=$(B)/%_html.o)
cuda_obj  := $(patsubst %,$(B)/%.o,$(basename $(cuda_src)))
libspot   := $(B)/libspot.a
module    := $(B)/lib/spot_cuda.so

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
# $(call say,KIND): a line that tells what is made, in a folder that is there
define say
	$(if $(V)$(SILENT),,@printf '  %-5s %s\n' '$(1)' '$@')
	$(Q)mkdir -p $(@D)
endef
compile = $(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
link    = $(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -o $@
# deps may bring what pkg-config told when this file was read: hence make anew after it.
again = $(Q)+$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# --- build ---------------------------------------------------------------

all: $(tools:%=$(B)/bin/%) $(if $(filter yes,$(CUDA)),$(module))
	$(if $(SILENT)$(filter yes,$(CUDA)),,@echo '  spot_cuda.so is left out: CUDA=no, no nvcc, or no kernels to build')

$(B)/%.o: %.c $(B)/flags
	$(call say,CC)
	$(compile)

$(B)/%.o: %.cu $(B)/nvflags
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@

# the page of a server, of a job, of a fleet is an array of bytes
$(B)/page_html.c: lib/serve/page.html
$(B)/job_page_html.c: lib/train/job_page.html
$(B)/fleet_page_html.c: lib/fleet/fleet_page.html
$(pages:%=$(B)/%_html.c):
	$(Q)mkdir -p $(@D)
	$(Q)n=spot_$(basename $(@F)); { echo '#include "$(patsubst lib/%.html,%.h,$<)"'; \
	  echo "const unsigned char $$n[] = {"; od -An -v -tu1 $< | sed 's/ *\([0-9][0-9]*\)/\1,/g'; echo '};'; \
	  echo "const size_t $${n}_byte = sizeof($$n);"; } >$@
$(pages:%=$(B)/%_html.o): $(B)/%.o: $(B)/%.c
	$(call say,CC)
	$(compile)

# Only these two know the version and the install path, so that a commit does
# not rebuild the world.
$(B)/lib/common/version.o $(B)/lib/engine/cuda_load.o: $(B)/version
$(B)/lib/common/version.o: CPPFLAGS += -DSPOT_VERSION='"$(VERSION)"'
$(B)/lib/engine/cuda_load.o: CPPFLAGS += -DSPOT_MODULE_PATH='"$(libdir)/spot/spot_cuda.so"'
# vectors wider than the machine's stay inside this one file: no ABI to warn of
$(B)/lib/engine/cpu/vec_sse2.o: CPPFLAGS += -Wno-psabi
ifneq ($(filter aarch64%,$(shell $(CC) -dumpmachine)),)
$(B)/lib/engine/cpu/%_sve256.o: CPPFLAGS += -march=armv8.2-a+sve+i8mm -msve-vector-bits=256
$(B)/lib/train/microbatch_split.o: CPPFLAGS += -fno-tree-vectorize # GCC 12.2 fails at -O3
endif
$(cuda_obj): CPPFLAGS += -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include

$(libspot): $(lib_obj)
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

# Its own copy of the library code it needs, nothing left open, one symbol out.
$(module): $(cuda_obj) $(libspot)
	$(call say,LINK)
	$(Q)$(NVCC) -shared $(if $(filter asan tsan,$(VARIANT)),-Xcompiler \"$(filter -fsanitize=%,$(flags.$(VARIANT)))\") \
	  $^ -ldl -lxxhash -Xlinker -z,defs,--exclude-libs=ALL,--as-needed -o $@

tool_obj = $(patsubst %.c,$(B)/%.o,$(wildcard tools/$1/*.c))
$(foreach t,$(tools),$(eval $(B)/bin/$t: $(call tool_obj,$t)))
$(tools:%=$(B)/bin/%): $(libspot)
	$(call say,LD)
	$(link)

# --- dependencies --------------------------------------------------------

# package of pkg-config, header or command : Debian package
need_pkg     := jansson:libjansson-dev libzstd:libzstd-dev zlib:zlib1g-dev openssl:libssl-dev libxxhash:libxxhash-dev \
                libcurl:libcurl4-openssl-dev check:check
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

# -------------------------------------------------------------------------

help:
	@sed -n '/^# spot/,/^SILENT/{s/^# \{0,1\}//;/^SILENT/!p}' Makefile

clean:
	rm -rf build

.PHONY: all clean deps deps-bench deps-dev help
include packaging/package.mk
-include tests/cuda.mk tests/tests.mk # a package has no tests
.SECONDARY:
-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
