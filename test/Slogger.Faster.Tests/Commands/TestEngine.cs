// A command engine on a store in a directory of its own, with a clock that the test moves.
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;

namespace Slogger.Faster.Tests.Commands;

internal sealed class TestEngine : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-engine-").FullName;

    public TestEngine(int pageBits = 20, long memoryBytes = 256 << 20, Func<EngineOptions, EngineOptions>? with = null)
    {
        StoreOptions = new() { Directory = _directory, IndexBytes = 4 << 20, MemoryBytes = memoryBytes, PageBits = pageBits,
            SegmentBits = Math.Max(24, pageBits) };
        EngineOptions = new() { NowMs = () => NowMs, IsOutOfMemory = () => IsOutOfMemory };
        if (with is not null) EngineOptions = with(EngineOptions);
        Open();
    }

    public FasterOptions StoreOptions { get; }

    public EngineOptions EngineOptions { get; }

    public FasterStore Store { get; private set; } = null!;

    public CommandEngine Engine { get; private set; } = null!;

    public TestClient Client { get; private set; } = null!;

    public long NowMs { get; set; } = 1_700_000_000_000;

    public bool IsOutOfMemory { get; set; }

    public TestClient Connect(bool isOwner = false) => new(Engine.Connect(isOwner));

    /// <summary>As a process that is killed and started again.</summary>
    public void Reopen(WorldPoint? at = null)
    {
        Close();
        Open(at);
    }

    public void Dispose()
    {
        Close();
        Directory.Delete(_directory, recursive: true);
    }

    private void Open(WorldPoint? at = null)
    {
        Store = FasterStore.OpenAt(StoreOptions, at);
        Engine = new(Store, EngineOptions);
        Client = Connect();
    }

    private void Close()
    {
        Client.Dispose();
        Engine.Dispose();
        Store.Dispose();
    }
}

/// <summary>A client of an engine.</summary>
internal sealed unsafe class TestClient(CommandConnection connection) : IDisposable
{
    public CommandConnection Connection { get; } = connection;

    public ReplyBuffer Replies { get; } = new();

    /// <summary>One request, as people write them, and its reply as it is on the wire, with a bar for each end of a line.</summary>
    public string Send(string words) => Send(words.Split(' '));

    public string Send(params string[] arguments) => Raw(Request(arguments)).Replace("\r\n", "|", StringComparison.Ordinal);

    /// <summary>Bytes in, bytes out.</summary>
    public string Raw(string requests)
    {
        byte[] bytes = Encoding.Latin1.GetBytes(requests);
        var replies = new StringBuilder();
        fixed (byte* at = bytes)
        {
            for (nint done = 0; done < bytes.Length;)
            {
                nint consumed = Connection.Execute(at + done, bytes.Length - done, Replies);
                if (consumed == 0 && Replies.Count == 0) break;
                done += consumed;
                replies.Append(TakeReplies());
            }
        }

        return replies.ToString();
    }

    /// <summary>Replies, and what was published to it.</summary>
    public string TakeAll()
    {
        Connection.TakePushes(Replies);
        return TakeReplies();
    }

    public string TakeReplies()
    {
        string text = Encoding.Latin1.GetString(Replies.Start, (int)Replies.Count);
        Replies.Consume(Replies.Count);
        return text;
    }

    public static string Request(params string[] arguments)
    {
        var text = new StringBuilder($"*{arguments.Length}\r\n");
        foreach (string argument in arguments) text.Append('$').Append(argument.Length).Append("\r\n").Append(argument).Append("\r\n");
        return text.ToString();
    }

    public void Dispose()
    {
        Connection.Dispose();
        Replies.Dispose();
    }
}
