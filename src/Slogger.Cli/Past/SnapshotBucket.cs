// Snapshots in a bucket of a storage with the interface of S3. Where the storage is and who asks is found by the SDK, as by the other tools
// of AWS: environment variables, profiles, the role of the machine. A snapshot's files are uploaded while they come from the proxies, in
// parts. Each run has names of its own for them, so nothing that is there is ever written over, and the manifest, written last and only if
// there is none, names those of one run.
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Http;
using System.Security.Cryptography;
using Amazon.Runtime;
using Amazon.S3;
using Amazon.S3.Model;

namespace Slogger.Cli.Past;

/// <summary>A bucket, or what begins with a prefix in it.</summary>
internal sealed class SnapshotBucket : SnapshotPlace
{
    private const string Scheme = "s3://";
    private const char Slash = '/';

    // A request of which nothing is heard for so long is sent again, some times.
    private static readonly TimeSpan s_answerMax = TimeSpan.FromMinutes(5);

    private readonly Lazy<IAmazonS3> _storage;
    private readonly string _bucket, _prefix;

    private SnapshotBucket(Lazy<IAmazonS3> storage, string bucket, string prefix) =>
        (_storage, _bucket, _prefix) = (storage, bucket, prefix);

    public override string Name => _prefix.Length > 0 ? $"{Scheme}{_bucket}/{_prefix}" : Scheme + _bucket;

    public override string AfterFailure => $"it has no {SnapshotManifest.FileName}, so nothing takes it for a snapshot";

    /// <summary>The place that a text names.</summary>
    /// <param name="text">It has the form s3://BUCKET/PREFIX.</param>
    /// <param name="problem">If it has not: what it should be.</param>
    public static new SnapshotBucket? Of(string text, out string problem)
    {
        string rest = text.StartsWith(Scheme, StringComparison.OrdinalIgnoreCase) ? text[Scheme.Length..] : "";
        string bucket = rest.Split(Slash)[0], prefix = rest[bucket.Length..].Trim(Slash);
        problem = "";
        if (bucket.Length == 0 || prefix.Contains("//", StringComparison.Ordinal))
        {
            problem = $"\"{text}\" does not have the form s3://BUCKET/PREFIX";
            return null;
        }
        return new(new(Open), bucket, prefix);
    }

    public override SnapshotPlace Inside(string name) => new SnapshotBucket(_storage, _bucket, KeyOf(name));

    public override SnapshotPlace Beside(string other) =>
        new SnapshotBucket(_storage, _bucket, _prefix[..(_prefix.LastIndexOf(Slash) + 1)] + other.TrimEnd(Slash).Split(Slash)[^1]);

    public override string PathOf(string file) => $"{Scheme}{_bucket}/{KeyOf(file)}";

    public override Task<byte[]?> ReadAsync(string file) => AskAsync(PathOf(file), async () =>
    {
        try
        {
            using GetObjectResponse found = await _storage.Value.GetObjectAsync(_bucket, KeyOf(file)).ConfigureAwait(false);
            using var bytes = new MemoryStream();
            await found.ResponseStream.CopyToAsync(bytes).ConfigureAwait(false);
            return bytes.ToArray();
        }
        catch (AmazonS3Exception e) when (e is { StatusCode: HttpStatusCode.NotFound, ErrorCode: not "NoSuchBucket" })
        {
            return null;
        }
    });

    public override async Task<Stream> OpenAsync(string file)
    {
        GetObjectMetadataResponse facts = await AskAsync(PathOf(file), async () =>
        {
            try
            {
                return await _storage.Value.GetObjectMetadataAsync(_bucket, KeyOf(file)).ConfigureAwait(false);
            }
            catch (AmazonS3Exception e) when (e.StatusCode == HttpStatusCode.NotFound)
            {
                throw new IOException($"{PathOf(file)} is missing");
            }
        }).ConfigureAwait(false);
        return new StoredStream(facts.ContentLength, (from, count) => PartAsync(file, facts.ETag, from, count));
    }

    public override async Task<SnapshotDraft> BeginAsync(TextWriter progress, CancellationToken stop)
    {
        if (await ReadAsync(SnapshotManifest.FileName).ConfigureAwait(false) is not null) { throw IsThere(); }
        return new Draft(this, progress);
    }

