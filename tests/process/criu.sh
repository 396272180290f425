#!/bin/sh
# criu.sh FOLDER [COMMAND...]: a criu that works on new kernels, that of Debian 13, in FOLDER/criu; tells where, or runs the
# command, which finds it by CRIU. Makes it in ten seconds unless it is there, by mmdebstrap and from the package archive,
# and installs nothing. It runs with libraries of its own. If CRIU names one already, there is nothing to make. Exit code
# 77: none can be had that works here.
set -u
skip() { echo "skipped: $*" >&2; exit 77; }

[ $# -ge 1 ] || { echo "criu.sh: in which folder?" >&2; exit 2; }
[ "$(id -u)" = 0 ] || skip "criu needs root"
case $1 in /*) root=$1 ;; *) root=$PWD/$1 ;; esac
criu=${CRIU:-criu}
if [ -z "${CRIU:-}" ] && ! criu check >/dev/null 2>&1; then
    criu=$root/criu
    if [ ! -e "$criu" ]; then
        command -v mmdebstrap >/dev/null || skip "no criu works here, and there is no mmdebstrap to get a newer one"
        rm -rf "$root"
        mmdebstrap --variant=extract --include=criu trixie "$root" >"$root.log" 2>&1 ||
            skip "no criu works here, and a newer one was not to be had: $(tail -n 1 "$root.log")"
        cat >"$criu.new" <<END
#!/bin/sh
exec '$root/usr/lib64/ld-linux-x86-64.so.2' --library-path '$root/usr/lib/x86_64-linux-gnu' '$root/usr/sbin/criu' "\$@"
END
        chmod +x "$criu.new"
        mv "$criu.new" "$criu"
    fi
fi
"$criu" check >"$root.check" 2>&1 || skip "$criu does not work here: $(tail -n 1 "$root.check")"
[ $# -gt 1 ] || exec sh -c 'command -v "$0"' "$criu"
CRIU=$(command -v "$criu")
export CRIU
shift
exec "$@"
