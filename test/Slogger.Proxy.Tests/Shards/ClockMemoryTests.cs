// A clock that was noted is continued by the time that the machine has counted since; a note of another boot, or no note, says nothing.
using Slogger.Core.Time;
using Slogger.Proxy.Shards;

namespace Slogger.Proxy.Tests.Shards;

public sealed class ClockMemoryTests : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-clock-").FullName;

    [Fact]
    public void Recall_WhatWasNoted_HasGoneOn()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "the boot is known on Linux only");
        var memory = new ClockMemory(_directory);
        Assert.Null(memory.Recall(1_000));
        memory.Note(HybridTimestamp.Of(5_000_000, 3), 1_000_000);
        memory.Note(HybridTimestamp.Of(9_000_000, 7), 2_000_000);
        Assert.Equal(HybridTimestamp.Of(9_500_000, 0), new ClockMemory(_directory).Recall(2_500_000));
        Assert.Null(memory.Recall(1_999_999));
    }

    [Theory]
    [InlineData("another-boot 2000000 36864000007\n")]
    [InlineData("")]
    [InlineData("x")]
    [InlineData("a b c d")]
    public void Recall_NoteOfAnotherBootOrNone_SaysNothing(string text)
    {
        File.WriteAllText(Path.Combine(_directory, "clock"), text);
        Assert.Null(new ClockMemory(_directory).Recall(2_500_000));
    }

    public void Dispose() => Directory.Delete(_directory, recursive: true);
}