    // Where it is, and who asks, the environment says.
    private static IAmazonS3 Open()
    {
        try
        {
            return new AmazonS3Client(new AmazonS3Config
            {
                // Only AWS has a name for each bucket. Asked of others: settings that were asked for it do not find it any more.
                ForcePathStyle = new AmazonS3Config().ServiceURL is not null,
                Timeout = s_answerMax,
                // What is sent is signed as a whole, so it is checked there; storages other than AWS need not know more.
                RequestChecksumCalculation = RequestChecksumCalculation.WHEN_REQUIRED,
                ResponseChecksumValidation = ResponseChecksumValidation.WHEN_REQUIRED,
            });
        }
        catch (Exception e) when (e is AmazonClientException or UriFormatException or ArgumentException)
        {
            throw new IOException($"no storage is known ({e.Message.TrimEnd('.')}): set AWS_REGION, or AWS_ENDPOINT_URL_S3 for a storage "
                + "other than AWS", e);
        }
    }

    private string KeyOf(string file) => _prefix.Length > 0 ? $"{_prefix}{Slash}{file}" : file;

    private IOException IsThere() => new($"{Name} is there already");

    // The same object all the time: it has this tag.
    private Task<byte[]> PartAsync(string file, string tag, long from, int count) => AskAsync(PathOf(file), async () =>
    {
        var wanted = new GetObjectRequest
        {
            BucketName = _bucket, Key = KeyOf(file), ByteRange = new ByteRange(from, from + count - 1), EtagToMatch = tag,
        };
        for (int triesLeft = 2; ; triesLeft--)
        {
            try
            {
                using GetObjectResponse found = await _storage.Value.GetObjectAsync(wanted).ConfigureAwait(false);
                byte[] part = new byte[count];
                await found.ResponseStream.ReadExactlyAsync(part).ConfigureAwait(false);
                return part;
            }
            catch (IOException) when (triesLeft > 0)
            {
                // The connection broke behind the answer's beginning: the SDK asks again before it only.
            }
        }
    });

