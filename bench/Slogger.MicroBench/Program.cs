// dotnet run -c Release --project bench/Slogger.MicroBench -- --filter '*'
// In this process and short: the generated project of a usual run builds the whole product once more for each benchmark.
using BenchmarkDotNet.Configs;
using BenchmarkDotNet.Jobs;
using BenchmarkDotNet.Running;
using BenchmarkDotNet.Toolchains.InProcess.Emit;

IConfig config = DefaultConfig.Instance.AddJob(Job.ShortRun.WithToolchain(InProcessEmitToolchain.Instance));
BenchmarkSwitcher.FromAssembly(typeof(Program).Assembly).Run(args, config);
return 0;

/// <summary>The entry point.</summary>
public sealed partial class Program;
