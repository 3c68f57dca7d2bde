# SPDX-License-Identifier: MIT
# What times a device, and the folder that carries all of it to a bare one. Included by tests/cuda.mk.
#
#   make gpu-bundle   .gpu/: bash .gpu/device-run.sh on a machine with a GPU, which has no compiler, no
#                     network and no library of ours; DRY=1: the twin comes along, to try it here

gpu_bench := $(patsubst %,$(B)/bench_%,stage decode products $(if $(filter yes,$(CUDA)),kernels))
gpu_tests := $(stage_tests) $(B)/tests/test_infer_cuda $(B)/tests/test_infer_step

$(B)/bench_stage $(B)/bench_decode: $(B)/bench_%: $(B)/tests/gpu/bench_%.o $(libspot)
	$(call say,LD)
	$(link)

$(B)/bench_kernels: tests/gpu/bench_kernels.cu $(cuda_obj) $(libspot) $(B)/nvflags
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVFLAGS) $(filter-out %/nvflags,$^) -lxxhash -ldl -o $@

$(B)/bench_products: $(B)/tests/gpu/bench_products.o $(cuda_obj) $(libspot)
	$(call say,LINK)
	$(Q)$(NVCC) $^ -lxxhash -ldl -lm -o $@

$(B)/twin/bench_products: $(B)/tests/gpu/bench_products.o $(twin_obj) $(libspot) | $(twin_blas)
	$(call say,LINK)
	$(Q)$(CXX) $(flags.$(VARIANT)) $^ $(LDLIBS) -o $@

gpu-bundle:
	$(again) run-gpu-bundle
run-gpu-bundle: all $(gpu_bench) $(gpu_tests) $(B)/tests/load $(if $(DRY),$(twin) $(twin_nccl) $(B)/twin/bench_products)
	$(Q)DRY=$(DRY) tests/gpu/bundle .gpu $(B) $(notdir $(gpu_bench)) -- $(notdir $(gpu_tests)) load

.PHONY: gpu-bundle run-gpu-bundle
