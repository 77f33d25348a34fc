#!/usr/bin/env bash
# Contract: three nodes of a cohort and haproxy, with clients of ioredis, node-redis and redis-py that write all the time, each
# by the ways its library knows. The leader is killed with its Redis (kill -9) and started again, time after time; then another
# node is asked to lead. After each every client must get on by itself, and in the end have lost nothing that it was told.
# Ends with `N passed, N failed`: a client is one test.
#
#   takeover.sh [--takeovers N] [--only REGEX]
set -uo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
takeovers=3 only=''
while [ $# -gt 0 ]; do
    case $1 in
        --takeovers) takeovers=$2; shift 2 ;;
        --only) only=$2; shift 2 ;;
        *) fail "unknown option $1" ;;
    esac
done
need_tools redis-server redis-cli node npm python3 haproxy timeout dotnet
python=
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$candidate" -c 'import redis.sentinel' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || unavailable "redis-py is missing on this machine (python3-redis)"
install_clients
make_work_dir
dll=${SLOGGER_DLL:-$(find_slogger)}
[ -f "$dll" ] || fail "no slogger.dll: build it (dotnet build src/Slogger.Cli -c Release) or set SLOGGER_DLL"
master=takeovers limit_s=60
declare -A port peer pids
names=(a b c)
for name in "${names[@]}"; do free_port "port[$name]"; free_port "peer[$name]"; done
cohort=a=127.0.0.1:${peer[a]},b=127.0.0.1:${peer[b]},c=127.0.0.1:${peer[c]}

start_node() {
    # A lease that a busy machine keeps: takeovers come from here.
    dotnet "$dll" serve --listen "127.0.0.1:${port[$1]}" --node "$1" --cohort "$cohort" --lease 1s --cluster "$master" \
        --redis-server redis-server --data "$work_dir/$1" --metadata "sqlite:$work_dir/metadata.db" >>"$work_dir/$1.log" 2>&1 &
    pids[$1]=$!
    started_pids+=($!)
}

stop_redis_servers() {
    local name pid
    for name in "${names[@]}"; do
        pid=$(cat "$work_dir/$name/redis/redis.pid" 2>/dev/null) && grep -q redis-server "/proc/$pid/cmdline" 2>/dev/null && kill "$pid"
    done
}
trap 'stop_all; stop_redis_servers; [ -n "${KEEP_WORK:-}" ] || rm -rf "$work_dir"' EXIT

# Sets leader: who says that it is the master.
find_leader() {
    local i name
    for ((i = 0; i < limit_s * 10; i++)); do
        for name in "${names[@]}"; do
            if [ "$(timeout 2 redis-cli -p "${port[$name]}" role 2>/dev/null | head -n 1)" = master ]; then leader=$name; return; fi
        done
        sleep 0.1
    done
    give_up "no node leads"
}

give_up() {
    for name in "${names[@]}"; do echo "--- $name"; tail -n 25 "$work_dir/$name.log"; done
    cat "$work_dir"/clients.*.out
    echo "FAILED $1"
    echo "0 passed, 1 failed"
    exit 1
}

# Every client has got further than it was, but for these.
all_get_on() { # all_get_on WHEN [BUT]
    local file i
    local -A before=()
    for file in "$work_dir"/progress/*; do [ "${file##*/}" = "${2:-}" ] || before[$file]=$(cat "$file"); done
    for file in "${!before[@]}"; do
        for ((i = 0; ; i++)); do
            # Two more: what is under way now does not count.
            [ "$(cat "$file" 2>/dev/null || echo 0)" -gt $((${before[$file]:-0} + 2)) ] 2>/dev/null && break
            [ "$i" -lt $((limit_s * 10)) ] || give_up "${file##*/} does not get on: $1"
            sleep 0.1
        done
    done
}

# It may be killed next when the others have a majority without it.
all_follow() {
    local i
    for ((i = 0; i < limit_s * 2; i++)); do
        timeout 20 dotnet "$dll" cohort status --cohort "$cohort" 2>/dev/null | grep -q 'one more node may be lost' && return
        sleep 0.5
    done
    timeout 20 dotnet "$dll" cohort status --cohort "$cohort"
    give_up "the nodes do not follow"
}

for name in "${names[@]}"; do start_node "$name"; done
for name in "${names[@]}"; do wait_for_port "${port[$name]}" "${pids[$name]}" "$work_dir/$name.log" "$limit_s" || exit 2; done
find_leader
free_port balancer
sed -e "s/bind .*/bind 127.0.0.1:$balancer/" -e "s/10.0.0.1:7000/127.0.0.1:${port[a]}/" -e "s/10.0.0.2:7000/127.0.0.1:${port[b]}/" \
    -e "s/10.0.0.3:7000/127.0.0.1:${port[c]}/" "$repo_dir/deploy/haproxy.cfg" >"$work_dir/haproxy.cfg"
haproxy -f "$work_dir/haproxy.cfg" >"$work_dir/haproxy.log" 2>&1 &
started_pids+=($!)

mkdir "$work_dir/progress"
export NODES="127.0.0.1:${port[a]},127.0.0.1:${port[b]},127.0.0.1:${port[c]}" MASTER=$master BALANCER=$balancer CLIENTS_DIR=$clients_dir \
    STOP=$work_dir/stop PROGRESS=$work_dir/progress BEGUN=$work_dir/begun ONLY=$only
timeout --kill-after=5 900 node "$external_dir/clients/takeover.mjs" >"$work_dir/clients.node.out" 2>&1 &
node_pid=$!
timeout --kill-after=5 900 "$python" "$external_dir/clients/takeover.py" >"$work_dir/clients.python.out" 2>&1 &
python_pid=$!
started_pids+=("$node_pid" "$python_pid")
for ((i = 0; i < limit_s * 10; i++)); do
    [ -e "$work_dir/begun.node" ] && [ -e "$work_dir/begun.python" ] && break
    sleep 0.1
done
all_get_on "at first"
for ((round = 1; round <= takeovers; round++)); do
    all_follow
    find_leader
    killed=$leader
    redis_pid=$(cat "$work_dir/$killed/redis/redis.pid")
    kill -9 "${pids[$killed]}" "$redis_pid"
    wait "${pids[$killed]}" 2>/dev/null
    find_leader
    # It asks nobody but the lost node, until that is back and sends it to the leader (as with a Redis Cluster).
    all_get_on "$killed was killed, $leader leads" node-redis-cluster
    start_node "$killed"
    all_get_on "$killed is back, $leader leads"
done
# By plan. A machine that is busy may elect another one, and the command says so.
for ((tries = 1; ; tries++)); do
    all_follow
    find_leader
    for name in "${names[@]}"; do [ "$name" = "$leader" ] || next=$name; done
    timeout 60 dotnet "$dll" cohort lead --to "$next" --cohort "$cohort" >"$work_dir/lead.log" 2>&1 && break
    [ "$tries" -lt 5 ] || { cat "$work_dir/lead.log"; give_up "cohort lead"; }
done
all_get_on "$leader has handed over to $next"
touch "$work_dir/stop"
wait "$node_pid" "$python_pid"
cat "$work_dir"/clients.*.out
passed=$(cat "$work_dir"/clients.*.out | grep -c '^ok ') failed=$(cat "$work_dir"/clients.*.out | grep -c '^FAILED ')
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
