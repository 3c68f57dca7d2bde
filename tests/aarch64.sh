#!/bin/bash
# SPDX-License-Identifier: MIT
# The kernels on another kind of processor: the library for aarch64, its units, and jobs of both kinds
# of kernels, under qemu-user; the weights have the bits that this machine computes. Needs gcc-aarch64-linux-gnu,
# qemu-user and apt, which brings Debian's libraries for arm64 into build/aarch64/root: nothing is
# installed. 77: something of that is not here.
#
#   aarch64.sh [TEST...]       units to run; VARIANT of this machine is release
#   aarch64.sh build FILE...   no more than these files of build/aarch64
set -eu -o pipefail
cd "$(dirname "$0")/.."
base=$PWD/build/aarch64
root=$base/root
units=("$@")
[ $# -gt 0 ] || units=(test_kernel test_sampler test_evaluate test_infer_kernel test_infer_kinds)

for need in aarch64-linux-gnu-gcc qemu-aarch64 apt-get dpkg; do
    command -v $need >/dev/null || { echo "aarch64: no $need"; exit 77; }
done

libraries() {
    local apt=(-o APT::Architectures=arm64 -o APT::Architecture=arm64 -o Debug::NoLocking=1
        -o "Dir::State::lists=$base/lists" -o "Dir::Cache=$base/cache")

    mkdir -p "$base/lists/partial" "$base/cache/archives/partial" "$base/debs" "$root"
    cd "$base/debs"
    apt-get "${apt[@]}" -qq update && apt-get "${apt[@]}" -qq download check libsubunit-dev libjansson-dev libzstd-dev \
        zlib1g-dev libssl-dev libxxhash-dev libcsv-dev libcurl4-openssl-dev liblpsolve55-dev libsuitesparse-dev libopenblas-pthread-dev || return 1
    for package in *.deb; do dpkg -x "$package" "$root"; done
    cd - >/dev/null
    touch "$base/root/done"
}
[ -e "$root/done" ] || libraries 2>/dev/null || { echo "aarch64: no libraries for arm64"; exit 77; }

cat >"$base/pkg-config" <<END
#!/bin/sh
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
exec pkg-config --static "\$@"
END
chmod +x "$base/pkg-config"
cross() {
    local lib=$root/usr/lib/aarch64-linux-gnu include=$root/usr/include

    make -s "-j$(nproc)" VARIANT=aarch64 flags.aarch64=-O3 CUDA=no AR=aarch64-linux-gnu-ar CXX=false \
        CC="${CCACHE:-} aarch64-linux-gnu-gcc -isystem $include -isystem $include/aarch64-linux-gnu -isystem $include/aarch64-linux-gnu/openblas-pthread" \
        PKG_CONFIG="$base/pkg-config" LDFLAGS="-static -L$lib -L$lib/openblas-pthread -L$root/usr/lib" \
        "${@/#/build/aarch64/}" 2> >(grep -v 'statically linked' >&2)
}
if [ "${1-}" = build ]; then
    shift
    cross "$@"
    exit 0
fi
make -s "-j$(nproc)" CUDA=no
cross bin/spot-run "${units[@]/#/tests/}"
for unit in "${units[@]}"; do CK_FORK=no qemu-aarch64 "build/aarch64/tests/$unit"; done
# unless told it has all instructions, and vectors of 512 bits
for cpu in max,sve256=on max,sve128=on cortex-a72; do
    for unit in test_kernel test_infer_kernel; do
        [ ! -x "build/aarch64/tests/$unit" ] || CK_FORK=no qemu-aarch64 -cpu "$cpu" "build/aarch64/tests/$unit"
    done
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
here=build/release/bin/spot-run
seq 1 300 >"$tmp/corpus"
for arch in gpt2 llama; do
    there="qemu-aarch64 -cpu $([ $arch = gpt2 ] && echo max || echo max,sve256=on) $base/bin/spot-run" # NEON; SVE
    for kind in portable fma; do
        job=(-q --data "$tmp/corpus" --arch "$arch" --layers 2 --width 32 --heads 2 --seq 16 --device "$kind"
            --global-batch 5 --steps 6)
        $here train "${job[@]}" --save "$tmp/here" --events "$tmp/here.$arch.$kind.log"
        # a worker is not its coordinator's child: what qemu runs cannot start itself again
        $there train "${job[@]}" --listen "unix:$tmp/job" --lease 60s --save "$tmp/there" \
            --events "$tmp/there.$arch.$kind.log" &
        $there worker -q --join "unix:$tmp/job" --join-timeout 60s
        wait $!
        cmp "$tmp/here/model.safetensors" "$tmp/there/model.safetensors"
        rm -r "$tmp/here" "$tmp/there"
        echo "ok - $arch, $kind: the weights of six steps have the same bits"
    done
done
