# SPDX-License-Identifier: MIT
# The CUDA and NCCL backends without a device (twins of their libraries, an interpreter of PTX) and with one:
# included by the Makefile.

# the module's sources once more, for the CPU: see tests/twin/cuda_runtime.h
twin      := $(B)/tests/spot_cuda_twin.so
twin_src  := $(cuda_src) $(sort $(wildcard tests/twin/*.cpp tests/twin/*.c))
twin_obj  := $(patsubst %,$(B)/twin/%.o,$(basename $(twin_src)))
# and the libraries that the module opens: see tests/twin/nccl.h and cublasLt.h
twin_blas := $(B)/tests/libcublasLt.so.13
twin_nccl := $(B)/tests/nccl_twin.so
twins     := $(twin) $(twin_nccl)

$(B)/twin/%.o: %.c $(B)/flags
	$(call say,CC)
	$(Q)$(CC) -Itests/twin $(CPPFLAGS) $(CFLAGS) $(uncounted) -MMD -MP -c $< -o $@

# fmaf() of a kernel is an instruction where this machine has it, not a call; nothing else becomes one
twin_fma := $(if $(and $(findstring x86_64,$(shell $(CXX) -dumpmachine)),$(shell grep -m 1 -w -o fma /proc/cpuinfo)),-mfma -ffp-contract=off)
TWIN_CXX = $(CXX) -std=c++17 -Itests/twin $(CPPFLAGS) -fPIC -fvisibility=hidden -Wall -Wextra -Wno-unknown-pragmas \
           $(flags.$(VARIANT)) $(uncounted) $(twin_fma) -ffile-prefix-map=$(CURDIR)=. $(if $(WERROR),-Werror) -MMD -MP -c $< -o $@
$(B)/twin/%.o: %.cu $(B)/flags
	$(call say,CXX)
	$(Q)$(subst -c $<,-x c++ -c $<,$(TWIN_CXX))
$(B)/twin/%.o: %.cpp $(B)/flags
	$(call say,CXX)
	$(Q)$(TWIN_CXX)

$(twin): $(twin_obj) $(libspot) | $(twin_blas)
	$(call say,LINK)
	$(Q)$(CXX) -shared $(flags.$(VARIANT)) $^ -Wl,-z,defs,--exclude-libs=ALL,--as-needed,-rpath,'$$ORIGIN' $(LDLIBS) -o $@

$(twin_blas): $(patsubst %.c,$(B)/twin/%.o,$(sort $(wildcard tests/twin/blas/*.c)))
$(twin_nccl): $(patsubst %.c,$(B)/twin/%.o,$(sort $(wildcard tests/twin/nccl/*.c)))
$(twin_blas) $(twin_nccl):
	$(call say,LINK)
	$(Q)$(CC) -shared $(CFLAGS) $^ -Wl,-z,defs -lm -o $@

stage_tests := $(patsubst %,$(B)/tests/test_%,stage stage_group stage_update)
$(B)/tests/test_twin $(B)/tests/test_infer_cuda $(B)/tests/test_infer_step: | $(twin)
$(stage_tests) $(B)/tests/test_comm_nccl: | $(twins)

# --- PTX of the kernels on the CPU, launched by the same sources: see tests/ptx/ptx.h

ptx       := $(patsubst lib/engine/cuda/%.cu,$(B)/ptx/%.ptx,$(sort $(wildcard lib/engine/cuda/*.cu)))
ptx_obj   := $(ptx:.ptx=.o) $(patsubst %,$(B)/twin/tests/twin/%.o,twin runtime graph) $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/ptx/*.c)))
$(B)/tests/ptx/%.o: CPPFLAGS += -Itests
$(B)/ptx/%.o: lib/engine/cuda/%.cu $(B)/flags
	$(call say,CXX)
	$(Q)$(subst -c $<,-DSPOT_PTX -Itests -fvisibility=default -x c++ -c $<,$(TWIN_CXX))
$(B)/ptx/%.ptx: lib/engine/cuda/%.cu $(wildcard lib/engine/cuda/*.cuh lib/engine/cuda/*.h) $(B)/nvflags
	$(call say,PTX)
	$(Q)$(NVCC) -std=c++17 -O2 -Ilib -ptx -arch=compute_$(lastword $(CUDA_ARCH)) $< -o $@
$(B)/check_ptx: $(ptx_obj)
	$(call say,LINK)
	$(Q)$(CXX) -rdynamic $(flags.$(VARIANT)) $^ -ldl -lm -o $@

check-ptx:
	$(if $(wildcard $(NVCC)),$(again) run-check-ptx,@echo 'check-ptx: skipped, no nvcc')
run-check-ptx: $(B)/check_ptx $(ptx) $(if $(filter yes,$(CUDA)),$(B)/bench_kernels) # which nothing else builds but the bundle
	$(Q)$(B)/check_ptx $(ptx)
	$(Q)CUDA_HOME=$(CUDA_HOME) tests/gpu/occupancy --check tests/ptx/occupancy.md $(ptx)

check-mutations: deps
	$(Q)+tests/gpu/mutations

# --- with a GPU ----------------------------------------------------------

include tests/gpu/gpu.mk
gpu_env = $(path) LC_ALL=C SPOT_CUDA_MODULE="$(CURDIR)/$(module)"

check-gpu bench-gpu: # on a machine without a network: deps are not asked for
	$(again) run-$@
run-check-gpu: all $(gpu_tests)
	$(Q)$(gpu_env) tests/gpu/probe || exit 0; \
	  $(gpu_env) CK_FORK=no CK_DEFAULT_TIMEOUT=300 tests/tally $(gpu_tests) $(sort $(wildcard tests/gpu/*.sh))
run-bench-gpu: all $(gpu_bench)
	$(Q)PATH="$(CURDIR)/$(B):$$PATH"; $(gpu_env) tests/gpu/probe || exit 0; $(gpu_env) tests/gpu/bench

.PHONY: bench-gpu check-gpu check-mutations check-ptx run-bench-gpu run-check-gpu run-check-ptx
