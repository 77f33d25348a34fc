#!/usr/bin/env bash
# Contract: the part of the outside suites that fits into some four minutes of CI, on the proxy with --commit none and log, and with its embedded store:
# units of Redis's Tcl suite, the quick conformance cases, the client libraries, and those through a takeover. Ends with one line
# `N passed, N failed` (`, N skipped` when this machine cannot fetch a suite: then it says what is missing, and that suite
# counts as one skipped). Needs the proxy built in Release, or SLOGGER_DLL. Logs of failed parts are printed.
set -uo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
make_work_dir
total_passed=0 total_failed=0 total_skipped=0
part_seconds=${PART_SECONDS:-300}
# Random cases: the same ones each time here, so that a change is judged by its own doing; runs by hand draw new ones.
quick_seed=1
# What in the conformance cases mostly waits; the full run has them.
quick_skip='^(acl/changes_take|client/kill_by_address|server/timeout_spares|close/quit_everywhere|auth/password_set_directly|slow/ten_readers|framing/million)|\.bytewise$|fuzz/.*_[2-9]'

declare -A part_pids
start_part() { # start_part NAME PORTS COMMAND...
    local name=$1 ports=$2
    shift 2
    SLOGGER_EXTERNAL_PORTS=$ports timeout --kill-after=20 "$part_seconds" "$@" >"$work_dir/$name.out" 2>&1 </dev/null &
    part_pids[$name]=$!
    started_pids+=($!)
}

finish_parts() {
    local name status line
    for name in "$@"; do
        wait "${part_pids[$name]}"
        status=$?
        line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$work_dir/$name.out" | tail -n 1)
        if [ "$status" -eq "$exit_unavailable" ]; then
            echo "$name: skipped: $(grep -a '^unavailable:' "$work_dir/$name.out" | tail -n 1)"
            total_skipped=$((total_skipped + 1))
        elif [ -z "$line" ]; then
            echo "$name: did not end within $part_seconds s, or died (status $status)"
            tail -n 60 "$work_dir/$name.out"
            total_failed=$((total_failed + 1))
        else
            echo "$name: $line"
            [[ $line == *" 0 failed" ]] || grep -av '^ok ' "$work_dir/$name.out" | tail -n 150
            read -r p _ f _ <<<"$line"
            total_passed=$((total_passed + p))
            total_failed=$((total_failed + f))
        fi
    done
}

dll=${SLOGGER_DLL:-$(find_slogger)}
[ -f "$dll" ] || fail "no slogger.dll: build it (dotnet build src/Slogger.Cli -c Release) or set SLOGGER_DLL"
export SLOGGER_DLL=$dll

# Two at a time: they mostly wait. First the fetches, alone, so that no two write the cache at once.
(ensure_sources) || true
start_part tcl-none 31000-31249 "$external_dir/redis-suite.sh" --target none --tests-file "$external_dir/redis-suite.ci-units.txt" --stall-seconds 150
start_part conformance-log 31250-31499 "$external_dir/conformance.sh" --target log --seed "$quick_seed" --skip "$quick_skip"
finish_parts tcl-none conformance-log
start_part tcl-log 31500-31749 "$external_dir/redis-suite.sh" --target log --tests-file "$external_dir/redis-suite.ci-units.txt" --stall-seconds 150
start_part clients-log 31750-31999 "$external_dir/clients.sh" --target log --only '^(?!.*big-values)'
finish_parts tcl-log clients-log
start_part tcl-faster 31000-31249 "$external_dir/redis-suite.sh" --target faster --tests-file "$external_dir/redis-suite.faster-units.txt" --stall-seconds 150
start_part takeover 31250-31499 "$external_dir/takeover.sh" --takeovers 1
finish_parts tcl-faster takeover

if [ "$total_skipped" -gt 0 ]; then
    printf '%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
else
    printf '%d passed, %d failed\n' "$total_passed" "$total_failed"
fi
[ "$total_failed" -eq 0 ]
