// Private ports and directories of one test. Everything is under one temporary directory, removed at the end.
using Slogger.TestSupport;

namespace Slogger.Integration.Tests.Processes;

internal sealed class Workspace : IDisposable
{
    public Workspace() => Root = Directory.CreateTempSubdirectory("slogger-it-").FullName;

    public string Root { get; }

    /// <summary>A directory below the root, made if need be.</summary>
    public string Folder(string name) => Directory.CreateDirectory(Path.Combine(Root, name)).FullName;

    public string File(string name) => Path.Combine(Root, name);

    /// <inheritdoc cref="TestPorts.Next"/>
    public static int FreePort() => TestPorts.Next();

    public void Dispose()
    {
        if (Environment.GetEnvironmentVariable("SLOGGER_TEST_KEEP") is { Length: > 0 })
        {
            Console.WriteLine("kept: " + Root);
            return;
        }

        try
        {
            // Of proxies that were killed, and that nobody starts again.
            SupervisedRedis.KillScratchBelow(Root);
            Directory.Delete(Root, recursive: true);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // A server may still be writing; the system's temporary directory is cleaned by others.
        }
    }
}
