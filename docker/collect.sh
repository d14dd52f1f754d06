#!/bin/sh
# Puts PROGRAMs of /build/bin into FOLDER, without symbols, with the shared libraries that they need and the base image
# lacks, at the paths where they are here. An image that installs the libraries' packages instead has all that those depend
# on, such as libucx0's support of AMD's GPUs with a compiler: 235 MB that nothing uses. What was taken from which package
# is in /usr/share/shoal/packages.txt; symbols go to /symbols.
# Usage: collect.sh FOLDER [--data-plane] PROGRAM...
#   --data-plane   also libshoal.so, and UCX, which programs load for RDMA, with its modules for RDMA verbs
set -eu
folder=$1
shift
libraries=/usr/lib/$(uname -m)-linux-gnu
found=
if [ "$1" = --data-plane ]; then
  shift
  found=$(find "$libraries/ucx" -name 'libuct_ib*.so*')
  found="$libraries/libucp.so.0 $found"
  set -- "$@" ../lib/libshoal.so
fi

# Of every Debian: what dpkg itself needs, and the C library.
is_in_base() { # is_in_base PACKAGE
  case $1 in
    libc6 | libgcc-s1 | libstdc++6 | zlib1g | libzstd1 | liblzma5 | libbz2-1.0 | libselinux1 | libpcre2-8-0 | libmd0) ;;
    *) return 1 ;;
  esac
}

copy() { # copy FILE: with the links that lead to it
  while :; do
    mkdir -p "$folder$(dirname "$1")"
    cp -d "$1" "$folder$1"
    [ -L "$1" ] || break
    set -- "$(realpath --no-symlinks "$(dirname "$1")/$(readlink "$1")")"
  done
}

for program; do
  name=$(basename "$program")
  target=$folder/usr/local/bin/$name
  case $name in *.so) target=$folder/usr/local/lib/$name ;; esac
  mkdir -p "$(dirname "$target")" /symbols
  objcopy --only-keep-debug "/build/bin/$program" "/symbols/$name.debug"
  strip --strip-unneeded -o "$target" "/build/bin/$program"
  objcopy --add-gnu-debuglink="/symbols/$name.debug" "$target"
  found="$found /build/bin/$program"
done

mkdir -p "$folder/usr/share/shoal"
# shellcheck disable=SC2086 # names without blanks
for library in $(ldd $found 2> /dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u) $found; do
  case $library in /build/*) continue ;; esac
  real=$(realpath "$library")
  # dpkg knows files by the name they were packed under: /lib is a link to /usr/lib, or was not one then.
  package=$({ dpkg-query --search "$real" || dpkg-query --search "${real#/usr}"; } 2> /dev/null | sed 's/[:, ].*//;q')
  ! is_in_base "$package" || continue
  copy "$library"
  dpkg-query --show --showformat '${Package} ${Version}\n' "$package" | sed q
done | sort -u > "$folder/usr/share/shoal/packages.txt"
