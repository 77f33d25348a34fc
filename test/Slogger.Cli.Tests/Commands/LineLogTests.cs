// The log on stderr.
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Text.Json;
using Microsoft.Extensions.Logging;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Commands;

public sealed class LineLogTests
{
    private static readonly DateTimeOffset s_time = new(2026, 1, 2, 3, 4, 5, 6, TimeSpan.Zero);

    [Fact]
    public void Write_LongerThanALineMayBe_IsCutAndSaysByHowMuch()
    {
        StringWriter output = new();
        string whole = new('a', LogText.CharsMax), longer = whole + new string('b', 127_000);
        using (LineLog log = new(output, LogLevel.Information))
        {
            log.Info(whole);
            log.Info(longer);
        }
        string[] lines = output.ToString().TrimEnd().Split(Environment.NewLine);
        Assert.Equal(2, lines.Length);
        Assert.EndsWith(" info  " + whole, lines[0], StringComparison.Ordinal);
        Assert.EndsWith(" info  " + whole + "... (127000 more characters were cut)", lines[1], StringComparison.Ordinal);
    }

    // An application's or a library's own line, and one with an exception, which may hold any text.
    [Fact]
    public void Log_LongerThanALineMayBe_IsCutToo()
    {
        StringWriter output = new();
        string longer = new('a', LogText.CharsMax + 127_000);
        using (LineLog log = new(output, LogLevel.Information))
        {
            log.LogError("{What}", longer);
            log.LogError(new InvalidDataException(longer), "odd");
        }
        string[] lines = output.ToString().TrimEnd().Split(Environment.NewLine);
        Assert.EndsWith(" error " + longer[..LogText.CharsMax] + "... (127000 more characters were cut)", lines[0],
            StringComparison.Ordinal);
        Assert.EndsWith(" error odd", lines[1].Split('\n')[0], StringComparison.Ordinal);
        Assert.True(output.ToString().Length < 2 * (LogText.CharsMax + 100), "both are bounded");
    }

    [Fact]
    public void Bounded_CutInTheMiddleOfACharacter_LeavesItOut()
    {
        string text = new string('a', LogText.CharsMax - 1) + "\U0001F600" + "bc";
        Assert.Equal(new string('a', LogText.CharsMax - 1) + "... (4 more characters were cut)", LogText.Bounded(text));
    }

    [Theory]
    [InlineData(LogLevel.Trace, "2026-01-02T03:04:05.006Z trace a\n    b\u00e9")]
    [InlineData(LogLevel.Debug, "2026-01-02T03:04:05.006Z debug a\n    b\u00e9")]
    [InlineData(LogLevel.Information, "2026-01-02T03:04:05.006Z info  a\n    b\u00e9")]
    [InlineData(LogLevel.Warning, "2026-01-02T03:04:05.006Z warn  a\n    b\u00e9")]
    [InlineData(LogLevel.Error, "2026-01-02T03:04:05.006Z error a\n    b\u00e9")]
    public void Text_EachLevel_IsTimeLevelAndMessage(LogLevel level, string expected) =>
        Assert.Equal(expected, LineLog.Format(LogFormat.Text, s_time, level, "a\nb\u00e9"));

    [Fact]
    public void Json_AnyMessage_IsOneLineWithAnObject()
    {
        Assert.Equal(
            """{"time":"2026-01-02T03:04:05.006Z","level":"info","message":"a\nb \"é\" <&+'>"}""",
            LineLog.Format(LogFormat.Json, s_time, LogLevel.Information, "a\nb \"\u00e9\" <&+'>"));
        foreach (string message in new[] { "half a character: \ud83d", "\0\u001b[31m", "\u2028\r\n" })
        {
            string line = LineLog.Format(LogFormat.Json, s_time, LogLevel.Warning, message);
            Assert.DoesNotContain('\n', line);
            using JsonDocument json = JsonDocument.Parse(line);
            Assert.Equal("warn", json.RootElement.GetProperty("level").GetString());
            Assert.Equal(message.Replace('\ud83d', '\ufffd'), json.RootElement.GetProperty("message").GetString());
        }
    }

    [Fact]
    public void Write_BelowTheLevel_IsNotWritten()
    {
        StringWriter output = new();
        using (LineLog log = new(output, LogLevel.Warning))
        {
            Assert.Equal((false, true, false),
                (log.IsEnabled(LogLevel.Information), log.IsEnabled(LogLevel.Warning), log.IsEnabled(LogLevel.None)));
            log.Trace("no trace");
            log.Info("no info");
            log.Warn("a warning");
            log.Error("an error");
        }
        string[] lines = output.ToString().TrimEnd().Split(Environment.NewLine);
        Assert.Equal(["warn  a warning", "error an error"], lines.Select(line => line["2026-01-02T03:04:05.006Z ".Length..]));
    }

    [Fact]
    public void Log_WithAnException_ShowsBothIndented()
    {
        StringWriter output = new();
        using (LineLog log = new(output, LogLevel.Warning))
        {
            log.LogError(new InvalidDataException("odd"), "{What} failed", "it");
        }
        Assert.Contains("error it failed\n    System.IO.InvalidDataException: odd", output.ToString(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Process_EndsItself_LastLinesAreWritten()
    {
        ProcessStartInfo start = new(Path.Combine(AppContext.BaseDirectory, "Slogger.Cli.Tests")) { RedirectStandardError = true };
        start.Environment[LastWords.Variable] = "1";
        using Process process = Process.Start(start)!;
        string error = await process.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.Equal(LastWords.ExitCode, process.ExitCode);
        string[] lines = error.TrimEnd().Split(Environment.NewLine);
        Assert.Equal(LastWords.Lines, lines.Length);
        Assert.EndsWith(string.Create(CultureInfo.InvariantCulture, $" error word {LastWords.Lines - 1}"), lines[^1],
            StringComparison.Ordinal);
    }

    // A process that ends itself while lines wait. It is this program: there is no other that does nothing else.
    internal static class LastWords
    {
        public const string Variable = "SLOGGER_TEST_LAST_WORDS";
        public const int Lines = 2000, ExitCode = 70;

        [ModuleInitializer]
        internal static void Speak()
        {
            if (Environment.GetEnvironmentVariable(Variable) is null) { return; }
            LineLog log = new(Console.Error, LogLevel.Error);
            for (int i = 0; i < Lines; i++) { log.Error(string.Create(CultureInfo.InvariantCulture, $"word {i}")); }
            Environment.Exit(ExitCode);
        }
    }
}
