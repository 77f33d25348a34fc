using System.Text;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Embedded;

namespace Slogger.Proxy.Tests.Embedded;

public sealed unsafe class EmbeddedChannelTests : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-channel-").FullName;
    private readonly FasterStore _store;
    private readonly CommandEngine _engine;
    private readonly LocalEvents _events = new();
    private readonly EmbeddedChannel _channel;

    public EmbeddedChannelTests()
    {
        _store = FasterStore.OpenAt(
            new FasterOptions { Directory = _directory, MemoryBytes = 64 << 20, PageBits = 22, IndexBytes = 1 << 20 });
        _engine = new CommandEngine(_store, new EngineOptions());
        _channel = new EmbeddedChannel(_events, _engine.Connect());
        _channel.Watch(read: true, write: false);
    }

    public void Dispose()
    {
        _channel.Close();
        _engine.Dispose();
        _store.Dispose();
        Directory.Delete(_directory, recursive: true);
    }

    [Fact]
    public void Request_InPieces_IsAnsweredWhenItIsWhole()
    {
        byte[] request = Encoding.ASCII.GetBytes("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        for (int at = 0; at < request.Length; at++)
        {
            Assert.Equal(1, Send(request.AsSpan(at, 1)));
            if (at < request.Length - 1) { Assert.DoesNotContain("value", ReadAll(), StringComparison.Ordinal); }
        }

        Assert.Equal("$5\r\nvalue\r\n", ReadAll());
    }

    // The last version of an ordered end holds all that is ever executed.
    [Fact]
    public void Request_AfterTheEndHasBegun_IsNotExecuted()
    {
        bool hasEnded = false;
        byte[] increment = Encoding.ASCII.GetBytes("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n");
        var client = new EmbeddedChannel(_events, _engine.Connect(), () => hasEnded);
        fixed (byte* bytes = increment)
        {
            Assert.Equal(increment.Length, client.Send(bytes, increment.Length));
            Assert.Equal(5, client.Send(bytes, 5));
            hasEnded = true;
            Assert.Equal(Channel.WouldBlock, client.Send(bytes + 5, increment.Length - 5));
        }

        client.Close();
        Send(Encoding.ASCII.GetBytes("*2\r\n$3\r\nGET\r\n$1\r\nn\r\n"));
        Assert.Equal("$1\r\n1\r\n", ReadAll());
    }

    [Fact]
    public void Replies_ThatNobodyReads_HoldUpRequests_AndAllComeInOrder()
    {
        Send(Encoding.ASCII.GetBytes($"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{new string('x', 100_000)}\r\n"));
        Assert.Equal("+OK\r\n", ReadAll());
        byte[] pair = Encoding.ASCII.GetBytes("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n");
        byte[] many = [.. Enumerable.Range(0, 100).SelectMany(_ => pair)];
        int sent = Send(many);
        Assert.InRange(sent, pair.Length, many.Length / 2);
        Assert.Equal(Channel.WouldBlock, Send(many.AsSpan(sent)));
        int answered = 0;
        while (sent < many.Length || answered < 100)
        {
            foreach (string line in ReadAll().Split("\r\n").Where(l => l.StartsWith(':'))) { Assert.Equal(":" + ++answered, line); }
            if (sent < many.Length) { sent += Send(many.AsSpan(sent)); }
        }

        Assert.Equal(100, answered);
    }

    [Fact]
    public void Events_AreListedOnce_AndOnlyForWhatIsWaitedFor()
    {
        byte[] ping = Encoding.ASCII.GetBytes("*1\r\n$4\r\nPING\r\n");
        Send(ping);
        Send(ping);
        Assert.Same(_channel, Assert.Single(_events.Take()));
        Assert.True(_channel.CanRead);
        _channel.Watch(read: false, write: false);
        Assert.False(_channel.CanRead);
        Send(ping);
        Assert.False(_events.Any);
        _channel.Watch(read: true, write: false);
        Assert.Single(_events.Take());
        Assert.Equal("+PONG\r\n+PONG\r\n+PONG\r\n", ReadAll());
        _channel.Watch(read: true, write: true);
        Assert.True(_channel.CanWrite);
    }

    [Fact]
    public void RepliesBeingRead_StayWhereTheyAre_WhateverIsSentMeanwhile()
    {
        byte[] request = Encoding.ASCII.GetBytes("*2\r\n$4\r\nECHO\r\n$5\r\nfirst\r\n");
        Send(request);
        Assert.True(_channel.TryTake(out byte* start, out byte* end));
        Send(Encoding.ASCII.GetBytes($"*2\r\n$4\r\nECHO\r\n$100000\r\n{new string('y', 100_000)}\r\n"));
        Assert.False(_channel.TryTake(out _, out _));
        Assert.Equal("$5\r\nfirst\r\n", Encoding.ASCII.GetString(start, (int)(end - start)));
        // Read in part: the rest comes before what was answered since.
        _channel.GiveBack(start + 4);
        Assert.StartsWith("first\r\n$100000\r\nyyy", ReadAll(), StringComparison.Ordinal);
        Send(request);
        Assert.True(_channel.TryTake(out start, out end));
        _channel.Close();
        Assert.Equal("$5\r\nfirst\r\n", Encoding.ASCII.GetString(start, (int)(end - start)));
        _channel.GiveBack(end);
        Assert.Equal(Channel.Broken, Send(request));
    }

    [Theory]
    [InlineData("*1\r\n$4\r\nQUIT\r\n", "+OK\r\n")]
    [InlineData("*1\r\n!\r\n", "-ERR Protocol error: expected '$', got '!'\r\n")]
    public void End_OfTheConnection_ComesBehindAllReplies(string last, string reply)
    {
        Send(Encoding.ASCII.GetBytes("*1\r\n$4\r\nPING\r\n" + last));
        Assert.False(_channel.HasEnded);
        Assert.Equal("+PONG\r\n" + reply, ReadAll());
        Assert.True(_channel.HasEnded);
        Assert.True(_channel.CanRead);
        byte one;
        Assert.Equal(0, _channel.Receive(&one, 1));
    }

    private int Send(ReadOnlySpan<byte> bytes)
    {
        fixed (byte* start = bytes) { return _channel.Send(start, bytes.Length); }
    }

    private string ReadAll()
    {
        var text = new StringBuilder();
        byte* buffer = stackalloc byte[4096];
        int got;
        while ((got = _channel.Receive(buffer, 4096)) > 0) { text.Append(Encoding.ASCII.GetString(buffer, got)); }
        return text.ToString();
    }
}
