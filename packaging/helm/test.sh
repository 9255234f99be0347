#!/usr/bin/env bash
# test.sh: what Helm and the schemas of Kubernetes say of the chart in each architecture, whether the server accepts the
# configuration in it, and what configure.sh writes in each state of a pod. Needs Python with pip, and helm or Go to build it;
# without these two it says so and checks configure.sh alone. SERVER is another program than target/dist/warmline-server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
server=$(realpath "${SERVER:-target/dist/warmline-server}")
chart=packaging/helm/warmline
HELM=v3.22.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf -- '-- %s\n' "$*"; }
fail() { echo "$*" >&2; exit 1; }

# configure STATE VARIABLE...: runs the script as the pod NAME would, with a Sentinel that knows the primary PRIMARY, or none.
mkdir "$work/bin"
cat >"$work/bin/valkey-cli" <<'STUB'
#!/bin/sh
[ -n "${PRIMARY:-}" ] || exit 1
printf '%s\n6379\n' "$PRIMARY"
STUB
chmod +x "$work/bin/valkey-cli"
configure() {
    env PATH="$work/bin:$PATH" CONFIGURATION_DIRECTORY="$work/state/$1" DOMAIN=w.default.svc PORT=6379 PASSWORD=secret \
        SENTINEL_SERVICE=w SENTINEL_PORT=26379 SENTINEL_QUORUM=2 SENTINEL_DOWN_AFTER_MS=5000 \
        SENTINEL_FAILOVER_TIMEOUT_MS=30000 "${@:2}" sh "$chart/files/configure.sh"
}
has() { grep -qxF -- "$2" "$work/state/$1" || fail "$1 lacks: $2"$'\n'"$(cat "$work/state/$1")"; }
lacks() { ! grep -q "^$2" "$work/state/$1" || fail "$1 has: $2"; }

say 'configure.sh without Sentinel'
configure first POD_NAME=w-0
lacks first/server.conf replicaof
has first/server.conf 'replica-announce-ip w-0.w.default.svc'
configure second POD_NAME=w-1
has second/server.conf 'replicaof w-0.w.default.svc 6379'
has second/server.conf 'primaryauth secret'
[ ! -e "$work/state/second/sentinel.conf" ]

say 'configure.sh with Sentinel'
sentinel=(SENTINEL_NAME=warmline)
configure a POD_NAME=w-0 "${sentinel[@]}"
lacks a/server.conf replicaof
has a/sentinel.conf 'sentinel monitor warmline w-0.w.default.svc 6379 2'
has a/sentinel.conf 'sentinel auth-pass warmline secret'
has a/sentinel.conf 'port 26379'
# A failover while it was away: the first pod follows, and what Sentinel has written stays.
echo 'sentinel myid 0123' >>"$work/state/a/sentinel.conf"
configure a POD_NAME=w-0 PRIMARY=w-2.w.default.svc "${sentinel[@]}"
has a/server.conf 'replicaof w-2.w.default.svc 6379'
has a/sentinel.conf 'sentinel myid 0123'
[ "$(grep -c '^sentinel down-after-milliseconds' "$work/state/a/sentinel.conf")" = 1 ]
# All pods begin at once: no Sentinel answers, and each has the role that it had.
configure a POD_NAME=w-0 "${sentinel[@]}"
has a/server.conf 'replicaof w-2.w.default.svc 6379'
configure b POD_NAME=w-2 PRIMARY=w-2.w.default.svc "${sentinel[@]}"
configure b POD_NAME=w-2 "${sentinel[@]}"
lacks b/server.conf replicaof
# A reply that is no name is none.
configure c POD_NAME=w-1 'PRIMARY=ERR no such primary; $(x)' "${sentinel[@]}"
has c/server.conf 'replicaof w-0.w.default.svc 6379'
configure d POD_NAME=w-1 TLS=yes TLS_AUTH_CLIENTS=no "${sentinel[@]}"
has d/sentinel.conf 'tls-port 26379'
has d/sentinel.conf 'port 0'
# What is turned off in the chart goes from both files; the quorum follows it.
configure d POD_NAME=w-1 PASSWORD= SENTINEL_QUORUM=3 "${sentinel[@]}"
lacks d/sentinel.conf tls-
lacks d/sentinel.conf requirepass
lacks d/sentinel.conf 'sentinel auth-pass'
lacks d/server.conf requirepass
lacks d/server.conf primaryauth
has d/sentinel.conf 'port 26379'
has d/sentinel.conf 'sentinel monitor warmline w-0.w.default.svc 6379 3'

