// dotnet run -c Release --project bench/Slogger.MicroBench -- --filter '*'     (add --job short for a quick look)
using BenchmarkDotNet.Running;

BenchmarkSwitcher.FromAssembly(typeof(Program).Assembly).Run(args);
return 0;

/// <summary>The entry point.</summary>
public sealed partial class Program;
