#!/usr/bin/env bash
# Contract: runs Redis 7.0.15's own Tcl test suite on a target and compares test by test with what is expected of it.
# The suite is fetched (see common.sh), never committed. Each run works in a copy of the suite's tests, so runs may
# overlap. Ends with one line `N passed, N failed`; exit 0 only if every expected test is ok and no other failed.
# A hang is cut (no progress for STALL_SECONDS, or the whole beyond LIMIT_SECONDS), reported, and the run goes on with
# the next unit on fresh processes, so that one hang never hides the rest.
#
#   redis-suite.sh [--target raw|forwarder|none|log|faster] [--single UNIT]... [--tests-file FILE] [--write-expected]
#                  [--stall-seconds N] [--limit-seconds N] [--keep DIR] [--address HOST:PORT] [--redis-option "K V"]...
#
#   --target        raw: the server itself (default); forwarder: haproxy in TCP mode; none, log: the proxy in that mode;
#                   faster: the proxy with its embedded store
#   --address       a target that somebody else runs (in front of a Redis started with the options of start_redis)
#   --single        only this unit (unit/type/string); repeatable. --tests-file: units from a file, one a line
#   --write-expected  writes redis-suite.expected.txt from this run (only sensible with raw and all units)
#   --keep          copies the suite's output, the parsed list and the logs of all processes there
set -uo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

target=raw singles=() stall_seconds=90 limit_seconds=1800 keep_dir='' write_expected='' address='' redis_options=()
while [ $# -gt 0 ]; do
    case $1 in
        --target) target=$2; shift 2 ;;
        --single) singles+=("$2"); shift 2 ;;
        --tests-file) mapfile -t -O "${#singles[@]}" singles < <(grep -v '^#' "$2" | grep .); shift 2 ;;
        --stall-seconds) stall_seconds=$2; shift 2 ;;
        --limit-seconds) limit_seconds=$2; shift 2 ;;
        --keep) keep_dir=$2; shift 2 ;;
        --address) address=$2; shift 2 ;;
        --redis-option) read -r -a words <<<"$2"; redis_options+=("${words[@]}"); shift 2 ;;
        --write-expected) write_expected=yes; shift ;;
        -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        *) fail "unknown option $1 (see --help)" ;;
    esac
done

need_tools redis-server redis-cli redis-benchmark tclsh timeout awk
ensure_sources
make_work_dir

expected_file=$external_dir/redis-suite.expected.txt
exceptions_file=$external_dir/redis-suite.$target-exceptions.txt
output=$work_dir/suite.out
: >"$output"

# The suite writes into its own tree, so each run gets its own tests/ beside links to the rest.
run_dir=$work_dir/suite
mkdir -p "$run_dir"
cp -r "$suite_dir/tests" "$run_dir/tests"
mkdir -p "$run_dir/tests/tmp"
# The embedded store has no functions to flush and no settings to change between units.
[ "$target" != faster ] || sed -i -e 's/^    r function flush$//' -e 's/foreach {param val} $overrides {/foreach {param val} {} {/' "$run_dir/tests/support/server.tcl"
for entry in src runtest utils redis.conf; do ln -s "$suite_dir/$entry" "$run_dir/$entry"; done

all_units() { (cd "$run_dir" && TERM=dumb ./runtest --list-tests); }