    // What a failure is to a person. Texts of the storage about keys and signatures are not shown.
    private async Task<T> AskAsync<T>(string what, Func<Task<T>> ask)
    {
        try
        {
            return await ask().ConfigureAwait(false);
        }
        catch (AmazonS3Exception e)
        {
            throw new IOException($"{what}: " + e.ErrorCode switch
            {
                "NoSuchBucket" => $"the storage has no bucket {_bucket}: make it, or correct the name",
                "InvalidAccessKeyId" or "SignatureDoesNotMatch" or "InvalidToken" or "ExpiredToken" or "TokenRefreshRequired" =>
                    $"the storage does not take these keys ({e.ErrorCode}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                    + "AWS_PROFILE",
                "PermanentRedirect" or "AuthorizationHeaderMalformed" or "IllegalLocationConstraintException" =>
                    $"the bucket is in another region ({e.ErrorCode}): set AWS_REGION",
                _ when e.StatusCode == HttpStatusCode.Forbidden => $"the storage refuses it ({e.ErrorCode}): these keys need the rights to "
                    + "list the bucket, and to read, write and delete in it",
                _ when e.StatusCode == HttpStatusCode.PreconditionFailed => "it has been replaced meanwhile: begin again",
                _ => $"the storage answers {e.ErrorCode}: {e.Message}",
            }, e);
        }
        catch (Exception e) when (e is AmazonClientException or HttpRequestException or TimeoutException
            || e is OperationCanceledException { InnerException: TimeoutException })
        {
            bool hasNoKeys = e is AmazonClientException && e.Message.Contains("credentials", StringComparison.OrdinalIgnoreCase);
            throw new IOException($"{what}: " + (hasNoKeys
                ? "there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                : $"the storage cannot be reached ({e.Message}): check AWS_ENDPOINT_URL_S3 and AWS_REGION"), e);
        }
    }

    private Task AskAsync(string what, Func<Task> ask) => AskAsync(what, async () =>
    {
        await ask().ConfigureAwait(false);
        return true;
    });

    private sealed class Draft(SnapshotBucket place, TextWriter progress) : SnapshotDraft
    {
        // A storage takes parts of 5 MB and more, and some only 1,000 of them.
        private const long PartBytesMin = 16 << 20, PartsMax = 1000, FileBytesMax = 2_000_000_000_000;
        private const int RunDigits = 8;

        private readonly string _run = RandomNumberGenerator.GetHexString(RunDigits, lowercase: true);
        private readonly Dictionary<string, string> _uploads = [];
        private readonly HashSet<string> _files = [];
        private bool _mayBeComplete;

        private IAmazonS3 Storage => place._storage.Value;

        public override string NameOf(string file) => file.Insert(file.IndexOf('.', StringComparison.Ordinal), "-" + _run);

        public override async Task WriteAsync(string file, long bytes, IAsyncEnumerable<byte[]> pieces, CancellationToken stop)
        {
            string key = place.KeyOf(file), path = place.PathOf(file);
            lock (_files) { _files.Add(key); }
            if (bytes > FileBytesMax) { throw new IOException($"{path} would have {bytes} bytes, and a bucket takes {FileBytesMax}"); }
            int partBytes = (int)Math.Max(PartBytesMin, (bytes / PartsMax) + 1);
            if (bytes > partBytes) { await UploadAsync(key, path, partBytes, pieces, stop).ConfigureAwait(false); }
            else
            {
                using var all = new MemoryStream((int)bytes);
                await foreach (byte[] piece in pieces.ConfigureAwait(false)) { all.Write(piece); }
                await place.AskAsync(path, () => PutAsync(key, all.ToArray(), isNew: false, stop)).ConfigureAwait(false);
            }
            await using Stream written = await place.OpenAsync(file).ConfigureAwait(false);
            if (written.Length == bytes) { return; }
            throw new IOException($"{path} has {written.Length} bytes there, and not {bytes}: take it again");
        }

        public override async Task CompleteAsync(byte[] manifest, CancellationToken stop)
        {
            string key = place.KeyOf(SnapshotManifest.FileName), path = place.PathOf(SnapshotManifest.FileName);
            stop.ThrowIfCancellationRequested();
            _mayBeComplete = true;
            try
            {
                await place.AskAsync(path, async () =>
                {
                    try
                    {
                        // Once sent it is not called off: it might be executed all the same.
                        await PutAsync(key, manifest, isNew: true, default).ConfigureAwait(false);
                    }
                    catch (AmazonS3Exception e) when (e.StatusCode == HttpStatusCode.NotImplemented)
                    {
                        // A storage that cannot tell by itself.
                        if (await place.ReadAsync(SnapshotManifest.FileName).ConfigureAwait(false) is not null) { throw place.IsThere(); }
                        await PutAsync(key, manifest, isNew: false, default).ConfigureAwait(false);
                    }
                }).ConfigureAwait(false);
            }
            catch (IOException)
            {
                // It may have been written all the same. If that cannot be asked either, nothing is removed.
                byte[]? written = await place.ReadAsync(SnapshotManifest.FileName).ConfigureAwait(false);
                if (written is null || !written.AsSpan().SequenceEqual(manifest))
                {
                    _mayBeComplete = false;
                    if (written is not null) { throw place.IsThere(); }
                    throw;
                }
            }
            // Other runs for the same snapshot, which have ended before or fail now.
            await TryAsync(() => ForEachUploadAsync(u => Storage.AbortMultipartUploadAsync(place._bucket, u.Key, u.UploadId)))
                .ConfigureAwait(false);
            await TryAsync(() => ForEachObjectAsync(k => _files.Contains(k) ? Task.CompletedTask
                : Storage.DeleteObjectAsync(place._bucket, k))).ConfigureAwait(false);
        }

        public override async Task DiscardAsync()
        {
            if (_mayBeComplete)
            {
                progress.WriteLine($"it is not known whether {place.PathOf(SnapshotManifest.FileName)} was written: if so, all is there");
                return;
            }
            foreach ((string key, string upload) in _uploads)
            {
                await TryAsync(() => Storage.AbortMultipartUploadAsync(place._bucket, key, upload)).ConfigureAwait(false);
            }
            foreach (string key in _files)
            {
                await TryAsync(() => Storage.DeleteObjectAsync(place._bucket, key)).ConfigureAwait(false);
            }
        }

        // Two parts in memory: one is sent while the next one comes.
        private async Task UploadAsync(string key, string path, int partBytes, IAsyncEnumerable<byte[]> pieces, CancellationToken stop)
        {
            string upload = (await place.AskAsync(path, () => Storage.InitiateMultipartUploadAsync(place._bucket, key, stop))
                .ConfigureAwait(false)).UploadId;
            lock (_files) { _uploads.Add(key, upload); }
            List<PartETag> parts = [];
            byte[] filling = new byte[partBytes], sending = new byte[partBytes];
            int filled = 0;
            Task sent = Task.CompletedTask;
            try
            {
                await foreach (byte[] piece in pieces.ConfigureAwait(false))
                {
                    for (int at = 0; at < piece.Length;)
                    {
                        int count = Math.Min(piece.Length - at, partBytes - filled);
                        piece.AsSpan(at, count).CopyTo(filling.AsSpan(filled));
                        at += count;
                        filled += count;
                        if (filled < partBytes) { continue; }
                        await NextAsync().ConfigureAwait(false);
                    }
                }
                if (filled > 0) { await NextAsync().ConfigureAwait(false); }
                await sent.ConfigureAwait(false);
            }
            finally
            {
                await sent.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            await place.AskAsync(path, () => Storage.CompleteMultipartUploadAsync(new()
            {
                BucketName = place._bucket, Key = key, UploadId = upload, PartETags = parts,
            }, stop)).ConfigureAwait(false);
            lock (_files) { _uploads.Remove(key); }

            async Task NextAsync()
            {
                await sent.ConfigureAwait(false);
                (filling, sending) = (sending, filling);
                int bytes = filled;
                filled = 0;
                sent = SendAsync(sending, bytes);
            }

            async Task SendAsync(byte[] part, int bytes)
            {
                using var body = new MemoryStream(part, 0, bytes, writable: false);
                UploadPartResponse taken = await place.AskAsync(path, () => Storage.UploadPartAsync(new()
                {
                    BucketName = place._bucket, Key = key, UploadId = upload, PartNumber = parts.Count + 1, PartSize = bytes,
                    InputStream = body, UseChunkEncoding = false, MD5Digest = SumOf(part.AsSpan(0, bytes)),
                }, stop)).ConfigureAwait(false);
                parts.Add(new PartETag(parts.Count + 1, taken.ETag));
            }
        }

        private async Task PutAsync(string key, byte[] all, bool isNew, CancellationToken stop)
        {
            using var body = new MemoryStream(all, writable: false);
            await Storage.PutObjectAsync(new()
            {
                BucketName = place._bucket, Key = key, InputStream = body, UseChunkEncoding = false, MD5Digest = SumOf(all),
                IfNoneMatch = isNew ? "*" : null,
            }, stop).ConfigureAwait(false);
        }

        // A bucket that keeps objects for a time takes none without it.
        [SuppressMessage("Security", "CA5351", Justification = "It is the checksum that the interface has, and protects from no attack.")]
        private static string SumOf(ReadOnlySpan<byte> body) => Convert.ToBase64String(MD5.HashData(body));

        private async Task ForEachUploadAsync(Func<MultipartUpload, Task> use)
        {
            ListMultipartUploadsResponse listed;
            var next = new ListMultipartUploadsRequest { BucketName = place._bucket, Prefix = place.KeyOf(SnapshotShard.FilesBegin) };
            do
            {
                listed = await Storage.ListMultipartUploadsAsync(next).ConfigureAwait(false);
                foreach (MultipartUpload upload in listed.MultipartUploads ?? []) { await use(upload).ConfigureAwait(false); }
                (next.KeyMarker, next.UploadIdMarker) = (listed.NextKeyMarker, listed.NextUploadIdMarker);
            }
            while (listed.IsTruncated == true);
        }

        private async Task ForEachObjectAsync(Func<string, Task> use)
        {
            ListObjectsV2Response listed;
            var next = new ListObjectsV2Request { BucketName = place._bucket, Prefix = place.KeyOf(SnapshotShard.FilesBegin) };
            do
            {
                listed = await Storage.ListObjectsV2Async(next).ConfigureAwait(false);
                foreach (S3Object found in listed.S3Objects ?? []) { await use(found.Key).ConfigureAwait(false); }
                next.ContinuationToken = listed.NextContinuationToken;
            }
            while (listed.IsTruncated == true);
        }

        // What is left costs room, and is no snapshot.
        private async Task TryAsync(Func<Task> remove)
        {
            try
            {
                await place.AskAsync(place.Name, remove).ConfigureAwait(false);
            }
            catch (IOException e)
            {
                progress.WriteLine($"what is not needed there could not be removed: {e.Message}");
            }
        }
    }
}
