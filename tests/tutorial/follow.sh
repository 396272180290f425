#!/bin/bash
# Follow docs/tutorial.md to the letter: its sh blocks, in order, in one shell, and look whether that which it promises happens.
#
#     follow.sh [--cache TAR] [--keep] WORK    in a fresh Debian 12 below WORK, as a user who may use sudo; prints the minutes
#                                              it took. Needs root, mmdebstrap and the package archive that the host uses.
#                                              TAR: keep the base system there, or take it from there if it exists.
#     follow.sh --packages FOLDER [--cache TAR] [--keep] WORK    the same with the .deb files of this folder and no sources. What they
#                                              need is installed before, debian/tests runs, and the time counts from then on.
#                                              Then they are purged, and must leave nothing.
#     follow.sh --here BUILD WORK              what comes after the build, on this host, with this build
#
# With --readme before these, the five minutes of README.md in place of the tutorial, of its sources.
#
# Exit code 77: skipped, and it says why.
set -euo pipefail

source=$(cd "$(dirname "$0")/../.." && pwd)
tutorial=$source/docs/tutorial.md
suite=bookworm

skip() {
    echo "skipped: $1"
    exit 77
}

fail() {
    echo "FAILED: $1"
    exit 1
}

# blocks FROM [packages]: the tutorial's sh blocks, from the first one that contains FROM on. Each says its number first. Blocks that are
# for packages are left out, unless they are asked for.
blocks() {
    awk -v from="$1" -v packages="${2:-}" '
        /^```sh$/ || (packages && /^```sh packages$/) { inside = 1; text = ""; next }
        /^```$/ && inside {
            inside = 0
            number++
            if (index(text, from)) begun = 1
            if (begun) printf "echo \"--- block %d\"\n%s", number, text
            next
        }
        inside { text = text $0 "\n" }' "$tutorial"
}

# promised PATTERN WHAT: must be in what the tutorial's commands have printed
promised() {
    grep -Eq -- "$1" "$work/told" || fail "$2 (nothing matches: $1)"
}

judge() {
    promised '^waves: the same to the last bit' "waves was not the same after a kill"
    promised '^restarted from step [1-9]00$' "waves did not restart"
    promised 'no checkpoint of waves in quiet: a first run \(the store is new\)' "the first run was not said"
    promised '^verify ended with exit code 20$' "verify did not find the damage"
    promised 'skipped checkpoint waves@1000' "the damaged checkpoint was not named"
    promised '^restarted from step 900$' "the newest whole checkpoint was not taken"
    promised '^damaged: the same to the last bit' "waves was not the same after damage"
    promised '^the job is dead' "the MPI job was not killed"
    # On a slow machine the first job may be killed before its first checkpoint. The one that moves waits for it.
    [ "$(grep -c '^restarted from step' "$work/told")" -ge 3 ] || fail "there should be four restarts"
    sed -n '/the job is dead/,$p' "$work/told" | grep -E '^restarted from step [1-9][0-9]*$' >/dev/null ||
        fail "heat2d did not restart"
    promised '^heat2d: the same to the last bit' "heat2d was not the same after a kill"
    promised '^heat2d: the same on three ranks' "heat2d was not the same on another number of ranks"
    if grep -q '^no picture: python3-matplotlib is not installed' "$work/told"; then
        picture="; skipped: its picture, since python3-matplotlib is not installed"
    else
        promised '^drawn: moved.svg' "the picture was not drawn"
    fi
    promised 'f64 +256x1024 of 1024x1024 at 768,0 ' "the array of rank 3 was not shown with its shape"
    promised '^diff: the same to the last bit' "diff did not find the two runs the same"
    promised '^exit code 1: they differ' "diff did not find two steps different"
    [ "$(grep -c 'no damage found' "$work/told")" -eq 3 ] || fail "verify should find three stores whole"
    python3 "$source/tests/tutorial/shown.py" "$tutorial" "$work/told" || fail "the tutorial shows what is not printed"
}

judge_readme() {
    promised '^first run$' "the counter had been there before"
    promised '^restarted from step [1-9]' "the counter did not restart"
    promised '^done after step 19999' "the counter did not end"
    promised '^counter +19900 +2 ' "the newest checkpoint is not listed"
    promised 'no damage found$' "the store is not whole"
}

# ---- on this host ----

follow_here() {
    local program
    for program in mpirun mpicc pkill; do
        command -v $program >/dev/null || skip "$program is missing"
    done
    mpirun --version 2>&1 | grep -q 'Open MPI' || skip "mpirun is not that of Open MPI, which the tutorial installs"
    mkdir -p "$work/home" "$work/tree"
    ln -s "$(realpath "$build")" "$work/tree/build"
    blocks "cmake --install build" >"$work/commands"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Debian's Python may have what another one in front of it has not.
    if ! python3 -c 'import matplotlib' 2>/dev/null && /usr/bin/python3 -c 'import matplotlib' 2>/dev/null; then
        mkdir "$work/bin"
        ln -s /usr/bin/python3 "$work/bin/python3"
        export PATH="$work/bin:$PATH"
    fi
    (cd "$work/tree" && HOME=$work/home bash -e "$work/commands") 2>&1 | tee "$work/told" || fail "a command failed"
}

readme_here() {
    mkdir -p "$work/tree" "$work/tmp"
    ln -s "$(realpath "$build")" "$work/tree/build"
    blocks "" | grep -v -e apt-get -e '^cmake' >"$work/commands"
    (cd "$work/tree" && TMPDIR=$work/tmp bash -e "$work/commands") 2>&1 | tee "$work/told" || fail "a command failed"
}

# ---- in a fresh Debian ----

list_sources() {
    grep -lEs "(^|[[:space:]])$suite([[:space:]]|\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.sources \
        /etc/apt/sources.list.d/*.list || true
}

make_base() {
    local sources
    mapfile -t sources < <(list_sources)
    [ ${#sources[@]} -gt 0 ] || skip "this host has no package archive of Debian $suite"
    apt-config dump | grep '^Acquire::' >"$work/apt.conf" || true # proxies and the like
    mmdebstrap --format=tar --variant=minbase --include=sudo --aptopt="$work/apt.conf" "$suite" "$base.new" "${sources[@]}" ||
        fail "mmdebstrap could not make a base system"
    mv "$base.new" "$base"
}

# Everything mounted below lives in a mount namespace of its own and goes away with it.
run_in_root() {
    # shellcheck disable=SC2016 # $1 is the inner shell's
    unshare --mount --pid --fork --kill-child bash -e -c '
        root=$1
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind --make-rslave /sys "$root/sys"
        exec chroot "$root" su - "$2" -c "cd $3 && exec bash -e /tmp/commands"' - "$work/root" "$1" "$2"
}

make_root() {
    [ "$(id -u)" -eq 0 ] || skip "making a fresh Debian needs root"
    command -v mmdebstrap >/dev/null || skip "mmdebstrap is missing"
    unshare --mount true 2>/dev/null || skip "mount namespaces are not allowed here"
    [ -e "$base" ] || make_base
    mkdir "$work/root"
    tar -xf "$base" -C "$work/root" --exclude='./dev/*'
    cp /etc/resolv.conf "$work/root/etc/resolv.conf"
    echo "127.0.0.1 localhost $(hostname)" >"$work/root/etc/hosts"
    chroot "$work/root" useradd -m -s /bin/bash reader
    echo 'reader ALL=(ALL) NOPASSWD: ALL' >"$work/root/etc/sudoers.d/reader"
}

# in_root USER FOLDER: what is in /tmp/commands, as the reader does it; minutes tells how long it took.
in_root() {
    local start=$SECONDS
    run_in_root "$1" "$2" < <([ -z "$readme" ] || yes) 2>&1 | tee "$work/told" || fail "a command failed"
    minutes=$(awk -v s=$((SECONDS - start)) 'BEGIN { printf "%.1f", s / 60 }')
}

follow_fresh() {
    make_root
    mkdir "$work/root/home/reader/varve"
    tar -C "$source" --exclude=.git --exclude='./build*' -cf - . | tar -xf - -C "$work/root/home/reader/varve"
    chroot "$work/root" chown -R reader: /home/reader
    if [ -n "$readme" ]; then # its packages first; apt-get asks whether it may
        { echo "sudo apt-get update" && blocks "" | grep apt-get; } >"$work/root/tmp/commands"
        in_root reader varve
    fi
    blocks "" >"$work/root/tmp/commands"
    in_root reader varve
    [ -z "$readme" ] || [ "${minutes%.*}" -lt 5 ] || fail "it took $minutes minutes, though nothing had to be downloaded"
}

# All files of the root but those that change anyway: what programs and apt write, and the homes.
list_root() {
    (cd "$work/root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./run -o -path ./home \
        -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/apt -o -path './var/lib/dpkg/*-old' \) -prune -o -print | sort)
}

# The commands of apt for this, as root; first is what the packages need, without them.
as_root() {
    printf '%s\n' 'export DEBIAN_FRONTEND=noninteractive' "$@" >"$work/root/tmp/commands"
    in_root root /home/reader/packages >"$work/apt.log" || fail "apt failed: $(tail -n 5 "$work/apt.log")"
}

follow_packages() {
    # shellcheck disable=SC2016 # for the shell in the root
    local ours='$(dpkg-query -W -f "\${Package} \${source:Package}\n" | sed -n "s/ varve\$//p")'
    make_root
    mkdir "$work/root/home/reader/packages"
    cp "$packages"/*.deb "$work/root/home/reader/packages"
    blocks "varve=/usr" packages >"$work/commands"
    local others
    others=$(tr -d ',\n' <"$source/debian/tests/control" | sed 's/.*Depends: //; s/Restrictions.*//')
    # Debian's autopkgtest would do the same: debian/tests/consumer.
    mkdir -p "$work/root/home/reader/packages/tests/install"
    cp -r "$source/tests/install/user" "$work/root/home/reader/packages/tests/install"
    cp "$source/debian/tests/consumer" "$work/root/home/reader/packages"
    as_root 'apt-get update' "$(sed -n 's/^sudo \(apt-get install.*\)/\1 .\/*.deb/p' "$work/commands") $others" ./consumer "dpkg --purge $ours"
    echo "the consumer of debian/tests runs"
    list_root >"$work/before"
    cp "$work/commands" "$work/root/tmp/commands"
    in_root reader packages
    local took=$minutes
    cp "$work/told" "$work/told.tutorial"
    as_root 'apt-get install -y ./*.deb' "dpkg --purge $ours"
    list_root >"$work/after"
    mv "$work/told.tutorial" "$work/told"
    minutes=$took
    [ "${took%.*}" -lt 5 ] || fail "it took $took minutes, though nothing had to be downloaded"
    diff "$work/before" "$work/after" || fail "the packages leave something behind"
    echo "purged: nothing is left"
}

# ---- what is wanted ----

build=
readme=
packages=
base=
keep=
while [ $# -gt 1 ]; do
    case $1 in
    --here) build=$2 && shift 2 ;;
    --readme) readme=1 tutorial=$source/README.md && shift ;;
    --packages) packages=$(realpath "$2") && shift 2 ;;
    --cache) base=$2 && shift 2 ;;
    --keep) keep=1 && shift ;;
    *) break ;;
    esac
done
[ $# -eq 1 ] || { sed -n 's/^# \{0,1\}//; 4,13p' "$0"; exit 2; }
mkdir -p "$1"
work=$(mktemp -d "$(realpath "$1")/tutorial.XXXXXX")
clean_up() {
    if [ -n "$keep" ]; then
        echo "kept: $work"
    else
        rm -rf --one-file-system "$work"
    fi
}
trap clean_up EXIT
base=${base:-$work/base.tar}

minutes=
picture=
if [ -n "$build" ] && [ -n "$readme" ]; then
    readme_here
elif [ -n "$build" ]; then
    follow_here
elif [ -n "$packages" ]; then
    follow_packages
else
    follow_fresh
fi
if [ -n "$readme" ]; then
    judge_readme
else
    judge
fi
echo "${tutorial##*/} does what it says${minutes:+; from a fresh Debian it took $minutes minutes}$picture"
