# SPDX-License-Identifier: MIT
# tier: jobs
# Goal: make install puts everything under the prefix that was named, and uninstall takes it away.
bats_require_minimum_version 1.5.0

# from_make ARGUMENTS...: with the tools that are tested, not built again for this prefix
from_make() {
    mkdir -p "$BATS_TEST_TMPDIR/build/bin"
    for tool in spot-migrate spot-plan spot-predict spot-replay spot-run; do
        ln -sf "$(command -v $tool)" "$BATS_TEST_TMPDIR/build/bin/$tool"
    done
    env -u MAKEFLAGS -u MAKELEVEL -u DESTDIR -u PREFIX -u prefix HOME="$BATS_TEST_TMPDIR/home" make -s -o all \
        -C "$BATS_TEST_DIRNAME/../.." B="$BATS_TEST_TMPDIR/build" CUDA=no "$@"
}

@test "PREFIX and prefix name where to install, ~/.local is the default; uninstall leaves nothing" {
    cd "$BATS_TEST_TMPDIR"
    for how in PREFIX=$PWD/a prefix=$PWD/b ""; do
        where=${how#*=}
        where=${where:-$PWD/home/.local}
        run --separate-stderr from_make install $how
        [ "$status" -eq 0 ] && [ -z "$stderr" ]
        "$where/bin/spot-run" --version
        cmp "$where/share/doc/spot/examples/serve/llama-8b/config.json" \
            "$BATS_TEST_DIRNAME/../../examples/serve/llama-8b/config.json"
        [ -s "$where/share/man/man1/spot-run.1" ]
        [ -s "$where/share/bash-completion/completions/spot-run" ]
        [ -s "$where/share/zsh/site-functions/_spot" ]
        grep -q "^complete -c spot-run " "$where/share/fish/vendor_completions.d/spot-run.fish"
        ! grep "^complete -c spot-plan " "$where/share/fish/vendor_completions.d/spot-run.fish" || false
        [ "$(ls home/.local 2>/dev/null | wc -l)" -eq 0 ] || [ -z "$how" ]
        from_make uninstall $how
        [ -z "$(find "$where" -type f)" ]
    done
}

@test "uninstall removes what was installed, from folders that hold other things too" {
    cd "$BATS_TEST_TMPDIR"
    mkdir -p a/share/doc/other a/share/doc/design a/lib/other
    echo precious | tee a/share/doc/mine a/share/doc/design/mine >a/lib/other/mine
    from_make install PREFIX="$PWD/a" docdir="$PWD/a/share/doc"
    [ -s a/share/doc/formats/plan.md ]
    from_make uninstall PREFIX="$PWD/a" docdir="$PWD/a/share/doc"
    [ "$(find a -type f | sort | tr '\n' ' ')" = "a/lib/other/mine a/share/doc/design/mine a/share/doc/mine " ]
    [ -d a/share/doc/other ]
}

@test "the example for cron is installed as a program, at the place that it names" {
    cd "$BATS_TEST_TMPDIR"
    from_make install DESTDIR="$PWD/stage" PREFIX=/usr/local
    at=$(sed -n 's/^#.*\* \* \* \*  \([^ ]*\) .*/\1/p' "$BATS_TEST_DIRNAME/../../examples/cron/replan.sh")
    run -2 --separate-stderr "stage$at"
    [[ "$stderr" == usage:* ]]
    [ "$(stat -c %a "stage${at%/cron/*}/jobs/demo.json")" = 644 ]
}
