// What we write and read by hand is the generated message, byte for byte.
using System.Buffers;
using System.Reflection;
using Google.Protobuf;
using Google.Protobuf.Reflection;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Shipping.V1;

namespace Slogger.Grpc.Tests;

public sealed class ShipFrameTests(ITestOutputHelper output)
{
    private static readonly int Seed = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), out int seed) ? seed
        : Environment.TickCount;

    [Fact]
    public void Frame_Written_IsTheGeneratedMessage()
    {
        output.WriteLine($"SLOGGER_TEST_SEED={Seed}");
        var random = new Random(Seed);
        for (int i = 0; i < 3000; i++)
        {
            ShipRequest whole = Draw(random);
            Assert.Equal(whole.ToByteArray(), Write(Split(whole, random)));
        }
    }

    [Fact]
    public void Frame_ReadFromAnyPieces_IsTheGeneratedMessage()
    {
        output.WriteLine($"SLOGGER_TEST_SEED={Seed}");
        var random = new Random(Seed);
        for (int i = 0; i < 3000; i++)
        {
            ShipRequest whole = Draw(random);
            Assert.Equal(whole, Join(ShipFrame.Read(Cut(whole.ToByteArray(), random))));
        }
    }

    [Fact]
    public void Frame_CutAtEachByte_IsRead()
    {
        ShipRequest whole = Draw(new Random(7), dataBytes: 300);
        byte[] bytes = whole.ToByteArray();
        for (int at = 0; at <= bytes.Length; at++) { Assert.Equal(whole, Join(ShipFrame.Read(Sequence([bytes[..at], bytes[at..]])))); }
    }

    [Fact]
    public void Frame_WithFieldsOfALaterVersion_IsRead()
    {
        ShipRequest whole = Draw(new Random(7), dataBytes: 300);
        byte[] bytes = whole.ToByteArray();
        // Field 20, four bytes, behind the data and before it; and the data twice, of which the last counts.
        byte[] later = [0xa2, 1, 4, 1, 2, 3, 4];
        foreach (byte[] read in (byte[][])[[.. bytes, .. later], [.. later, .. bytes],
            [.. bytes, .. new ShipRequest { Data = whole.Data }.ToByteArray()]])
        {
            ShipRequest joined = Join(ShipFrame.Read(new(read)));
            Assert.Equal(ShipRequest.Parser.ParseFrom(read), joined);
            Assert.Equal(whole.Data, joined.Data);
        }
    }

    [Fact]
    public void Frame_Damaged_IsJudgedAsTheGeneratedMessageIs()
    {
        output.WriteLine($"SLOGGER_TEST_SEED={Seed}");
        var random = new Random(Seed);
        for (int i = 0; i < 20_000; i++)
        {
            byte[] bytes = Draw(random, dataBytes: random.Next(0, 40)).ToByteArray();
            for (int n = random.Next(1, 3); n > 0 && bytes.Length > 0; n--) { bytes[random.Next(bytes.Length)] = (byte)random.Next(256); }
            if (random.Next(3) == 0) { bytes = bytes[..random.Next(bytes.Length + 1)]; }
            ShipRequest? expected = Try(() => ShipRequest.Parser.ParseFrom(bytes));
            Assert.Equal(expected, Try(() => Join(ShipFrame.Read(Cut(bytes, random)))));
        }

        static ShipRequest? Try(Func<ShipRequest> parse)
        {
            try { return parse(); }
            catch (Exception e) when (e is InvalidProtocolBufferException or global::Grpc.Core.RpcException) { return null; }
        }
    }

    [Fact]
    public void Frame_DataInTheRequest_IsRefused() =>
        Assert.Throws<ArgumentException>(() => Write(new ShipFrame(new() { Data = ByteString.CopyFromUtf8("x") }, default)));

    [Fact]
    public void Frame_Read_LastsWhenWhereItArrivedIsGone()
    {
        byte[] bytes = Draw(new Random(7), dataBytes: 300).ToByteArray();
        ShipFrame frame = ShipFrame.Read(new(bytes));
        byte last = bytes[^1];
        bytes[^1] ^= 0xff;
        Assert.Equal(last, frame.Data.ToArray()[^1]);
        frame.Dispose();
        frame.Dispose();
    }

    [Fact]
    public void Methods_AreThoseOfTheProtos()
    {
        var found = new List<string>();
        foreach (FileDescriptor file in (FileDescriptor[])[ShippingReflection.Descriptor, WatermarkReflection.Descriptor,
            SiteReflection.Descriptor])
        {
            foreach (ServiceDescriptor service in file.Services)
            {
                found.AddRange(service.Methods.Select(m => $"/{service.FullName}/{m.Name} {m.InputType.Name} {m.OutputType.Name}"));
            }
        }
        var ours = new List<string>();
        foreach (Type type in (Type[])[typeof(ShippingMethods), typeof(WatermarkMethods), typeof(SiteControlMethods)])
        {
            foreach (FieldInfo field in type.GetFields(BindingFlags.Public | BindingFlags.Static))
            {
                string[] messages = [.. field.FieldType.GetGenericArguments()
                    .Select(a => a == typeof(ShipFrame) ? nameof(ShipRequest) : a.Name)];
                ours.Add($"{field.FieldType.GetProperty("FullName")!.GetValue(field.GetValue(null))} {messages[0]} {messages[1]}");
            }
        }
        Assert.Equal(found.Order(), ours.Order());
    }

    // ---- drawing, splitting, cutting ----
    private static ShipRequest Draw(Random random, int? dataBytes = null)
    {
        long Number() => random.Next(4) switch { 0 => 0, 1 => random.Next(100), 2 => random.NextInt64(), _ => -random.NextInt64(1000) };
        LogIndex Index() => new() { WorldLine = Number(), Offset = Number(), Closed = Number() };
        var request = new ShipRequest { Shard = random.Next(3) };
        if (random.Next(5) > 0) { request.Sender = new() { SiteEpoch = Number(), Epoch = Number(), Incarnation = Number() }; }
        switch (random.Next(4))
        {
            case 0:
                request.Hello = new() { History = new() { ReplicationId = new string('a', random.Next(41)), Offset = Number() } };
                break;
            case 1:
                request.SeedChunk = new() { Seed = new() { Id = "seed", Bytes = Number(), Base = Index() }, At = Number() };
                break;
            case 2:
                request.Piece = new() { From = Index(), To = Index(), Durable = Index(),
                    Cut = new() { WorldLine = Number(), Version = Number() }, SentUs = Number() };
                for (int i = random.Next(20); i > 0; i--)
                {
                    request.Piece.Entries.Add(
                        new Entry { Kind = EntryKind.Boundary, Version = Number(), Offset = Number(), Database = random.Next(16),
                            Time = (ulong)random.NextInt64() });
                }
                break;
        }
        byte[] data = new byte[dataBytes
            ?? random.Next(4) switch { 0 => 0, 1 => random.Next(1, 300), 2 => random.Next(100, 20_000), _ => random.Next(126, 130) }];
        random.NextBytes(data);
        request.Data = ByteString.CopyFrom(data);
        return request;
    }

    private static ShipFrame Split(ShipRequest whole, Random random)
    {
        ShipRequest head = whole.Clone();
        head.Data = ByteString.Empty;
        return new(head, Cut(whole.Data.ToByteArray(), random));
    }

    private static ShipRequest Join(ShipFrame frame)
    {
        ShipRequest whole = frame.Request.Clone();
        whole.Data = ByteString.CopyFrom(frame.Data.ToArray());
        return whole;
    }

    private static byte[] Write(ShipFrame frame)
    {
        var to = new ArrayBufferWriter<byte>();
        ShipFrame.Write(frame, to, new());
        Assert.Equal(to.WrittenCount, ShipFrame.SizeOf(frame));
        return to.WrittenSpan.ToArray();
    }

    private static ReadOnlySequence<byte> Cut(byte[] bytes, Random random)
    {
        var parts = new List<byte[]>();
        for (int at = 0; at < bytes.Length;)
        {
            int length = Math.Min(random.Next(0, bytes.Length / 2 + 2), bytes.Length - at);
            parts.Add(bytes[at..(at + length)]);
            at += length;
        }
        return Sequence([.. parts]);
    }

    private static ReadOnlySequence<byte> Sequence(byte[][] parts)
    {
        if (parts.Length == 0) { return default; }
        Part first = new(parts[0], null), last = first;
        foreach (byte[] part in parts.AsSpan(1)) { last = new(part, last); }
        return new(first, 0, last, last.Memory.Length);
    }

    private sealed class Part : ReadOnlySequenceSegment<byte>
    {
        public Part(byte[] bytes, Part? before)
        {
            Memory = bytes;
            if (before is null) { return; }
            RunningIndex = before.RunningIndex + before.Memory.Length;
            before.Next = this;
        }
    }
}
