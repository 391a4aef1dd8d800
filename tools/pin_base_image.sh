#!/usr/bin/env bash
# Ask the registry for the digest of the Dockerfile's default base image, and write it behind the tag. The engine verifies it at each
# build; run this again to take a newer image of the same tag.
set -euo pipefail
cd "$(dirname "$0")/.."

image=$(sed -n 's/^ARG BASE_IMAGE=//p' Dockerfile)
tagged=${image%@*}
docker pull --quiet "$tagged" > /dev/null
digest=$(docker image inspect --format '{{index .RepoDigests 0}}' "$tagged")
digest=${digest#*@}
if ! grep -qxE 'sha256:[0-9a-f]{64}' <<< "$digest"; then
    echo "pin-base-image: the registry names no digest of $tagged" >&2
    exit 1
fi
sed "s|^ARG BASE_IMAGE=.*|ARG BASE_IMAGE=$tagged@$digest|" Dockerfile > Dockerfile.part
mv Dockerfile.part Dockerfile
echo "pin-base-image: $tagged@$digest"