start_all() {
    if [ -n "$address" ]; then
        suite_host=${address%:*} target_port=${address##*:}
        return
    fi
    suite_host=127.0.0.1
    rm -rf "$work_dir/data"
    # Redis looks after five clients at a time, ten times a second. The proxy has connections of its own, so each one's turn comes more
    # seldom, and unit/replybufsize allows one second for five turns: with more rounds the number of connections does not matter.
    start_redis --hz 50 "${redis_options[@]}"
    start_target "$target"
}

# One run of the suite over the given units. Returns 0 when it reached its end.
run_units() {
    local arguments=() unit name suite_base status
    for unit in "$@"; do arguments+=(--single "$unit"); done
    # The embedded store has one database, and nothing of replication, dumps and DEBUG.
    [ "$target" != faster ] || arguments+=(--singledb --tags "-needs:debug -needs:repl -needs:save -needs:reset -needs:config-maxmemory")
    # An exception that would hang the suite instead of failing: its reason begins "not run".
    while IFS=$'\t' read -r name _; do arguments+=(--skiptest "$name"); done < <(grep -sP '\tnot run: ' "$exceptions_file")
    # The suite's own control port: it looks for a free one below this.
    free_port suite_base
    # Own process group (timeout makes one), so that its Tcl clients and what they run go with it.
    (cd "$run_dir" && TERM=dumb exec timeout --kill-after=10 "$seconds_left" ./runtest --host "$suite_host" \
        --port "$target_port" --tags -slow --durable --timeout "$stall_seconds" \
        --baseport "$((suite_base + 32))" "${arguments[@]}") </dev/null >"$work_dir/part.out" 2>&1
    status=$?
    cat "$work_dir/part.out" >>"$output"
    [ "$status" -ne 124 ] && [ "$status" -ne 137 ] && grep -q '^ *The End' "$work_dir/part.out" &&
        ! grep -q '^\[TIMEOUT\]' "$work_dir/part.out"
}

units=("${singles[@]}")
[ ${#units[@]} -gt 0 ] || mapfile -t units < <(all_units)

cut_units=()
SECONDS=0
while [ ${#units[@]} -gt 0 ]; do
    seconds_left=$((limit_seconds - SECONDS))
    if [ "$seconds_left" -le 0 ]; then
        cut_units+=("${units[*]} (not run: the time limit of $limit_seconds s)")
        break
    fi
    start_all
    if run_units "${units[@]}"; then stop_all; break; fi
    # Cut or died inside some unit: go on after it.
    last_unit=$(grep -a '^Testing ' "$work_dir/part.out" | tail -n 1 | sed 's/^Testing //')
    cut_units+=("${last_unit:-${units[0]}} ($(grep -a -m 1 -E '^\[(exception|TIMEOUT)\]' "$work_dir/part.out" || echo 'cut or died'))")
    say "--- ${cut_units[-1]}"
    tail -n 25 "$work_dir/part.out" >&2
    stop_all
    rest=() seen=
    for unit in "${units[@]}"; do
        [ -z "$seen" ] || rest+=("$unit")
        [ "$unit" != "${last_unit:-${units[0]}}" ] || seen=yes
    done
    [ -n "$seen" ] || fail "the suite's output names no unit; see above"
    units=("${rest[@]}")
done
wall_seconds=$SECONDS

# status TAB unit TAB name, sorted: one line for each test that ran (names repeat, so lists are compared as multisets).
awk '
    /^Testing / { unit = $2; next }
    /^\[ok\]: / { name = $0; sub(/^\[ok\]: /, "", name); sub(/ \([0-9]+ ms\)$/, "", name); print "ok\t" unit "\t" name; next }
    /^\[err\]: / { name = $0; sub(/^\[err\]: /, "", name); sub(/ in tests\/.*\.tcl$/, "", name); print "err\t" unit "\t" name }
' "$output" | LC_ALL=C sort >"$work_dir/result.txt"

if [ -n "$write_expected" ]; then
    grep '^ok' "$work_dir/result.txt" | cut -f 2- >"$expected_file"
    say "wrote $expected_file"
fi
if [ -n "$keep_dir" ]; then
    mkdir -p "$keep_dir"
    cp "$output" "$work_dir/result.txt" "$work_dir"/*.log "$keep_dir/" 2>/dev/null
fi

# Compare. Exceptions are tests (by name, or unit TAB name? no: by name) that the target is allowed to fail.
awk -F '\t' -v singles="${singles[*]}" -v exceptions_file="$exceptions_file" '
    function read_exceptions(   line, parts) {
        while ((getline line < exceptions_file) > 0) {
            if (line ~ /^#/ || line !~ /\t/) continue
            split(line, parts, "\t"); excused[parts[1]] = parts[2]
        }
    }
    BEGIN {
        read_exceptions()
        n = split(singles, list, " "); for (i = 1; i <= n; i++) chosen[list[i]] = 1
    }
    FILENAME == ARGV[1] { if (n == 0 || ($1 in chosen)) expected[$1 "\t" $2]++; next }
    $1 == "ok"  { ok[$2 "\t" $3]++; passed++ }
    $1 == "err" { err[$2 "\t" $3]++; errors++ }
    END {
        for (key in err) {
            split(key, part, "\t")
            if (part[2] in excused) { printf "excused\t%s\t(%s)\n", key, excused[part[2]]; allowed += err[key] }
            else { printf "FAILED\t%s\n", key; failed += err[key] }
        }
        for (key in expected) {
            lost = expected[key] - ok[key] - err[key]
            split(key, part, "\t")
            if (lost > 0) {
                if (part[2] in excused) printf "excused\t%s\t(did not run; %s)\n", key, excused[part[2]]
                else { printf "MISSING\t%s%s\n", key, (lost > 1 ? " (x" lost ")" : ""); failed += lost }
            }
        }
        for (key in ok) if (!(key in expected)) printf "new\t%s\n", key
        for (name in excused) {
            hit = 0
            for (key in err) { split(key, part, "\t"); if (part[2] == name) hit = 1 }
            for (key in ok) { split(key, part, "\t"); if (part[2] == name && !hit) printf "excused but passes\t%s\n", name }
        }
        printf "=\t%d\t%d\t%d\n", passed, failed, allowed
    }' "$expected_file" "$work_dir/result.txt" 2>/dev/null | LC_ALL=C sort >"$work_dir/comparison.txt"

grep -v '^=' "$work_dir/comparison.txt" | sed 's/^/  /'
# The suite's own words about what failed and should not have, for people.
grep -P '^(FAILED|MISSING)\t' "$work_dir/comparison.txt" >"$work_dir/unexpected.txt"
grep -q '^FAILED' "$work_dir/unexpected.txt" && awk -F '\t' '
    FILENAME == ARGV[1] { failed[$3] = 1; next }
    /^\[err\]: / { name = $0; sub(/^\[err\]: /, "", name); sub(/ in tests\/.*\.tcl$/, "", name); n = (name in failed) ? 12 : 0 }
    /^\[(ok|ignore|testing)/ { n = 0 }
    n > 0 { print "    " substr($0, 1, 400); n-- }' "$work_dir/unexpected.txt" "$output" | head -n 300
sed 's/^/  /' "$work_dir/unexpected.txt"
for cut in "${cut_units[@]}"; do printf '  CUT\t%s\n' "$cut"; done
read -r _ passed failed allowed < <(grep '^=' "$work_dir/comparison.txt")
failed=$((failed + ${#cut_units[@]}))
printf 'Redis %s Tcl suite, target %s: %d ok, %d excused, %d s\n' "$redis_version" "$target" "$passed" "$allowed" "$wall_seconds"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
