// slogger completion: a script for a shell, which asks slogger itself what may come next (System.CommandLine's [suggest] directive): so it
// completes whatever commands and options there are. Where nothing may, the shell offers files.
using System.CommandLine;
using Slogger.Cli.Terminal;

namespace Slogger.Cli;

/// <summary>Prints scripts.</summary>
internal static class CompletionCommand
{
    public const string Name = "completion";

    // The line up to the cursor, with slogger as its first word however it was called.
    private const string Bash = """
        # Completion of slogger for bash: source <(slogger completion bash)
        _slogger()
        {
            local line=${COMP_LINE:0:COMP_POINT} IFS=$'\n'
            line="slogger${line#*"$1"}"
            COMPREPLY=($(compgen -W "$("$1" "[suggest:${#line}]" "$line" 2>/dev/null)" -- "$2"))
        }
        complete -o default -F _slogger slogger
        """, Zsh = """
        #compdef slogger
        # Completion of slogger for zsh: source <(slogger completion zsh), after compinit; or as a file _slogger in a directory of $fpath.
        _slogger()
        {
            local line="slogger"
            (( CURRENT > 2 )) && line+=" ${(j: :)words[2,CURRENT-1]}"
            line+=" $PREFIX"
            local -a found
            found=(${(f)"$("$words[1]" "[suggest:${#line}]" "$line" 2>/dev/null)"})
            (( $#found )) && compadd -a found || _files
        }
        if [ "$funcstack[1]" = "_slogger" ]; then _slogger "$@"; else compdef _slogger slogger; fi
        """, Fish = """
        # Completion of slogger for fish: slogger completion fish | source
        function __slogger_complete
            set -l words (commandline -opc)
            set -l line (string join -- ' ' slogger $words[2..-1] (commandline -ct))
            set -l found ($words[1] "[suggest:"(string length -- "$line")"]" "$line" 2>/dev/null | string match -v '')
            if set -q found[1]
                string join -- \n $found
            else
                __fish_complete_path (commandline -ct)
            end
        end
        complete -c slogger -f -a '(__slogger_complete)'
        """;

    /// <summary>The shells, and their scripts.</summary>
    public static readonly IReadOnlyDictionary<string, string> Scripts =
        new Dictionary<string, string> { ["bash"] = Bash, ["zsh"] = Zsh, ["fish"] = Fish };

    public static Argument<string> Shell
    {
        get
        {
            Argument<string> shell = new("SHELL");
            shell.AcceptOnlyFromAmong([.. Scripts.Keys]);
            return shell;
        }
    }

    public static Terminal.CommandResult Run(string shell, AppHost host)
    {
        host.Output.WriteLine(Scripts[shell]);
        return Terminal.CommandResult.Done;
    }
}
