// Snapshots in a bucket of a storage with the interface of S3. Where the storage is and who asks is found by the SDK, as by the other tools
// of AWS: environment variables, profiles, the role of the machine. A snapshot's files are uploaded while they come from the proxies, in
// parts. Each run has names of its own for them, so nothing that is there is ever written over, and the manifest, written last and only if
// there is none, names those of one run. What other runs left is removed only if the storage itself sees to that "only if".
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Http;
using System.Security.Cryptography;
using System.Text.RegularExpressions;
using Amazon.Runtime;
using Amazon.S3;
using Amazon.S3.Model;

namespace Slogger.Cli.Past;

/// <summary>A bucket, or what begins with a prefix in it.</summary>
internal sealed partial class SnapshotBucket : SnapshotPlace
{
    private const string Scheme = "s3://", NoSuchUpload = "NoSuchUpload";
    private const char Slash = '/';

    // A request has that time, and what its bytes need at this speed; then it is sent again, some times.
    private const int BytesPerSecondMin = 100_000;
    private static readonly TimeSpan s_answerMax = TimeSpan.FromMinutes(5), s_connectMax = TimeSpan.FromSeconds(10);

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

    public override Task<byte[]?> ReadAsync(string file, CancellationToken stop) => AskAsync(PathOf(file), async (storage, limited) =>
    {
        try
        {
            using GetObjectResponse found = await storage.GetObjectAsync(_bucket, KeyOf(file), limited).ConfigureAwait(false);
            using var bytes = new MemoryStream();
            await found.ResponseStream.CopyToAsync(bytes, limited).ConfigureAwait(false);
            return bytes.ToArray();
        }
        catch (AmazonS3Exception e) when (e is { StatusCode: HttpStatusCode.NotFound, ErrorCode: not "NoSuchBucket" })
        {
            return null;
        }
    }, stop);

    public override async Task<Stream> OpenAsync(string file)
    {
        GetObjectMetadataResponse facts = await FindAsync(file, default).ConfigureAwait(false)
            ?? throw new IOException($"{PathOf(file)} is missing");
        return new StoredStream(facts.ContentLength, (from, count) => PartAsync(file, facts.ETag, from, count));
    }