helm=$(command -v helm || true)
if [ -z "$helm" ] && command -v go >/dev/null; then
    helm=$PWD/target/tools/helm-$HELM
    [ -x "$helm" ] || { GOBIN=$work/bin go install "helm.sh/helm/v3/cmd/helm@$HELM" && install -D "$work/bin/helm" "$helm"; } || helm=
fi
if [ -z "$helm" ]; then
    say 'helm is not here and cannot be built: the templates were NOT checked'
    exit 0
fi
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0

# Without a version Helm renders for one that the chart does not support.
template() { "$helm" template w "$chart" --kube-version 1.33.0 "$@"; }

# render NAME VALUE...: the chart with these values, held against the schemas of two versions of Kubernetes.
render() {
    local name=$1 version value options=()
    shift
    for value in "$@"; do options+=(--set "$value"); done
    "$helm" lint --quiet --strict "$chart" "${options[@]}"
    template "${options[@]}" >"$work/$name.yaml"
    for version in 1.27 1.33; do
        "$work/venv/bin/kubernetes-validate" --strict --quiet --no-warn -k "$version" "$work/$name.yaml"
    done
    "$work/venv/bin/python" - "$work/$name.yaml" >"$work/$name.conf" <<'PYTHON'
import sys, yaml
objects = [o for o in yaml.safe_load_all(open(sys.argv[1])) if o]
maps = [o for o in objects if o["kind"] == "ConfigMap"]
assert len(maps) == 1
print(maps[0]["data"]["warmline.conf"])
PYTHON
}
has_line() { grep -q -- "$2" "$work/$1.yaml" || fail "$1 lacks: $2"; }
refused() {
    local wanted=$1 value options=()
    shift
    for value in "$@"; do options+=(--set "$value"); done
    if template "${options[@]}" >/dev/null 2>"$work/error"; then fail "accepted: $*"; fi
    grep -q -- "$wanted" "$work/error" || fail "$* was refused with: $(cat "$work/error")"
}

say 'templates'
render standalone
render password auth.password=secret,service.type=LoadBalancer,persistence.enabled=false
render open auth.enabled=false,architecture=replicas
render replicas architecture=replicas,servers=4,antiAffinity=hard,config.maxmemory=1gb,serviceMonitor.enabled=true
render sentinel architecture=sentinel,antiAffinity=none
render everything architecture=sentinel,tls.enabled=true,tls.existingSecret=t,tls.authClients=optional,http.tls=true \
    serviceMonitor.enabled=true,auth.existingSecret=s,extraConfig='appendonly yes',topologyKey=zone
has_line standalone 'replicas: 1'
has_line replicas 'replicas: 4'
has_line replicas 'requiredDuringSchedulingIgnoredDuringExecution'
has_line replicas 'kind: ServiceMonitor'
has_line sentinel 'valkey-sentinel, /data/configuration/sentinel.conf'
has_line everything 'scheme: HTTPS'
has_line everything 'kind: PodDisruptionBudget'
has_line replicas '^    appendonly yes'
printf 'config: {appendonly: yes, maxmemory: 1073741824}\n' >"$work/values.yaml"
template -f "$work/values.yaml" >"$work/typed.yaml"
has_line typed '^    appendonly yes$'
has_line typed '^    maxmemory 1073741824$'
refused 'replicas need persistence' architecture=replicas,persistence.enabled=false
refused 'architecture must be' architecture=cluster
refused 'sentinel needs 3' architecture=sentinel,servers=2
refused 'tls.existingSecret must' tls.enabled=true
refused 'the kubelet has no certificate' tls.enabled=true,tls.existingSecret=t,tls.authClients=yes,http.tls=true

say 'the configuration in them'
for name in standalone password open replicas sentinel; do
    sed 's|^dir /data$|dir /tmp|' "$work/$name.conf" | "$server" --check-config - >/dev/null
done
grep -q '^appendonly yes$' "$work/everything.conf"
say 'the chart renders, fits the schemas and configures servers'
