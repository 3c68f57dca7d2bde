#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Commands of `spot-run fleet` for Kubernetes: see --help.
set -euo pipefail

help() {
    cat <<'END'
usage: spot-run fleet --launch 'kubernetes-fleet.sh launch' --terminate 'kubernetes-fleet.sh terminate'
           --drain 'kubernetes-fleet.sh drain' --list 'kubernetes-fleet.sh list' ...

A machine is a pod that asks for a node of its own in the node pool of a zone, type and market; the
pools' autoscaler (GKE, EKS with Karpenter, AKS) brings as many nodes as pods wait, and takes them
back. Names of pods are those of their token, so that a token launches once.

  FLEET_POD        manifest of one pod, as kubectl reads it (required); with an anti-affinity or
                   requests by which a node holds one
  FLEET_NAMESPACE  else as kubectl is configured
  FLEET_SPOT       label of nodes on spot, KEY=VALUE (cloud.google.com/gke-spot=true;
                   EKS: eks.amazonaws.com/capacityType=SPOT, AKS: kubernetes.azure.com/scalesetpriority=spot)
  FLEET_ON_DEMAND  label of nodes on demand, KEY=VALUE (none)

Zones are topology.kubernetes.io/zone of nodes, types node.kubernetes.io/instance-type. Needs
kubectl and jq.
END
}

k=(kubectl)
[ -z "${FLEET_NAMESPACE-}" ] || k+=(--namespace "$FLEET_NAMESPACE")
spot=${FLEET_SPOT-cloud.google.com/gke-spot=true} on_demand=${FLEET_ON_DEMAND-}

# A name of Kubernetes: what a fleet may be called, and more.
name() { tr '[:upper:]_' '[:lower:]-' <<<"$1"; }

# The pods of the token that are not there yet. A second call finds them by their names.
launch() {
    local pod i id
    pod=$("${k[@]}" create --dry-run=client -o json -f "${FLEET_POD:?FLEET_POD is missing: a manifest of one pod}")
    for ((i = 1; i <= SPOT_N; i++)); do
        id=$(name "$SPOT_TOKEN-$i")
        if ! "${k[@]}" get pod "$id" -o name --ignore-not-found | grep -q .; then
            jq --arg id "$id" --arg market "$SPOT_MARKET" --arg pool "$([ "$SPOT_MARKET" = spot ] && echo "$spot" || echo "$on_demand")" '
                .metadata.name = $id | .spec.restartPolicy = "Never"
                | .metadata.labels["spot-fleet"] = (env.SPOT_TOKEN | split("-")[0])
                | .metadata.annotations += {"spot/token": env.SPOT_TOKEN, "spot/zone": env.SPOT_ZONE, "spot/type": env.SPOT_TYPE, "spot/market": $market}
                | .spec.nodeSelector["node.kubernetes.io/instance-type"] = env.SPOT_TYPE
                | if env.SPOT_ZONE == "" then . else .spec.nodeSelector["topology.kubernetes.io/zone"] = env.SPOT_ZONE end
                | if $pool == "" then . else .spec.nodeSelector[$pool | split("=")[0]] = ($pool | split("=")[1:] | join("=")) end' <<<"$pod" |
                "${k[@]}" create -f - >/dev/null
        fi
        echo "$id"
    done
}

list() {
    "${k[@]}" get pods -l "spot-fleet=$SPOT_FLEET" -o json | jq -r '
        ["id", "token", "zone", "instance_type", "market", "state"],
        (.items[] | .metadata.annotations as $a | [.metadata.name, $a["spot/token"], $a["spot/zone"], $a["spot/type"], $a["spot/market"],
            if .status.phase == "Succeeded" or .status.phase == "Failed" then "gone"
            elif .metadata.deletionTimestamp then "leaving"
            elif .status.phase == "Running" then "running"
            else "starting" end]) | @csv'
}

case ${1-} in
launch) launch ;;
# SIGTERM is the notice, and the pod's terminationGracePeriodSeconds the grace
drain) "${k[@]}" delete pod "$SPOT_ID" --ignore-not-found --wait=false >/dev/null ;;
terminate) "${k[@]}" delete pod "$SPOT_ID" --ignore-not-found --wait=false --grace-period=1 >/dev/null ;;
list) list ;;
--help) help ;;
*)
    help >&2
    exit 2
    ;;
esac