    public override async Task<SnapshotDraft> BeginAsync(TextWriter progress, CancellationToken stop)
    {
        if (await ReadAsync(SnapshotManifest.FileName, stop).ConfigureAwait(false) is not null) { throw IsThere(); }
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
                // Each request has a limit of its own: this one would be of all its bytes.
                Timeout = Timeout.InfiniteTimeSpan,
                ConnectTimeout = s_connectMax,
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

    private Task<GetObjectMetadataResponse?> FindAsync(string file, CancellationToken stop) => AskAsync(PathOf(file),
        async (storage, limited) =>
        {
            try
            {
                return await storage.GetObjectMetadataAsync(_bucket, KeyOf(file), limited).ConfigureAwait(false);
            }
            catch (AmazonS3Exception e) when (e.StatusCode == HttpStatusCode.NotFound)
            {
                return null;
            }
        }, stop);

    // The same object all the time: it has this tag.
    private Task<byte[]> PartAsync(string file, string tag, long from, int count) => AskAsync(PathOf(file), async (storage, limited) =>
    {
        var wanted = new GetObjectRequest
        {
            BucketName = _bucket, Key = KeyOf(file), ByteRange = new ByteRange(from, from + count - 1), EtagToMatch = tag,
        };
        using GetObjectResponse found = await storage.GetObjectAsync(wanted, limited).ConfigureAwait(false);
        byte[] part = new byte[count];
        await found.ResponseStream.ReadExactlyAsync(part, limited).ConfigureAwait(false);
        return part;
    }, default, count);

    // One request. It is sent again if the connection breaks behind the answer's beginning, or if it takes too long: the SDK does so for
    // other causes only.
    private async Task<T> AskAsync<T>(string what, Func<IAmazonS3, CancellationToken, Task<T>> ask, CancellationToken stop, long bytes = 0)
    {
        IAmazonS3 storage = _storage.Value;
        for (int triesLeft = 2; ; triesLeft--)
        {
            using var limited = CancellationTokenSource.CreateLinkedTokenSource(stop);
            limited.CancelAfter(s_answerMax + TimeSpan.FromSeconds(bytes / BytesPerSecondMin));
            try
            {
                return await ask(storage, limited.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (e is IOException or OperationCanceledException && triesLeft > 0 && !stop.IsCancellationRequested)
            {
                // Once more.
            }
            catch (Exception e) when (e is IOException or HttpRequestException or TimeoutException or AmazonClientException
                or AmazonServiceException or ProcessAWSCredentialException or InvalidOperationException or ArgumentException
                || (e is OperationCanceledException && !stop.IsCancellationRequested))
            {
                throw new IOException($"{what}: {MeaningOf(e)}", e);
            }
        }
    }

    // What a failure is to a person. Texts of the storage about keys and signatures, and of what gives out keys, are not shown.
    private string MeaningOf(Exception failure) => failure switch
    {
        AmazonS3Exception e => e.ErrorCode switch
        {
            "NoSuchBucket" => $"the storage has no bucket {_bucket}: make it, or correct the name",
            "InvalidAccessKeyId" or "SignatureDoesNotMatch" or "InvalidToken" or "ExpiredToken" or "TokenRefreshRequired" =>
                $"the storage does not take these keys ({e.ErrorCode}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                + "AWS_PROFILE",
            "PermanentRedirect" or "AuthorizationHeaderMalformed" or "IllegalLocationConstraintException" =>
                $"the bucket is in another region ({e.ErrorCode}): set AWS_REGION",
            NoSuchUpload => "its upload has been removed, as by another command for the same snapshot: take it again",
            _ when e.StatusCode == HttpStatusCode.Forbidden => $"the storage refuses it ({e.ErrorCode}): these keys need the rights to "
                + "list the bucket, and to read, write and delete in it",
            _ when e.StatusCode == HttpStatusCode.PreconditionFailed => "it has been replaced meanwhile: begin again",
            _ => $"the storage answers {e.ErrorCode}: {e.Message}",
        },
        AmazonUnmarshallingException => "the answer is none of a storage with the interface of S3: check AWS_ENDPOINT_URL_S3",
        IOException or HttpRequestException or TimeoutException or OperationCanceledException => "the storage cannot be reached ("
            + (failure is OperationCanceledException ? "no answer in time" : failure.Message)
            + "): check AWS_ENDPOINT_URL_S3 and AWS_REGION",
        AmazonClientException when failure.Message.Contains("credentials", StringComparison.OrdinalIgnoreCase) =>
            "there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            + (OfProfile().Match(failure.Message) is { Success: true } found ? $" ({found.Value.Trim().TrimEnd('.')})" : ""),
        _ => "the keys cannot be had (" + failure switch
        {
            AmazonServiceException e => e.ErrorCode,
            ProcessAWSCredentialException => "its credential_process fails",
            { InnerException: AmazonServiceException e } => $"{failure.Message.TrimEnd('.')}: {e.ErrorCode}",
            { InnerException: IOException or HttpRequestException } =>
                $"{failure.Message.TrimEnd('.')}: {failure.InnerException.Message.TrimEnd('.')}",
            _ => failure.Message.TrimEnd('.'),
        } + "): check AWS_PROFILE and what ~/.aws/config says of it, or AWS_ROLE_ARN",
    };

    // Of all places where the SDK looked for keys, what it says of the profile.
    [GeneratedRegex("(?<=^Exception [0-9]+ of [0-9]+: ).*profile.*$", RegexOptions.Multiline)]
    private static partial Regex OfProfile();

    // What the storage answered to a request that failed; null: nothing is known of an answer.
    private static HttpStatusCode? AnswerOf(IOException? failure) => (failure?.InnerException as AmazonS3Exception)?.StatusCode;

    private sealed class Draft(SnapshotBucket place, TextWriter progress) : SnapshotDraft
    {
        // A storage takes parts of 5 MB and more, and some only 1,000 of them.
        private const long PartBytesMin = 16 << 20, PartsMax = 1000, FileBytesMax = 2_000_000_000_000;
        private const int RunDigits = 8;

        private readonly string _run = RandomNumberGenerator.GetHexString(RunDigits, lowercase: true);
        private readonly Dictionary<string, string> _uploads = [];
        private readonly HashSet<string> _files = [];
        private bool _mayBeComplete;

        public override string NameOf(string file) => file.Insert(file.IndexOf('.', StringComparison.Ordinal), "-" + _run);

        public override async Task WriteAsync(string file, long bytes, IAsyncEnumerable<byte[]> pieces, CancellationToken stop)
        {
            string key = place.KeyOf(file), path = place.PathOf(file);
            lock (_files) { _files.Add(key); }
            if (bytes > FileBytesMax) { throw new IOException($"{path} would have {bytes} bytes, and a bucket takes {FileBytesMax}"); }
            int partBytes = (int)Math.Max(PartBytesMin, (bytes / PartsMax) + 1);
            if (bytes > partBytes) { await UploadAsync(file, bytes, partBytes, pieces, stop).ConfigureAwait(false); }
            else
            {
                using var all = new MemoryStream((int)bytes);
                await foreach (byte[] piece in pieces.ConfigureAwait(false)) { all.Write(piece); }
                await PutAsync(file, all.ToArray(), isNew: false, stop).ConfigureAwait(false);
            }
            long? there = (await place.FindAsync(file, stop).ConfigureAwait(false))?.ContentLength;
            if (there != bytes) { throw new IOException($"{path} has {there ?? 0} bytes there, and not {bytes}: take it again"); }
        }

        public override async Task CompleteAsync(byte[] manifest, CancellationToken stop)
        {
            const string file = SnapshotManifest.FileName;
            // Of storages some refuse a condition, and some do not heed it.
            if (await place.ReadAsync(file, stop).ConfigureAwait(false) is not null) { throw place.IsThere(); }
            bool takesConditions = true, heedsConditions = false;
            IOException? failure = null;
            _mayBeComplete = true;
            try
            {
                // Once sent it is not called off: it might be executed all the same.
                try
                {
                    await PutAsync(file, manifest, isNew: true, default).ConfigureAwait(false);
                }
                catch (IOException e) when (AnswerOf(e) == HttpStatusCode.NotImplemented)
                {
                    takesConditions = false;
                    await PutAsync(file, manifest, isNew: false, default).ConfigureAwait(false);
                }
            }
            catch (IOException e)
            {
                failure = e;
            }
            // It may have been written in spite of a failure, and another one over it. If that cannot be asked, nothing is removed.
            byte[]? written = await place.ReadAsync(file, default).ConfigureAwait(false);
            if (written is null || !written.AsSpan().SequenceEqual(manifest))
            {
                // What was not refused may still come.
                _mayBeComplete = written is null
                    && AnswerOf(failure) is not (>= HttpStatusCode.BadRequest and < HttpStatusCode.InternalServerError);
                throw written is not null ? place.IsThere()
                    : failure ?? new IOException($"{place.PathOf(file)} was written and is missing: take it again");
            }
            if (!takesConditions) { return; }
            // A storage that says now that it is there took this manifest only: no other run for the same snapshot can complete any more.
            await TryAsync(async () =>
            {
                try
                {
                    await PutAsync(file, manifest, isNew: true, default).ConfigureAwait(false);
                }
                catch (IOException e) when (AnswerOf(e) == HttpStatusCode.PreconditionFailed)
                {
                    heedsConditions = true;
                }
            }).ConfigureAwait(false);
            if (!heedsConditions) { return; }
            if (!await TryAsync(() => ForEachUploadAsync(AbortAsync)).ConfigureAwait(false)) { return; }
            await TryAsync(() => ForEachObjectAsync(k => _files.Contains(k) ? Task.CompletedTask : DeleteAsync(k))).ConfigureAwait(false);
        }

        public override async Task DiscardAsync()
        {
            if (_mayBeComplete)
            {
                progress.WriteLine($"it is not known whether {place.PathOf(SnapshotManifest.FileName)} was written: if so, all is there");
                return;
            }
            bool answers = true;
            foreach ((string key, string upload) in _uploads)
            {
                answers = answers && await TryAsync(() => AbortAsync(key, upload)).ConfigureAwait(false);
            }
            // Also those that were begun without an answer.
            answers = answers && await TryAsync(() => ForEachUploadAsync(
                (key, upload) => _files.Contains(key) ? AbortAsync(key, upload) : Task.CompletedTask)).ConfigureAwait(false);
            foreach (string key in _files) { answers = answers && await TryAsync(() => DeleteAsync(key)).ConfigureAwait(false); }
            if (answers) { return; }
            progress.WriteLine($"in {place.Name} objects and uploads with \"-{_run}\" in their names may be left: remove them");
        }

        // Two parts in memory: one is sent while the next one comes.
        private async Task UploadAsync(string file, long bytes, int partBytes, IAsyncEnumerable<byte[]> pieces, CancellationToken stop)
        {
            string key = place.KeyOf(file), path = place.PathOf(file);
            // Not called off: it might be executed all the same.
            string upload = (await place.AskAsync(path, (storage, limited) => storage.InitiateMultipartUploadAsync(place._bucket, key,
                limited), default).ConfigureAwait(false)).UploadId;
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
            try
            {
                await place.AskAsync(path, (storage, limited) => storage.CompleteMultipartUploadAsync(new()
                {
                    BucketName = place._bucket, Key = key, UploadId = upload, PartETags = parts,
                }, limited), stop).ConfigureAwait(false);
            }
            catch (IOException)
            {
                // It may have been executed all the same.
                if ((await place.FindAsync(file, stop).ConfigureAwait(false))?.ContentLength != bytes) { throw; }
            }
            lock (_files) { _uploads.Remove(key); }

            async Task NextAsync()
            {
                await sent.ConfigureAwait(false);
                (filling, sending) = (sending, filling);
                int count = filled;
                filled = 0;
                sent = SendAsync(sending, count);
            }

            async Task SendAsync(byte[] part, int count)
            {
                UploadPartResponse taken = await place.AskAsync(path, async (storage, limited) =>
                {
                    using var body = new MemoryStream(part, 0, count, writable: false);
                    return await storage.UploadPartAsync(new()
                    {
                        BucketName = place._bucket, Key = key, UploadId = upload, PartNumber = parts.Count + 1, PartSize = count,
                        InputStream = body, UseChunkEncoding = false, MD5Digest = SumOf(part.AsSpan(0, count)),
                    }, limited).ConfigureAwait(false);
                }, stop, count).ConfigureAwait(false);
                parts.Add(new PartETag(parts.Count + 1, taken.ETag));
            }
        }

        private Task<PutObjectResponse> PutAsync(string file, byte[] all, bool isNew, CancellationToken stop) =>
            place.AskAsync(place.PathOf(file), async (storage, limited) =>
            {
                using var body = new MemoryStream(all, writable: false);
                return await storage.PutObjectAsync(new()
                {
                    BucketName = place._bucket, Key = place.KeyOf(file), InputStream = body, UseChunkEncoding = false,
                    MD5Digest = SumOf(all), IfNoneMatch = isNew ? "*" : null,
                }, limited).ConfigureAwait(false);
            }, stop, all.Length);

        private Task DeleteAsync(string key) => place.AskAsync(place.Name,
            (storage, limited) => storage.DeleteObjectAsync(place._bucket, key, limited), default);

        private async Task AbortAsync(string key, string upload)
        {
            try
            {
                await place.AskAsync(place.Name, (storage, limited) => storage.AbortMultipartUploadAsync(place._bucket, key, upload,
                    limited), default).ConfigureAwait(false);
            }
            catch (IOException e) when (e.InnerException is AmazonS3Exception { ErrorCode: NoSuchUpload })
            {
                // Done before.
            }
        }

        // A bucket that keeps objects for a time takes none without it.
        [SuppressMessage("Security", "CA5351", Justification = "It is the checksum that the interface has, and protects from no attack.")]
        private static string SumOf(ReadOnlySpan<byte> body) => Convert.ToBase64String(MD5.HashData(body));

        private async Task ForEachUploadAsync(Func<string, string, Task> use)
        {
            ListMultipartUploadsResponse listed;
            var next = new ListMultipartUploadsRequest { BucketName = place._bucket, Prefix = place.KeyOf(SnapshotShard.FilesBegin) };
            do
            {
                listed = await place.AskAsync(place.Name, (storage, limited) => storage.ListMultipartUploadsAsync(next, limited), default)
                    .ConfigureAwait(false);
                foreach (MultipartUpload found in listed.MultipartUploads ?? [])
                {
                    await use(found.Key, found.UploadId).ConfigureAwait(false);
                }
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
                listed = await place.AskAsync(place.Name, (storage, limited) => storage.ListObjectsV2Async(next, limited), default)
                    .ConfigureAwait(false);
                foreach (S3Object found in listed.S3Objects ?? []) { await use(found.Key).ConfigureAwait(false); }
                next.ContinuationToken = listed.NextContinuationToken;
            }
            while (listed.IsTruncated == true);
        }

        // What is left costs room, and is no snapshot. False: the storage does not answer, so more need not be tried.
        private async Task<bool> TryAsync(Func<Task> remove)
        {
            try
            {
                await remove().ConfigureAwait(false);
                return true;
            }
            catch (IOException e)
            {
                progress.WriteLine($"what is not needed there could not be removed: {e.Message}");
                return AnswerOf(e) is not null;
            }
        }
    }
}
