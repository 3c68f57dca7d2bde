#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: compute, first
# Goal: what `make deb` makes pleases lintian, installs, runs and goes without a trace; what `make
# tarball` makes runs wherever it is unpacked, with its own libraries. Equal sources give equal
# packages. The package is of the tools that are tested; `make check-long` builds it from the sources.

bats_require_minimum_version 1.5.0

load eventually

setup() {
    T=$BATS_TEST_TMPDIR
    root=$BATS_TEST_DIRNAME/../..
    [[ "${MAKEFLAGS-}" != *VARIANT=* ]] || skip "of the release alone"
}

needs() {
    for tool; do
        command -v "$tool" >/dev/null || skip "no $tool"
    done
}

# deb DIR: the package, there; once
deb() {
    needs dh dpkg-buildpackage fakeroot
    package=$(echo "$1"/spot_*.deb)
    [ ! -s "$package" ] || return 0
    local built=(SPOT_BUILT="$T/built")
    mkdir -p "$T/built/bin"
    for tool in spot-migrate spot-plan spot-predict spot-replay spot-run; do
        ln -sf "$(command -v $tool)" "$T/built/bin/$tool"
    done
    export DEB_BUILD_OPTIONS="noautodbgsym parallel=2" # symbols are most of what is packed
    ! in_tier long || { built=() && unset DEB_BUILD_OPTIONS; }
    env -u MAKEFLAGS -u MAKELEVEL timeout -s KILL 900 make -s -C "$root" deb CUDA=no B="$T/built" \
        deb_at="$1" "${built[@]}" </dev/null
    package=$(echo "$1"/spot_*.deb)
}

@test "the Debian package has no fault that lintian sees (lintian)" {
    needs lintian
    deb "$BATS_FILE_TMPDIR/a"
    run -0 --separate-stderr lintian --allow-root --fail-on error,warning "$BATS_FILE_TMPDIR"/a/*.changes
    [ -z "$output" ]
    for library in 'libc6 (>= ' libzstd1 'libcurl4t64 | libcurl4'; do
        dpkg-deb -f "$package" Depends | grep -qF "$library"
    done
    dpkg-deb -f "$package" Built-Using | grep -q '^lp-solve (= '
}

@test "the Debian package installs, its tools run, and a purge leaves nothing (fakeroot)" {
    deb "$BATS_FILE_TMPDIR/a"
    mkdir -p "$T/root/var/lib/dpkg/"{info,updates} "$T/root/var/log"
    touch "$T/root/var/lib/dpkg/"{status,available}
    find "$T/root" | sort >"$T/before"
    dpkg() {
        PATH=$PATH:/usr/sbin:/sbin fakeroot dpkg --root="$T/root" --log="$T/log" --force-not-root \
            --force-depends --force-script-chrootless "$@"
    }
    dpkg -i "$package"
    dpkg -s spot | grep -qx 'Status: install ok installed'
    for tool in spot-migrate spot-plan spot-predict spot-replay spot-run; do
        "$T/root/usr/bin/$tool" --version
        [ -s "$T/root/usr/share/man/man1/$tool.1.gz" ]
        [ -s "$T/root/usr/share/bash-completion/completions/$tool" ]
        [ -s "$T/root/usr/share/fish/vendor_completions.d/$tool.fish" ]
    done
    [ -s "$T/root/usr/share/zsh/vendor-completions/_spot" ]
    [ -s "$T/root/usr/share/doc/spot/formats/plan.md" ]
    [ -x "$T/root/usr/share/doc/spot/examples/cron/replan.sh" ]
    dpkg --purge spot
    find "$T/root" -path '*/var/lib/dpkg/*' -prune -o -print | sort >"$T/after"
    grep -v '/var/lib/dpkg/' "$T/before" | cmp - "$T/after"
    ! grep -q . "$T/root/var/lib/dpkg/status" || false
    [ "$(find "$T/root/var/lib/dpkg/info" -name 'spot*' | wc -l)" -eq 0 ]
}

@test "equal sources give equal Debian packages, wherever they were built" {
    deb "$BATS_FILE_TMPDIR/a"
    one=$package
    umask 077
    deb "$T/another-place"
    cmp "$one" "$package"
}

@test "the tarball runs where it is unpacked, with its own libraries (each time the same: check-long)" {
    needs readelf objdump strip ldd
    [ -n "${MAKEFLAGS+set}" ] || skip "not run by make check"
    # what was said on the command line, or everything is built anew; not the parent's other jobs
    said=" -- "
    [[ "$MAKEFLAGS" != *"-- "* ]] || said=" -- ${MAKEFLAGS#*-- }"
    for n in 1 $(size 2 ""); do
        env -u MAKELEVEL MAKEFLAGS="$said" timeout -s KILL 300 make -s -C "$root" tarball tar_at="$T/$n" </dev/null
    done
    ! in_tier long || cmp "$T"/1/*.tar.gz "$T"/2/*.tar.gz
    mkdir "$T/here" "$T/not here"
    for at in "$T/here" "$T/not here"; do
        tar -C "$at" -xf "$T"/1/*.tar.gz
        cd "$at"/spot-*
        for tool in bin/*; do
            env -i "$PWD/$tool" --version
            env -i "$PWD/$tool" --help | grep -q '^usage: '
            readelf -d "$tool" | grep -qF '(RPATH)'
            # whatever is not glibc's is the tarball's, at any depth
            run -0 env -i /usr/bin/ldd "$tool"
            ! grep '=>' <<<"$output" | grep -vE "^[[:space:]]*(libc|libm|libdl|libpthread|libresolv|librt|ld-linux.*)\.so|=> $PWD/bin/../lib/spot/" || false
        done
        # what is opened late is the tarball's too
        LD_DEBUG=files bin/spot-run notice --once --from aws@http://127.0.0.1:1 2>&1 |
            grep -q "calling init: $PWD/bin/../lib/spot/libcurl.so.4"
        env -i PATH=/nowhere "$PWD/bin/spot-predict" share/doc/spot/examples/traces/demo.csv -o "$T/forecast"
        env -i PATH=/nowhere "$PWD/bin/spot-plan" train --job share/doc/spot/examples/jobs/demo.json --forecast "$T/forecast" |
            jq -e .next.D
        if command -v man >/dev/null; then
            PATH=$PWD/bin:/usr/bin:/bin man -w spot-plan | grep -qxF "$PWD/share/man/man1/spot-plan.1"
        fi
    done
    ! grep -rlF "$(cd "$root" && pwd)" . || false
}
