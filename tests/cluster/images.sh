#!/usr/bin/env bash
# Builds images from the project's own Dockerfile without Docker and without a registry (as root, with buildah):
#
#   images.sh build TAG [OPTION...] CONTEXT   options as for `docker build`: --file, --build-arg, --target
#   images.sh save TAG FILE.tar               as `docker save` writes it
#   images.sh clean
#
# The base image debian:trixie-slim is made from this machine's own package sources. It holds this machine's settings and
# certificates of apt: what is built here is for tests and never to be published. Layers are kept in build/cluster/images, so
# that a second build takes seconds.
set -euo pipefail
# Mounts of its own, so that none is left if it is interrupted.
[ -n "${SHOAL_IMAGES_MOUNTS-}" ] || SHOAL_IMAGES_MOUNTS=private exec unshare --mount "$0" "$@"
own_folder=$(realpath "$(dirname "$0")")
store=$(realpath -m "$own_folder/../../build/cluster/images")
mkdir -p "$store"

choose_driver() { # overlay where kernel and disk carry it, else the slow vfs
  local try=$store/try
  mkdir -p "$try"/{lower,upper,work,merged}
  if unshare --mount mount -t overlay overlay -o "lowerdir=$try/lower,upperdir=$try/upper,workdir=$try/work" "$try/merged" \
    2> /dev/null; then
    echo overlay
  else
    echo vfs
  fi
  rm -rf "$try"
}
[ -s "$store/driver" ] || choose_driver > "$store/driver"

build_with() {
  buildah --root "$store/layers" --runroot "$store/running" --storage-driver "$(cat "$store/driver")" "$@"
}

make_base() { # the base image of the Dockerfile, unless it is there
  local suite=trixie
  local image=docker.io/library/debian:$suite-slim
  ! build_with inspect --type image "$image" > /dev/null 2>&1 || return 0
  local here sources=/etc/apt/sources.list.d/debian.sources certificates=() container
  [ -f $sources ] || sources=/etc/apt/sources.list
  here=$(. /etc/os-release && echo "$VERSION_CODENAME")
  local suite_sources=$store/suite.${sources##*.}
  sed "s/\b$here\b/$suite/g" "$sources" > "$suite_sources"
  apt-config dump | grep -E '^Acquire::(https?|Check)' > "$store/apt.conf" || :
  [ ! -d /usr/local/share/ca-certificates ] ||
    certificates=("--customize-hook=copy-in /usr/local/share/ca-certificates /usr/local/share")
  # shellcheck disable=SC2016 # the inner shell expands them
  mmdebstrap --quiet --variant=minbase --aptopt="$store/apt.conf" "${certificates[@]}" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='rm -f "$1"/etc/hostname "$1"/etc/resolv.conf' "$suite" "$store/base.tar" "$suite_sources"
  container=$(build_with from scratch)
  build_with add --quiet "$container" "$store/base.tar" / > /dev/null
  build_with config --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  build_with commit --quiet --rm "$container" "$image"
  rm -f "$store/base.tar"
}

case ${1-} in
  build)
    make_base
    # With chroot isolation a RUN step has this machine's network: apt and pip reach what the machine reaches.
    build_with build --isolation chroot --layers --pull-never --format docker --tag "$2" "${@:3}" ;;
  save)
    rm -f "$3"
    build_with push --quiet "$2" "docker-archive:$3:$2" ;;
  clean) rm -rf --one-file-system "$store" ;;
  *)
    sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0" >&2
    exit 2 ;;
esac
