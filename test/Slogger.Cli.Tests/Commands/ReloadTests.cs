// SIGHUP: options are read again and handed on, and the process serves on whatever they say.
using System.Diagnostics;
using System.Globalization;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Commands;

public sealed class ReloadTests : IDisposable
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private readonly TempDirectory _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void LiveOptions_APartIsAdded_IsHandedWhatWasReadAgainBefore()
    {
        LiveOptions live = new(NullLogger.Instance);
        List<int> seen = [];
        using (live.Add(options => Take(options)))
        {
            Assert.Empty(seen);
            live.Change(Options(5));
            Assert.Equal([5], seen);
            using (live.Add(options => Take(options with { MaxClients = options.MaxClients + 100 })))
            {
                Assert.Equal([5, 105], seen);
                live.Change(Options(6));
                Assert.Equal([5, 105, 6, 106], seen);
            }
        }
        live.Change(Options(7));
        Assert.Equal(4, seen.Count);

        string? Take(ServeOptions options)
        {
            seen.Add(options.MaxClients);
            return null;
        }
    }

    [Fact]
    public void ChangedSince_FindsWhatHasOtherTextsOrIsGivenOnceOnly()
    {
        OptionsResult<ServeOptions> before = Read("""{ "redis": "h:1", "max-clients": 5, "listen": ["127.0.0.1:1", "127.0.0.1:2"] }""");
        OptionsResult<ServeOptions> after = Read(
            """{ "redis": "h:1", "max-clients": 6, "listen": ["127.0.0.1:1"], "log-level": "debug" }""");
        Assert.Equal(["listen", "max-clients", "log-level"], after.ChangedSince(before).Select(option => option.Name));
        Assert.Equal([false, true, true], after.ChangedSince(before).Select(option => option.IsLive));
        Assert.Empty(after.ChangedSince(after));
    }

    // As a person has it: a process, a file, and kill -HUP.
    [Fact]
    public async Task Serve_SighupAgainAndAgain_TakesUpWhatItMayAndServesOn()
    {
        string config = _temp.Below("c.json");
        Write("""{ "log-level": "info", "max-clients": 100 }""");
        ProcessStartInfo info = new("dotnet", [Path.Combine(AppContext.BaseDirectory, "slogger.dll"), "serve", "--config", config,
            "--listen", "127.0.0.1:0", "--data", _temp.Below("data"), "--faster-memory", "64mb", "--faster-page", "1mb",
            "--faster-index", "1mb"]) { RedirectStandardError = true };
        using Process process = Process.Start(info)!;
        try
        {
            await UntilAsync("ready: ");
            Write("""{ "log-level": "info", "max-clients": 3, "version-interval": "20ms" }""");
            Hup();
            await UntilAsync("SIGHUP: certificates were read again; changed: --max-clients");
            await UntilAsync("SIGHUP: --version-interval changed in the configuration file: that takes effect at the next start");
            Write("""{ "max-clients": "many" """);
            Hup();
            await UntilAsync("SIGHUP: the configuration file is not valid JSON");
            await UntilAsync("SIGHUP: nothing was changed");
            Write("""{ "log-level": "warn", "max-clients": 3 }""");
            Hup();
            // The level is taken up first, so that this one says nothing, and the next one what it has done.
            await Task.Delay(1000);
            Write("""{ "log-level": "info", "max-clients": 4 }""");
            Hup();
            Assert.DoesNotContain("no option", await UntilAsync("changed: --max-clients, --log-level"), StringComparison.Ordinal);
            AppRun status = await AppRun.Of(["status", "--data", _temp.Below("data")]);
            Assert.Equal((0, ""), (status.ExitCode, status.Error));
            Assert.False(process.HasExited);
            Signal("-TERM");
            await UntilAsync("stopped");
            await process.WaitForExitAsync().WaitAsync(Limit);
            Assert.Equal(0, process.ExitCode);
        }
        finally
        {
            if (!process.HasExited) { process.Kill(); }
        }

        void Write(string text)
        {
            File.WriteAllText(config + ".new", text);
            File.Move(config + ".new", config, overwrite: true);
        }

        void Hup() => Signal("-HUP");

        void Signal(string signal)
        {
            using Process kill = Process.Start("kill", [signal, process.Id.ToString(CultureInfo.InvariantCulture)]);
            kill.WaitForExit();
        }

        async Task<string> UntilAsync(string text)
        {
            string all = "";
            while (await process.StandardError.ReadLineAsync().WaitAsync(Limit) is { } line)
            {
                all += line + "\n";
                if (line.Contains(text, StringComparison.Ordinal)) { return all; }
            }
            throw new Xunit.Sdk.XunitException($"no \"{text}\" in\n{all}");
        }
    }

    private static ServeOptions Options(int clients) =>
        new() { DataDirectory = "/d", Metadata = MetadataSpec.SqliteFile("/d/m"), MaxClients = clients };

    private OptionsResult<ServeOptions> Read(string config) =>
        ServeOptionsReader.ReadServe(Configuration.Layers.CommandLine(("config", _temp.File("r.json", config))),
            Configuration.Layers.Environment());
}
