#!/bin/sh
# `tools/ldconfig_hint.sh <log of cmake --install>`: say what is missing until programs find the installed libgpuscope.so.
set -eu
library=$(sed -nE 's,^-- (Installing|Up-to-date): (.*/libgpuscope\.so\.[0-9]+)$,\2,p' "$1")
[ -n "$library" ] || exit 0
folder=${library%/*}
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
case $("$ldconfig" -N -v 2>/dev/null | sed -nE 's,^(/[^:]*):.*,\1,p') in
*"$folder"*)
    "$ldconfig" -p | grep -qF "$library" ||
        echo "to let programs find libgpuscope.so: ldconfig (as root)"
    ;;
*) echo "to let programs find libgpuscope.so: LD_LIBRARY_PATH=$folder, or add $folder to /etc/ld.so.conf.d and call ldconfig" ;;
esac
