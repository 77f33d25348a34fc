#!/usr/bin/env bash
# Builds everything and runs every test. Ends with a line "N passed, N failed" (", N skipped"); exit code 0 if nothing failed.
# Needs Debian with the .NET SDK; as root it installs the servers that the tests run against. Starts no system service, and
# stops everything that the tests leave behind.
#
#   ./test.sh                     everything
#   ./test.sh --quick             what daily work needs, in some four minutes: units, and the integration tests of one shard's daily life
#   ./test.sh Slogger.Cli.Tests   only the named projects (External for the outside suites)
#
# SLOGGER_TEST_JOBS      test projects at a time (default 2: most of the time is waiting)
# SLOGGER_TEST_SECONDS   limit for the whole run (default 5000); what has not ended by then counts as failed
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1 MSBUILDDISABLENODEREUSE=1
jobs_max=${SLOGGER_TEST_JOBS:-2}
limit_s=${SLOGGER_TEST_SECONDS:-5000}
started=$SECONDS
passed=0 failed=0 skipped=0
work=$(mktemp -d /tmp/slt.XXXXXX)   # short: Unix sockets are made below it
chmod 755 "$work"                   # a database server runs under its own user
mkdir -m 1777 "$work/tmp"
mkdir "$work/out"
run_mark=TEST_RUN_OF_SLOGGER=${work##*/}     # tests take variables that begin with SLOGGER_ from the proxies

# Everything of this run: it carries our mark in its environment, or lives below our directory (redis-server overwrites its
# environment with its title).
leftovers() {
  local dir pid
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [ "$pid" = "$$" ] || [ "$pid" = "$BASHPID" ] && continue
    if tr '\0' '\n' 2>/dev/null <"$dir/environ" | grep -qxF "$run_mark" ||
       [[ "$(readlink "$dir/cwd" 2>/dev/null)/" == "$work/"* ]]; then
      # Not the shells of this script itself.
      [ "$(readlink "$dir/fd/255" 2>/dev/null)" = "$PWD/test.sh" ] || echo "$pid"
    fi
  done
}

stop_leftovers() {
  local pids try
  for try in TERM TERM KILL KILL; do
    pids=$(leftovers 2>/dev/null)
    [ -z "$pids" ] && return
    kill -"$try" $pids 2>/dev/null
    sleep 0.5
  done
}

finish() {
  trap - EXIT INT TERM HUP
  stop_leftovers
  wait 2>/dev/null
  rm -rf "$work"
}

interrupted() {
  finish
  echo "interrupted"
  echo "$passed passed, $((failed + 1)) failed"
  exit 130
}

trap finish EXIT
trap interrupted INT TERM HUP

report_and_exit() {
  local skipped_text=""
  [ "$skipped" -gt 0 ] && skipped_text=", $skipped skipped"
  if [ -n "$whole" ] && [ -s "$work/out/tests" ]; then
    echo "what took longest:"
    sort -t, -k2 -n -r "$work/out/times" | head -n 5
    sort -n -r "$work/out/tests" | head -n 25 | awk '{ seconds = $1; $1 = ""; printf "%5d s %s\n", seconds, $0 }'
  fi
  [ -s "$work/out/failures" ] && echo "failed:" && cat "$work/out/failures"
  finish
  echo "total time $((SECONDS - started)) s"
  echo "$passed passed, $failed failed$skipped_text"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# At least 1: to timeout, 0 means no limit.
remaining() {
  local left=$((limit_s - (SECONDS - started)))
  echo $((left > 1 ? left : 1))
}

# ---- what the tests run against ----
install_missing() {
  local missing=() policy=/usr/sbin/policy-rc.d made_policy=
  command -v redis-server >/dev/null || missing+=(redis-server)
  command -v redis-cli >/dev/null || missing+=(redis-tools)
  command -v haproxy >/dev/null || missing+=(haproxy)
  command -v nutcracker >/dev/null || missing+=(nutcracker)
  command -v tclsh >/dev/null || missing+=(tcl)
  command -v openssl >/dev/null || missing+=(openssl)
  command -v node >/dev/null || missing+=(nodejs)
  command -v npm >/dev/null || missing+=(npm)
  /usr/bin/python3 -c 'import redis' 2>/dev/null || missing+=(python3-redis)
  /usr/bin/python3 -c 'import swift.proxy' 2>/dev/null || missing+=(python3-swift)   # a storage with an S3 interface; no service comes with it
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
  compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || missing+=(libfaketime)
  command -v spin >/dev/null || missing+=(spin)             # a model that is checked, as C
  command -v ip >/dev/null || missing+=(iproute2)           # pages of the documents run in a network of their own
  command -v curl >/dev/null || missing+=(curl)
  command -v gcc >/dev/null || missing+=(gcc libc6-dev)
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "warning: missing ${missing[*]}; install them, or run this as root on Debian. Tests that need them will fail or be skipped."
    return
  fi

  echo "installing ${missing[*]}"
  # 101: the packages' scripts may start nothing.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made_policy=1
  fi
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
  if ! { timeout 300 apt-get -q update && timeout 900 apt-get -q install -y --no-install-recommends "${missing[@]}"; } >"$work/out/apt" 2>&1; then
    tail -n 20 "$work/out/apt"
    echo "warning: not everything could be installed"
  fi
  [ -n "$made_policy" ] && rm -f "$policy"
}

# ---- build ----
build() {
  local begun=$SECONDS
  # Only what the chosen projects need; samples and benches with the whole.
  local what=Slogger.sln name
  if [ -z "$whole" ]; then
    what=$work/chosen.slnf
    {
      printf '{"solution":{"path":"%s","projects":["src/Slogger.Cli/Slogger.Cli.csproj"' "$PWD/Slogger.sln"
      for name in "${projects[@]}"; do printf ',"test/%s/%s.csproj"' "$name" "$name"; done
      printf ']}}\n'
    } >"$what"
  fi
  # One compiler process for all: else each of some forty compilations starts cold. stop_leftovers ends it, unless it was there before.
  env "$run_mark" timeout -k 10 "$(remaining)" dotnet build "$what" -c Release --nologo -v q -p:UseSharedCompilation=true >"$work/out/build" 2>&1
  local code=$?
  stop_leftovers
  if [ "$code" -ne 0 ]; then
    grep -E 'error|warning' "$work/out/build" | sort -u | head -n 40 || true
    tail -n 5 "$work/out/build"
    echo "the build failed"
    failed=1
    report_and_exit
  fi
  echo "built in $((SECONDS - begun)) s"
}

# Most of these processes live for seconds, and their code is compiled: the runtime compiles what is hot once more only when no new code
# has run for 30 s (else 0.1 s). That was half of what they cost.
optimize_later() {
  sed -i 's/"configProperties": {/& "System.Runtime.TieredCompilation.CallCountingDelayMs": 30000,/' "$work/slogger/slogger.runtimeconfig.json" &&
    grep -q CallCountingDelayMs "$work/slogger/slogger.runtimeconfig.json"
}

# The proxies that tests start, compiled ahead: some thousand processes start, and each would compile itself. Without it they
# are those of the build. Only machine code is made here: nothing is built again. What each proxy needs of the framework's generic
# code is compiled ahead with it, or a start would compile that; such code is checked against the framework when it is loaded. The list
# of assemblies is the build's, which has some for several platforms in folders: without it the runtime takes those that are there.
compile_ahead() {
  local begun=$SECONDS
  local settings=(-p:UseCurrentRuntimeIdentifier=true -p:AppendRuntimeIdentifierToOutputPath=false -p:SelfContained=false
    -p:PublishReadyToRun=true --nologo -v q --disable-build-servers)
  # What an earlier run compiled may be for another framework: a proxy with such code aborts at its start.
  rm -rf src/Slogger.Cli/obj/Release/net10.0/R2R
  if {
    timeout -k 10 "$(remaining)" dotnet restore src/Slogger.Cli "${settings[@]}" &&
      timeout -k 10 "$(remaining)" dotnet publish src/Slogger.Cli -c Release --no-build "${settings[@]}" \
        '-p:PublishReadyToRunCrossgen2ExtraArgs=--opt-cross-module:*%3B--non-local-generics-module:*' -o "$work/slogger" &&
      rm "$work/slogger/slogger.deps.json"
  } >"$work/out/publish" 2>&1 && optimize_later && chmod -R a+rX "$work/slogger"; then
    touch "$work/out/ahead"
    echo "compiled ahead in $((SECONDS - begun)) s"
  else
    tail -n 5 "$work/out/publish"
    echo "warning: the proxies could not be compiled ahead: they compile themselves, which takes longer"
  fi
}

# ---- tests ----
# One project, in a process of its own; its end is left in $work/out/NAME.{log,xml,code,seconds}.
run_project() {
  local name=$1 begun=$SECONDS only=() behind=()
  if [ "$name" = External ]; then
    env TMPDIR="$work/tmp" "$run_mark" timeout -k 10 "$(remaining)" test/External/ci.sh </dev/null >"$work/out/External.log" 2>&1
    echo $? >"$work/out/External.code"
    echo $((SECONDS - begun)) >"$work/out/External.seconds"
    return
  fi
  [ -n "$quick" ] && [ "$name" = Slogger.Integration.Tests ] && only=(-namespace 'Slogger.Integration.Tests.Functional')
  # The simulator computes all the time; what others wait for goes before it.
  [ "$name" = Slogger.Simulation ] && behind=(nice -n 10)
  local program=test/$name/bin/Release/net10.0/$name
  # The braces take the shell's own remark on a crash, and the processor time: of all its processes, but for those that outlive it.
  local TIMEFORMAT='%U %S'
  {
    time {
      env TMPDIR="$work/tmp" "$run_mark" timeout -k 10 "$(remaining)" "${behind[@]}" "$program" -noColor -noLogo "${only[@]}" \
        -xml "$work/out/$name.xml" >"$work/out/$name.log" 2>&1 </dev/null
      echo $? >"$work/out/$name.code"
    }
  } 2>"$work/out/$name.times"
  echo $((SECONDS - begun)) >"$work/out/$name.seconds"
}

attribute() { sed -n "s/.*<assembly [^>]*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1; }

# Of each failure the first and the last lines: between them are the logs of its processes. Of a crash, which names no test, the end.
excerpts() {
  awk '
    function show(from, to) { for (; from <= to; from++) print text[from] }
    function end_failure() {
      if (n <= 90) { show(1, n) } else { show(1, 25); print "      ... " n - 85 " lines ..."; show(n - 59, n) }
      n = 0
    }
    / \[FAIL\]$/ { if (failures++) { end_failure() }; n = 0 }
    /^  Finished: / && failures { end_failure(); ended = 1 }
    !ended { text[++n] = $0 }
    END { if (!ended) { show(n > 90 ? n - 89 : 1, n) } }'
}

# Adds a project's result to the sums. Without a complete result file the process crashed: one failure.
count_project() {
  local name=$1 code seconds p=0 f=0 s=0 e=0 note=""
  local xml=$work/out/$name.xml
  code=$(cat "$work/out/$name.code" 2>/dev/null || echo 255)
  seconds=$(cat "$work/out/$name.seconds" 2>/dev/null || echo "?")
  if [ -s "$xml" ] && grep -q '</assemblies>' "$xml"; then
    p=$(attribute "$xml" passed) f=$(attribute "$xml" failed) s=$(attribute "$xml" skipped) e=$(attribute "$xml" errors)
    p=${p:-0} f=$((${f:-0} + ${e:-0})) s=${s:-0}
    if [ "$code" -ne 0 ] && [ "$f" -eq 0 ] && [ $((p + s)) -gt 0 ]; then
      f=1 note=" (exit code $code after the tests)"
    fi
  else
    f=1 note=" (no result: exit code $code)"
    [ "$code" -eq 124 ] && note=" (out of time)"
    [ "$code" -eq 137 ] && note=" (killed: its last line may say why)"
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  printf '%-32s %5d passed %3d failed %3d skipped %5s s%s\n' "$name" "$p" "$f" "$s" "$seconds" "$note"
  awk -v name="$name" -v s="$seconds" 'END { printf "%-32s %5d s, %5d s of a processor\n", name, s, $1 + $2 }' "$work/out/$name.times" \
    >>"$work/out/times"
  grep -o '<test [^>]*>' "$xml" 2>/dev/null | sed -nE 's/.* name="([^"]*)".* time="([0-9.]+)".*/\2 \1/p' >>"$work/out/tests"
  if [ "$f" -gt 0 ]; then
    grep -o '[^ ].*\[FAIL\]$' "$work/out/$name.log" >>"$work/out/failures" || echo "$name$note" >>"$work/out/failures"
    echo "---- output of $name (beginning and end of each failure, without frames of the test framework)"
    grep -vE '^ +at (Xunit|System)\.' "$work/out/$name.log" | cut -c 1-240 | excerpts
    echo "----"
  fi
}

run_projects() {
  local name pid ahead=
  local -A running=()
  if [ -z "$quick" ] && [[ " $* " == *" Slogger.Integration.Tests "* ]]; then
    compile_ahead &
    ahead=$!
    running[$ahead]=ahead
  fi
  for name in "$@" ""; do
    # Wait for a free place; at the end (empty name) for all; the integration tests wait for their proxies.
    while [ ${#running[@]} -gt 0 ] && { [ -z "$name" ] || [ ${#running[@]} -ge "$jobs_max" ] ||
      { [ "$name" = Slogger.Integration.Tests ] && [ -n "${running[${ahead:-none}]:-}" ]; }; }; do
      wait -n -p pid "${!running[@]}"
      case ${running[$pid]} in
        ahead) [ -e "$work/out/ahead" ] && export SLOGGER_TEST_DLL=$work/slogger/slogger.dll ;;
        External) count_external ;;
        *) count_project "${running[$pid]}" ;;
      esac
      unset "running[$pid]"
    done
    [ -z "$name" ] && break
    run_project "$name" &
    running[$!]=$name
  done
}

# The outside suites print their own "N passed, N failed" line.
count_external() {
  local log=$work/out/External.log line code p=0 f=0 s=0 note=""
  code=$(cat "$work/out/External.code" 2>/dev/null || echo 255)
  echo "outside suites:"
  cat "$log"
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
  else
    f=1 note=" (no result: exit code $code)"
  fi
  [ "$code" -ne 0 ] && [ "$f" -eq 0 ] && f=1 note=" (exit code $code)"
  [ "$f" -gt 0 ] && echo "External$note" >>"$work/out/failures"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  printf '%-32s %5d passed %3d failed %3d skipped %5s s%s\n' External "$p" "$f" "$s" "$(cat "$work/out/External.seconds")" "$note"
}

projects=() external= quick= whole=
if [ "${1:-}" = --quick ] && [ $# -eq 1 ]; then
  quick=1
  for name in Integration Core Resp Log Cli Client Metadata; do projects+=("Slogger.$name.Tests"); done
elif [ $# -gt 0 ]; then
  for name in "$@"; do
    if [ "$name" = External ]; then
      external=1
    elif [ -d "test/$name" ]; then
      projects+=("$name")
    else
      echo "there is no test project $name"
      exit 2
    fi
  done
else
  external=1 whole=1
  # The longest go first, so that the others run beside them; the simulator before all, since it needs no proxy compiled ahead.
  for dir in test/Slogger.{Simulation,Integration.Tests} test/Slogger.{Proxy,Metadata,Sites}.Tests test/*.Tests test/Slogger.Linearizability; do
    name=${dir##*/}
    [ -f "$dir/$name.csproj" ] && [[ " ${projects[*]:-} " != *" $name "* ]] && projects+=("$name")
  done
fi

install_missing
build
run_projects "${projects[@]}"
stop_leftovers
# Alone: they say that nothing has come for a while, which beside the others need not mean anything.
if [ -n "$external" ] && [ -x test/External/ci.sh ]; then run_projects External; fi
report_and_exit
