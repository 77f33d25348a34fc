// A storage with an S3 interface of the test's own: OpenStack Swift, its servers in one process (swift-s3.py).
using System.Globalization;
using Amazon.Runtime;
using Amazon.S3;
using Amazon.S3.Model;

namespace Slogger.Integration.Tests.Processes;

internal sealed class S3Storage : IDisposable
{
    /// <summary>Why a test that needs one is skipped.</summary>
    public const string Missing = "no storage with an S3 interface is installed: apt-get install python3-swift";

    private const string Python = "/usr/bin/python3", Says = "listening on ", Account = "test:";
    private const string Owner = "owner", OwnerSecret = "secret-of-the-owner";
    private const string Stranger = "stranger", StrangerSecret = "secret-of-a-stranger";
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    private readonly ChildProcess _child;
    private readonly string _noFile;

    private S3Storage(ChildProcess child, int port, string noFile)
    {
        (_child, Port, _noFile) = (child, port, noFile);
        Client = new AmazonS3Client(new BasicAWSCredentials(Account + Owner, OwnerSecret), new AmazonS3Config
        {
            ServiceURL = Url(port), ForcePathStyle = true, RequestChecksumCalculation = RequestChecksumCalculation.WHEN_REQUIRED,
            ResponseChecksumValidation = ResponseChecksumValidation.WHEN_REQUIRED,
        });
    }

    /// <summary>Whether there is one.</summary>
    public static bool IsInstalled => Directory.Exists("/usr/lib/python3/dist-packages/swift/common/middleware/s3api");

    public int Port { get; }

    /// <summary>Of its owner.</summary>
    public IAmazonS3 Client { get; }

    /// <summary>Starts one.</summary>
    /// <param name="workspace">Has its data.</param>
    /// <param name="conditions">What becomes of a PUT that is to be taken only if there is no such object: it heeds, ignores or refuses
    /// the condition.</param>
    public static async Task<S3Storage> StartAsync(Workspace workspace, string conditions = "heeds")
    {
        string directory = workspace.Folder("swift");
        ChildProcess child = ChildProcess.Start("swift", Python, [Path.Combine(AppContext.BaseDirectory, "Processes", "swift-s3.py"),
            directory, conditions, $"{Owner}:{OwnerSecret}", $"{Stranger}:{StrangerSecret}"]);
        try
        {
            string line = await child.WaitForLineAsync(l => l.StartsWith(Says, StringComparison.Ordinal), s_limit);
            return new(child, int.Parse(line[Says.Length..], CultureInfo.InvariantCulture), workspace.File("no-such-file"));
        }
        catch
        {
            child.Dispose();
            throw;
        }
    }

    /// <summary>What a process needs in its environment to use it as its owner.</summary>
    /// <param name="port">The way to it; null: its own port.</param>
    public Dictionary<string, string> Environment(int? port = null) => new()
    {
        ["AWS_ENDPOINT_URL_S3"] = Url(port ?? Port), ["AWS_REGION"] = "us-east-1",
        ["AWS_ACCESS_KEY_ID"] = Account + Owner, ["AWS_SECRET_ACCESS_KEY"] = OwnerSecret,
        // Not what the machine has.
        ["AWS_SHARED_CREDENTIALS_FILE"] = _noFile, ["AWS_CONFIG_FILE"] = _noFile, ["AWS_EC2_METADATA_DISABLED"] = "true",
    };

    /// <summary>The same of somebody who has no rights there.</summary>
    public Dictionary<string, string> EnvironmentOfStranger() =>
        new(Environment()) { ["AWS_ACCESS_KEY_ID"] = Account + Stranger, ["AWS_SECRET_ACCESS_KEY"] = StrangerSecret };

    /// <summary>All names in a bucket.</summary>
    public async Task<string[]> KeysAsync(string bucket)
    {
        ListObjectsV2Response listed = await Client.ListObjectsV2Async(new() { BucketName = bucket });
        return [.. (listed.S3Objects ?? []).Select(o => o.Key).Order(StringComparer.Ordinal)];
    }

    /// <summary>Uploads that are under way, or were left so.</summary>
    public async Task<IReadOnlyList<MultipartUpload>> UploadsAsync(string bucket) =>
        (await Client.ListMultipartUploadsAsync(new ListMultipartUploadsRequest { BucketName = bucket })).MultipartUploads ?? [];

    public async Task<byte[]> ReadAsync(string bucket, string key)
    {
        using GetObjectResponse found = await Client.GetObjectAsync(bucket, key);
        using var bytes = new MemoryStream();
        await found.ResponseStream.CopyToAsync(bytes);
        return bytes.ToArray();
    }

    public string Tail() => _child.Tail();

    public void Dispose()
    {
        Client.Dispose();
        _child.Dispose();
    }

    // A name, not an address: of those the SDK knows that no bucket can be a part.
    private static string Url(int port) => string.Create(CultureInfo.InvariantCulture, $"http://localhost:{port}");
}
