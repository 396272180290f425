#!/bin/bash
# The tests of trackers, guards and captures on other kernels. Each boots in QEMU, without KVM, and runs them as root
# and as nobody.
#
#     kernels.sh [--match REGEX] [--users "root nobody"] [--rounds 1000] [--also COMMAND] BUILD WORK [KERNEL...]
#
# BUILD is a build tree; WORK is for what is unpacked and said. A KERNEL is a .deb or the name of a package (apt-get
# download): by default the newest linux-image-6.1.*-amd64 that apt knows. Those of Debian 11 (5.10) and of backports
# (6.12) do as well. Needs qemu-system-x86, busybox-static, cpio and kmod. The guest has /usr and BUILD read-only over
# 9p, and a /tmp in memory. It is 2 to 10 times slower than the machine: time limits are longer, and seconds mean
# nothing. Snapshot truth, vanishing memory and torture run there with so many rounds on little memory. COMMAND is run,
# too, by each user, and what it says is shown: a benchmark. Ends with "kernels: N points, F failed"; 77: something it
# needs is missing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
match='^(test_(tracker|guard|frozen|capture|audit)|capture_living_(softdirty|frozen|tiny)'
match+='|found_(dropped|merged|moving|unmapped))'
users='root nobody' rounds=1000 also=''
while [[ ${1:-} == --* ]]; do
    case $1 in
    --match) match=$2 ;;
    --users) users=$2 ;;
    --rounds) rounds=$2 ;;
    --also) also=$2 ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
    esac
    shift 2
done
build=$(realpath "$1") work=$(realpath "$2")
shift 2
for tool in qemu-system-x86_64 busybox cpio depmod ctest; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool" && exit 77; }
done
if [ $# -eq 0 ]; then
    set -- "$(apt-cache search --names-only '^linux-image-6\.1\.[0-9.-]*-amd64$' | cut -d' ' -f1 | sort -V | tail -n 1)"
fi

# unpack KERNEL: into $work/VERSION; sets version.
unpack() {
    local deb=$1
    if [ ! -f "$deb" ]; then
        (cd "$work" && apt-get download -q "$1" >&2) || { echo "skipped: there is no package $1" && exit 77; }
        deb=$(echo "$work/$1"_*.deb)
    fi
    rm -rf "$work/unpacked"
    dpkg -x "$deb" "$work/unpacked"
    version=$(cd "$work/unpacked/boot" && echo vmlinuz-*)
    version=${version#vmlinuz-}
    rm -rf "${work:?}/$version"
    mv "$work/unpacked" "$work/$version"
    [ -e "$work/$version/lib" ] || ln -s usr/lib "$work/$version/lib"
    depmod -b "$work/$version" "$version"
}

# with_modules ROOT NAME...: their files, those they need first, by number.
with_modules() {
    local root=$1 name file count=100
    shift
    mkdir -p "$root/modules"
    for name in "$@"; do
        modprobe -d "$work/$version" -S "$version" --show-depends "$name" 2>/dev/null
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        count=$((count + 1))
        case $file in
        *.xz) xz -dc "$file" >"$root/modules/$count.ko" ;;
        *) cp "$file" "$root/modules/$count.ko" ;;
        esac
    done
}

# The first file system of the guest: busybox, modules, and what to do.
make_initramfs() {
    local root=$work/$version/root
    mkdir -p "$root"/{bin,dev,proc,sys,etc,new}
    cp "$(command -v busybox)" "$root/bin/busybox"
    with_modules "$root" virtio_pci 9p 9pnet_virtio
    cp /etc/ld.so.cache "$root/etc/"
    printf 'root:x:0:0::/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
    cp "$here/init" "$root/init"
    chmod +x "$root/init"
    { list_tests && cat "$here/in-guest"; } >"$root/run"
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/$version/initramfs"
}

# For the guest: the tests that match, with five times their time, and who runs them.
list_tests() {
    (cd "$build" && ctest --show-only=json-v1) | MATCH=$match python3 -c '
import json, os, re, shlex, sys
print("tests=(")
for test in json.load(sys.stdin)["tests"]:
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    if re.search(os.environ["MATCH"], test["name"]) and test.get("command"):
        line = "%s %d %s" % (test["name"], 5 * properties.get("TIMEOUT", 120), shlex.join(test["command"]))
        print(shlex.quote(line))
print(")")'
    printf 'build=%q\nusers=%q\nrounds=%q\nalso=%q\n' "$build" "$users" "$rounds" "$also"
}

boot() {
    timeout "${KERNELS_SECONDS:-5400}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 \
        -m "${KERNELS_MEMORY:-2048}" -nodefaults -nographic -no-reboot -serial stdio \
        -kernel "$work/$version/boot/vmlinuz-$version" -initrd "$work/$version/initramfs" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off build=$build" \
        -virtfs local,path=/usr,mount_tag=usr,security_model=none,readonly=on,multidevs=remap \
        -virtfs "local,path=$build,mount_tag=build,security_model=none,readonly=on" </dev/null
}

failed=0 points=0
for kernel in "$@"; do
    unpack "$kernel"
    make_initramfs
    boot | sed -u 's/\r//' | tee "$work/$version/said"
    summary=$(sed -n 's/^guest: \([0-9]*\) points, \([0-9]*\) failed$/\1 \2/p' "$work/$version/said")
    [ -n "$summary" ] || { echo "$version: the guest did not come to its end" && summary="1 1"; }
    points=$((points + ${summary% *})) failed=$((failed + ${summary#* }))
done
echo "kernels: $points points, $failed failed"
[ $failed -eq 0 ]
